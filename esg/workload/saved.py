"""Resolved arrivals as a file: CSV with the header `at_us,application`, one row per arrival.

Written by one run and read by another, it makes both send exactly the same requests.
"""

import csv
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from esg.errors import Rejected
from esg.files import written
from esg.suggest import did_you_mean
from esg.workload.arrivals import Arrival
from esg.workload.traces.rows import rows, shown

COLUMNS = ["application", "at_us"]
LATEST_US = 10**30
"""Beyond whatever a trace can be stretched to."""


@contextmanager
def saving(path: Path) -> Iterator[Callable[[Arrival], None]]:
    """Give a function that writes one arrival. The file is there when all are, or not at all; what
    could not be read again is not written."""
    with written(path) as file:
        rows_of = csv.writer(file, lineterminator="\n")
        rows_of.writerow(("at_us", "application"))

        def save(arrival: Arrival) -> None:
            if not _can_be_named(arrival.application):
                raise Rejected(f"{path}: application {arrival.application!r}; {_NAMES}")
            rows_of.writerow((arrival.at_us, arrival.application))

        yield save


def read_arrivals(path: Path, known: Collection[str] | None = None) -> Iterator[Arrival]:
    """The saved arrivals, streamed. The whole file is checked before the first one comes.

    `known` are the applications that exist; without it any name will do. Columns may come in
    either order; instants must not be negative or go back.
    """
    for _ in _read(path, known):
        pass
    return _read(path, known)


def _read(path: Path, known: Collection[str] | None) -> Iterator[Arrival]:
    lines = rows(path)
    line, header = next(lines, (1, []))
    names = [name.strip() for name in header]
    if sorted(names) != COLUMNS:
        raise Rejected(
            f"{path}:{line}: the columns are {shown(','.join(names))}; "
            "saved arrivals have at_us,application (is it a trace?)"
        )
    at, whom = names.index("at_us"), names.index("application")
    before_us = 0
    for line, row in lines:
        if len(row) != 2:
            raise Rejected(f"{path}:{line}: {len(row)} cells where the header has 2; fix the row")
        at_us, application = _instant(path, line, row[at], before_us), row[whom]
        if not _can_be_named(application):
            raise Rejected(f"{path}:{line}: application {shown(application)}; {_NAMES}")
        if known is not None and application not in known:
            raise Rejected(f"{path}:{line}: {did_you_mean('application', application, known)}")
        before_us = at_us
        yield Arrival(at_us, application)


def _instant(path: Path, line: int, cell: str, before_us: int) -> int:
    try:
        at_us = int(cell)
    except ValueError:
        raise Rejected(
            f"{path}:{line}: at_us is {shown(cell)}; give whole microseconds after the start"
        ) from None
    if at_us < 0:
        raise Rejected(f"{path}:{line}: at_us is {at_us}; give an instant after the start")
    if at_us > LATEST_US:
        raise Rejected(f"{path}:{line}: at_us is {shown(cell)}; nobody can wait that long")
    if at_us < before_us:
        raise Rejected(
            f"{path}:{line}: at_us goes back from {before_us} to {at_us}; sort the rows by at_us"
        )
    return at_us


_NAMES = "a name is not empty and has no line breaks or other control characters"


def _can_be_named(application: str) -> bool:
    return bool(application.strip()) and application.isprintable()
