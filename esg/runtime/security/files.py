"""Files that may change while a process runs: certificates, keys, tokens.

Whoever uses what is in them asks each time. Asking costs a look at the files' dates; only when they
have changed are they read again. New contents that are no good do not replace the old ones: a
process that runs goes on as it was, and its log says why.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from esg.errors import Rejected
from esg.runtime.logs import about

log = logging.getLogger(__name__)

T = TypeVar("T")
Stamps = tuple[tuple[int, int, int], ...]


class Reloaded(Generic[T]):
    """What `read` makes of some files; made again after one of them has changed."""

    def __init__(self, files: Sequence[Path], read: Callable[[], T]) -> None:
        self._files = files
        self._read = read
        self._stamps = self._look()
        self._value = read()

    def get(self) -> T:
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            names = ", ".join(map(str, self._files))
            try:
                self._value = self._read()
                log.info("read again", extra=about(files=names))
            except (Rejected, OSError, ValueError) as error:  # TLS has errors of its own
                log.warning("not read again", extra=about(files=names, reason=str(error)))
        return self._value

    def _look(self) -> Stamps:
        """A file that is being replaced may be missing for a moment."""
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        seen = file.stat()
    except OSError:
        return (0, 0, 0)
    return (seen.st_mtime_ns, seen.st_size, seen.st_ino)


def content(file: Path, setting: str) -> bytes:
    """What is in a file that a setting names."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise Rejected(
            f"{setting}: {file} cannot be read: {error.strerror}; correct the setting, or make "
            "certificates with esg certificates"
        ) from None
