"""Outputs of requests as files: each is there when it is complete, or not at all."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from esg.errors import Rejected

_BEGINNINGS = {b"\x89PNG\r\n\x1a\n": ".png", b"\xff\xd8\xff": ".jpg"}


class Folder:
    """Where the outputs of some files go, as FILE.STAGE; pictures and JSON with their endings.

    Outputs of a request that was waited for come once, so whether any can be written here is tried
    before they do.
    """

    def __init__(self, directory: Path, files: Sequence[Path]) -> None:
        self._directory = directory
        self.written: dict[Path, dict[str, Path]] = {}
        """By file and stage, what is there."""
        names = [path.name for path in files]
        for name in names:
            if names.count(name) > 1:
                raise Rejected(
                    f"--out: several files are called {name}, and so would their outputs be; "
                    "submit them one by one, into folders of their own"
                )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=directory).close()
        except OSError as error:
            raise Rejected(
                f"--out: {directory}: {error.strerror}; name a folder that can be written to"
            ) from None

    def write(self, file: Path, outputs: Mapping[str, bytes]) -> dict[str, Path]:
        """By stage, the files that were written. One that cannot be is refused when all others are
        there: they may not come a second time."""
        written = self.written.setdefault(file, {})
        refused: Rejected | None = None
        for stage, content in outputs.items():
            try:
                written[stage] = self._write(file, stage, content)
            except Rejected as error:
                refused = refused or error
        if refused is not None:
            raise refused
        return written

    def _write(self, file: Path, stage: str, content: bytes) -> Path:
        path = self._directory / f"{file.name}.{stage}{_ending(content)}"
        unfinished = self._directory / f".{path.name}.{os.getpid()}.tmp"
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        except OSError as error:
            raise Rejected(f"{path}: cannot be written: {error.strerror}") from None
        finally:
            with suppress(OSError):
                unfinished.unlink()
        return path


def _ending(content: bytes) -> str:
    """That of a kind of file which viewers go by, or none.

    >>> _ending(b"\\xff\\xd8\\xff\\xe0..."), _ending(b'{"label": "cat"}'), _ending(b"{")
    ('.jpg', '.json', '')
    """
    for beginning, ending in _BEGINNINGS.items():
        if content.startswith(beginning):
            return ending
    if content.startswith(b"{"):
        with suppress(ValueError):
            json.loads(content)
            return ".json"
    return ""
