"""The Azure Functions trace of 2019: a row per function, a column per minute.

Columns are found by name, in any order: HashFunction, the optional HashOwner and HashApp, and the
minutes as `N`, `minute_N` or `N_minute`. Anything else (Trigger) is ignored. Minutes may start
anywhere; one that has no column, or an empty cell, has no calls.

One file is one day. A directory holds several: its files `invocations*.csv`, in the order of the
number at the end of their names (d01, d02, ...), where a missing number is a day without calls;
otherwise, as with dates, one day after the other in the order of the names.

The whole trace is fourteen files with some 45,000 functions each. Rows are streamed and added up,
per minute and bucket of functions; the series of single functions are never kept.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from esg.errors import Rejected
from esg.workload.traces.counted import MAX_CALLS, Bucket, Calls, CountedTrace, check_minute, whole
from esg.workload.traces.rows import check_width, column, plain, rows

MINUTES_PER_DAY = 1440
KEYS = ("hashowner", "hashapp", "hashfunction")
_DATE = re.compile(r"\d{4}([-_.]?)\d\d\1\d\d$")
_MINUTE = re.compile(r"(?:minute_)?(\d{1,18})|(\d{1,18})_minute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One file: where its columns are, and how many minutes after the first day's it starts."""

    path: Path
    line: int
    header: tuple[str, ...]
    keys: tuple[int, ...]
    minutes: tuple[int, ...]
    columns: tuple[int, ...]
    offset: int


def read_azure2019(path: Path) -> CountedTrace:
    days = list(_days(path))
    first = min(min(day.minutes) + day.offset for day in days)
    length = max(max(day.minutes) + day.offset for day in days) + 1 - first

    def count(buckets: int, bucket: Bucket) -> Calls:
        grid = np.zeros((buckets, length), np.int64)
        for day in days:
            _add(day, grid, first, bucket)
        return grid

    calls = count(1, lambda _: 0)[0]
    return CountedTrace(path=path, format="azure2019", calls=calls, count=count)


def minute_of(name: str) -> int | None:
    """The minute that a column stands for.

    >>> [minute_of(name) for name in ("480", "minute_7", "7_minute", "trigger")]
    [480, 7, 7, None]
    >>> minute_of("1" * 5000)  # no minute
    """
    found = _MINUTE.fullmatch(name)
    return int(found[1] or found[2]) if found else None


def _days(path: Path) -> Iterator[Day]:
    if not path.is_dir():
        yield _day(path, 0)
        return
    files = sorted(path.glob("invocations*.csv"))
    if not files:
        others = sorted(path.glob("*.csv"))
        advice = f"do you mean {others[0]}?" if others else "give a file or another one"
        raise Rejected(f"{path}: no invocations*.csv in this directory; {advice}")
    numbers = _numbers(files)
    for number, file in sorted(zip(numbers, files, strict=True)):
        day = _day(file, (number - min(numbers)) * MINUTES_PER_DAY)
        if max(day.minutes) > MINUTES_PER_DAY:
            raise Rejected(
                f"{file}:{day.line}: minute {max(day.minutes)} is not within a day; in a directory "
                "each file is one day (give a file to read it alone)"
            )
        yield day


def _numbers(files: Sequence[Path]) -> list[int]:
    """The numbers at the ends of the names, or places in the list where names have none, or dates:
    the day after 20190131 is 20190201."""
    places = list(range(len(files)))
    if any(_DATE.search(file.stem) for file in files):
        return places
    found = [re.search(r"(\d{1,4})$", file.stem) for file in files]
    numbers = [int(match[1]) for match in found if match]
    return numbers if len(set(numbers)) == len(files) else places


def _day(path: Path, offset: int) -> Day:
    line, header = next(rows(path), (1, []))
    names = plain(header)
    found = [column(path, line, names, (key,)) for key in KEYS]
    if found[-1] is None:
        raise Rejected(f"{path}:{line}: no column HashFunction; azure2019 files have one")
    at: dict[int, int] = {}
    for index, name in enumerate(names):
        minute = minute_of(name)
        if minute is None:
            continue
        if check_minute(path, line, minute) in at:
            raise Rejected(f"{path}:{line}: minute {minute} has two columns; keep one of them")
        at[minute] = index
    if not at:
        raise Rejected(
            f"{path}:{line}: no columns of minutes (N, minute_N or N_minute); "
            "give the file of invocations, not that of durations or memory"
        )
    return Day(
        path=path,
        line=line,
        header=tuple(header),
        keys=tuple(index for index in found if index is not None),
        minutes=tuple(at),
        columns=tuple(at.values()),
        offset=offset,
    )


def _add(day: Day, grid: Calls, first: int, bucket: Bucket) -> None:
    """Add a file's calls to a grid of buckets and minutes whose first column is minute `first`."""
    where = np.array(day.minutes) + (day.offset - first)
    empty = True
    for line, keys, text in _series(day):
        function = "/".join([keys[index] for index in day.keys])
        grid[bucket(function), where] += _numbers_of(day, line, text)
        empty = False
    if empty:
        raise Rejected(f"{day.path}:{day.line}: a header and no rows; give a file with functions")


def _series(day: Day) -> Iterator[tuple[int, list[str], str]]:
    """Line, key cells, and the cells of the minutes as one text, in the order of `day.columns`."""
    width, others = len(day.header), len(day.header) - len(day.columns)
    minutes_last = day.columns == tuple(range(others, width))
    for line, row in islice(rows(day.path, others if minutes_last else -1), 1, None):
        if minutes_last:
            text = row[-1]
            check_width(day.path, line, len(row) + text.count(","), width)
        else:
            check_width(day.path, line, len(row), width)
            text = ",".join([row[index] for index in day.columns])
        yield line, row, text


def _numbers_of(day: Day, line: int, text: str) -> Calls:
    """The cells as numbers: at once where all are plain, else one by one to say which is not."""
    if text and not text.encode().translate(None, b"0123456789,"):
        if ",," not in text and text[0] != "," and text[-1] != ",":
            numbers = np.fromstring(text, np.int64, sep=",")
            if len(numbers) == len(day.columns) and numbers.max() <= MAX_CALLS:
                return numbers
    cells = text.split(",")
    check_width(day.path, line, len(cells), len(day.columns))
    return np.array(
        [
            whole(day.path, line, f"minute {day.header[index].strip()}", cell)
            for index, cell in zip(day.columns, cells, strict=True)
        ],
        np.int64,
    )
