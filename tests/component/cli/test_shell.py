"""What shells and impatient people do with the commands: completion, entry points, Ctrl-C."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from esg.version import __version__
from tests.component.cli.conftest import Run
from tests.component.cli.test_scripts import ESG, LOADGEN, ran
from tests.support.paths import ROOT

EVERY_SHELL = pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])


def completed(shell: str, line: str) -> list[str]:
    """What a shell is told when somebody presses TAB at the end of this line."""
    program, *words = line.split(" ")
    environment = {
        f"_{program.upper()}_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join([program, *words]),
        "COMP_CWORD": str(len(words)),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [ESG if program == "esg" else LOADGEN],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@EVERY_SHELL
def test_commands_are_completed_with_their_summaries(shell: str) -> None:
    told = "\n".join(completed(shell, "esg pro"))
    assert "profile" in told
    assert "plan" not in told
    assert ("Measure functions" in told) == (shell != "bash")  # which shows names only


@EVERY_SHELL
def test_options_of_a_command_that_is_imported_when_used_are_completed(shell: str) -> None:
    told = "\n".join(completed(shell, "esg submit --"))
    assert "--slo-ms" in told
    assert "--all-stages" in told


def test_commands_within_commands_are_completed() -> None:
    assert completed("bash", "esg tokens a") == ["add"]
    assert "--requests-per-s" in completed("bash", "esg tokens add --")


def test_options_of_loadgen_are_completed() -> None:
    assert {"--rate", "--duration", "--version"} <= set(completed("bash", "loadgen --"))


@pytest.mark.parametrize("program", [ESG, LOADGEN])
def test_the_script_for_a_shell_is_shown(program: Path) -> None:
    """Run by bash, which is what the command looks for among its parents."""
    done = ran("bash", "-c", f"'{program}' --show-completion; exit $?")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"complete -o default -F _{program.name}_completion {program.name}" in done.stdout


@pytest.mark.parametrize("module", ["esg", "esg.loadgen"])
def test_a_program_can_be_run_as_a_module(module: str) -> None:
    name = module.split(".")[-1]
    done = ran(sys.executable, "-m", module, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{name} {__version__}\n", "")
    assert f"Usage: {name} " in ran(sys.executable, "-m", module, "--help").stdout


def test_loadgen_tells_its_version(load: Run) -> None:
    assert load("--version") == (0, f"loadgen {__version__}\n", "")


INTERRUPTED = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    raise ImportError("taken for something else, as compiled modules do") from None
"""


def test_nothing_that_takes_time_is_imported_before_ctrl_c_is_quiet() -> None:
    """Before that, Ctrl-C is a traceback: as it is in Python's own start, which nobody can help."""
    code = (
        "import sys; before = set(sys.modules); import esg.cli.main, esg.loadgen.main; "
        "print(*sorted(name for name in set(sys.modules) - before if name[:3] != 'esg'))"
    )
    done = ran(sys.executable, "-c", code)
    assert (done.stdout, done.stderr) == ("\n", "")


@pytest.mark.parametrize(
    ("command", "module"),
    [("esg plan", "typer"), ("esg plan", "numpy"), ("esg top", "grpc"), ("loadgen", "hdrh")],
)
def test_ctrl_c_while_modules_are_imported_is_quiet(
    tmp_path: Path, command: str, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text(INTERRUPTED)
    program, *arguments = command.split()
    done = subprocess.run(
        [ESG if program == "esg" else LOADGEN, *arguments],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
