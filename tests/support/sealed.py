"""Journals as files: lines with their checksums, and without."""

from collections.abc import Iterable
from pathlib import Path

from esg.core.journal.checksums import sealed_group, sealed_header
from esg.runtime.journal_files import read_lines


def sealed(lines: Iterable[str], *, after: int = 0) -> bytes:
    """A segment of these lines, the header first, each written on its own."""
    header, *others = lines
    data, check = sealed_header(header.strip(), after)
    for line in others:
        more, check = sealed_group([line.strip()], check)
        data += more
    return data


def plain(path: Path) -> list[str]:
    """The lines of a segment that is whole, the header first, without their checksums."""
    return list(read_lines(path))
