"""The journal on disk: a directory of segments, each of which begins with all that is remembered.

    JOURNAL/00000007.journal       an older one, kept for replays and bug reports
    JOURNAL/00000008.journal       the one that is written to
    JOURNAL/00000009.unfinished    one that a crash left before it had begun
    JOURNAL/00000006.damaged       one as it was before it was salvaged
    JOURNAL/reserve                room for when there is none (see `journal_reserve`)

Entries are handed over in groups. A group is first written, to the operating system, from where it
survives the end of this process; that takes some ten microseconds, and is done in the loop. It is
durable, so that it survives the end of the machine, after the next sync. Who needs that asks for a
sync: one is enough for all groups before it. A disk that syncs quickly is waited for in the loop,
as handing the work to a thread and back costs more than the work; a slow one in a thread,
meanwhile groups are written on. A segment that has become too large, or whose events took too long
to handle, is followed by another one, whose snapshot makes the older ones dispensable; so the disk
used and the time to start again stay bounded.

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
from dataclasses import dataclass
from pathlib import Path

from esg.controller.durability.past import ADVICE, read_past
from esg.controller.durability.reserve import JournalReserve, has_room, is_no_room
from esg.controller.durability.salvage import salvage
from esg.controller.durability.segment_writer import SegmentWriter, SyncFailed
from esg.core.journal.checksums import Damaged
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

RETRY_S = 1.0
QUICK_S = 0.001
"""A disk that took no longer for its last sync is waited for in the loop."""
FULL = (
    "the journal's disk is full: what is under way goes on, and new requests are taken as soon as "
    "there is room again"
)


@dataclass(slots=True)
class _Group:
    """What is written together; before it, a segment to begin, unless that has been done."""

    lines: list[str]
    following: Callable[[], str] | None
    worked_s: float = 0.0


class NoRoom(Fault):
    """The disk is full. Nothing is half written."""


class Journal:
    """A controller's write-ahead log with group commit. One process at a time has it."""

    def __init__(self, directory: Path, settings: ControllerSettings) -> None:
        self._directory = directory
        self._sync = settings.sync
        self._pauses = settings.sync_ms > 0
        self._header = ""
        self._opening: Opening | None = None
        self._following: Callable[[], str] | None = None  # a segment to begin with the next group
        self._lines: list[str] = []
        self._salvage = settings.journal_salvage
        self._group_began_s: float | None = None
        self._writer = ThreadPoolExecutor(1, "journal") if settings.sync else None
        self._handed_over = 0  # jobs that the writer's thread has to do
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
        self._segment = SegmentWriter(directory, lock, settings)
        for unfinished in directory.glob("*.unfinished"):
            unfinished.unlink()
        self._reserve = JournalReserve(directory)

    @property
    def full(self) -> bool:
        """Whether there is no more room than what is under way may need."""
        return self._opening is not None and not self._reserve.is_there

    @property
    def syncs(self) -> int:
        """How often what was written was synced since the process began."""
        return self._segment.syncs

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
        self._segment.check = past.check
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
        segment = self._segment
        if segment.is_full and not self.full and has_room(self._directory, segment.limit_bytes):
            self._following = self._opening()
        self._group_began_s = time.monotonic()

    def append(
        self, now_us: int, event: Event, commands: list[Command], memo: Memo | None = None
    ) -> None:
        self._lines.append(entry_line(JournalEntry(now_us, event, orders_digest(commands), memo)))

    def write(self, then: Then) -> None:
        """Give what was appended to the operating system; `then` is called with what went wrong, if
        anything did: at once, unless a segment begins, or there is no room. Until then, nothing
        more may be appended."""
        lines, self._lines = self._lines, []
        following, self._following = self._following, None
        now_s = time.monotonic()
        worked_s = now_s - (now_s if self._group_began_s is None else self._group_began_s)
        self._group_began_s = None
        self._hand_over(_Group(lines, following, worked_s), then)

    def sync(self, then: Then) -> None:
        """Make durable what has been written so far; `then` is called with what went wrong, if
        anything did. One at a time."""
        if not self._sync:
            then(None)
        elif self._pauses or self._segment.sync_took_s > QUICK_S or self._handed_over:
            self._in_thread(self.sync_now, then)
        else:
            then(self.sync_now())

    def _hand_over(self, group: _Group, then: Then) -> None:
        def written(error: Exception | None) -> None:
            self._written(group, then, error)

        if group.following is not None:
            self._in_thread(lambda: self._tried(group), written)
        else:
            written(self._tried(group))

    def _in_thread(self, work: Callable[[], Exception | None], then: Then) -> None:
        """Do what may take long in the writer's thread, one after the other."""
        if self._writer is None:
            then(work())
            return

        def done(future: "asyncio.Future[Exception | None]") -> None:
            self._handed_over -= 1
            then(future.result())

        self._handed_over += 1
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._writer, work).add_done_callback(done)

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
        self._segment.limit_bytes = 0

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
        self._segment.close()
        os.close(self._lock)

    def _end_writer(self) -> None:
        """Wait until all is written that was handed over."""
        if self._writer is not None:
            self._writer.shutdown()

    # ---- in the loop, or in the writer's thread

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
        except SyncFailed as error:
            return self._fault(error.__cause__)
        return None

    def _write_group(self, group: _Group) -> None:
        if group.following is not None:
            self._segment.begin_segment(self._header, group.following)
            group.following = None
        if group.lines:
            self._segment.write(group.lines, group.worked_s)

    def sync_now(self) -> Exception | None:
        """Wait until what has been written so far is on disk: what went wrong."""
        try:
            self._segment.sync()
        except SyncFailed as error:
            return self._fault(error.__cause__)
        return None

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

    def _fault(self, error: BaseException | None) -> Fault:
        why = error.strerror if isinstance(error, OSError) else error
        return Fault(
            f"journal {self._directory}: cannot be written: {why}; nothing was promised "
            "that it does not know of. Make room there and start the controller again"
        )
