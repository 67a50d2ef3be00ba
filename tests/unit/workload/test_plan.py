"""A plan: where arrivals come from, where they end, and what cannot be."""

import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from esg.errors import Rejected
from esg.units import seconds
from esg.workload.arrivals import Arrival, until
from esg.workload.mix import Mix, parse_mix
from esg.workload.plan import DEFAULT_REQUESTS, Extent, Workload
from esg.workload.rates import bursts, poisson, steady
from esg.workload.trace_window import Shaping, from_trace
from esg.workload.traces.read import read_trace
from tests.support.trace_files import Write, save_arrivals

NAMES = ["photo", "scene"]
MIX = Mix.uniform(NAMES)


def arrivals(**chosen: Any) -> list[Arrival]:
    return list(Workload(**chosen).arrivals(NAMES))


@pytest.fixture
def trace(write: Write) -> Path:
    return write("minute,calls", "1,30", "2,60", "3,30")


def test_a_rate_alone_ends_after_a_thousand_requests() -> None:
    endless = steady("heavy", Mix.uniform(NAMES), 0)
    assert arrivals(rate="heavy") == list(islice(endless, DEFAULT_REQUESTS))


def test_requests_or_a_duration_end_it() -> None:
    assert arrivals(rate="120/s", requests=5) == list(islice(steady("120/s", MIX, 0), 5))
    planned = until(steady("light", MIX, 3), seconds(2.5))
    assert arrivals(rate="light", duration_s=2.5, seed=3) == list(planned)


@pytest.mark.parametrize(("pattern", "made"), [("poisson", poisson), ("burst", bursts)])
def test_patterns_are_those_of_the_rate(pattern: str, made: Any) -> None:
    found = arrivals(rate="50/s", pattern=pattern, requests=40, seed=2)
    assert found == list(islice(made("50/s", MIX, 2), 40))


def test_a_mix_chooses_the_applications() -> None:
    found = arrivals(rate="50/s", requests=50, mix="scene=1")
    assert {arrival.application for arrival in found} == {"scene"}
    weighted = arrivals(rate="50/s", requests=50, mix="photo=3,scene=1")
    assert weighted == list(islice(steady("50/s", parse_mix("photo=3,scene=1"), 0), 50))


def test_a_trace_is_sent_whole_or_in_part(trace: Path) -> None:
    assert len(arrivals(trace=trace)) == 120
    assert len(arrivals(trace=trace, requests=7)) == 7
    assert len(arrivals(trace=trace, duration_s=60)) == 30
    assert len(arrivals(trace=trace, start_minute=1)) == 90
    assert len(arrivals(trace=trace, scale=0.5)) == 60


def test_options_that_shape_a_trace_reach_it(trace: Path) -> None:
    shaping = Shaping(rate="heavy", start_minute=1, in_minute="even", duration_us=seconds(30))
    wanted = list(from_trace(read_trace(trace, "counts"), MIX, 4, shaping))
    found = arrivals(
        trace=trace,
        format="counts",
        rate="heavy",
        start_minute=1,
        in_minute="even",
        duration_s=30,
        seed=4,
    )
    assert found == wanted
    assert len(found) > 1000


def test_functions_of_a_trace_keep_their_application(write: Write) -> None:
    calls = [f"app,f{n % 10},{n + 1}.0,0.5" for n in range(40)]
    path = write("app,func,end_timestamp,duration", *calls)
    found = [arrival.application for arrival in arrivals(trace=path, by_function=True)]
    assert found[:10] == found[10:20] == found[20:30] == found[30:]
    assert set(found) == set(NAMES)
    assert found != [arrival.application for arrival in arrivals(trace=path)]


def test_saved_arrivals_are_replayed_exactly(tmp_path: Path) -> None:
    saved = [Arrival(5, "scene"), Arrival(5, "photo"), Arrival(9_000_000, "scene")]
    save_arrivals(tmp_path / "saved.csv", saved)
    assert arrivals(saved=tmp_path / "saved.csv") == saved
    assert arrivals(saved=tmp_path / "saved.csv", duration_s=1) == saved[:2]
    assert arrivals(saved=tmp_path / "saved.csv", requests=1) == saved[:1]


