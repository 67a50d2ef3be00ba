"""Files with a row per call."""

from pathlib import Path

import pytest

from esg.errors import Rejected
from esg.workload.traces.read import read_trace
from esg.workload.traces.timed import TimedTrace
from tests.support.trace_files import Write


def timed(path: Path, format: str = "auto") -> TimedTrace:
    trace = read_trace(path, format)
    assert isinstance(trace, TimedTrace)
    return trace


def test_a_call_arrives_before_it_ends_by_its_duration(write: Write) -> None:
    path = write("app,func,end_timestamp,duration", "a,f,10.5,0.5", "a,g,99.25,89", "b,f,12.5,2")
    trace = timed(path)
    assert trace.format == "azure2021"
    assert list(trace.calls()) == [(0, "a/f"), (250_000, "a/g"), (500_000, "b/f")]


def test_calls_are_sorted_by_arrival_and_ties_stay_as_they_were(write: Write) -> None:
    path = write(
        "app,func,end_timestamp,duration", "a,late,9,1", "a,first,7,5", "a,z,4,1", "a,y,4,1"
    )
    trace = timed(path)
    assert not trace.in_order
    assert [function for _, function in trace.calls()] == ["a/first", "a/z", "a/y", "a/late"]
    assert (trace.first_us, trace.last_us) == (2_000_000, 8_000_000)


def test_columns_of_azure2021_come_in_any_order(write: Write) -> None:
    path = write("duration,end_timestamp,func", "1,2,f", "1,3,g", end="\r\n", final=False)
    assert list(timed(path).calls()) == [(0, "f"), (1_000_000, "g")]


def test_timestamps_have_up_to_seven_digits_and_irrelevant_columns(write: Write) -> None:
    path = write(
        "TIMESTAMP,ContextTokens",
        "2023-11-16 18:17:03.9799607,4808",
        "2023-11-16 18:17:04.0319600,3180",
        "2023-11-16 18:17:05,3180",
        "",
        "2023-11-16T18:18:03.97996,5",
        end="\r\n",
        final=False,
    )
    trace = timed(path)
    assert trace.format == "timestamps"
    assert [at_us for at_us, _ in trace.calls()] == [0, 52_000, 1_020_040, 60_000_000]
    assert (trace.minutes, trace.mean_per_s, trace.names_functions) == (2, 0.05, False)


def test_zones_are_respected_and_none_is_utc(write: Write) -> None:
    path = write("time", "2024-01-01T01:00:00+01:00", "2024-01-01T00:00:01Z", "2024-01-01 00:00:02")
    assert [at_us for at_us, _ in timed(path).calls()] == [0, 1_000_000, 2_000_000]


def test_timestamps_need_no_header(write: Write) -> None:
    path = write("2023-11-16 18:17:03,4808", "2023-11-16 18:17:04,3180")
    assert [at_us for at_us, _ in timed(path).calls()] == [0, 1_000_000]


def test_seconds_count_from_the_first_whatever_they_started_at(write: Write) -> None:
    path = write("1700000000.123456", "1700000001", "1700000001.5")
    assert [at_us for at_us, _ in timed(path).calls()] == [0, 876_544, 1_376_544]


def test_timestamps_may_name_functions(write: Write) -> None:
    trace = timed(write("function,timestamp", "f,0.5", "g,1"))
    assert list(trace.calls()) == [(0, "f"), (500_000, "g")]
    assert trace.names_functions


def test_calls_are_counted_by_minute_and_bucket(write: Write) -> None:
    path = write("function,timestamp", "f,10", "g,69.999999", "f,70", "f,200", "g,200")
    counts = timed(path).by_minute(2, ["f", "g"].index)
    assert list(counts) == [(0, [1, 1]), (1, [1, 0]), (3, [1, 1])]


@pytest.mark.parametrize(
    ("format", "lines", "says"),
    [
        ("azure2021", ("end_timestamp,func", "1,f"), ":1: no column duration"),
        ("azure2021", ("duration,func", "1,f"), ":1: no column end_timestamp"),
        ("azure2021", ("end_timestamp,duration", "5,1", "x,1"), ":3: end_timestamp 'x'"),
        ("azure2021", ("end_timestamp,duration", "5,-1"), ":2: end_timestamp '5', duration '-1'"),
        ("azure2021", ("end_timestamp,duration", "nan,1"), ":2: end_timestamp 'nan'"),
        ("azure2021", ("end_timestamp,duration", "5"), ":2: 1 cells where the first row has 2"),
        ("azure2021", ("end_timestamp,duration",), ": no calls in it"),
        ("timestamps", ("time", "2024-01-01", "soon"), ":3: 'soon' is not a timestamp"),
        ("timestamps", ("time", "1.5", "2024-01-01"), ":3: '2024-01-01' is not a number of"),
        ("timestamps", ("1700000000123",), ":1: '1700000000123' cannot be seconds; divide"),
        ("timestamps", ("1", "inf"), ":2: 'inf' cannot be seconds"),
        ("timestamps", ("time", "1", "1,2"), ":3: 2 cells where the first row has 1"),
        ("timestamps", ("a,b", "1,2"), ":1: no column of timestamps"),
        ("timestamps", ("1,2",), ":1: no column of timestamps"),
        ("timestamps", ("time,timestamp", "1,2"), ":1: columns time and timestamp mean the same"),
        ("timestamps", ("",), ": empty"),
    ],
)
def test_error_in_a_timed_trace_is_said_with_its_line(
    write: Write, format: str, lines: tuple[str, ...], says: str
) -> None:
    path = write(*lines)
    with pytest.raises(Rejected) as refused:
        read_trace(path, format)
    assert str(refused.value).startswith(f"{path}{says}")
    assert "\n" not in str(refused.value)
