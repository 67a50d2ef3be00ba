"""Large data in files of a directory in memory that the processes of one machine share.

A value that its writer put there is its reader's by mapping it: it goes through no socket and no
server, and no process copies it. The names say whose it is, and for a payload, what is in it:

    DIRECTORY/data-REQUEST,STAGE     a value; for a payload, `payload_stage` is the stage
    DIRECTORY/writing-TOKEN-7        one that is not complete yet

A file is written under another name and renamed when it is complete, so that a reader finds all of
it or nothing, also if two write the same at once. What is mapped stays good when its file is
removed. Nobody has to ask anybody: whoever has had a value removes it, and what a crash left behind
is removed when it is old, as keys in Redis expire. The directory is its user's alone.

There is room for so much, and no promise: whoever hears that a value has no place here puts it
elsewhere. So it is when the directory is full, or gone. Calls wait for nothing but memory.
"""

import logging
import mmap
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from stat import S_IMODE, S_ISDIR

from esg.errors import Rejected
from esg.runtime.logs import about
from esg.storage.local_store import safe_name

log = logging.getLogger(__name__)

LARGE_BYTES = 16 * 1024
"""What has no more than that is no matter: it costs less in a message, or in Redis."""
LOOK_S = 0.2
"""How long a look at what is in the directory is good for; others write there, too."""
READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OURS = ("data-", "writing-")


class SharedStore:
    """Has at most `limit_bytes`, and at most half of what the file system has room for."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory = os.path.abspath(directory)
        self._token = secrets.token_hex(6)
        self._numbers = count()
        self._used_bytes, self._looked_s = 0, float("-inf")
        self._failed = False
        try:
            Path(self._directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            found = os.lstat(self._directory)
            system = os.statvfs(self._directory)
        except OSError as error:
            raise self._unfit(f"cannot be made: {error.strerror}") from None
        private = S_ISDIR(found.st_mode) and not S_IMODE(found.st_mode) & 0o077
        if not private or found.st_uid != os.geteuid():
            # Whoever else could write there could put something else in place of what we keep
            raise self._unfit("others may read it or own it, or it is a link")
        self._limit_bytes = min(limit_bytes, system.f_blocks * system.f_frsize // 2)

    def has_room(self, size: int) -> bool:
        now_s = time.monotonic()
        if now_s - self._looked_s > LOOK_S:
            self._looked_s = now_s
            try:
                self._used_bytes = sum(entry.stat().st_size for entry in self._entries())
            except OSError as error:
                self._used_bytes = self._limit_bytes
                self._fails(error)
            else:
                self._fails(None)
        return self._used_bytes + size <= self._limit_bytes

    def put(self, request: str, stage: str, content: bytes | memoryview) -> bool:
        """Write a value, in place of any that was there; whether it is there now."""
        view = memoryview(content).cast("B")
        unfinished = f"{self._directory}/writing-{self._token}-{next(self._numbers)}"
        if not self.has_room(len(view)):
            return False
        try:
            _write(unfinished, view)
            os.rename(unfinished, self._path(request, stage))
        except OSError as error:
            with suppress(OSError):
                os.unlink(unfinished)
            self._fails(error)
            return False
        self._used_bytes += len(view)
        return True

    def get(self, request: str, stage: str) -> memoryview | None:
        """A value, read-only and as long as it is held; None if it is not here."""
        try:
            descriptor = os.open(self._path(request, stage), READ_ONLY)
        except OSError:
            return None  # it is elsewhere, or nowhere
        try:
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError):  # nobody has put an empty one here
            return None
        finally:
            os.close(descriptor)

    def remove(self, request: str, stage: str) -> bool:
        """Whether it was here."""
        try:
            os.unlink(self._path(request, stage))
        except OSError:
            return False
        return True

    def sweep(self, age_s: float) -> None:
        """Remove what nobody has come for in so long a time."""
        oldest_s = time.time() - age_s
        with suppress(OSError):
            for entry in self._entries():
                if entry.name.startswith(OURS) and entry.stat().st_mtime < oldest_s:
                    os.unlink(entry.path)

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """The files that are there; one may go at any moment."""
        with os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    entry.stat(follow_symlinks=False)  # which it keeps
                    yield entry

    def _path(self, request: str, stage: str) -> str:
        return f"{self._directory}/data-{safe_name(request)},{safe_name(stage)}"

    def _fails(self, error: OSError | None) -> None:
        """Says so once, not for every value."""
        failed, self._failed = self._failed, error is not None
        if error is not None and not failed:
            where = about(directory=self._directory, reason=error.strerror)
            log.warning("no shared directory: large data goes through Redis", extra=where)

    def _unfit(self, why: str) -> Rejected:
        return Rejected(
            f"shared_data: {self._directory}: {why}; name a directory that is this user's alone "
            "(chmod 700), or none"
        )


def _write(path: str, view: memoryview) -> None:
    descriptor = os.open(path, NEW, 0o600)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
