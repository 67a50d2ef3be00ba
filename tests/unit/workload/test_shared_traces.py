"""The recorded traces beside this repository, where they are there: sums done another way agree."""

import csv
import os
from datetime import datetime
from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.workload.mix import Mix
from esg.workload.trace_window import Shaping, from_trace
from esg.workload.traces.counted import CountedTrace
from esg.workload.traces.read import read_trace
from esg.workload.traces.timed import TimedTrace
from tests.support.paths import ROOT

TRACES = Path(os.environ.get("ESG_TRACES", ROOT.parent / "shared" / "data" / "traces"))
MIX = Mix.uniform(["a", "b", "c"])


def shared(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"{path} is not here; set ESG_TRACES to the directory of traces")
    return path


@pytest.mark.parametrize(
    ("name", "first", "minutes", "calls"),
    [
        ("azure2019_100f_480min/invocations.csv", 480, 480, 339_657),
        ("azure2019_format_example/invocations.csv", 1, 1440, 4_525),
        ("azure2019_fullday_shape/200_inv.csv", 1, 1440, 1_321_438),
    ],
)
def test_counts_per_minute_add_up(name: str, first: int, minutes: int, calls: int) -> None:
    path = shared(name)
    trace = read_trace(path)
    assert isinstance(trace, CountedTrace)
    assert (trace.minutes, trace.invocations) == (minutes, calls)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    column = next(key for key in rows[0] if key.strip("minute_") == str(first + 99))
    assert trace.calls[99] == sum(int(row[column]) for row in rows)
    by_application = trace.by_minute(3, MIX.index_of)
    assert sum(sum(numbers) for _, numbers in by_application) == calls


def test_all_calls_of_eight_hours_arrive() -> None:
    trace = read_trace(shared("azure2019_100f_480min/invocations.csv"))
    hour = list(from_trace(trace, MIX, 1, Shaping(duration_us=3_600_000_000)))
    assert isinstance(trace, CountedTrace)
    assert len(hour) == trace.calls[:60].sum()


def test_invocations_arrive_before_they_end() -> None:
    path = shared("azure2021_sample/azure2021_200.csv")
    trace = read_trace(path)
    assert isinstance(trace, TimedTrace)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    starts = sorted(float(row["end_timestamp"]) - float(row["duration"]) for row in rows)
    assert trace.invocations == len(rows) == 199
    for (at_us, _), start in zip(trace.calls(), starts, strict=True):
        assert at_us / 1e6 == pytest.approx(start - starts[0], abs=2e-6)


def test_timestamps_with_seven_digits_are_read() -> None:
    path = shared("azure_llm_2023/AzureLLMInferenceTrace_code.csv")
    trace = read_trace(path)
    assert isinstance(trace, TimedTrace)
    times = [line.split(",")[0] for line in path.read_text().splitlines()[1:]]
    first, last = datetime.fromisoformat(times[0]), datetime.fromisoformat(times[-1])
    assert trace.invocations == len(times) == 8_819
    assert (trace.last_us - trace.first_us) / 1e6 == (last - first).total_seconds()


@pytest.mark.parametrize("name", ["durations.csv", "memory.csv"])
def test_the_files_beside_a_trace_are_not_taken_for_it(name: str) -> None:
    with pytest.raises(Rejected, match="give the file of invocations"):
        read_trace(shared(f"azure2019_100f_480min/{name}"))
