"""The journal as a file: `esg replay` and `esg what-if` read it."""

from pathlib import Path
from typing import TextIO

from esg.commands import Command
from esg.errors import Rejected
from esg.events import Event
from esg.journal import Entry, Header, entry_line, header_line, orders_digest


class JournalFile:
    """Lines are written when `flush` is called, all at once."""

    def __init__(self, path: Path, header: Header) -> None:
        try:
            self._file: TextIO = path.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise Rejected(
                f"journal {path}: cannot be written: {error.strerror}; name another file"
            ) from None
        self._lines: list[str] = [header_line(header)]
        self.flush()

    def append(self, now_us: int, event: Event, commands: list[Command]) -> None:
        self._lines.append(entry_line(Entry(now_us, event, orders_digest(commands))))

    def flush(self) -> None:
        self._lines.append("")
        self._file.write("\n".join(self._lines))
        self._lines.clear()
        self._file.flush()

    def close(self) -> None:
        self._file.close()
