"""Functions in folders: what the catalog does not say, the folder's manifest does."""

from pathlib import Path

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.journal.format import catalog_digest, functions_digest
from esg.errors import Rejected
from esg.units import ms

CATALOG = """
[cluster]
nodes = 1
vcpus = 4
vgpus = 2
slice_memory_mb = 1000
[functions.edges]
folder = "../functions/edges"
[applications.outline]
chain = ["edges"]
"""
MANIFEST = """
description = "the outlines of a picture"
network = "two convolutions"
handler = "handler.py:Edges"
profile = "profile.toml"
cold_start_ms = 120
memory_mb = 50
input_mb = 0.5
"""
PROFILE = """
function = "edges"
[provenance]
kind = "invented"
[measured]
table = "profile.csv"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The function's; the catalog is in another."""
    folder = tmp_path / "functions" / "edges"
    folder.mkdir(parents=True)
    (folder / "function.toml").write_text(MANIFEST)
    (folder / "handler.py").write_text("class Edges: ...")
    (folder / "profile.toml").write_text(PROFILE)
    (folder / "profile.csv").write_text("batch,vcpus,vgpus,time_ms\n1,1,1,30\n")
    return folder


def load(folder: Path, text: str = CATALOG) -> Catalog:
    catalog = folder.parents[1] / "shop" / "catalog.toml"
    catalog.parent.mkdir()
    catalog.write_text(text)
    return load_catalog(catalog)


def test_a_function_can_be_all_in_its_folder(folder: Path) -> None:
    function = load(folder).function("edges")
    assert function.folder == str(folder)
    assert function.handler == f"{folder}/handler.py:Edges"
    assert (function.cold_start_us, function.memory_mb) == (ms(120), 50)
    assert function.input_bytes == 500_000
    assert function.profile.time_us_of(Config(1, 1, 1)) == ms(30)


def test_the_catalog_has_the_last_word(folder: Path) -> None:
    said = 'folder = "../functions/edges"\nmemory_mb = 70\nhandler = "shop.vision:Edges"'
    function = load(folder, CATALOG.replace('folder = "../functions/edges"', said)).function(
        "edges"
    )
    assert (function.memory_mb, function.handler) == (70, "shop.vision:Edges")
    assert function.cold_start_us == ms(120)


def test_a_handler_does_each_job_on_one_core_unless_manifest_or_catalog_say_otherwise(
    folder: Path,
) -> None:
    assert load(folder).function("edges").cpu is CpuUse.ACROSS_JOBS
    (folder / "function.toml").write_text(f'{MANIFEST}\ncpu = "within_job"')
    file = folder.parents[1] / "shop" / "catalog.toml"
    assert load_catalog(file).function("edges").cpu is CpuUse.WITHIN_JOB
    file.write_text(CATALOG.replace("[applications", 'cpu = "across_jobs"\n[applications', 1))
    assert load_catalog(file).function("edges").cpu is CpuUse.ACROSS_JOBS


def test_folder_of_a_function_makes_no_difference_to_decisions(
    folder: Path, tmp_path: Path
) -> None:
    here = load(folder)
    moved = folder.rename(tmp_path / "functions" / "outlines")
    (tmp_path / "shop" / "catalog.toml").write_text(CATALOG.replace("/edges", "/outlines"))
    there = load_catalog(tmp_path / "shop" / "catalog.toml")
    assert there.function("edges").folder == str(moved)
    assert functions_digest(here) == functions_digest(there)
    assert catalog_digest(here) == catalog_digest(there)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (("handler.py:Edges", "edges.py:Edges"), "handler: no such file: "),
        (("handler.py:Edges", "handler.py"), "handler: is 'handler.py'; write it as 'module:"),
        (("memory_mb", "memory"), "memory: unknown key 'memory'; did you mean 'memory_mb'?"),
        (("cold_start_ms = 120", "cold_start_ms = -1"), "cold_start_ms: is -1; it must be at"),
        (("profile.toml", "none.toml"), "profile: no such file: "),
    ],
)
def test_a_mistake_in_a_manifest_is_refused_there(
    folder: Path, mistake: tuple[str, str], words: str
) -> None:
    (folder / "function.toml").write_text(MANIFEST.replace(*mistake))
    text = CATALOG.replace("[applications", "memory_mb = 50\n[applications")
    with pytest.raises(Rejected) as caught:
        load(folder, text)
    assert str(caught.value).startswith(f"{folder / 'function.toml'}: ")
    assert words in str(caught.value)


def test_field_that_neither_catalog_nor_manifest_gives_is_missing(folder: Path) -> None:
    (folder / "function.toml").write_text(MANIFEST.replace("input_mb = 0.5", ""))
    with pytest.raises(Rejected, match=r"catalog\.toml: functions\.edges\.input_mb: is missing"):
        load(folder)


def test_a_folder_without_a_manifest_is_refused(folder: Path) -> None:
    (folder / "function.toml").unlink()
    words = r"catalog\.toml: functions\.edges\.folder: no such file: .*edges/function\.toml; write"
    with pytest.raises(Rejected, match=words):
        load(folder)
