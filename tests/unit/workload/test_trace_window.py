"""Traces become arrivals: counts are kept, order is kept, the seed decides the rest."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esg.errors import Rejected
from esg.units import US_PER_S, seconds
from esg.workload.arrivals import Arrival
from esg.workload.mix import Mix, parse_mix
from esg.workload.trace_window import Shaping, from_trace
from esg.workload.traces.counted import CountedTrace
from esg.workload.traces.read import Trace, read_trace
from tests.support.trace_files import Write

MINUTE_US = 60 * US_PER_S
MIX = parse_mix("a=2,b=1,c=1")
often = settings(max_examples=60, deadline=None)
minutes = st.lists(st.integers(0, 60), min_size=1, max_size=8)
seeds = st.integers(0, 2**31)
exact = st.sampled_from(["even", "uniform"])
placements = st.sampled_from(["even", "uniform", "poisson"])


def counted(calls: list[int]) -> CountedTrace:
    return CountedTrace(path=Path("t"), format="counts", calls=np.array(calls), count=None)


def shaped(trace: Trace, seed: int = 1, mix: Mix = MIX, **shaping: Any) -> list[Arrival]:
    return list(from_trace(trace, mix, seed, Shaping(**shaping)))


def per_minute(arrivals: list[Arrival], length: int) -> list[int]:
    found = Counter(arrival.at_us // MINUTE_US for arrival in arrivals)
    assert all(0 <= minute < length for minute in found)
    return [found[minute] for minute in range(length)]


@often
@given(minutes, seeds, exact)
def test_counts_are_kept_exactly(calls: list[int], seed: int, in_minute: str) -> None:
    assert per_minute(shaped(counted(calls), seed, in_minute=in_minute), len(calls)) == calls


@often
@given(minutes, seeds, placements, st.floats(0.05, 4))
def test_time_never_runs_backwards(
    calls: list[int], seed: int, in_minute: str, scale: float
) -> None:
    arrivals = shaped(counted(calls), seed, in_minute=in_minute, scale=scale)
    assert all(before.at_us <= after.at_us for before, after in pairwise(arrivals))


@often
@given(minutes, seeds, placements)
def test_arrivals_of_a_trace_with_the_same_seed_are_the_same(
    calls: list[int], seed: int, in_minute: str
) -> None:
    first = shaped(counted(calls), seed, in_minute=in_minute)
    assert first == shaped(counted(calls), seed, in_minute=in_minute)


@often
@given(minutes, seeds, placements)
def test_instants_do_not_depend_on_the_mix(calls: list[int], seed: int, in_minute: str) -> None:
    one = shaped(counted(calls), seed, Mix.uniform(["a"]), in_minute=in_minute)
    three = shaped(counted(calls), seed, in_minute=in_minute)
    assert [arrival.at_us for arrival in one] == [arrival.at_us for arrival in three]


@often
@given(minutes, exact, st.floats(0.01, 5))
def test_scaled_counts_never_drift(calls: list[int], in_minute: str, scale: float) -> None:
    found = per_minute(shaped(counted(calls), scale=scale, in_minute=in_minute), len(calls))
    for end in range(1, len(calls) + 1):
        assert abs(sum(found[:end]) - scale * sum(calls[:end])) <= 0.5 + 1e-6


@often
@given(minutes, seeds, placements, st.data())
def test_a_part_is_what_the_whole_has_there(
    calls: list[int], seed: int, in_minute: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(calls) - 1))
    length_us = data.draw(st.integers(1, 3 * MINUTE_US))
    start_us = start * MINUTE_US
    trace = counted(calls)
    whole = shaped(trace, seed, in_minute=in_minute, scale=1.7)
    part = shaped(
        trace, seed, in_minute=in_minute, scale=1.7, start_minute=start, duration_us=length_us
    )
    assert part == [
        Arrival(arrival.at_us - start_us, arrival.application)
        for arrival in whole
        if start_us <= arrival.at_us < start_us + length_us
    ]


def test_even_calls_are_equally_far_apart_across_minutes() -> None:
    at_us = [arrival.at_us for arrival in shaped(counted([3, 3]), in_minute="even")]
    assert at_us == [seconds(s) for s in (10, 30, 50, 70, 90, 110)]


def test_uniform_calls_fill_the_minute_evenly_on_average() -> None:
    at_us = [arrival.at_us for arrival in shaped(counted([20_000]))]
    tenths = Counter(instant * 10 // MINUTE_US for instant in at_us)
    assert len(tenths) == 10
    assert all(number == pytest.approx(2_000, rel=0.1) for number in tenths.values())


def test_poisson_counts_are_right_on_average_and_vary() -> None:
    found = per_minute(shaped(counted([100] * 400), in_minute="poisson", scale=0.5), 400)
    mean = sum(found) / 400
    assert mean == pytest.approx(50, rel=0.03)
    assert sum((number - mean) ** 2 for number in found) / 400 == pytest.approx(50, rel=0.25)


@pytest.mark.parametrize(("rate", "per_s"), [("heavy", 1e3 / 13.4), ("5/s", 5)])
@pytest.mark.parametrize("in_minute", ["even", "uniform", "poisson"])
def test_a_rate_scales_the_mean_of_the_trace(rate: str, per_s: float, in_minute: str) -> None:
    trace = counted([1, 30, 0, 2, 60, 7])
    arrivals = shaped(trace, rate=rate, in_minute=in_minute)
    assert len(arrivals) / 360 == pytest.approx(per_s, rel=0.05)


@pytest.mark.parametrize("last_s", ["0.5", "61"])
def test_instants_that_are_placed_anew_have_the_rate_over_their_minutes(
    write: Write, last_s: str
) -> None:
    trace = read_trace(write("time", "0", "0.25", last_s))
    arrivals = shaped(trace, rate="2/s", in_minute="even")
    assert len(arrivals) == 2 * 60 * trace.minutes


def test_a_rate_squeezes_a_trace_that_knows_instants(write: Write) -> None:
    trace = read_trace(write("time", "100", "100.5", "104"))
    assert [arrival.at_us for arrival in shaped(trace, rate="1/s")] == [0, 250_000, 2_000_000]
    assert [arrival.at_us for arrival in shaped(trace, scale=0.5)] == [0, 1_000_000, 8_000_000]


def test_instants_are_kept_as_recorded(write: Write) -> None:
    trace = read_trace(write("time", "10", "75.25", "199"))
    assert [arrival.at_us for arrival in shaped(trace)] == [0, 65_250_000, 189_000_000]
    late = shaped(trace, start_minute=1, duration_us=seconds(60))
    assert [arrival.at_us for arrival in late] == [5_250_000]
    assert late[0].application == shaped(trace)[1].application


def test_instants_are_counted_and_placed_anew_when_asked(write: Write) -> None:
    trace = read_trace(write("time", "10", "11", "75.25", "199"))
    at_us = [arrival.at_us for arrival in shaped(trace, in_minute="even", scale=2)]
    assert at_us == [seconds(s) for s in (7.5, 22.5, 37.5, 52.5, 75, 105, 195, 225)]


@pytest.mark.parametrize("scale", [1, 3])
def test_applications_follow_functions_exactly(write: Write, scale: int) -> None:
    rows = [f"f{number},{number % 5},{number % 3}" for number in range(30)]
    trace = read_trace(write("HashFunction,1,2", *rows))
    wanted: Counter[tuple[int, str]] = Counter()
    for row in rows:
        function, first, second = row.split(",")
        application = MIX.applications[MIX.index_of(function)]
        wanted[0, application] += scale * int(first)
        wanted[1, application] += scale * int(second)
    arrivals = shaped(trace, by_function=True, scale=scale)
    assert wanted == Counter((found.at_us // MINUTE_US, found.application) for found in arrivals)
    by_weight = shaped(trace, scale=scale)
    assert [found.at_us for found in arrivals] == [found.at_us for found in by_weight]


def test_applications_follow_functions_on_average_when_counts_are_random(write: Write) -> None:
    trace = read_trace(write("HashFunction,1", "f1,3000", "f2,1000"))
    mix = Mix.uniform(["a", "b"])
    assert mix.index_of("f1") != mix.index_of("f2")
    found = shaped(trace, mix=mix, by_function=True, in_minute="poisson")
    busy = mix.applications[mix.index_of("f1")]
    share = sum(arrival.application == busy for arrival in found) / len(found)
    assert share == pytest.approx(0.75, abs=0.03)


def test_each_call_of_a_function_goes_to_its_application(write: Write) -> None:
    trace = read_trace(write("function,time", "f,0.5", "g,1", "f,1", "h,2"))
    names = [MIX.applications[MIX.index_of(function)] for function in "fgfh"]
    assert [arrival.application for arrival in shaped(trace, by_function=True)] == names


def test_a_trace_without_calls_gives_no_arrivals() -> None:
    assert shaped(counted([0, 0])) == []


@pytest.mark.parametrize(
    ("shaping", "says"),
    [
        ({"scale": 0}, "scale is 0; give a number above 0"),
        ({"scale": -1}, "scale is -1"),
        ({"scale": float("nan")}, "scale is nan"),
        ({"scale": float("inf")}, "scale is inf"),
        ({"scale": 1e-320}, "; give 1e-09 at least"),
        ({"rate": "heavy", "scale": 2}, "both set the rate"),
        ({"rate": "hevy"}, "did you mean 'heavy'"),
        ({"duration_us": 0}, "duration is 0 us"),
        ({"in_minute": "evn"}, "did you mean 'even'"),
        ({"start_minute": 2}, "t: start minute 2 is not in the trace; give 0 to 1"),
        ({"start_minute": -1}, "t: start minute -1 is not in the trace"),
        ({"by_function": True}, "t: the trace does not name functions"),
    ],
)
def test_impossible_shaping_is_refused_before_the_first_arrival(
    shaping: dict[str, Any], says: str
) -> None:
    with pytest.raises(Rejected) as refused:
        shaped(counted([5, 5]), **shaping)
    assert says in str(refused.value)


def test_a_mean_that_is_not_there_cannot_be_scaled(write: Write) -> None:
    with pytest.raises(Rejected, match="too few calls"):
        shaped(counted([0]), rate="heavy")
    with pytest.raises(Rejected, match="too few calls"):
        shaped(read_trace(write("time", "5")), rate="heavy")
