"""What a load came to, counted."""

import pytest

from esg.client import Config, Outcome, Result, StageResult
from esg.core.metrics import Served, percentiles
from esg.loadgen.outcome import MOST_REASONS, OTHER_REASONS, LatencyHistogram, LoadOutcome
from esg.loadgen.send import SentRequest
from esg.units import US_PER_HOUR
from esg.workload.arrivals import Arrival


def stage(batch: int) -> StageResult:
    return StageResult(
        stage="stage",
        task="t1",
        node="i0",
        config=Config(batch, 1, 1),
        ready_ms=0.0,
        started_ms=0.0,
        finished_ms=1.0,
        cost_usd=0.0,
    )


def answered(
    application: str = "app",
    *,
    latency_us: int = 1000,
    late_us: int = 0,
    outcome: Outcome | None = Outcome.DONE,
    in_time: bool = True,
    why: str = "",
    cost_usd: float = 0.0,
    batches: tuple[int, ...] = (),
) -> SentRequest:
    """An answer; without an outcome, there was no result."""
    result = None
    if outcome is not None:
        result = Result(
            request_id="r",
            application=application,
            outcome=outcome,
            reason=why,
            slo_met=in_time,
            slo_ms=100.0,
            latency_ms=latency_us / 1000,
            cost_usd=cost_usd,
            stages=tuple(map(stage, batches)),
        )
    error = why if outcome is None else ""
    return SentRequest(1, Arrival(0, application), late_us, latency_us, result, error)


def totals(*answers: SentRequest) -> LoadOutcome:
    outcome = LoadOutcome()
    for answer in answers:
        outcome.add(answer)
    return outcome


def test_outcome_of_an_empty_load_counts_nothing() -> None:
    assert LoadOutcome().document() == {
        "requests": 0,
        **Served().document(),
        "latency_ms": {"p50": None, "p90": None, "p99": None},
        "batched_share": 0.0,
        "applications": {},
        "errors": {},
        "sender_late_ms_p99": 0.0,
    }


def test_the_hit_rate_is_also_of_requests_without_an_answer() -> None:
    found = totals(
        answered(),
        answered(in_time=False),
        answered(outcome=Outcome.FAILED, in_time=False, why="no luck"),
        answered(outcome=None, why="not now"),
    ).document()
    assert (found["requests"], found["slo_hit_rate"], found["failed"]) == (4, 0.25, 2)


def test_percentiles_are_right_to_three_digits_and_of_requests_that_were_done() -> None:
    answers = [answered(latency_us=1000 * number) for number in range(1, 101)]
    answers.append(answered(outcome=Outcome.FAILED, in_time=False, latency_us=10**9))
    found = totals(*answers).document()
    assert found["latency_ms"] == pytest.approx({"p50": 51, "p90": 91, "p99": 100}, rel=1e-3)


@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 99, 1000])
def test_percentiles_of_a_histogram_have_the_rank_of_those_of_a_list(
    count: int, digits: int
) -> None:
    times_us = [7919 * number % 1009 * 1000 + 1000 for number in range(count)]
    histogram = LatencyHistogram(digits)
    for time_us in times_us:
        histogram.add(time_us)
    percents = (0, 1, 50, 90, 99, 99.9, 100)
    exact_ms = [time_us / 1000 for time_us in percentiles(times_us, *percents)]
    assert histogram.percentiles_ms(*percents) == pytest.approx(exact_ms, rel=10**-digits)


def test_errors_are_counted_by_their_words_the_most_frequent_first() -> None:
    found = totals(
        answered(outcome=None, why="not now"),
        answered(outcome=Outcome.CANCELLED, in_time=False, why="given up"),
        answered(outcome=Outcome.CANCELLED, in_time=False, why="given up"),
        answered(),
    ).document()
    assert list(found["errors"].items()) == [("given up", 2), ("not now", 1)]


def test_costs_and_batches_add_up_also_of_requests_that_failed() -> None:
    found = totals(
        answered(cost_usd=0.002, batches=(1, 2, 4)),
        answered(cost_usd=0.001, batches=(1,), outcome=Outcome.FAILED, in_time=False),
        answered(outcome=None, why="not now"),
    ).document()
    assert found["cost_usd"] == pytest.approx(0.003)
    assert found["cost_usd_per_1k_requests"] == pytest.approx(1.0)
    assert found["batched_share"] == 0.5


def test_every_application_has_figures_of_its_own() -> None:
    found = totals(
        answered("scene", latency_us=3000),
        answered("photo", in_time=False),
        answered("scene", latency_us=5000),
    ).document()
    assert list(found["applications"]) == ["photo", "scene"]
    assert found["applications"]["photo"]["slo_hit_rate"] == 0.0
    scene = found["applications"]["scene"]
    assert (scene["requests"], scene["slo_hit_rate"]) == (2, 1.0)
    assert scene["latency_ms"] == pytest.approx({"p50": 5, "p90": 5, "p99": 5}, rel=1e-3)
    assert found["requests"] == 3


def test_outcome_tells_how_late_the_sender_was() -> None:
    found = totals(*(answered(late_us=1000 * number) for number in range(1, 101))).document()
    assert found["sender_late_ms_p99"] == pytest.approx(100, rel=1e-3)


def test_unsent_requests_count_as_failed() -> None:
    outcome = totals(answered("photo"), answered("photo"), answered("scene"))
    outcome.not_sent("photo", 3, "no room")
    assert (outcome.total.requests, outcome.total.not_done, outcome.error_rate) == (6, 3, 0.5)
    photo = outcome.by_application["photo"].document()
    assert (photo["requests"], photo["failed"], photo["slo_hit_rate"]) == (5, 3, 0.4)
    assert outcome.errors == {"no room": 3}


def test_reasons_without_number_are_put_together() -> None:
    outcome = totals(*(answered(outcome=None, why=f"{n} is bad") for n in range(MOST_REASONS + 9)))
    assert len(outcome.errors) == MOST_REASONS + 1
    assert outcome.errors[OTHER_REASONS] == 9


def test_latency_histogram_counts_times_beyond_its_bounds() -> None:
    times = LatencyHistogram()
    for time_us in (-5, 0, 2 * US_PER_HOUR):
        times.add(time_us)
    assert len(times) == 3
    assert times.percentiles_ms(1, 99) == [0.0, US_PER_HOUR / 1000]


def test_times_that_are_merged_are_as_if_they_had_been_added_to_one() -> None:
    one, other, both = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
    for time_us in range(1000, 100_000, 700):
        (one if time_us % 1400 else other).add(time_us)
        both.add(time_us)
    one.merge(other)
    assert len(one) == len(both)
    assert one.percentiles_ms(10, 50, 99.9) == both.percentiles_ms(10, 50, 99.9)
    assert one.most_ms == both.most_ms
