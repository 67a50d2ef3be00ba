"""Finding a Triton server, and the models that it can load."""

from pathlib import Path

import pytest

from esg.core.catalog.model import Function
from esg.errors import Rejected
from esg.invoker.triton import install
from esg.invoker.triton.install import default_home, find_triton
from esg.invoker.triton.model_repository import assemble, link
from tests.support.small_catalog import DETECT

CONFIG = 'backend: "python"\nmax_batch_size: 8\n'


def program(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def environment(home: Path) -> Path:
    """As `esg models install` leaves it, as far as it matters."""
    triton = home / "lib" / "python3.11" / "site-packages" / "pytriton" / "tritonserver"
    program(triton / "bin" / "tritonserver")
    program(triton / "backends" / "python" / "libtriton_python.so")
    program(triton / "backends" / "python" / "triton_python_backend_utils.py")
    program(triton / "python_backend_stubs" / "3.11" / "triton_python_backend_stub")
    (home / "pyvenv.cfg").write_text("home = /opt/python/bin\nversion = 3.11.7\n")
    return home


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with nothing on it."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(install, "REPOSITORY", tmp_path / "site-packages")


def test_triton_on_the_path_finds_its_backends_itself(tmp_path: Path) -> None:
    server = program(tmp_path / "bin" / "tritonserver")
    environment(default_home())
    found = find_triton("")
    assert (found.server, found.python_backend, found.environ) == (server, (), {})


def test_triton_of_the_models_environment_is_used_where_none_is_on_the_path(tmp_path: Path) -> None:
    home = environment(tmp_path / "data" / "esg" / "models")
    assert default_home() == home
    found = find_triton("")
    assert found.server.is_relative_to(home)
    assert [file.name for file in found.python_backend] == [
        "libtriton_python.so",
        "triton_python_backend_utils.py",
        "triton_python_backend_stub",
    ]
    assert found.environ["PATH"] == f"{home}/bin:{tmp_path}/bin"
    assert found.environ["LD_LIBRARY_PATH"].endswith("/nvidia_pytriton.libs:/opt/python/lib")


def test_models_environment_of_a_checkout_is_in_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "pyproject.toml").touch()
    assert default_home() == tmp_path / "site-packages" / ".venv-models"


def test_triton_can_be_named_as_a_program_or_as_an_environment(tmp_path: Path) -> None:
    server = program(tmp_path / "opt" / "my-triton")
    assert find_triton(str(server)).server == server
    home = environment(tmp_path / "mine")
    assert find_triton(str(home)).server.is_relative_to(home)


def test_missing_triton_is_refused_with_the_command_to_run(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"no Triton server: .* esg models install \(or name"):
        find_triton("")
    (tmp_path / "mine").mkdir()
    with pytest.raises(Rejected, match=rf"esg models install --dir {tmp_path}/mine"):
        find_triton(str(tmp_path / "mine"))
    with pytest.raises(Rejected, match=r"invoker\.triton: /no/such: no such program"):
        find_triton("/no/such")


def function(folder: Path | None) -> Function:
    return Function(
        name=folder.name if folder is not None else "bare",
        profile=DETECT.profile,
        cold_start_us=0,
        input_bytes=0,
        memory_mb=1,
        folder="" if folder is None else str(folder),
    )


def test_a_repository_links_to_the_models_and_says_which_are_missing(tmp_path: Path) -> None:
    for name, config in [("fine", CONFIG), ("corrupt", "max_batch_size: many"), ("empty", None)]:
        model = tmp_path / name / "models" / "cpu"
        (model / "1").mkdir(parents=True)
        if config is not None:
            (model / "config.pbtxt").write_text(config)
    functions = [function(tmp_path / name) for name in ("fine", "corrupt", "empty")]
    lacking = assemble(tmp_path / "repository", [*functions, function(None)], "cpu")
    assert [one.name for one in (tmp_path / "repository").iterdir()] == ["fine"]
    assert (tmp_path / "repository" / "fine" / "config.pbtxt").read_text() == CONFIG
    assert list(lacking) == ["corrupt", "empty", "bare"]
    assert "corrupt/models/cpu/config.pbtxt cannot be read: 1:17" in lacking["corrupt"]
    assert "empty has no model for cpu slices: " in lacking["empty"]
    assert "bare has no folder in the catalog" in lacking["bare"]


def test_bytecode_of_a_model_is_not_taken_for_that_of_its_next_source(tmp_path: Path) -> None:
    model = tmp_path / "fine" / "models" / "cpu"
    bytecode = model / "1" / "__pycache__" / "model.cpython-311.pyc"
    bytecode.parent.mkdir(parents=True)
    (model / "config.pbtxt").write_text(CONFIG)
    bytecode.write_bytes(b"of the source before")
    (tmp_path / "repository").mkdir()
    assert link(tmp_path / "repository", function(tmp_path / "fine"), "cpu") == ""
    assert not bytecode.exists()
