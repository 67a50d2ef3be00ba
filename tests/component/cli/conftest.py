import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from esg.cli import program as cli_program
from esg.console import progress
from esg.console.entry import run_app
from esg.core.catalog.shipped import DEFAULT
from esg.loadgen import program as loadgen_program


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ESG_CATALOG", "ESG_GATEWAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(progress, "FIRST_LINE_S", math.inf)  # on a busy machine any command is slow


@pytest.fixture
def esg(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Ran:
        code = run_app(cli_program.app, "esg", [str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def load(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> Ran:
        code = run_app(loadgen_program.app, "loadgen", [str(argument) for argument in arguments])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def street(tmp_path: Path) -> Path:
    """A catalog with a split and a join, and with a DAG that is not series-parallel."""
    functions = "".join(
        f'[functions.{name}]\nprofile = "{DEFAULT.parent / name}.toml"\n'
        "cold_start_ms = 1\ninput_mb = 1\nmemory_mb = 1\n"
        for name in ("deblur", "segmentation", "depth", "classification")
    )
    path = tmp_path / "street.toml"
    path.write_text(
        f"""
[cluster]
nodes = 1
vcpus = 16
vgpus = 7
slice_memory_mb = 1000
{functions}
[applications.street]
slo_ms = 1300
[applications.street.stages.deblur]
[applications.street.stages.left]
function = "segmentation"
after = ["deblur"]
[applications.street.stages.right]
function = "depth"
after = ["deblur"]
[applications.street.stages.classification]
after = ["left", "right"]

[applications.tangle.stages]
a = {{ function = "deblur" }}
b = {{ function = "deblur", after = ["a"] }}
c = {{ function = "depth", after = ["a"] }}
e = {{ function = "depth", after = ["b"] }}
f = {{ function = "depth", after = ["b", "c"] }}
z = {{ function = "segmentation", after = ["e", "f"] }}
""",
        "utf-8",
    )
    return path
