"""The journal on disk: durable before it counts, whole after a crash, bounded for ever."""

import json
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from esg.controller.durability.journal import Journal
from esg.core.journal.format import Header, read_segment, snapshot_line
from esg.core.messages.events import RequestArrived
from esg.core.scheduler.settings import SchedulerSettings
from esg.errors import Fault, Rejected
from esg.runtime.journal_files import read_lines
from esg.runtime.settings import ControllerSettings
from tests.support.waiting import LIMIT_S
from tests.support.written_journal import made_durable

HEADER = Header(catalog="c0ffee", settings=SchedulerSettings())
ARRIVAL = RequestArrived(request="r1", application="thumb")


def opened(folder: Path, **settings: Any) -> Journal:
    return Journal(folder, ControllerSettings(**settings))


def begun(folder: Path, **settings: Any) -> Journal:
    journal = opened(folder, **settings)
    journal.begin(HEADER, lambda: lambda: snapshot_line("{}", "{}", 1))
    return journal


async def write(journal: Journal, count: int = 1, *, first: int = 0) -> None:
    for number in range(first, first + count):
        journal.begin_group()
        journal.append(number, ARRIVAL, [], {"content_hash": "f00d"})
        await made_durable(journal)


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "reserve")


def entries(path: Path) -> list[int]:
    """The times of what is in a segment."""
    return [entry.now_us for entry in read_segment(read_lines(path)).entries]


@pytest.mark.parametrize("sync", [True, False])
async def test_flushed_entries_are_in_the_file(tmp_path: Path, sync: bool) -> None:
    journal = begun(tmp_path, sync=sync)
    await write(journal, 3)
    assert entries(tmp_path / "00000001.journal") == [0, 1, 2]
    journal.close()


async def test_a_group_is_synced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fdatasync

    def noted(handle: int) -> None:
        sync(handle)
        synced.append(len(entries(tmp_path / "00000001.journal")))

    monkeypatch.setattr(os, "fdatasync", noted)
    journal = begun(tmp_path)
    for number in range(3):
        journal.append(number, ARRIVAL, [])
    await made_durable(journal)
    assert synced == [3]
    journal.close()


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4, 8])
async def test_journal_goes_on_in_the_next_segment_and_old_ones_go(
    tmp_path: Path, kept: int
) -> None:
    journal = begun(tmp_path, segment_mb=0.0001, kept_segments=kept)
    for latest in range(1, 2 * kept + 4):
        await write(journal, first=latest)  # a line is more than a segment should have
        names = [f"{n:08}.journal" for n in range(max(1, latest - kept), latest + 1)]
        assert segments(tmp_path) == names
        times = [time for name in names for time in entries(tmp_path / name)]
        assert times == list(range(max(1, latest - kept), latest + 1))
    journal.close()


async def test_a_segment_ends_when_its_events_took_long_to_handle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # attack: B2
    now_s = [0.0]
    monkeypatch.setattr("esg.controller.durability.journal.time.monotonic", lambda: now_s[0])
    journal = begun(tmp_path, sync=False, segment_work_s=2.0)
    for number in range(1, 7):
        journal.begin_group()
        now_s[0] += 1.0
        journal.append(number, ARRIVAL, [])
        journal.write(lambda _: None)
        now_s[0] += 10.0  # nothing happens
    assert [entries(tmp_path / name) for name in segments(tmp_path)] == [[1, 2, 3], [4, 5, 6]]
    journal.close()


async def test_large_snapshots_are_few(tmp_path: Path) -> None:
    journal = opened(tmp_path, segment_mb=0.001)
    memory = json.dumps("x" * 20_000)
    journal.begin(HEADER, lambda: lambda: snapshot_line("{}", memory, 1))
    await write(journal, 100)
    assert len(segments(tmp_path)) == 1
    await write(journal, 60)
    assert len(segments(tmp_path)) == 2
    journal.close()


async def test_a_good_end_is_a_segment_with_nothing_but_a_snapshot(tmp_path: Path) -> None:
    journal = begun(tmp_path)
    await write(journal)
    journal.finish()
    assert entries(tmp_path / "00000002.journal") == []
    again = opened(tmp_path)
    past = again.past()
    assert past is not None
    assert past.snapshot is not None
    assert past.snapshot.wall_us == 1
    again.close()


