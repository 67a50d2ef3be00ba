"""A catalog with an application that can never be in time, as every command that reads it says."""

import json
from pathlib import Path

import pytest

from tests.component.cli.conftest import Run

MINE = """
extends = "default"
[applications.mine]
chain = ["deblur", "depth"]
slo_ms = 100
"""
WHY = "applications.mine: an SLO of 100 ms cannot be met: mine takes"


@pytest.fixture
def impossible(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("apps", "--json"), 0),
        (("plan", "mine", "--json"), 1),  # no plan is in time
        (("plan", "--json"), 0),
        (("emulate", "--requests", "5", "--json"), 0),
    ],
)
def test_commands_that_start_nothing_warn_of_it_in_a_line(
    esg: Run, impossible: Path, command: tuple[str, ...], code: int
) -> None:
    ran = esg(*command, "--catalog", impossible)
    assert ran.code == code
    assert json.loads(ran.out)
    (line,) = (line for line in ran.err.splitlines() if line.startswith("warning: "))
    assert line.startswith(f"warning: {impossible}: {WHY} ")
    assert line.endswith("with the fastest configs; give it a longer one")


@pytest.mark.parametrize("how", [(), ("--detach",)])
def test_a_mesh_with_it_is_not_started(
    esg: Run, impossible: Path, tmp_path: Path, how: tuple[str, ...]
) -> None:
    ran = esg("up", *how, "--catalog", impossible, "--dir", tmp_path / "mesh")
    assert (ran.code, ran.out) == (2, "")
    assert WHY in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "mesh").exists()


def test_deadlines_that_are_asked_for_are_emulated_and_their_requests_counted_as_refused(
    esg: Run,
) -> None:
    ran = esg("emulate", "--slo-scale", "0.1", "--requests", "5", "--json")
    assert (ran.code, "warning" in ran.err) == (0, False)
    (result,) = json.loads(ran.out)["results"]
    assert (result["requests"], result["refused"]) == (5, 5)
