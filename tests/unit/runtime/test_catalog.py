"""The catalog of a live mesh: from a file or the default, in the mesh's own time."""

import shutil
from pathlib import Path

import pytest

from esg.core.catalog.shipped import DEFAULT
from esg.core.journal.format import catalog_digest, functions_digest
from esg.errors import Rejected
from esg.runtime.catalog import load
from esg.runtime.settings import CommonSettings


def test_catalog_without_a_file_is_the_one_that_comes_with_esg() -> None:
    catalog = load(CommonSettings())
    assert "image-classification" in catalog.applications


def test_a_catalog_that_comes_with_esg_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert catalog_digest(load(CommonSettings(catalog="default"))) == catalog_digest(
        load(CommonSettings())
    )
    shapes = load(CommonSettings(catalog="measured-shapes"))
    assert functions_digest(shapes) != functions_digest(load(CommonSettings()))


def test_a_file_is_read_from_where_the_settings_say(tmp_path: Path) -> None:
    shutil.copytree(DEFAULT.parent, tmp_path / "mine")
    path = tmp_path / "mine" / DEFAULT.name
    (tmp_path / "functions").symlink_to(DEFAULT.parent.parent / "functions")
    text = path.read_text("utf-8")
    path.write_text(text.replace("[applications.image-classification]", "[applications.mine]"))
    assert "mine" in load(CommonSettings(catalog=str(path))).applications


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"nowhere\.toml: no such file"):
        load(CommonSettings(catalog=str(tmp_path / "nowhere.toml")))


def test_times_are_in_the_scale_of_the_mesh() -> None:
    full, fast = load(CommonSettings()), load(CommonSettings(time_scale=0.1))
    for name, function in full.functions.items():
        assert fast.function(name).cold_start_us == round(function.cold_start_us * 0.1)


def test_processes_that_disagree_about_time_have_other_fingerprints() -> None:
    one, same, other = (load(CommonSettings(time_scale=scale)) for scale in (0.1, 0.1, 0.2))
    assert functions_digest(one) == functions_digest(same)
    assert functions_digest(one) != functions_digest(other)
    assert catalog_digest(one) != catalog_digest(other)
