"""A trace that knows the instant of every call."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from esg.errors import Rejected
from esg.units import US_PER_MINUTE, US_PER_S
from esg.workload.traces.counted import Bucket

Call = tuple[int, str]
"""An instant in microseconds, and the function called, or "" where the trace does not name it."""

MAX_SECONDS = 10**11


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedTrace:
    """Calls, streamed from the file each time, in the order of their instants.

    Time counts from the first call. The calls themselves are not kept; a file that is out of order
    is sorted on disk.
    """

    path: Path
    format: str
    invocations: int
    first_us: int
    last_us: int
    in_order: bool
    names_functions: bool
    read: Callable[[], Iterator[Call]]

    @property
    def minutes(self) -> int:
        return (self.last_us - self.first_us) // US_PER_MINUTE + 1

    @property
    def mean_per_s(self) -> float:
        """One over the mean interval between calls; 0 where there is none."""
        span_us = self.last_us - self.first_us
        return (self.invocations - 1) * US_PER_S / span_us if span_us else 0.0

    def calls(self) -> Iterator[Call]:
        """Every call, its instant counted from the first one."""
        found = self.read() if self.in_order else in_order(self.read())
        return ((at_us - self.first_us, function) for at_us, function in found)

    def by_minute(
        self, buckets: int = 1, bucket: Bucket | None = None
    ) -> Iterator[tuple[int, list[int]]]:
        """Minutes with calls, from 0 on, and their calls per bucket."""
        for minute, group in groupby(self.calls(), lambda call: call[0] // US_PER_MINUTE):
            numbers = [0] * buckets
            for _, function in group:
                numbers[bucket(function) if bucket else 0] += 1
            yield minute, numbers


def timed_trace(
    path: Path, format: str, read: Callable[[], Iterator[Call]], *, names_functions: bool
) -> TimedTrace:
    """Read all calls once, so that whatever is wrong with the file is said now."""
    invocations, ordered = 0, True
    first_us = last_us = before_us = 0
    for at_us, _ in read():
        if not invocations:
            first_us = last_us = before_us = at_us
        elif at_us < before_us:
            ordered = False
            first_us = min(first_us, at_us)
        elif at_us > last_us:
            last_us = at_us
        invocations += 1
        before_us = at_us
    if not invocations:
        raise Rejected(f"{path}: no calls in it; give a file with a row per call")
    return TimedTrace(
        path=path,
        format=format,
        invocations=invocations,
        first_us=first_us,
        last_us=last_us,
        in_order=ordered,
        names_functions=names_functions,
        read=read,
    )


def in_order(calls: Iterable[Call]) -> Iterator[Call]:
    """Sorted by instant, ties as they came, in a temporary database: memory stays bounded."""
    with closing(sqlite3.connect("", isolation_level=None)) as disk:
        disk.execute("PRAGMA journal_mode = OFF")
        disk.execute("CREATE TABLE call (at_us INTEGER, function TEXT)")
        disk.execute("BEGIN")
        disk.executemany("INSERT INTO call VALUES (?, ?)", calls)
        yield from disk.execute("SELECT at_us, function FROM call ORDER BY at_us, rowid")
