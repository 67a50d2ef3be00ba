"""The data of one node: a file per output, a directory per request.

The directory of the store should be in memory (tmpfs). A file is written under another name and
renamed when it is complete, so that a reader finds all of it or nothing. A large file is mapped
rather than read; the mapping stays good when the file is discarded, because the kernel keeps what
is mapped. Calls do not wait for anything but memory, so coroutines make them directly: writing
takes about half a millisecond per megabyte.

    DIRECTORY/request-r1/stage-deblur      an output
    DIRECTORY/writing-1234-7               one that is not complete yet

Nothing but such names is ever touched: a store in a directory with other contents leaves them be.
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

MAPPED_BYTES = 64 * 1024
"""Below that, reading is cheaper than mapping."""


class LocalStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._numbers = count()
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = self._directory.stat().st_uid
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
        unfinished = self._directory / f"writing-{os.getpid()}-{next(self._numbers)}"
        final = self._path(request, stage)
        try:
            with unfinished.open("xb") as file:
                file.write(content)
            try:
                unfinished.rename(final)
            except FileNotFoundError:  # the request's first output here
                final.parent.mkdir(mode=0o700, exist_ok=True)
                unfinished.rename(final)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink()
            raise self._fault(f"{memoryview(content).nbytes} bytes cannot be kept", error) from None

    def get(self, request: str, stage: str) -> bytes | memoryview:
        """What a stage made. The view of a large output is read-only and stays valid."""
        try:
            with self._path(request, stage).open("rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size < MAPPED_BYTES:
                    return file.readall()
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError:
            raise Missing(request, stage, "the local store") from None
        except OSError as error:
            raise self._fault(f"an output of request {request!r} cannot be read", error) from None

    def keeps(self, request: str) -> bool:
        """Whether anything is kept for a request."""
        return (self._directory / f"request-{_safe(request)}").is_dir()

    def remove(self, request: str, stage: str) -> None:
        """Forget what one stage made, if it is kept."""
        path = self._path(request, stage)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise self._fault(f"{path.name} cannot be removed", error) from None
        with suppress(OSError):  # the request has other outputs here, or none
            path.parent.rmdir()

    def discard(self, request: str) -> None:
        """Forget all that was kept for a request."""
        self._remove(self._directory / f"request-{_safe(request)}")

    def clear(self) -> None:
        """Forget everything, also what an earlier process left behind."""
        for path in self._entries("request-"):
            self._remove(path)
        for path in self._entries("writing-"):
            path.unlink(missing_ok=True)

    def usage(self) -> tuple[int, int]:
        """How many requests something is kept for, and how many bytes; counted on disk."""
        requests = size = 0
        for path in self._entries("request-"):
            requests += 1
            with suppress(FileNotFoundError):  # discarded in the meantime
                size += sum(file.stat().st_size for file in path.iterdir())
        return requests, size

    def _path(self, request: str, stage: str) -> Path:
        return self._directory.joinpath(f"request-{_safe(request)}", f"stage-{_safe(stage)}")

    def _entries(self, prefix: str) -> Iterator[Path]:
        try:
            yield from [path for path in self._directory.iterdir() if path.name.startswith(prefix)]
        except OSError as error:
            raise self._fault("it cannot be listed", error) from None

    def _remove(self, directory: Path) -> None:
        try:
            for path in directory.iterdir():
                path.unlink(missing_ok=True)
            directory.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._fault(f"{directory.name} cannot be removed", error) from None

    def _fault(self, what: str, error: OSError) -> Fault:
        return Fault(
            f"local store {self._directory}: {what}: {error.strerror}; "
            "it needs free space, and nobody else may change it"
        )


def _safe(name: str) -> str:
    """A name that a file may have; plain ones stay legible. The prefix takes care of dots.

    >>> _safe("deblur"), _safe("a/b")
    ('deblur', '%575aa62220a2c597f5def8d269b6acac')
    """
    if PLAIN.fullmatch(name):
        return name
    return f"%{blake2b(name.encode(), digest_size=16).hexdigest()}"
