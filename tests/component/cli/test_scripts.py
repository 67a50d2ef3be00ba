"""The installed commands, as processes of their own: what only shows there."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from esg.version import __version__
from tests.component.cli.conftest import Run

ESG = Path(sys.executable).with_name("esg")
LOADGEN = Path(sys.executable).with_name("loadgen")


def ran(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def test_esg_plans() -> None:
    done = ran(ESG, "plan", "image-classification", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["feasible"]


def test_a_table_is_plain_text_in_a_pipe() -> None:
    done = ran(ESG, "plan")
    assert (done.returncode, done.stderr) == (0, "")
    assert "expanded-image-classification" in done.stdout
    assert "\x1b" not in done.stdout


def test_esg_refuses_with_exit_code_2() -> None:
    done = ran(ESG, "plan", "nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown application 'nothing'; known: ")
    assert done.stderr.count("\n") == 1


def test_loadgen_needs_a_gateway() -> None:
    done = ran(LOADGEN, "--rate", "heavy", "--gateway", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: no gateway at 127.0.0.1:1; start a mesh with esg up")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [("profile", "show", "depth"), ("--help",)])
def test_a_reader_that_had_enough_is_no_error(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [ESG, *arguments], stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full disk at hand")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [ESG, "apps", "--json"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot write the output: No space left on device\n"


def test_a_name_that_the_terminal_cannot_show_is_escaped(street: Path) -> None:
    street.write_text(street.read_text("utf-8").replace("tangle", '"Stra\u00dfe"'), "utf-8")
    done = subprocess.run(
        [ESG, "apps", "--catalog", street],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"Stra\xdfe" in done.stdout


def test_ctrl_c_is_quiet_and_leaves_no_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    process = subprocess.Popen(
        [
            *map(str, (LOADGEN, "--rate", "heavy", "--dry-run", "--requests", 10**9)),
            "--save-arrivals",
            path,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        give_up = monotonic() + 60
        while not list(tmp_path.iterdir()) and monotonic() < give_up:
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (130, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_help_does_not_wait_for_numpy_or_tables() -> None:
    """Parsing is all that help and a misspelt option need."""
    code = (
        "import sys; sys.argv = ['esg', '--help']; from esg.cli.main import run; run(); "
        "print([name for name in ('numpy', 'rustworkx', 'rich.table') if name in sys.modules])"
    )
    assert ran(sys.executable, "-c", code).stdout.splitlines()[-1] == "[]"


def test_esg_alone_shows_its_help(esg: Run) -> None:
    assert esg() == esg("--help")
    assert esg().code == 0


def test_esg_knows_its_version(esg: Run) -> None:
    assert esg("--version") == (0, f"esg {__version__}\n", "")
