import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from esg import files
from esg.errors import Rejected
from esg.local.procfs import look
from esg.local.run_directory import RunDirectory, default_directory, running
from tests.support.waiting import names

NOBODY = {"supervisor": {"pid": os.getpid(), "began": 0}, "processes": []}


def test_the_default_is_where_the_user_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert default_directory().name == f"esg-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert default_directory() == Path("/run/user/7/esg")
    monkeypatch.setenv("ESG_DIR", "mine")
    assert default_directory() == Path("mine")


def test_run_directory_is_for_its_user_alone(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "a" / "mesh")
    directory.claim()
    assert directory.path.stat().st_mode & 0o777 == 0o700
    directory.release()


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(Rejected, match="chmod 700"):
        RunDirectory(tmp_path).claim()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Rejected, match=r"cannot be made: .*; name another directory"):
        RunDirectory(tmp_path / "file" / "mesh").claim()


def test_two_meshes_do_not_share_a_run_directory(tmp_path: Path) -> None:
    first, second = RunDirectory(tmp_path), RunDirectory(tmp_path)
    first.claim()
    with pytest.raises(Rejected, match=f"a mesh is running in {tmp_path}; stop it with esg down"):
        second.claim()
    first.release()
    second.claim()
    second.release()


def test_released_run_directory_keeps_only_logs_and_journal(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.claim()
    directory.write(NOBODY)
    store = directory.store("node0")
    (store / "data").write_bytes(b"x")
    (directory.run / "gateway.ready").write_text("x")
    (directory.logs / "gateway.log").write_text("x")
    directory.journal.mkdir()
    directory.release()
    assert names(tmp_path) == {"logs", "mesh.journal"}
    assert names(directory.logs) == {"gateway.log"}
    assert not directory.scratch.exists()


def test_stores_are_in_memory_and_of_one_user_alone(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.claim()
    store = directory.store("node0")
    assert store.parent.parent == Path("/dev/shm")
    assert store.parent.stat().st_mode & 0o777 == 0o700
    directory.release()


def test_stores_are_in_the_run_directory_where_there_is_no_memory_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MEMORY", tmp_path / "none")
    directory = RunDirectory(tmp_path / "mesh")
    directory.claim()
    assert directory.store("node0").is_relative_to(directory.path)
    directory.release()
    assert names(directory.path) == {"logs"}


def test_the_next_mesh_begins_with_new_logs_and_keeps_one_older_journal(tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        directory = RunDirectory(tmp_path)
        directory.claim()
        assert names(directory.logs) == set()
        assert not directory.journal.exists()
        (directory.logs / "gateway.log").write_text("x")
        directory.journal.mkdir()
        (directory.journal / text).touch()
        directory.release()
    assert names(directory.journal) == {"third"}
    assert names(tmp_path / "mesh.journal.previous") == {"second"}


def test_a_mesh_that_goes_on_from_the_last_one_finds_its_journal_and_redis_data(
    tmp_path: Path,
) -> None:
    for _ in range(2):
        directory = RunDirectory(tmp_path)
        directory.claim(resume=True)
        for folder in (directory.journal, directory.redis):
            folder.mkdir(exist_ok=True)
        directory.release()
        assert names(tmp_path) == {"logs", "mesh.journal", "redis"}
    directory.claim()
    directory.release()
    assert names(tmp_path) == {"logs", "mesh.journal.previous"}


@pytest.mark.parametrize("crashed", [False, True])
def test_log_of_redis_in_memory_stays_with_the_journal(tmp_path: Path, crashed: bool) -> None:
    first = RunDirectory(tmp_path)
    first.claim()
    first.write(NOBODY)
    first.journal.mkdir()
    store = first.store("redis")
    (store / "log").write_text("all of it")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(store / "redis.sock"))
    if crashed:
        assert first._lock is not None
        os.close(first._lock)  # as the kernel does
    else:
        first.release()
    following = RunDirectory(tmp_path)
    following.claim(resume=True)
    assert not store.exists()
    assert names(following.redis) == {"log"}
    following.release()
    assert names(tmp_path) == {"logs", "mesh.journal", "redis"}


def test_log_of_redis_does_not_stay_without_a_journal(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.claim()
    (directory.store("redis") / "log").touch()
    directory.release()
    assert names(tmp_path) == {"logs"}


# attack: D2
def test_log_of_redis_that_cannot_be_copied_stays_with_the_record_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RunDirectory(tmp_path)
    directory.claim()
    directory.write(NOBODY)
    directory.journal.mkdir()
    (directory.store("redis") / "log").write_text("all of it")
    directory.store("node0")
    with monkeypatch.context() as disk:
        disk.setattr(shutil, "copytree", no_room)
        directory.release()
    assert names(tmp_path) == {"logs", "mesh.journal", "mesh.json"}
    assert names(directory.scratch) == {"redis"}
    assert directory.not_kept == "No space left on device"
    assert directory.left_behind == directory.scratch / "redis"

    following = RunDirectory(tmp_path)
    following.claim(resume=True)
    assert (following.redis / "log").read_text() == "all of it"
    assert not directory.scratch.exists()
    following.release()


def test_log_of_redis_that_cannot_be_copied_goes_if_nobody_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = crashed_in(tmp_path)
    monkeypatch.setattr(shutil, "copytree", no_room)
    RunDirectory(tmp_path).clear_up(keep=False)
    assert not crashed.scratch.exists()
    assert names(tmp_path) == {"logs", "mesh.journal"}


def no_room(source: object, target: Path, **_: object) -> None:
    target.mkdir()
    raise OSError(errno.ENOSPC, "No space left on device")


def test_mesh_that_resumes_after_a_crash_loses_nothing_for_want_of_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = crashed_in(tmp_path)
    following = RunDirectory(tmp_path)
    with monkeypatch.context() as disk:
        disk.setattr(shutil, "copytree", no_room)
        with pytest.raises(Rejected, match=r"No space left on device; make room for it, or start"):
            following.claim(resume=True)
    following.claim(resume=True)
    assert (following.redis / "log").read_text() == "all of it"
    assert not crashed.scratch.exists()
    following.release()
    assert following.not_kept == ""


def crashed_in(path: Path) -> RunDirectory:
    """One with something in its Redis."""
    directory = RunDirectory(path)
    directory.claim()
    directory.write(NOBODY)
    directory.journal.mkdir()
    (directory.store("redis") / "log").write_text("all of it")
    assert directory._lock is not None
    os.close(directory._lock)  # as the kernel does
    return directory


def test_mesh_that_begins_anew_after_a_crash_copies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = crashed_in(tmp_path)
    monkeypatch.setattr(shutil, "copytree", no_room)
    following = RunDirectory(tmp_path)
    following.claim()
    assert following.not_kept == ""
    assert not crashed.scratch.exists()
    following.release()
    assert names(tmp_path) == {"logs", "mesh.journal.previous"}


def test_files_and_processes_left_by_a_crash_are_removed_and_ended(tmp_path: Path) -> None:
    crashed = RunDirectory(tmp_path)
    crashed.claim()
    orphan = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    other = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    with orphan, other:
        seen = look(orphan.pid)
        assert seen is not None
        left = [
            {"pid": orphan.pid, "began": seen.began},
            {"pid": other.pid, "began": 1},  # a pid that has gone to somebody else since
        ]
        crashed.write({**NOBODY, "processes": left})
        store = crashed.store("node0")
        assert crashed._lock is not None
        os.close(crashed._lock)  # as the kernel does

        directory = RunDirectory(tmp_path)
        directory.claim()
        assert orphan.wait(60) == -9
        assert other.poll() is None
        other.kill()
    assert not store.exists()
    assert directory.read() is None
    directory.release()


def test_a_record_tells_whether_its_supervisor_runs(tmp_path: Path) -> None:
    me = look(os.getpid())
    assert me is not None
    directory = RunDirectory(tmp_path)
    assert not running(directory.read())
    directory.write({"supervisor": {"pid": me.pid, "began": me.began}, "processes": []})
    assert running(directory.read())
    directory.write({"supervisor": {"pid": me.pid, "began": me.began - 1}, "processes": []})
    assert not running(directory.read())


def test_a_broken_record_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "mesh.json").write_text("{", "utf-8")
    with pytest.raises(Rejected, match="if no mesh runs there, delete it"):
        RunDirectory(tmp_path).read()


def test_a_record_that_somebody_else_may_have_written_is_not_believed(tmp_path: Path) -> None:
    """In a folder for everyone, whoever is first could say what `esg down` is to delete."""
    precious = tmp_path / "precious"
    precious.mkdir()
    theirs = tmp_path / "m"
    theirs.mkdir()
    theirs.chmod(0o777)
    record = {"supervisor": {"pid": 1, "began": 0}, "processes": [], "scratch": str(precious)}
    (theirs / "mesh.json").write_text(json.dumps(record), "utf-8")
    for act in (RunDirectory(theirs).read, RunDirectory(theirs).clear_up):
        with pytest.raises(Rejected, match="others may read it or own it"):
            act()
    assert precious.exists()
