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
elsewhere. So it is when the directory is full, or gone. Calls wait for nothing but memory; a look
at all that is there takes longer the more there is, and so is taken less often.
"""

import logging
import mmap
import os
import secrets
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from stat import S_IMODE

from esg.errors import Rejected
from esg.runtime.logs import about
from esg.storage.local_store import safe_name

log = logging.getLogger(__name__)

LARGE_BYTES = 16 * 1024
"""What has no more than that is no matter: it costs less in a message, or in Redis."""
LOOK_S = 0.2
"""How long a look at what is in the directory is good for, at least; others write there, too."""
LOOK_SHARE = 0.05
"""The most of its time that a process may look."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OURS = ("data-", "writing-")


class SharedStore:
    """Has at most `limit_bytes`, and at most half of what the file system has room for."""

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self._directory = os.path.abspath(directory)
        self._token = secrets.token_hex(6)
        self._numbers = count()
        self._used_bytes, self._look_at_s = 0, float("-inf")
        self._failed = False
        try:
            Path(self._directory).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._unfit(f"cannot be made: {error.strerror}") from None
        self._folder = self._opened()
        weakref.finalize(self, os.close, self._folder)
        system = os.fstatvfs(self._folder)
        self._limit_bytes = min(limit_bytes, system.f_blocks * system.f_frsize // 2)

    def has_room(self, size: int) -> bool:
        now_s = time.monotonic()
        if now_s >= self._look_at_s:
            try:
                if not os.fstat(self._folder).st_nlink:
                    self._open_anew()
                self._used_bytes = sum(entry.stat().st_size for entry in self._entries())
            except (OSError, Rejected) as error:
                self._used_bytes = self._limit_bytes
                self._fails(error)
            else:
                self._fails(None)
            took_s = time.monotonic() - now_s
            self._look_at_s = now_s + max(LOOK_S, took_s / LOOK_SHARE)
        return self._used_bytes + size <= self._limit_bytes

    def put(self, request: str, stage: str, content: bytes | memoryview) -> bool:
        """Write a value, in place of any that was there; whether it is there now."""
        view = memoryview(content).cast("B")
        unfinished = f"writing-{self._token}-{next(self._numbers)}"
        if not self.has_room(len(view)):
            return False
        try:
            self._write(unfinished, view)
            name = _name(request, stage)
            os.rename(unfinished, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=self._folder)
            self._fails(error)
            return False
        self._used_bytes += len(view)
        return True

    def get(self, request: str, stage: str) -> memoryview | None:
        """A value, read-only and as long as it is held; None if it is not here."""
        try:
            descriptor = os.open(_name(request, stage), READ_ONLY, dir_fd=self._folder)
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
            os.unlink(_name(request, stage), dir_fd=self._folder)
        except OSError:
            return False
        return True

    def sweep(self, age_s: float) -> None:
        """Remove what nobody has come for in so long a time."""
        oldest_s = time.time() - age_s
        with suppress(OSError):
            for entry in self._entries():
                if entry.name.startswith(OURS) and entry.stat().st_mtime < oldest_s:
                    with suppress(FileNotFoundError):  # others sweep, too
                        os.unlink(entry.name, dir_fd=self._folder)

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """The files that are there; one may go at any moment."""
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    entry.stat(follow_symlinks=False)  # which it keeps
                    yield entry

    def _write(self, name: str, view: memoryview) -> None:
        descriptor = os.open(name, NEW, 0o600, dir_fd=self._folder)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        """Held from now on: whatever comes under its name later is another one."""
        try:
            folder = os.open(self._directory, FOLDER)
        except OSError as error:
            raise self._unfit(f"cannot be opened, or is a link: {error.strerror}") from None
        found = os.fstat(folder)
        if S_IMODE(found.st_mode) & 0o077 or found.st_uid != os.geteuid():
            # Whoever else could write there could put something else in place of what we keep
            os.close(folder)
            raise self._unfit("others may read it or own it")
        return folder

    def _open_anew(self) -> None:
        """It was removed; there may be another one."""
        folder = self._opened()
        os.dup2(folder, self._folder, inheritable=False)
        os.close(folder)

    def _fails(self, error: OSError | Rejected | None) -> None:
        """Says so once, not for every value."""
        failed, self._failed = self._failed, error is not None
        if error is not None and not failed:
            where = about(directory=self._directory, reason=str(error))
            log.warning("no shared directory: large data goes through Redis", extra=where)

    def _unfit(self, why: str) -> Rejected:
        return Rejected(
            f"shared_data: {self._directory}: {why}; name a directory that is this user's alone "
            "(chmod 700), or none"
        )


def _name(request: str, stage: str) -> str:
    return f"data-{safe_name(request)},{safe_name(stage)}"
