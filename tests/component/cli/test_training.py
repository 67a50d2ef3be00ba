"""`esg train`, and meshes with a policy that learns before it runs."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from esg.cli.bringup import up as bringup_up
from esg.console import training as console_training
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.policies.settings import Trained
from esg.local.options import MeshOptions
from esg.runtime.trained_configs import read_learnt
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused


def minimum(seen: Catalog, **_: object) -> Trained:
    return {
        name: {stage.name: stage.function.profile.minimum for stage in each.stages.values()}
        for name, each in seen.applications.items()
    }


@pytest.fixture(autouse=True)
def _learns_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(console_training, "trained_configs", minimum)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[MeshOptions]:
    """The options of meshes that would have been started."""
    found: list[MeshOptions] = []

    def start(options: MeshOptions, *_: object, **__: object) -> int:
        found.append(options)
        return 0

    monkeypatch.setattr(bringup_up, "start_detached", start)
    monkeypatch.setattr(bringup_up, "check_slices", lambda _: None)  # whatever this machine has
    return found


def test_esg_train_writes_learnt_configs_to_a_file(esg: Run, tmp_path: Path) -> None:
    file = tmp_path / "new" / "learnt.json"
    ran = esg("train", file)
    assert (ran.code, ran.out) == (0, f"written: {file} (4 applications)\n")
    told = json.loads(esg("train", file, "--json").out)
    assert told == {"file": str(file), "applications": list(load_catalog().applications)}
    assert read_learnt(file) == minimum(load_catalog())


def test_esg_train_learns_for_the_slices_that_the_cluster_has(
    esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: set[str] = set()

    def look(seen: Catalog, **_: object) -> Trained:
        kinds.update(kind for f in seen.functions.values() for kind in f.profile.kinds)
        return minimum(seen)

    monkeypatch.setattr(console_training, "trained_configs", look)
    assert esg("train", tmp_path / "learnt.json").code == 0
    assert kinds == set(load_catalog().cluster.kinds())


def test_a_file_that_cannot_be_written_is_refused(esg: Run, tmp_path: Path) -> None:
    assert_refused(esg("train", tmp_path), f"{tmp_path}: is not a regular file; name another one")
    file = tmp_path / "file"
    file.touch()
    inside = file / "learnt.json"
    assert_refused(esg("train", inside), f"{inside}: ...; name a file in a folder you can write to")


def test_esg_train_does_not_overwrite_the_catalog(esg: Run, street: Path) -> None:
    before = street.read_bytes()
    assert_refused(
        esg("train", street, "--catalog", street),
        f"FILE and --catalog are the same file, {street}; name different ones",
    )
    assert street.read_bytes() == before


def test_a_file_that_cannot_be_finished_leaves_the_one_before(
    esg: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "learnt.json"
    assert esg("train", file).code == 0
    before = file.read_bytes()
    monkeypatch.setattr(Path, "replace", no_room)
    assert_refused(esg("train", file), f"{file}: No space left on device; ...")
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("*.json*")) == ["learnt.json"]


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_mesh_learns_before_it_starts(esg: Run, started: list[MeshOptions]) -> None:
    assert esg("up", "--policy", "aquatope", "--scale", 2, "--detach").code == 0
    file: Any = started[0].more["controller"]["trained"]
    assert read_learnt(Path(file)) == minimum(load_catalog())


@pytest.mark.parametrize(
    ("size", "vcpus", "vgpus"),
    [
        ("--vcpus 2 --vgpus 2", 2, 2),
        ("--vcpus 4 --slices cpu:1", 2, 1),  # the catalog of such slices has no larger configs
        ("--vcpus 4 --slices 1g.10gb@gpu0:8001,1g.10gb@gpu0:8011", 4, 2),
        ("--vcpus 4 --slices emulated:4g.40gb+3g.40gb", 4, 1),
    ],
)
def test_configs_that_a_mesh_learns_fit_its_nodes(
    esg: Run,
    started: list[MeshOptions],
    monkeypatch: pytest.MonkeyPatch,
    size: str,
    vcpus: int,
    vgpus: int,
) -> None:
    sizes: list[tuple[int, int]] = []

    def look(seen: Catalog, **_: object) -> Trained:
        configs = [config for f in seen.functions.values() for config in f.profile.configs]
        sizes.append((max(c.vcpus for c in configs), max(c.vgpus for c in configs)))
        return minimum(seen)

    monkeypatch.setattr(console_training, "trained_configs", look)
    assert esg("up", "--policy", "aquatope", *size.split(), "--detach").code == 0
    assert len(started) == 1
    assert sizes == [(vcpus, vgpus)]


def test_a_mesh_that_is_told_what_was_learnt_does_not_learn(
    esg: Run, started: list[MeshOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESG_CONTROLLER_TRAINED", "learnt.json")
    assert esg("up", "--policy", "aquatope", "--detach").code == 0
    assert started[0].more == {}


def test_policies_that_do_not_learn_are_not_trained(esg: Run, started: list[MeshOptions]) -> None:
    assert esg("up", "--detach").code == 0
    assert started[0].more == {}
