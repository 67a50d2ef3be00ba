"""A node's private directory for the slices it starts, and their shared memory beside it.

    esg-slices-TOKEN/           locked while its node lives, and closed to other users
      slice:4                   the Unix socket on which slice 3 listens
      models/ backends/         linked, for Triton servers
    esg-slices-TOKEN-3-1        a region of slice 3
    esg-slices-TOKEN-3...       what the Python backend of slice 3 keeps there

All are in /dev/shm, where names in shared memory are files. The kernel gives the lock up however a
node ends, so the next one to start sees what was left behind by those that crashed, and removes it.

A slice asks nobody who calls: whoever reaches it may unload its models or read its shared memory.
So it has no port, which every user of the machine could reach, but a socket where only its own may
look.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from esg.errors import Rejected
from esg.files import LONGEST_SOCKET_PATH, MEMORY, lock_directory, memory_folder
from esg.invoker.slices.shm.region import PREFIX
from esg.runtime.slice_setting import MOST

SOCKET = "slice"
TOKEN_BYTES = 6


@dataclass(frozen=True, slots=True)
class SliceDirectory:
    path: Path
    shared: bool
    """Whether there is memory to share."""

    def socket(self, index: int) -> Path:
        """Where a slice listens. Triton puts a number behind the name that it is given, as if that
        were a host and a port; so all have one."""
        return self.path / f"{SOCKET}:{index + 1}"

    def memory_name(self, index: int) -> str:
        """What the names of a slice's shared memory begin with."""
        return f"{self.path.name}-{index}"

    def clear_memory(self, index: int) -> None:
        """Remove what a server left in memory that did not end in peace."""
        if self.shared:
            _unlink_all(f"{self.memory_name(index)}-")


@contextmanager
def slice_directory() -> Iterator[SliceDirectory]:
    """A new one, gone afterwards; those of nodes that are no more go now."""
    memory = memory_folder()
    parent = memory or Path(tempfile.gettempdir())
    _check_room_for_sockets(parent)
    for left in parent.glob(f"{PREFIX}*/"):
        _remove_if_left(left)
    path, lock = _made(parent)
    try:
        yield SliceDirectory(path, memory is not None)
    finally:
        _remove(path)
        os.close(lock)


def _check_room_for_sockets(parent: Path) -> None:
    usual = parent / f"{PREFIX}{secrets.token_hex(TOKEN_BYTES)}" / f"{SOCKET}:{MOST}"
    if len(os.fsencode(usual)) > LONGEST_SOCKET_PATH:
        raise Rejected(
            f"{parent}: its path is too long for the sockets of slices; make {MEMORY} writable, or "
            "set TMPDIR to a directory with a shorter path"
        )


def _made(parent: Path) -> tuple[Path, int]:
    while True:
        path = parent / f"{PREFIX}{secrets.token_hex(TOKEN_BYTES)}"
        path.mkdir(mode=0o700)
        lock = _locked(path)
        if lock is not None:
            if path.exists():
                return path, lock
            os.close(lock)  # a node that starts now took it for one that was left


def _locked(path: Path) -> int | None:
    try:
        return lock_directory(path)
    except OSError:
        return None


def _remove_if_left(path: Path) -> None:
    lock = _locked(path)
    if lock is not None:
        _remove(path)
        os.close(lock)


def _remove(path: Path) -> None:
    if path.parent == MEMORY:
        _unlink_all(f"{path.name}-")
    shutil.rmtree(path, ignore_errors=True)


def _unlink_all(beginning: str) -> None:
    for file in MEMORY.glob(f"{beginning}*"):
        with suppress(OSError):
            file.unlink()
