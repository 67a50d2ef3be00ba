"""Plain counts: one number of calls per line, a line per minute.

With a header the column is found by name; a `minute` column beside it allows for gaps (minutes
without calls) and for any order:

    minute,count
    480,12
    483,7
"""

from itertools import islice
from pathlib import Path

import numpy as np

from esg.errors import Rejected
from esg.workload.traces.counted import CountedTrace, check_minute, whole
from esg.workload.traces.rows import check_width, column, plain, rows

COUNT_COLUMNS = ("count", "counts", "calls", "invocations", "requests")
MINUTE_COLUMNS = ("minute", "minutes")


def read_counts(path: Path) -> CountedTrace:
    line, first = next(rows(path), (1, []))
    count_at, minute_at, has_header = _columns(path, line, first)
    calls: dict[int, int] = {}
    for line, row in islice(rows(path), int(has_header), None):
        check_width(path, line, len(row), len(first))
        if minute_at is None:
            minute = len(calls)
        else:
            minute = whole(path, line, "minute", row[minute_at])
        if check_minute(path, line, minute) in calls:
            raise Rejected(f"{path}:{line}: minute {minute} appears twice; add the rows up")
        calls[minute] = whole(path, line, "the count", row[count_at])
    if not calls:
        raise Rejected(f"{path}:{line}: no counts; give one number per line")
    start = min(calls)
    totals = np.zeros(max(calls) + 1 - start, np.int64)
    for minute, number in calls.items():
        totals[minute - start] = number
    return CountedTrace(path=path, format="counts", calls=totals, count=None)


def _columns(path: Path, line: int, first: list[str]) -> tuple[int, int | None, bool]:
    """Where counts and minutes are, and whether the first row is a header."""
    if len(first) == 1 and not first[0].strip().isidentifier():
        return 0, None, False
    names = plain(first)
    count_at = column(path, line, names, COUNT_COLUMNS)
    if count_at is None:
        raise Rejected(
            f"{path}:{line}: no column of counts; give one number per line, "
            f"or name the column {' or '.join(COUNT_COLUMNS)}"
        )
    return count_at, column(path, line, names, MINUTE_COLUMNS), True
