"""A reserve of disk space: a file that is deleted when the disk is full.

Its room lets a journal go on for a while, so that what is under way can end; new requests are
refused meanwhile. It is made again when it fits with something to spare, so that a disk with room
for just one more entry is not taken for one that has room.
"""

import errno
import os
import threading
from pathlib import Path

RESERVE_BYTES = 16_000_000
"""For some seven hundred requests under way with the largest results that come along with reports,
and many more with small ones."""
SPARE_BYTES = 1_000_000


def is_no_room(error: OSError) -> bool:
    """Whether it is for want of room, on the disk or in a quota: that may pass."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class JournalReserve:
    """The file, in the directory of a journal. May be used by several threads."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "reserve"
        self._lock = threading.Lock()
        self.is_there = self._path.exists()

    def make(self) -> bool:
        """Whether it is there, or could be made."""
        with self._lock:
            if not self.is_there:
                try:
                    self._allocate()
                    self.is_there = True
                except OSError:  # whatever it is, what is not there cannot be relied on
                    self._path.unlink(missing_ok=True)
            return self.is_there

    def _allocate(self) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.posix_fallocate(file, 0, RESERVE_BYTES + SPARE_BYTES)
            os.ftruncate(file, RESERVE_BYTES)
        finally:
            os.close(file)

    def give_away(self) -> bool:
        """Make room of it; whether there was any."""
        with self._lock:
            was_there, self.is_there = self.is_there, False
            self._path.unlink(missing_ok=True)
            return was_there


def has_room(directory: Path, needed: int) -> bool:
    """Whether so many bytes are free."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize > needed
