"""The segment that is written to: groups of lines with checksums, syncs, and the next segment.

What fails here raises what the kernel said: whether that is the end, and what to say of it, is the
journal's to decide. After a sync that failed the kernel may forget what it could not write, and say
nothing the next time: so `SyncFailed` is the end, whatever the reason.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import RawIOBase
from pathlib import Path

from esg.core.journal.checksums import sealed_group, sealed_header
from esg.runtime.journal_files import segment_files
from esg.runtime.settings import ControllerSettings

RARELY = 4
"""So many times as long as a snapshot took is worked before there is another one."""


class SyncFailed(Exception):
    """What was written may not be on disk, and never will be. Its cause says why."""


class SegmentWriter:
    """The latest segment of a journal. `directory_handle` is open, for syncing names."""

    def __init__(
        self, directory: Path, directory_handle: int, settings: ControllerSettings
    ) -> None:
        self.check = 0
        """The checksum of the latest line that is written."""
        self.sync_took_s = 0.0
        self.syncs = 0
        """Since the process began, for its metrics."""
        self.limit_bytes = self._least_bytes = int(settings.segment_mb * 1_000_000)
        self._directory = directory
        self._directory_handle = directory_handle
        self._sync = settings.sync
        self._pause_s = settings.sync_ms / 1000
        self._synced_s = 0.0  # when the last sync ended
        self._synced: int | None = None  # so much of the file is on disk, which it does not say yet
        self._limit_work_s = self._least_work_s = settings.segment_work_s
        self._kept = settings.kept_segments
        self._size = 0  # of the entries in this segment
        self._worked_s = 0.0  # what they took to be handled, and so will again
        self._file: RawIOBase | None = None

    @property
    def is_full(self) -> bool:
        """Whether another segment should follow."""
        return self._size > self.limit_bytes or self._worked_s > self._limit_work_s

    def write(self, lines: Sequence[str], worked_s: float) -> None:
        """Write a group: all of it, or nothing."""
        assert self._file is not None
        # Where the last attempt had no room, these are the same bytes
        synced = self._synced
        data, check = sealed_group(lines, self.check, synced)
        end = self._file.tell()
        try:
            write_all(self._file, data)
        except OSError:
            # Nobody was told of what is there of it; the next attempt begins where this one did
            self._file.truncate(end)
            self._file.seek(end)
            raise
        self._size += len(data)
        self._worked_s += worked_s
        self.check = check
        if self._synced == synced:
            self._synced = None  # it says so

    def sync(self) -> None:
        """Wait until what has been written so far is on disk."""
        assert self._file is not None
        # On a slow disk one sync for many groups is cheaper than one for each
        pause_s = self._synced_s + self._pause_s - time.monotonic()
        if pause_s > 0:
            time.sleep(pause_s)
        began_s = time.monotonic()
        size = self._file.tell()
        _make_durable(os.fdatasync, self._file.fileno())
        self.syncs += 1
        self._synced = size
        self._synced_s = time.monotonic()
        self.sync_took_s = self._synced_s - began_s

    def begin_segment(self, header: str, following: Callable[[], str]) -> None:
        """Begin the next one. It is written under another name first: a segment has its snapshot,
        or it is not there."""
        segments = segment_files(self._directory)
        number = 1 + (int(segments[-1].stem) if segments else 0)
        unfinished = self._directory / f"{number:08}.unfinished"
        began_s = time.monotonic()
        first, check = sealed_header(header, self.check)
        snapshot, check = sealed_group([following()], check)
        file = unfinished.open("wb", buffering=0)
        try:
            write_all(file, first + snapshot)
            os.fsync(file.fileno())
            unfinished.rename(unfinished.with_suffix(".journal"))
        except OSError:
            file.close()
            unfinished.unlink(missing_ok=True)
            raise
        _make_durable(os.fsync, self._directory_handle)
        if self._file is not None and self._sync:
            _make_durable(os.fdatasync, self._file.fileno())
        self.close()
        self._file, self._synced, self._size, self._worked_s = file, None, 0, 0.0
        self.check = check
        # Where much is remembered, snapshots are large, and the more has to happen between them
        self.limit_bytes = max(self._least_bytes, len(snapshot))
        self._limit_work_s = max(self._least_work_s, RARELY * (time.monotonic() - began_s))
        for old in segments[: max(0, len(segments) - self._kept)]:
            with suppress(FileNotFoundError):
                old.unlink()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _make_durable(sync: Callable[[int], None], handle: int) -> None:
    try:
        sync(handle)
    except OSError as error:
        raise SyncFailed from error


def write_all(file: RawIOBase, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]
