"""What a load came to, counted."""

import pytest

from client import Config, Outcome, Result, StageResult
from loadgen.arrivals import Arrival
from loadgen.outcome import Outcome as Totals
from loadgen.send import Answered


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
) -> Answered:
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
    return Answered(1, Arrival(0, application), late_us, latency_us, result, error)


def totals(*answers: Answered) -> Totals:
    outcome = Totals()
    for answer in answers:
        outcome.add(answer)
    return outcome


def test_nothing_sent_is_nothing_counted() -> None:
    assert Totals().document() == {
        "requests": 0,
        "slo_hit_rate": 0.0,
        "failed": 0,
        "latency_ms": {"p50": None, "p90": None, "p99": None},
        "cost_usd": 0.0,
        "cost_usd_per_1k_requests": 0.0,
        "batched_share": 0.0,
        "applications": {},
        "errors": {},
        "sender_late_ms_p99": 0.0,
    }


def test_the_hit_rate_is_over_all_requests_also_those_without_an_answer() -> None:
    found = totals(
        answered(),
        answered(in_time=False),
        answered(outcome=Outcome.FAILED, in_time=False, why="no luck"),
        answered(outcome=None, why="not now"),
    ).document()
    assert (found["requests"], found["slo_hit_rate"], found["failed"]) == (4, 0.25, 2)


def test_percentiles_are_latencies_that_were_seen_of_requests_that_were_done() -> None:
    answers = [answered(latency_us=1000 * number) for number in range(1, 101)]
    answers.append(answered(outcome=Outcome.FAILED, in_time=False, latency_us=10**9))
    found = totals(*answers).document()
    assert found["latency_ms"] == {"p50": 51.0, "p90": 91.0, "p99": 100.0}


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
    assert scene["latency_ms"] == {"p50": 5.0, "p90": 5.0, "p99": 5.0}
    assert found["requests"] == 3


def test_how_late_the_sender_was_is_told() -> None:
    found = totals(*(answered(late_us=1000 * number) for number in range(100))).document()
    assert found["sender_late_ms_p99"] == 99.0
