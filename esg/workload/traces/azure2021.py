"""The Azure Functions trace of 2021: a row per call, with its end and its duration in seconds.

A call arrived at `end_timestamp - duration`; ends are out of order where durations differ. `func`
is unique only within `app`, so a function is named by both. Columns are found by name.
"""

from collections.abc import Iterator
from pathlib import Path

from esg.errors import Rejected
from esg.units import US_PER_S
from esg.workload.traces.rows import check_width, column, plain, rows, shown
from esg.workload.traces.timed import MAX_SECONDS, Call, TimedTrace, timed_trace


def read_azure2021(path: Path) -> TimedTrace:
    line, header = next(rows(path), (1, []))
    names = plain(header)
    end = column(path, line, names, ("end_timestamp",))
    duration = column(path, line, names, ("duration",))
    if end is None or duration is None:
        missing = "end_timestamp" if end is None else "duration"
        raise Rejected(f"{path}:{line}: no column {missing}; azure2021 files have one")
    app, func = column(path, line, names, ("app",)), column(path, line, names, ("func",))
    keys = () if func is None else (func,) if app is None else (app, func)

    def read() -> Iterator[Call]:
        lines = rows(path)
        next(lines)
        for line, row in lines:
            check_width(path, line, len(row), len(names))
            try:
                ended_s, took_s = float(row[end]), float(row[duration])
            except ValueError:
                ended_s = took_s = -1.0
            if not (abs(ended_s) < MAX_SECONDS and 0 <= took_s < MAX_SECONDS):
                raise Rejected(
                    f"{path}:{line}: end_timestamp {shown(row[end])}, "
                    f"duration {shown(row[duration])}; give seconds, the duration 0 or more"
                )
            yield round((ended_s - took_s) * US_PER_S), "/".join([row[key] for key in keys])

    return timed_trace(path, "azure2021", read, names_functions=bool(keys))
