"""Files in a directory that processes share: whole or not there, as many as there is room for."""

import mmap
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from esg.errors import Rejected
from esg.storage.shared_store import LOOK_S, SharedStore

MB = 2**20
LARGE = os.urandom(100_000)
AWKWARD = [".", "..", "a/b", "../up", "@c0ffee", "alice~r1", "x" * 5000, "für", ","]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def writer(directory: Path) -> SharedStore:
    return SharedStore(directory, MB)


@pytest.fixture
def reader(writer: SharedStore, directory: Path) -> SharedStore:
    """Another process' store."""
    return SharedStore(directory, MB)


def test_what_one_puts_another_maps_and_cannot_change(
    writer: SharedStore, reader: SharedStore
) -> None:
    assert writer.put("r1", "@c0ffee", LARGE)
    view = reader.get("r1", "@c0ffee")
    assert view == LARGE
    assert view is not None
    assert isinstance(view.obj, mmap.mmap)
    assert view.readonly


def test_what_is_mapped_outlives_its_file(writer: SharedStore, reader: SharedStore) -> None:
    writer.put("r1", "blur", LARGE)
    view = reader.get("r1", "blur")
    assert writer.put("r1", "blur", memoryview(LARGE)[1:])
    assert reader.remove("r1", "blur")
    assert view == LARGE
    assert writer.get("r1", "blur") is None
    assert not writer.remove("r1", "blur")


def test_two_that_write_the_same_leave_one_whole_value(
    writer: SharedStore, reader: SharedStore, directory: Path
) -> None:
    assert writer.put("r1", "@c0ffee", LARGE)
    assert reader.put("r1", "@c0ffee", LARGE)
    assert len(list(directory.iterdir())) == 1
    assert writer.get("r1", "@c0ffee") == LARGE


def test_names_are_kept_apart_and_lead_nowhere(writer: SharedStore, directory: Path) -> None:
    for request in AWKWARD:
        for stage in AWKWARD:
            assert writer.put(request, stage, f"{request} {stage}".encode())
    for request in AWKWARD:
        for stage in AWKWARD:
            assert writer.get(request, stage) == f"{request} {stage}".encode()
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]


def test_there_is_room_for_so_much_whoever_wrote_it(
    writer: SharedStore, reader: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("esg.storage.shared_store.LOOK_S", 0.0)
    monkeypatch.setattr("esg.storage.shared_store.LOOK_SHARE", 1e9)
    assert writer.put("r1", "a", bytes(MB - 1000))
    assert not reader.has_room(1001)
    assert not reader.put("r2", "a", bytes(1001))
    assert reader.get("r2", "a") is None
    assert reader.put("r2", "a", bytes(1000))
    writer.remove("r1", "a")
    assert reader.put("r3", "a", bytes(MB - 1000))


def test_what_takes_long_to_look_at_is_looked_at_seldom(
    writer: SharedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, looks = 100.0, 0

    def clock() -> float:
        return now_s

    def slow_look() -> Iterator[Any]:
        nonlocal now_s, looks
        now_s, looks = now_s + 0.5, looks + 1
        return iter(())

    monkeypatch.setattr("esg.storage.shared_store.time.monotonic", clock)
    monkeypatch.setattr(writer, "_entries", slow_look)
    for _ in range(90):
        writer.has_room(1)
        now_s += 0.1
    assert looks == 1  # in nine seconds


def test_what_comes_under_the_name_of_a_directory_that_was_removed_is_looked_at_first(
    writer: SharedStore, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("esg.storage.shared_store.LOOK_S", 0.0)
    monkeypatch.setattr("esg.storage.shared_store.LOOK_SHARE", 1e9)
    directory.rmdir()
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    assert not writer.put("r1", "a", LARGE)
    assert list(directory.iterdir()) == []


def test_between_two_looks_what_was_written_here_counts(writer: SharedStore) -> None:
    assert LOOK_S > 0
    assert writer.put("r1", "a", bytes(MB))
    assert not writer.put("r2", "a", b"x")


@pytest.fixture
def no_large_files() -> Iterator[None]:
    """As on a file system that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_the_system_has_no_room_for_leaves_nothing(
    writer: SharedStore, directory: Path, no_large_files: None
) -> None:
    assert not writer.put("r1", "a", LARGE)
    assert list(directory.iterdir()) == []
    assert writer.put("r1", "a", bytes(4096))


def test_a_directory_that_is_removed_has_no_room_until_it_is_there_again(
    writer: SharedStore,
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("esg.storage.shared_store.LOOK_S", 0.0)
    monkeypatch.setattr("esg.storage.shared_store.LOOK_SHARE", 1e9)
    directory.rmdir()
    for _ in range(3):
        assert not writer.put("r1", "a", LARGE)
        assert writer.get("r1", "a") is None
        assert not writer.remove("r1", "a")
        writer.sweep(0)
    assert [record.message for record in caplog.records] == [
        "no shared directory: large data goes through Redis"
    ]
    SharedStore(directory, MB)  # as a process that is started again
    assert writer.put("r1", "a", LARGE)


def test_what_is_old_is_swept_and_nothing_else(writer: SharedStore, directory: Path) -> None:
    strangers = directory / "notes"
    left = directory / "writing-0123-4"
    for path in (strangers, left):
        path.write_bytes(b"x")
    writer.put("r1", "old", LARGE)
    for path in directory.iterdir():
        os.utime(path, (0, 0))
    writer.put("r1", "new", LARGE)
    writer.sweep(60)
    assert writer.get("r1", "old") is None
    assert writer.get("r1", "new") == LARGE
    assert not left.exists()
    assert strangers.exists()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_directory_that_others_may_look_into_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(Rejected, match="others may read it"):
        SharedStore(tmp_path, MB)


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "shared").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Rejected, match="or is a link"):
        SharedStore(tmp_path / "shared", MB)


def test_the_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Rejected, match="own it"):
        SharedStore(tmp_path / "theirs", MB)


def test_a_link_in_place_of_a_value_is_not_followed(
    writer: SharedStore, directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    writer.put("r1", "a", LARGE)
    (path,) = directory.iterdir()
    path.unlink()
    path.symlink_to(tmp_path / "secret")
    assert writer.get("r1", "a") is None
    writer.sweep(-60)
    assert (tmp_path / "secret").exists()
