"""A run over time, in few bins."""

import pytest

from esg.loadgen.record import SentRecord
from esg.loadgen.timeline import MOST_BINS, Timeline
from esg.units import US_PER_S, seconds


def record(at_s: float, latency_s: float = 0.5, *, outcome: str = "done") -> SentRecord:
    times = seconds(at_s), 0, seconds(latency_s)
    return SentRecord(1, "app", *times, outcome, True, 0, 0, 0.0, (), (), "", "")


def timeline(*records: SentRecord) -> Timeline:
    made = Timeline()
    for one in records:
        made.fold(one)
    return made


def test_requests_count_where_they_were_planned_and_where_they_were_answered() -> None:
    found = timeline(record(0.1), record(0.9), record(2.2, 0.1))
    counts = [(second, b.planned, b.answered) for second, b in found.bins()]
    assert counts == [(0.0, 2, 1), (1.0, 0, 1), (2.0, 1, 1)]


def test_failed_request_is_planned_in_its_bin_and_has_no_latency() -> None:
    ((_, only),) = timeline(record(0.1, outcome="failed")).bins()
    assert (only.planned, only.answered, only.latencies) == (1, 0, {})


def test_latencies_belong_to_the_planned_second() -> None:
    (_, first), (_, second) = timeline(record(0.1, 1.0), record(0.2, 0.4)).bins()
    assert first.latencies["app"].percentiles_ms(99) == [pytest.approx(1000, rel=0.01)]
    assert second.latencies == {}


def test_timeline_of_no_requests_has_no_bins() -> None:
    assert list(timeline().bins()) == []


def test_a_long_run_has_wider_bins_and_loses_nothing() -> None:
    count = 10 * MOST_BINS
    found = timeline(*(record(second + 0.1) for second in range(count)))
    bins = list(found.bins())
    assert MOST_BINS / 2 <= len(bins) <= MOST_BINS
    assert found.width_us > US_PER_S
    assert sum(b.planned for _, b in bins) == sum(b.answered for _, b in bins) == count
    assert sum(len(b.latencies["app"]) for _, b in bins) == count
    assert {b.planned for _, b in bins} == {found.width_us // US_PER_S, bins[-1][1].planned}
