"""The journal on disk: a directory of segments, each of which begins with all that is remembered.

    JOURNAL/00000007.journal       an older one, kept for replays and bug reports
    JOURNAL/00000008.journal       the one that is written to
    JOURNAL/00000009.unfinished    one that a crash left before it had begun
    JOURNAL/00000006.damaged       one as it was before it was salvaged
    JOURNAL/reserve                room for when there is none (see `journal_reserve`)

Entries are handed over in groups, and a group counts when it is durable: on disk, if `sync` is
wanted, otherwise with the operating system, from where it survives the end of this process but not
of the machine. A segment that has become too large, or whose events took too long to handle, is
followed by another one, whose snapshot makes the older ones dispensable; so the disk used and the
time to start again stay bounded.

A disk without room is a state: what was written of a group is taken back, the reserve gives room,
and when that is used up, too, the group waits, and is tried again each second. Nothing is done that
is not written. Whatever else goes wrong ends the controller: to go on unjournaled would be to
promise what nobody could keep, and a sync that failed says nothing true when it is tried again. A
group that was not written to its end, because of a crash, is cut off when the directory is opened:
nothing had been done because of it. Every line has a checksum; what a controller does about damage
is in `past`.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import RawIOBase
from pathlib import Path

from esg.controller.journal_reserve import JournalReserve, has_room, is_no_room
from esg.controller.past import ADVICE, read_past
from esg.controller.salvage import salvage
from esg.core.journal.checksums import Damaged, sealed_group, sealed_header
from esg.core.journal.format import (
    Header,
    JournalEntry,
    Memo,
    Segment,
    entry_line,
    header_line,
    orders_digest,
    read_segment,
)
from esg.core.messages.commands import Command
from esg.core.messages.events import Event
from esg.errors import Fault, Rejected
from esg.files import lock_directory
from esg.runtime.journal_files import read_lines, segment_files
from esg.runtime.logs import about
from esg.runtime.settings import ControllerSettings

log = logging.getLogger(__name__)

Opening = Callable[[], Callable[[], str]]
"""Takes down at once what is remembered now; what it returns makes a segment's second line of it,
and may be called in another thread."""
Then = Callable[[Exception | None], None]

RARELY = 4
"""So many times as long as a snapshot took is worked before there is another one."""

RETRY_S = 1.0
FULL = (
    "the journal's disk is full: what is under way goes on, and new requests are taken as soon as "
    "there is room again"
)


@dataclass(slots=True)
class _Group:
    """What becomes durable together; before it, a segment to begin, unless that has been done."""

    lines: list[str]
    following: Callable[[], str] | None
    worked_s: float = 0.0


class NoRoom(Fault):
    """The disk is full. Nothing is half written."""


class Journal:
    """A controller's write-ahead log with group commit. One process at a time has it."""

    def __init__(self, directory: Path, settings: ControllerSettings) -> None:
        self._directory = directory
        self._least_bytes = int(settings.segment_mb * 1_000_000)
        self._limit_bytes = self._least_bytes
        self._least_work_s = settings.segment_work_s
        self._limit_work_s = self._least_work_s
        self._kept = settings.kept_segments
        self._sync = settings.sync
        self._pause_s = settings.sync_ms / 1000
        self._synced_s = 0.0
        self._header = ""
        self._opening: Opening | None = None
        self._following: Callable[[], str] | None = None  # a segment to begin with the next group
        self._lines: list[str] = []
        self._check = 0  # the checksum of the latest line that is written
        self._salvage = settings.journal_salvage
        self._size = 0  # of the entries in this segment
        self._worked_s = 0.0  # what they took to be handled, and so will again
        self._group_began_s: float | None = None
        self._file: RawIOBase | None = None
        self._writer = ThreadPoolExecutor(1, "journal") if settings.sync else None
        self._retry: tuple[asyncio.TimerHandle, Then] | None = (
            None  # of a group that waits for room
        )
        self._looking: asyncio.TimerHandle | None = None  # for room
        self._patient = True
        try:
            directory.mkdir(parents=True, exist_ok=True)
            lock = lock_directory(directory)
        except OSError as error:
            raise self._refusal(error) from None
        if lock is None:
            raise Rejected(
                f"journal {directory}: another controller writes to it; name another directory "
                "(controller.journal), or stop the other one"
            )
        self._lock = lock
        for unfinished in directory.glob("*.unfinished"):
            unfinished.unlink()
        self._reserve = JournalReserve(directory)

    @property
    def full(self) -> bool:
        """Whether there is no more room than what is under way may need."""
        return self._opening is not None and not self._reserve.is_there

    def refusing(self) -> str:
        """Why nothing new may be taken on, if that is so; for everybody."""
        return FULL if self.full else ""

    # ---- what was written before

    def past(self) -> Segment | None:
        """What to go on from: the latest segment, if there is one, without a torn end."""
        try:
            if self._salvage:
                salvage(self._directory)
            segments = segment_files(self._directory)
            if not segments:
                return None
            past = read_past(segments)
        except Damaged as damage:
            raise Rejected(f"{damage}; {ADVICE}") from None
        except OSError as error:
            raise self._refusal(error) from None
        self._check = past.check
        return past.segment

    # ---- what happens now

    def begin(self, header: Header, opening: Opening) -> None:
        """Start a segment: from now on everything is written down. If there is no room for it, it
        begins when there is, with the first group."""
        self._header = header_line(header)
        self._opening = opening
        first = _Group([], opening())
        error = self._tried(first)
        if error is not None and not isinstance(error, NoRoom):
            raise error
        self._following = first.following
        if error is not None or not self._reserve.make():
            self._became_full()

    def begin_group(self) -> None:
        """Before the first event of a group is handled, and after all before it was carried out:
        what is remembered then is whole. In between, a request that is answered is no longer under
        way, but has not been remembered as ended either. So segments end here, and only here."""
        assert self._opening is not None
        if self._is_full() and not self.full and has_room(self._directory, self._limit_bytes):
            self._following = self._opening()
        self._group_began_s = time.monotonic()

    def append(
        self, now_us: int, event: Event, commands: list[Command], memo: Memo | None = None
    ) -> None:
        self._lines.append(entry_line(JournalEntry(now_us, event, orders_digest(commands), memo)))

    def flush(self, then: Then) -> None:
        """Make durable what was appended; `then` is called in this loop, with what went wrong if
        anything did. Until then, nothing more may be appended."""
        lines, self._lines = self._lines, []
        following, self._following = self._following, None
        now_s = time.monotonic()
        worked_s = now_s - (now_s if self._group_began_s is None else self._group_began_s)
        self._group_began_s = None
        self._hand_over(_Group(lines, following, worked_s), then)

    def _hand_over(self, group: _Group, then: Then) -> None:
        if self._writer is None:
            self._written(group, then, self._tried(group))
            return
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(self._writer, self._tried, group)
        writing.add_done_callback(lambda done: self._written(group, then, done.result()))

    def _written(self, group: _Group, then: Then, error: Exception | None) -> None:
        self._retry = None
        if self.full and self._looking is None and self._patient:
            self._became_full()
        if isinstance(error, NoRoom) and self._patient:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(RETRY_S, self._hand_over, group, then), then
        else:
            then(error)

    def _became_full(self) -> None:
        log.warning("the journal's disk is full", extra=about(journal=str(self._directory)))
        self._look_for_room()

    def _look_for_room(self) -> None:
        """Until the reserve can be made again."""
        self._looking = None
        if not self._reserve.make():
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(RETRY_S, self._look_for_room)
        else:
            log.info("the journal's disk has room", extra=about(journal=str(self._directory)))

    def stop_waiting(self) -> None:
        """Have a group that waits for room fail, now or whenever it comes to that."""
        self._patient = False
        if self._retry is not None:
            (retry, then), self._retry = self._retry, None
            retry.cancel()
            then(self._no_room())

    def end_segment(self) -> None:
        """Have another segment begin with the next group."""
        self._limit_bytes = 0

    def current(self) -> Segment:
        """The segment that is written to. Only between groups is it whole."""
        return read_segment(read_lines(segment_files(self._directory)[-1]))

    def finish(self) -> None:
        """A good end: a last segment with nothing but a snapshot, from which another version, or
        one with another catalog, can go on."""
        self._end_writer()  # it may be in the middle of a group, and has the file
        try:
            if self._opening is not None:
                error = self._tried(_Group([], self._opening()))
                if error is not None:
                    raise error
        finally:
            self.close()

    def close(self) -> None:
        self._patient = False
        waiting = [self._looking, self._retry[0] if self._retry is not None else None]
        for timer in filter(None, waiting):
            timer.cancel()
        self._end_writer()
        if self._file is not None:
            self._file.close()
        os.close(self._lock)

    def _end_writer(self) -> None:
        """Wait until all is written that was handed over."""
        if self._writer is not None:
            self._writer.shutdown()

    def _is_full(self) -> bool:
        return self._size > self._limit_bytes or self._worked_s > self._limit_work_s

    # ---- in the writer's thread

    def _tried(self, group: _Group) -> Exception | None:
        """Write a group, with what the reserve has if there is no other room: what went wrong."""
        try:
            try:
                self._write_group(group)
            except OSError as error:
                if not is_no_room(error) or not self._reserve.give_away():
                    raise
                self._write_group(group)
        except OSError as error:
            return self._no_room() if is_no_room(error) else self._fault(error)
        except Fault as fault:
            return fault
        return None

    def _write_group(self, group: _Group) -> None:
        if group.following is not None:
            self._next_segment(group.following)
            group.following = None
        if group.lines:
            # Where the last attempt had no room, these are the same bytes
            data, check = sealed_group(group.lines, self._check)
            self._write(data)
            self._check = check
            self._worked_s += group.worked_s

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        end = self._file.tell()
        try:
            _write_all(self._file, data)
        except OSError:
            # Nobody was told of what is there of it; the next attempt begins where this one did
            self._file.truncate(end)
            self._file.seek(end)
            raise
        self._size += len(data)
        if self._sync:
            # On a slow disk one sync for many groups is cheaper than one for each
            pause_s = self._synced_s + self._pause_s - time.monotonic()
            if pause_s > 0:
                time.sleep(pause_s)
            self._synced(os.fdatasync, self._file.fileno())
            self._synced_s = time.monotonic()

    def _synced(self, sync: Callable[[int], None], file: int) -> None:
        """After a failure the kernel may forget what it could not write, and say nothing the next
        time: so it is the end, whatever the reason."""
        try:
            sync(file)
        except OSError as error:
            raise self._fault(error) from None

    def _next_segment(self, following: Callable[[], str]) -> None:
        """Written under another name first: a segment has its snapshot, or it is not there."""
        segments = segment_files(self._directory)
        number = 1 + (int(segments[-1].stem) if segments else 0)
        unfinished = self._directory / f"{number:08}.unfinished"
        began_s = time.monotonic()
        header, check = sealed_header(self._header, self._check)
        snapshot, check = sealed_group([following()], check)
        file = unfinished.open("wb", buffering=0)
        try:
            _write_all(file, header + snapshot)
            os.fsync(file.fileno())
            unfinished.rename(unfinished.with_suffix(".journal"))
        except OSError:
            file.close()
            unfinished.unlink(missing_ok=True)
            raise
        self._synced(os.fsync, self._lock)
        if self._file is not None:
            self._file.close()
        # Where much is remembered, snapshots are large, and the more has to happen between them
        self._file, self._size, self._worked_s, self._check = file, 0, 0.0, check
        self._limit_bytes = max(self._least_bytes, len(snapshot))
        self._limit_work_s = max(self._least_work_s, RARELY * (time.monotonic() - began_s))
        for old in segments[: max(0, len(segments) - self._kept)]:
            with suppress(FileNotFoundError):
                old.unlink()

    def _refusal(self, error: OSError) -> Rejected:
        return Rejected(
            f"journal {self._directory}: cannot be a journal's directory: {error.strerror}; name "
            "another one (controller.journal)"
        )

    def _no_room(self) -> NoRoom:
        return NoRoom(
            f"journal {self._directory}: no room for it; nothing was done that it does not know "
            "of. Make room there and start the controller again"
        )

    def _fault(self, error: OSError) -> Fault:
        return Fault(
            f"journal {self._directory}: cannot be written: {error.strerror}; nothing was done "
            "that it does not know of. Make room there and start the controller again"
        )


def _write_all(file: RawIOBase, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]