def test_arrivals_of_a_workload_are_the_same_in_another_process(trace: Path) -> None:
    plan = Workload(trace=trace, rate="normal", seed=5)
    assert list(pickle.loads(pickle.dumps(plan)).arrivals(NAMES)) == list(plan.arrivals(NAMES))


FILE = Path("some.csv")


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({}, "nothing says when requests come"),
        ({"rate": "hevy"}, "did you mean 'heavy'"),
        ({"rate": "heavy", "requests": 1, "duration_s": 1.0}, "--requests and --duration"),
        ({"rate": "heavy", "format": "counts"}, "--format is about a trace"),
        ({"rate": "heavy", "scale": 2.0}, "--scale is about a trace"),
        ({"rate": "heavy", "start_minute": 0}, "--start-minute is about a trace"),
        ({"rate": "heavy", "in_minute": "even"}, "--in-minute is about a trace"),
        ({"rate": "heavy", "by_function": True}, "--by-function is about a trace"),
        ({"trace": FILE, "pattern": "poisson"}, "--poisson and --trace"),
        ({"trace": FILE, "pattern": "burst"}, "--burst and --trace"),
        ({"saved": FILE, "rate": "heavy"}, "leave --rate out"),
        ({"saved": FILE, "trace": FILE}, "leave --trace out"),
        ({"saved": FILE, "mix": "photo=1"}, "leave --mix out"),
        ({"saved": FILE, "pattern": "burst"}, "leave --burst out"),
    ],
)
def test_contradictory_workload_is_refused(chosen: dict[str, Any], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        Workload(**chosen)


def test_applications_that_there_are_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="unknown application 'phot'; did you mean 'photo'"):
        arrivals(rate="heavy", mix="phot=1")
    save_arrivals(tmp_path / "saved.csv", [Arrival(1, "other")])
    with pytest.raises(Rejected, match=r"saved.csv:2: unknown application 'other'"):
        arrivals(saved=tmp_path / "saved.csv")


def test_a_scale_and_a_rate_for_one_trace_are_refused(trace: Path) -> None:
    with pytest.raises(Rejected, match="both set the rate"):
        arrivals(trace=trace, rate="heavy", scale=2.0)


def test_a_workload_knows_where_it_ends(tmp_path: Path) -> None:
    counts, instants = tmp_path / "counts.csv", tmp_path / "instants.csv"
    counts.write_text("minute,count\n0,60\n1,60\n2,60\n", "utf-8")
    instants.write_text("timestamp\n" + "".join(f"{n}\n" for n in range(5, 106)), "utf-8")
    assert Workload(rate="heavy", requests=7).extent() == Extent(requests=7)
    assert Workload(rate="heavy", duration_s=7).extent() == Extent(duration_s=7)
    assert Workload(rate="heavy").extent() == Extent(requests=DEFAULT_REQUESTS)
    for workload, requests, duration_s in (
        (Workload(trace=counts, requests=7), 7, 180),
        (Workload(trace=counts, duration_s=600), 180, 180),
        (Workload(trace=counts, duration_s=60, rate="10/s"), 1800, 60),
        (Workload(trace=counts, scale=0.5), 90, 180),
        (Workload(trace=counts, start_minute=1), 180, 120),
        (Workload(trace=instants, requests=1000), 101, 100),
        (Workload(trace=instants, rate="10/s"), 101, 10),
        (Workload(trace=instants, scale=2.0), 101, 50),
        (Workload(trace=instants, in_minute="even"), 101, 120),
    ):
        assert workload.extent() == Extent(requests=requests, duration_s=duration_s)
        came = list(workload.arrivals(NAMES))
        assert len(came) <= requests
        assert came[-1].at_us <= duration_s * 1e6
        assert workload.extent().share(len(came), came[-1].at_us) > 0.98
