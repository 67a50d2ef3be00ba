"""Tables of Triton's own tools as measured profiles: of perf_analyzer, and of Model Analyzer.

Each row of theirs is a load, at some concurrency or rate. What a profile needs is how long a batch
takes that has a slice for itself: the row with the least load of each batch size tells. Counted is
what the server computed (its input, the model, its output), where the table says so, and otherwise
the median latency, or the next that there is.

    perf_analyzer -f FILE      microseconds; one file for each batch size, as it is not in there
    Model Analyzer, CSV        milliseconds; all batch sizes, and perhaps several models
"""

import csv
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from esg.errors import Rejected
from esg.limits import LONGEST_PART_MS
from esg.suggest import did_you_mean, shortened

MOST_ROWS = 100_000
MOST_BATCH = 10_000

_LOADS = ("Concurrency", "Request Rate")
_US_COMPUTE = ("Server Compute Input", "Server Compute Infer", "Server Compute Output")
_US_LATENCY = ("p50 latency", "Avg latency", "p90 latency", "p95 latency", "p99 latency")
_MS_COMPUTE = (
    "Server Compute Input time (ms)",
    "Server Compute Infer time (ms)",
    "Server Compute Output time (ms)",
)
_MS_LATENCY = (
    "p50 Latency (ms)",
    "Avg Latency (ms)",
    "p90 Latency (ms)",
    "p95 Latency (ms)",
    "p99 Latency (ms)",
)
BATCH, MODEL = "Batch", "Model"


class ImportedTime(NamedTuple):
    """How long a batch takes, and what says so."""

    batch: int
    time_ms: float
    load: float
    column: str


def imported_times(
    where: str, text: str, *, batch: int | None = None, model: str = ""
) -> list[ImportedTime]:
    """The time of each batch size in a table. `batch` is that of a table which does not say.

    >>> table = "Concurrency,p50 latency\\n2,90000\\n1,80000\\n"
    >>> imported_times("b4.csv", table, batch=4)
    [ImportedTime(batch=4, time_ms=80.0, load=1.0, column='p50 latency')]
    """
    rows = _rows(where, text)
    header = list(rows[0])
    if BATCH not in header and batch is None:
        raise Rejected(f"{where}: no column {BATCH}; say its batch size, as in 4={where}")
    if MODEL in header:
        models = list(dict.fromkeys(row[MODEL] for row in rows))
        if not model and len(models) > 1:
            raise Rejected(
                f"{where}: several models ({', '.join(models[:10])}); say which: --model"
            )
        if model and model not in models:
            raise Rejected(f"{where}: {did_you_mean('model', model, models)}")
        rows = [row for row in rows if not model or row[MODEL] == model]
    found: dict[int, ImportedTime] = {}
    for number, row in enumerate(rows, 2):
        one = _time(f"{where}:{number}", row, batch)
        known = found.get(one.batch)
        if known is None or (one.load, one.time_ms) < (known.load, known.time_ms):
            found[one.batch] = one
    return [found[size] for size in sorted(found)]


def _rows(where: str, text: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.strip()][: MOST_ROWS + 1]
    try:
        reader = csv.reader(lines, strict=True)
        header = [name.strip() for name in next(reader, [])]
        rows = [[cell.strip() for cell in row] for row in reader]
    except csv.Error as error:
        raise Rejected(f"{where}: no CSV: {error}") from None
    if len(set(header)) != len(header) or not rows:
        raise Rejected(f"{where}: a header and at least one row are needed, as -f FILE writes them")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise Rejected(f"{where}:{number}: {len(row)} cells where the header has {len(header)}")
    return [dict(zip(header, row, strict=True)) for row in rows]


def _time(where: str, row: Mapping[str, str], batch: int | None) -> ImportedTime:
    size = batch if BATCH not in row else _number(where, row, BATCH)
    if size is None or size != int(size) or not 1 <= size <= MOST_BATCH:
        raise Rejected(f"{where}: the batch size is {size}; it must be from 1 to {MOST_BATCH}")
    load = next((_number(where, row, name) for name in _LOADS if row.get(name)), 1.0)
    for compute, latency, per_ms in (
        (_US_COMPUTE, _US_LATENCY, 1000),
        (_MS_COMPUTE, _MS_LATENCY, 1),
    ):
        if all(row.get(name) for name in compute):
            total = sum(_number(where, row, name) for name in compute)
            if total > 0:
                return _checked(where, int(size), total / per_ms, load, "server compute")
        for name in latency:
            if row.get(name):
                return _checked(where, int(size), _number(where, row, name) / per_ms, load, name)
    known = ", ".join((*_US_LATENCY[:1], *_MS_LATENCY[:1], *_US_COMPUTE))
    raise Rejected(f"{where}: no column with times; known, for one: {known}")


def _checked(where: str, batch: int, time_ms: float, load: float, column: str) -> ImportedTime:
    if not 0 < time_ms <= LONGEST_PART_MS:
        raise Rejected(f"{where}: {column} is {time_ms:g} ms; it must be above 0")
    return ImportedTime(batch, time_ms, load, column)


def _number(where: str, row: Mapping[str, str], name: str) -> float:
    try:
        value = float(row[name])
    except ValueError:
        raise Rejected(f"{where}: {name} is {shortened(row[name])!r}, no number") from None
    if not math.isfinite(value) or value < 0:
        raise Rejected(f"{where}: {name} is {value}; it must be a number from 0 on")
    return value


def merged(tables: Iterable[list[ImportedTime]]) -> list[ImportedTime]:
    """The times of several tables, of different batch sizes."""
    found: dict[int, ImportedTime] = {}
    for time in (time for table in tables for time in table):
        if time.batch in found:
            raise Rejected(f"batch size {time.batch} is in two tables; leave one of them out")
        found[time.batch] = time
    return [found[size] for size in sorted(found)]
