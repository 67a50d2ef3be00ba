"""The journal on disk: a directory of segments, each of which begins with all that is remembered.

    JOURNAL/00000007.journal       an older one, kept for replays and bug reports
    JOURNAL/00000008.journal       the one that is written to
    JOURNAL/00000009.unfinished    one that a crash left before it had begun

Entries are handed over in groups, and a group counts when it is durable: on disk, if `sync` is
wanted, otherwise with the operating system, from where it survives the end of this process but not
of the machine. A segment that has become too large, or whose events took too long to handle, is
followed by another one, whose snapshot makes the older ones dispensable; so the disk used and the
time to start again stay bounded.

Whatever cannot be written is an error that ends the controller: to go on unjournaled would be to
promise what nobody could keep. A line that was not written to its end, because of a crash, is cut
off when the directory is opened: nothing had been done because of it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import RawIOBase
from pathlib import Path

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
from esg.runtime.journal_files import cut_torn_end, read_lines, segment_files
from esg.runtime.logs import about
from esg.runtime.settings import ControllerSettings

log = logging.getLogger(__name__)

Opening = Callable[[], Callable[[], str]]
"""Takes down at once what is remembered now; what it returns makes a segment's second line of it,
and may be called in another thread."""
Then = Callable[[Exception | None], None]

RARELY = 4
"""So many times as long as a snapshot took is worked before there is another one."""


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
        self._size = 0  # of the entries in this segment
        self._worked_s = 0.0  # what they took to be handled, and so will again
        self._group_began_s: float | None = None
        self._file: RawIOBase | None = None
        self._writer = ThreadPoolExecutor(1, "journal") if settings.sync else None
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

    # ---- what was written before

    def past(self) -> Segment | None:
        """The latest segment, if there is one, without a torn end."""
        segments = segment_files(self._directory)
        if not segments:
            return None
        path = segments[-1]
        try:
            cut = cut_torn_end(path)
        except OSError as error:
            raise self._refusal(error) from None
        if cut:
            log.warning("torn end cut off", extra=about(segment=str(path), bytes=cut))
        return read_segment(read_lines(path), any_version=True)

    # ---- what happens now

    def begin(self, header: Header, opening: Opening) -> None:
        """Start a segment: from now on everything is written down."""
        self._header = header_line(header)
        self._opening = opening
        try:
            self._next_segment(opening())
        except OSError as error:
            raise self._fault(error) from None

    def begin_group(self) -> None:
        """Before the first event of a group is handled, and after all before it was carried out:
        what is remembered then is whole. In between, a request that is answered is no longer under
        way, but has not been remembered as ended either. So segments end here, and only here."""
        assert self._opening is not None
        if self._is_full():
            self._following = self._opening()
        self._group_began_s = time.monotonic()

    def append(
        self, now_us: int, event: Event, commands: list[Command], memo: Memo | None = None
    ) -> None:
        self._lines.append(entry_line(JournalEntry(now_us, event, orders_digest(commands), memo)))

    def flush(self, then: Then) -> None:
        """Make durable what was appended; `then` is called in this loop, with what went wrong if
        anything did. Until then, nothing more may be appended."""
        self._lines.append("")
        data = "\n".join(self._lines).encode()
        self._lines.clear()
        following, self._following = self._following, None
        now_s = time.monotonic()
        worked_s = now_s - (now_s if self._group_began_s is None else self._group_began_s)
        self._group_began_s = None
        if self._writer is None:
            then(self._tried(data, following, worked_s))
            return
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(self._writer, self._tried, data, following, worked_s)
        writing.add_done_callback(lambda written: then(written.result()))

    def finish(self) -> None:
        """A good end: a last segment with nothing but a snapshot, from which another version, or
        one with another catalog, can go on."""
        self._end_writer()  # it may be in the middle of a group, and has the file
        try:
            if self._opening is not None:
                self._next_segment(self._opening())
        except OSError as error:
            raise self._fault(error) from None
        finally:
            self.close()

    def close(self) -> None:
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

    def _tried(
        self, data: bytes, following: Callable[[], str] | None, worked_s: float
    ) -> Exception | None:
        try:
            if following is not None:
                self._next_segment(following)
            self._write(data)
            self._worked_s += worked_s
        except OSError as error:
            return self._fault(error)
        return None

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        _write_all(self._file, data)
        self._size += len(data)
        if self._sync:
            # On a slow disk one sync for many groups is cheaper than one for each
            pause_s = self._synced_s + self._pause_s - time.monotonic()
            if pause_s > 0:
                time.sleep(pause_s)
            os.fdatasync(self._file.fileno())
            self._synced_s = time.monotonic()

    def _next_segment(self, following: Callable[[], str]) -> None:
        """Written under another name first: a segment has its snapshot, or it is not there."""
        segments = segment_files(self._directory)
        number = 1 + (int(segments[-1].stem) if segments else 0)
        unfinished = self._directory / f"{number:08}.unfinished"
        began_s = time.monotonic()
        snapshot = following()
        data = f"{self._header}\n{snapshot}\n".encode()
        file = unfinished.open("wb", buffering=0)
        try:
            _write_all(file, data)
            os.fsync(file.fileno())
            unfinished.rename(unfinished.with_suffix(".journal"))
            os.fsync(self._lock)
        except OSError:
            file.close()
            raise
        if self._file is not None:
            self._file.close()
        # Where much is remembered, snapshots are large, and the more has to happen between them
        self._file, self._size, self._worked_s = file, 0, 0.0
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

    def _fault(self, error: OSError) -> Fault:
        return Fault(
            f"journal {self._directory}: cannot be written: {error.strerror}; nothing was done "
            "that it does not know of. Make room there and start the controller again"
        )


def _write_all(file: RawIOBase, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]
