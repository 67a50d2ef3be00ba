import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from esg.local.procfs import alive, in_session, look, send

WAITS = "import sys; print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    with process:
        yield process
        process.kill()


def test_a_process_is_seen(child: subprocess.Popen[str]) -> None:
    seen = look(child.pid)
    assert seen is not None
    assert (seen.pid, seen.session) == (child.pid, child.pid)
    assert seen.memory_bytes > 1_000_000
    assert 0 < seen.age_s < 3600
    me = look(os.getpid())
    assert me is not None
    assert me.cpu_s > 0
    assert me.began <= seen.began


def test_a_process_that_has_ended_is_not_there_even_if_nobody_asked_for_its_end(
    child: subprocess.Popen[str],
) -> None:
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert look(child.pid) is None
    child.wait()
    assert look(child.pid) is None


def test_process_with_the_same_pid_and_another_beginning_is_another(
    child: subprocess.Popen[str],
) -> None:
    seen = look(child.pid)
    assert seen is not None
    assert alive(child.pid, seen.began)
    assert alive(child.pid, seen.began - 1) is None
    assert not send(child.pid, seen.began - 1, signal.SIGKILL)
    assert child.poll() is None
    assert send(child.pid, seen.began, signal.SIGTERM)
    assert child.wait(60) == -signal.SIGTERM
    assert not send(child.pid, seen.began, signal.SIGTERM)


def test_a_session_holds_all_that_its_leader_started(child: subprocess.Popen[str]) -> None:
    assert [seen.pid for seen in in_session(child.pid)] == [child.pid]
    mine = [seen.pid for seen in in_session(os.getsid(0))]
    assert os.getpid() in mine
    assert child.pid not in mine
