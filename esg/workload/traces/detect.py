"""What kind of trace a file is. It asks rather than guesses: a wrong guess spoils an experiment."""

from collections.abc import Iterable
from itertools import islice, pairwise
from pathlib import Path

from esg.errors import Rejected
from esg.workload.traces.azure2019 import minute_of
from esg.workload.traces.counts import COUNT_COLUMNS
from esg.workload.traces.rows import plain, rows, shown
from esg.workload.traces.timestamps import TIME_COLUMNS, is_iso, is_seconds

LOOKED_AT = 1_000
"""Rows that decide whether a bare list of numbers holds counts or seconds."""


def detect(path: Path) -> str:
    """The format, by header or else by content."""
    if path.is_dir():
        return "azure2019"
    line, header = next(rows(path), (1, []))
    if not header:
        raise Rejected(f"{path}: empty; give a trace")
    names = plain(header)
    if {"at_us", "application"} <= set(names):
        raise Rejected(f"{path}:{line}: these are saved arrivals, not a trace; read them as such")
    if "hashfunction" in names:
        return "azure2019"
    if {"end_timestamp", "duration"} <= set(names):
        return "azure2021"
    timed, counted = _any(names, TIME_COLUMNS), _any(names, COUNT_COLUMNS)
    if timed != counted:
        return "timestamps" if timed else "counts"
    if is_seconds(header[0]):
        return _of_numbers(path, line, len(header))
    if is_iso(header[0]):
        return "timestamps"
    if timed and counted:
        raise _unsure(path, line, "it has a column of timestamps and one of counts")
    if any(minute_of(name) is not None for name in names):
        raise _unsure(path, line, "it has columns of minutes but no HashFunction")
    raise _unsure(path, line, f"no known column in {shown(','.join(header))}")


def _of_numbers(path: Path, line: int, width: int) -> str:
    """Fractions are seconds; whole numbers that go up and down are counts; others may be both."""
    if width > 1:
        raise _unsure(path, line, f"{width} numbers per row and no header to tell them apart")
    numbers = [
        float(row[0]) for _, row in islice(rows(path), LOOKED_AT) if row and is_seconds(row[0])
    ]
    if any(number % 1 for number in numbers):
        return "timestamps"
    if any(after < before for before, after in pairwise(numbers)):
        return "counts"
    raise _unsure(path, line, "whole numbers that never fall can be seconds or counts per minute")


def _any(names: Iterable[str], wanted: Iterable[str]) -> bool:
    return any(name in wanted for name in names)


def _unsure(path: Path, line: int, why: str) -> Rejected:
    return Rejected(
        f"{path}:{line}: cannot tell the format: {why}; "
        "say azure2019, azure2021, timestamps or counts"
    )
