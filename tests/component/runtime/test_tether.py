import subprocess
import sys
from pathlib import Path

from esg.local.procfs import alive, look
from esg.runtime.tether import ORPHANED, tied
from tests.support.waiting import wait_until

WAITS = "import signal; print('up', flush=True); signal.pause()"
PARENT = f"""
import signal, subprocess, sys
from esg.runtime.tether import tied
child = subprocess.Popen(tied([sys.executable, "-c", {WAITS!r}]), stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
signal.pause()
"""


def test_a_tied_process_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        child = look(int(parent.stdout.readline()))
        assert child is not None
        parent.kill()
    wait_until(lambda: not alive(child.pid, child.began))


def test_a_tied_process_is_the_command_itself() -> None:
    done = subprocess.run(
        tied([sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "a b", "-c"]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "['a b', '-c']\n", "")


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        tied([str(tmp_path / "none")]), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"error: cannot run {tmp_path / 'none'}: No such file or directory\n"


def test_a_process_whose_parent_is_gone_already_does_not_begin() -> None:
    command = tied([sys.executable, "-c", "print('begun')"])
    command[4] = "1"  # as if another process had started it
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (ORPHANED, "")