async def test_a_good_end_waits_for_what_is_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = begun(tmp_path, sync_ms=1)
    assert journal._writer is not None
    waited_for = threading.Event()
    sync, shutdown = os.fdatasync, journal._writer.shutdown

    def slow(handle: int) -> None:
        assert waited_for.wait(LIMIT_S)
        sync(handle)

    def noted() -> None:
        waited_for.set()
        shutdown()

    monkeypatch.setattr(os, "fdatasync", slow)
    monkeypatch.setattr(journal._writer, "shutdown", noted)
    journal.append(7, ARRIVAL, [])
    writing = made_durable(journal)
    journal.finish()
    await writing
    assert entries(tmp_path / "00000001.journal") == [7]
    assert entries(tmp_path / "00000002.journal") == []


@pytest.mark.parametrize(
    "torn",
    [b'{"at":7,"event":"Requ', b"\0" * 300, b"\0\0\n\0\0\n"],
    ids=["half a line", "a hole", "two of them"],
)
async def test_a_torn_end_is_cut_off_and_said(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    journal = begun(tmp_path)
    await write(journal, 2)
    journal.close()
    path = tmp_path / "00000001.journal"
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    again = opened(tmp_path)
    past = again.past()
    assert past is not None
    assert [entry.now_us for entry in past.entries] == [0, 1]
    assert path.read_bytes() == whole
    assert "torn end cut off" in caplog.messages
    again.close()


def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "00000001.journal"
    path.write_bytes(b"\x89PNG\n\0\0")
    journal = opened(tmp_path)
    with pytest.raises(Rejected, match="not a journal"):
        journal.past()
    journal.close()
    assert path.read_bytes() == b"\x89PNG\n\0\0"


async def test_damage_in_the_middle_is_refused_by_its_line(tmp_path: Path) -> None:
    journal = begun(tmp_path)
    await write(journal, 3)
    journal.close()
    path = tmp_path / "00000001.journal"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"\0\n", *lines[4:]]))
    again = opened(tmp_path)
    place = len(b"".join(lines[:3]))
    with pytest.raises(Rejected, match=rf"{path}: line 4 \(byte {place}\) is damaged: .*--salvage"):
        again.past()
    again.close()


def test_a_segment_that_had_not_begun_is_removed(tmp_path: Path) -> None:
    (tmp_path / "00000009.unfinished").write_text("x")
    opened(tmp_path).close()
    assert segments(tmp_path) == []


def test_two_controllers_cannot_have_one_journal(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with pytest.raises(Rejected, match="another controller writes to it"):
        opened(tmp_path)
    journal.close()
    opened(tmp_path).close()


def test_journal_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Rejected, match=r"journal .*file: cannot be a journal's directory"):
        opened(tmp_path / "file")


@pytest.fixture
def _files_end_at_4k() -> Iterator[None]:
    """The kernel refuses to write more, for real."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_files_end_at_4k")
@pytest.mark.parametrize("sync", [True, False])
async def test_a_journal_that_cannot_be_written_is_an_error_and_can_be_gone_on_from(
    tmp_path: Path, sync: bool
) -> None:
    journal = begun(tmp_path, sync=sync)
    written = 0

    async def write_on() -> None:
        nonlocal written
        while written < 200:
            journal.append(written, ARRIVAL, [])
            await made_durable(journal)
            written += 1

    with pytest.raises(Fault, match=r"cannot be written: File too large; nothing was promised"):
        await write_on()
    journal.close()
    again = opened(tmp_path)
    past = again.past()
    assert past is not None
    assert [entry.now_us for entry in past.entries] == list(range(written))
    again.close()


async def test_journal_lines_are_json(tmp_path: Path) -> None:
    journal = begun(tmp_path)
    await write(journal, 2)
    journal.close()
    lines = (tmp_path / "00000001.journal").read_text("utf-8").splitlines()
    header, snapshot, entry, _ = map(json.loads, lines)
    assert header["settings"]["policy"] == "esg"
    assert list(snapshot) == ["snapshot", "memory", "wall_us", "crc"]
    assert entry["memo"] == {"content_hash": "f00d"}
