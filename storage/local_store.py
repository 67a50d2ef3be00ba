"""The data of one node: small outputs in memory, a file for every other one.

Nothing of it outlives the node's process, so a small output need not be a file: it is kept in
memory, while there is room there. The directory of the store should be in memory (tmpfs). A file is
written under another name and renamed when it is complete, so that a reader finds all of it or
nothing. A large file is mapped rather than read; the mapping stays good when the file is discarded,
because the kernel keeps what is mapped. Calls do not wait for anything but memory, so coroutines
make them directly: writing takes about half a millisecond per megabyte.

    DIRECTORY/request-r1/stage-deblur      an output
    DIRECTORY/writing-1234-7               one that is not complete yet

Nothing but such names is ever touched: a store in a directory with other contents leaves them be.
Another process may put outputs there, as files, and have this one read them.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path

from esg.errors import Fault, Rejected
from esg.names import PLAIN
from esg.storage.errors import Missing

SMALL_BYTES = 64 * 1024
"""Below that an output is kept in memory, and if it is in a file, reading is cheaper than
mapping."""
MEMORY_BYTES = 64 * 2**20
"""How much is kept in memory at most, of all outputs together."""
ENTRY_BYTES = 512
"""What an output takes there besides its content, at most."""


class LocalStore:
    def __init__(self, directory: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self._directory = os.path.abspath(directory)
        self._numbers = count()
        self._memory: dict[str, dict[str, bytes]] = {}
        """Outputs by request and stage."""
        self._room_bytes = memory_bytes
        self._on_disk: set[str] = set()
        """Requests that there may be files of."""
        try:
            Path(self._directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = os.stat(self._directory).st_uid
        except OSError as error:
            raise Rejected(
                f"{directory}: cannot be the directory for local data: {error.strerror}; "
                "name another one"
            ) from None
        if owner != os.geteuid():
            # Whoever owns it could read what we keep, and put something else in its place
            raise Rejected(
                f"{directory}: cannot be the directory for local data: it belongs to another user; "
                "name another one"
            )

    def put(self, request: str, stage: str, content: bytes | memoryview) -> None:
        """Keep the output of a stage, in place of any that was there."""
        size = content.nbytes if isinstance(content, memoryview) else len(content)
        if size < SMALL_BYTES and size + ENTRY_BYTES <= self._room_bytes:
            self.remove(request, stage)
            self._memory.setdefault(request, {})[stage] = bytes(content)
            self._room_bytes -= size + ENTRY_BYTES
        else:
            self._write(request, stage, content)
            self._forget(request, stage)

    def get(self, request: str, stage: str) -> bytes | memoryview:
        """What a stage made. The view of a large output is read-only and stays valid."""
        content = self._memory.get(request, {}).get(stage)
        return self._read(request, stage) if content is None else content

    def keeps(self, request: str) -> bool:
        """Whether anything is kept for a request."""
        return request in self._memory or (
            request in self._on_disk and os.path.isdir(self._folder(request))
        )

    def remove(self, request: str, stage: str) -> None:
        """Forget what one stage made, if it is kept."""
        self._forget(request, stage)
        if request not in self._on_disk:
            return
        path = self._path(request, stage)
        try:
            with suppress(FileNotFoundError):
                os.unlink(path)
        except OSError as error:
            raise self._fault(f"{os.path.basename(path)} cannot be removed", error) from None
        with suppress(OSError):  # the request has other outputs here, or none
            os.rmdir(os.path.dirname(path))

    def discard(self, request: str) -> None:
        """Forget all that was kept for a request."""
        for stage in list(self._memory.get(request, ())):
            self._forget(request, stage)
        if request in self._on_disk:
            self._remove_folder(self._folder(request))
            self._on_disk.discard(request)

    def clear(self) -> None:
        """Forget everything, also what an earlier process left behind."""
        for request in list(self._memory):
            self.discard(request)
        for path in self._entries("request-"):
            self._remove_folder(path)
        for path in self._entries("writing-"):
            with suppress(FileNotFoundError):
                os.unlink(path)
        self._on_disk.clear()

    def usage(self) -> tuple[int, int]:
        """How many requests something is kept for, and how many bytes; files are counted on
        disk."""
        folders = {self._folder(request) for request in self._memory}
        size = sum(len(content) for kept in self._memory.values() for content in kept.values())
        for folder in self._entries("request-"):
            folders.add(folder)
            with suppress(FileNotFoundError):  # discarded in the meantime
                size += sum(entry.stat().st_size for entry in os.scandir(folder))
        return len(folders), size

    def _forget(self, request: str, stage: str) -> None:
        """What is in memory of an output."""
        kept = self._memory.get(request)
        if kept is None or stage not in kept:
            return
        self._room_bytes += len(kept.pop(stage)) + ENTRY_BYTES
        if not kept:
            del self._memory[request]

    # ---- files

    def _write(self, request: str, stage: str, content: bytes | memoryview) -> None:
        unfinished = f"{self._directory}/writing-{os.getpid()}-{next(self._numbers)}"
        final = self._path(request, stage)
        self._on_disk.add(request)
        try:
            with open(unfinished, "xb") as file:
                file.write(content)
            try:
                os.rename(unfinished, final)
            except FileNotFoundError:  # the request's first output here
                with suppress(FileExistsError):
                    os.mkdir(os.path.dirname(final), mode=0o700)
                os.rename(unfinished, final)
        except OSError as error:
            with suppress(OSError):
                os.unlink(unfinished)
            raise self._fault(f"{memoryview(content).nbytes} bytes cannot be kept", error) from None

    def _read(self, request: str, stage: str) -> bytes | memoryview:
        try:
            with open(self._path(request, stage), "rb", buffering=0) as file:
                self._on_disk.add(request)
                if os.fstat(file.fileno()).st_size < SMALL_BYTES:
                    return file.readall()
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError:
            raise Missing(request, stage, "the local store") from None
        except OSError as error:
            raise self._fault(f"an output of request {request!r} cannot be read", error) from None

    def _folder(self, request: str) -> str:
        return f"{self._directory}/request-{safe_name(request)}"

    def _path(self, request: str, stage: str) -> str:
        return f"{self._folder(request)}/stage-{safe_name(stage)}"

    def _entries(self, prefix: str) -> Iterator[str]:
        try:
            names = os.listdir(self._directory)
        except OSError as error:
            raise self._fault("it cannot be listed", error) from None
        return (f"{self._directory}/{name}" for name in names if name.startswith(prefix))

    def _remove_folder(self, folder: str) -> None:
        try:
            for name in os.listdir(folder):
                with suppress(FileNotFoundError):
                    os.unlink(f"{folder}/{name}")
            os.rmdir(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._fault(f"{os.path.basename(folder)} cannot be removed", error) from None

    def _fault(self, what: str, error: OSError) -> Fault:
        return Fault(
            f"local store {self._directory}: {what}: {error.strerror}; "
            "it needs free space, and nobody else may change it"
        )


def safe_name(name: str) -> str:
    """A name that a file may have; plain ones stay legible. The prefix takes care of dots.

    >>> safe_name("deblur"), safe_name("a/b")
    ('deblur', '%575aa62220a2c597f5def8d269b6acac')
    """
    if PLAIN.fullmatch(name):
        return name
    return f"%{blake2b(name.encode(), digest_size=16).hexdigest()}"
