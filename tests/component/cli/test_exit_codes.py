"""Exit codes are those of docs/exit-codes.md, whatever the command."""

import re
from pathlib import Path

import pytest

from esg.console import exit_codes
from tests.component.cli.conftest import Run
from tests.component.cli.test_refusals import assert_refused
from tests.support.paths import ROOT

NOBODY = ("--gateway", "127.0.0.1:1")
NO_GATEWAY = "no gateway at 127.0.0.1:1; start a mesh with esg up, or name its gateway: ..."


def test_page_lists_every_code() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text("utf-8")
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == {0, *codes}


@pytest.mark.parametrize(
    "line",
    [
        ["get", "r1"],
        ["cancel", "r1"],
        ["top", "--once"],
        ["submit", "image-classification", "pyproject.toml"],
        ["profile", "drift"],
    ],
)
def test_esg_without_a_gateway_ends_with_3(esg: Run, line: list[str]) -> None:
    assert_refused(esg(*line, *NOBODY), NO_GATEWAY, code=3)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_loadgen_without_a_gateway_ends_with_3(load: Run, more: tuple[str, ...]) -> None:
    assert_refused(load("--rate", "heavy", *more, *NOBODY), NO_GATEWAY, code=3)


@pytest.mark.parametrize("command", ["status", "down"])
def test_without_a_mesh_a_command_ends_with_3(esg: Run, tmp_path: Path, command: str) -> None:
    ran = esg(command, "--dir", tmp_path / "none")
    assert_refused(ran, "no mesh is running in ...; start one with esg up...", code=3)


@pytest.mark.parametrize("command", [["get"], ["nothing"], ["plan", "nothing"], ["top", "--speed"]])
def test_wrong_usage_ends_with_2(esg: Run, command: list[str]) -> None:
    assert esg(*command).code == 2


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_plan_that_is_not_in_time_ends_with_1(esg: Run, more: tuple[str, ...]) -> None:
    late = esg("plan", "image-classification", "--slo-ms", 1, *more)
    assert (late.code, late.err) == (1, "")
    assert late.out
    assert esg("plan", "image-classification", *more).code == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_interrupts_and_the_world_have_codes_of_their_own(
    esg: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("esg.cli.explain.plan.read_catalog", fail)
    assert esg("plan", "image-classification").code == (1 if isinstance(error, OSError) else 130)
