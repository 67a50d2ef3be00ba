"""Rows of a CSV file with their line numbers, whatever line ends and blank lines it has."""

import csv
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TextIO

from esg.errors import Rejected

Row = tuple[int, list[str]]
"""A line number and the cells of a row."""


def rows(path: Path, cuts: int = -1) -> Iterator[Row]:
    """Every row that is not blank, streamed.

    With `cuts` given, a row is cut at that many commas, and its last cell holds the rest as it is.
    """
    try:
        if path.exists() and not path.is_file():
            raise Rejected(f"{path}: not a regular file; give one (it is read more than once)")
        # utf-8-sig: spreadsheets put a byte order mark in front
        with path.open(encoding="utf-8-sig") as file:
            yield from _rows(path, file, cuts)
    except FileNotFoundError:
        raise Rejected(f"{path}: no such file; check the path") from None
    except UnicodeDecodeError:
        raise Rejected(f"{path}: not UTF-8 text; unpack or convert it first") from None
    except OSError as error:
        raise Rejected(f"{path}: cannot be read: {error.strerror}; check it") from None


def _rows(path: Path, file: TextIO, cuts: int) -> Iterator[Row]:
    """Most files have no quotes, and then splitting is twice as fast as the csv module."""
    for number, line in enumerate(file, start=1):
        if '"' in line:
            yield from _quoted_rows(path, chain((line,), file), number - 1, cuts)
            return
        if line.strip(", \t\n"):
            yield number, line.rstrip("\n").split(",", cuts)


def _quoted_rows(path: Path, lines: Iterator[str], before: int, cuts: int) -> Iterator[Row]:
    reader = csv.reader(lines)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                if 0 <= cuts < len(row):
                    row[cuts:] = [",".join(row[cuts:])]
                yield before + reader.line_num, row
    except csv.Error as error:
        line = before + reader.line_num
        raise Rejected(f"{path}:{line}: not CSV: {error}; fix the line") from None


def plain(header: Sequence[str]) -> list[str]:
    """Column names as they are compared: without surrounding space, in lower case."""
    return [name.strip().lower() for name in header]


def column(path: Path, line: int, names: Sequence[str], wanted: Collection[str]) -> int | None:
    """Where the one column is that has a wanted name; None if there is none."""
    found = [index for index, name in enumerate(names) if name in wanted]
    if len(found) > 1:
        which = " and ".join(names[index] for index in found)
        raise Rejected(f"{path}:{line}: columns {which} mean the same; keep one of them")
    return found[0] if found else None


def shown(cell: str) -> str:
    """A cell as an error quotes it: on one line, and not the whole of it if it is long.

    >>> shown("9" * 50)
    "'9999999999999999999999999999999999999999...'"
    """
    return repr(cell if len(cell) <= 40 else f"{cell[:40]}...")


def check_width(path: Path, line: int, cells: int, width: int) -> None:
    if cells != width:
        raise Rejected(
            f"{path}:{line}: {cells} cells where the first row has {width}; fix the row "
            "(is the file cut off?)"
        )
