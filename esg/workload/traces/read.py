"""One door for all kinds of traces."""

from collections.abc import Callable
from pathlib import Path

from esg.errors import Rejected
from esg.suggest import did_you_mean
from esg.workload.traces.azure2019 import read_azure2019
from esg.workload.traces.azure2021 import read_azure2021
from esg.workload.traces.counted import CountedTrace
from esg.workload.traces.counts import read_counts
from esg.workload.traces.detect import detect
from esg.workload.traces.timed import TimedTrace
from esg.workload.traces.timestamps import read_timestamps

Trace = CountedTrace | TimedTrace

FORMATS: dict[str, Callable[[Path], Trace]] = {
    "azure2019": read_azure2019,
    "azure2021": read_azure2021,
    "timestamps": read_timestamps,
    "counts": read_counts,
}


def read_trace(path: Path, format: str = "auto") -> Trace:
    """Read and check a trace of one of the `FORMATS`; `auto` finds out which.

    Memory does not grow with the file: per-minute formats keep one number per minute, the others
    a summary, and both stream the file again when more is wanted. So the file has to stay.
    """
    if format not in ("auto", *FORMATS):
        raise Rejected(did_you_mean("format", format, ("auto", *FORMATS)))
    return FORMATS[detect(path) if format == "auto" else format](path)
