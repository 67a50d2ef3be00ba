"""Timestamps: a row per call, with the instant it came.

The instant is ISO 8601 (`2023-11-16 18:17:03.9799600`; digits beyond microseconds are cut off; UTC
where no zone is given) or seconds since any moment. The column is found by name; a file without a
header has it in front. A column `function` may name who was called.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from esg.errors import Rejected
from esg.units import US_PER_S
from esg.workload.traces.rows import check_width, column, plain, rows, shown
from esg.workload.traces.timed import MAX_SECONDS, Call, TimedTrace, timed_trace

TIME_COLUMNS = ("timestamp", "time", "datetime", "arrival", "arrival_time", "arrived_at")
FUNCTION_COLUMNS = ("function", "func")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = _EPOCH.replace(tzinfo=None)
_US = timedelta(microseconds=1)


def read_timestamps(path: Path) -> TimedTrace:
    line, header = next(rows(path), (1, []))
    if not header:
        raise Rejected(f"{path}: empty; give a file with a row per call")
    at, function = _columns(path, line, header)
    has_header = not (is_iso(header[at]) or is_seconds(header[at]))

    def read() -> Iterator[Call]:
        lines = rows(path)
        if has_header:
            next(lines)
        to_us: Callable[[str], int] | None = None
        for line, row in lines:
            check_width(path, line, len(row), len(header))
            cell = row[at]
            if to_us is None:
                to_us = _seconds_us if is_seconds(cell) else _iso_us
            try:
                at_us = to_us(cell)
            except ValueError as error:
                raise Rejected(f"{path}:{line}: {error}") from None
            yield at_us, "" if function is None else row[function]

    return timed_trace(path, "timestamps", read, names_functions=function is not None)


def is_seconds(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def is_iso(cell: str) -> bool:
    try:
        datetime.fromisoformat(cell.strip())
    except ValueError:
        return False
    return True


def _columns(path: Path, line: int, header: list[str]) -> tuple[int, int | None]:
    names = plain(header)
    at = column(path, line, names, TIME_COLUMNS)
    if at is not None:
        return at, column(path, line, names, FUNCTION_COLUMNS)
    if is_iso(header[0]) or (len(header) == 1 and is_seconds(header[0])):
        return 0, None
    raise Rejected(
        f"{path}:{line}: no column of timestamps; name it {' or '.join(TIME_COLUMNS)}, "
        "or give one timestamp per line"
    )


def _iso_us(cell: str) -> int:
    try:
        at = datetime.fromisoformat(cell.strip())
    except ValueError:
        raise ValueError(
            f"{shown(cell)} is not a timestamp; write 2023-11-16 18:17:03.97996 as in the first row"
        ) from None
    return (at - (_EPOCH if at.tzinfo else _NAIVE_EPOCH)) // _US


def _seconds_us(cell: str) -> int:
    try:
        value = float(cell)
    except ValueError:
        raise ValueError(f"{shown(cell)} is not a number of seconds as in the first row") from None
    if not abs(value) < MAX_SECONDS:
        raise ValueError(f"{shown(cell)} cannot be seconds; divide milliseconds by 1000")
    return round(value * US_PER_S)
