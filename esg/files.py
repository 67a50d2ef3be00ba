"""Files that are there when they are complete, or not at all; directories that one process has;
files that are memory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE
from typing import TextIO

from esg.errors import Rejected

MEMORY = Path("/dev/shm")
"""Files here are memory, and shared memory has its names here."""
LONGEST_SOCKET_PATH = 107
"""In bytes, for the path of a Unix socket: the kernel's structure has no room for more."""


def memory_folder() -> Path | None:
    """Where files are memory, if this process may make some there."""
    return MEMORY if os.access(MEMORY, os.W_OK) else None


def lock_directory(path: Path) -> int | None:
    """Take a directory for this process alone; None if another process has it.

    It is ours until the descriptor is closed, or this process ends, however it does.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def written(path: Path, *, private: bool = False) -> Iterator[TextIO]:
    """A file to write to; it gets its name when all went well.

    Others cannot read a private one, unless it replaces one that they can read.
    """
    # In the same folder, because only within one file system is renaming atomic
    unfinished = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        with _opened(path, unfinished, 0o600 if private else 0o666) as file:
            yield file
        unfinished.replace(path)
    finally:  # around the opening too: Ctrl-C may come at any moment
        with suppress(OSError):
            unfinished.unlink()


def _opened(path: Path, unfinished: Path, mode: int) -> TextIO:
    try:
        if path.exists() and not path.is_file():
            raise Rejected(f"{path}: is not a regular file; name another one")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        if path.exists():
            os.fchmod(descriptor, S_IMODE(path.stat().st_mode))
        return os.fdopen(descriptor, "w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise Rejected(
            f"{path}: cannot be written: {error.strerror}; name a file in a folder you can write to"
        ) from None
