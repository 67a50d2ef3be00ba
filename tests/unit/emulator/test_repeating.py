"""The same seed gives the same run, whatever the noise; another seed gives another."""

import io
import math
from typing import Any

import pytest

from esg.emulator.run import emulate
from esg.emulator.sweep import Generated, SweepRun, run_job
from esg.workload.plan import Workload
from tests.support.emulated_runs import paper, run, scenario

HUNDRED = Generated(Workload(rate="heavy", requests=100))


def digest(**changes: Any) -> str:
    return str(run_job(SweepRun("", paper(), scenario(**changes), HUNDRED)).summary["digest"])


def without_clock(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name != "wall_s"}


def test_emulation_with_the_same_seed_is_the_same_to_the_last_order() -> None:
    again = run.__wrapped__(requests=100)
    assert without_clock(run(requests=100).summary) == without_clock(again.summary)
    assert run(requests=100).seen.started == again.seen.started


def test_emulation_with_another_seed_is_another() -> None:
    assert len({digest(seed=seed) for seed in range(3)}) == 3


@pytest.mark.parametrize(
    "changes",
    [{"policy": "orion"}, {"nodes": 4}, {"slo_scale": 0.8}, {"noise": 0.5}, {"warm_start": False}],
    ids=str,
)
def test_emulation_under_other_conditions_is_another(changes: dict[str, Any]) -> None:
    assert digest(**changes) != digest()


def test_watching_a_run_does_not_change_it() -> None:
    journal, count = io.StringIO(), 0

    def arrived(number: int) -> None:
        nonlocal count
        count += number

    arrivals = HUNDRED.arrivals(list(paper().applications), 0)
    watched = emulate(paper(), scenario(), arrivals, journal=journal, progress=arrived)
    assert watched.digest == digest()
    assert count == 100
    assert journal.getvalue().count('"event":"RequestArrived"') == 100


def test_measured_overhead_is_charged_from_the_clock() -> None:
    measured = run(requests=100, overhead="measured").summary
    free = run(requests=100, overhead="none").summary
    assert free["decision_ms"] == 0
    assert measured["decision_ms"] > 0
    assert measured["requests"] == 100


def test_counted_overhead_is_effort_over_nodes_per_ms() -> None:
    """Rounded up: even a decision that looks at one config takes a microsecond."""
    quick = run(requests=100, search_steps_per_ms=10_000)
    slow = run(requests=100, search_steps_per_ms=10)
    for ran, search_steps_per_ms in ((quick, 10_000), (slow, 10)):
        charged_us = [
            math.ceil(task.decision.effort * 1000 / search_steps_per_ms)
            for task in ran.seen.started
        ]
        assert min(charged_us) >= 1
        assert ran.summary["decision_ms"] == pytest.approx(sum(charged_us) / 1000 / len(charged_us))
    assert slow.summary["latency_ms"]["p50"] > quick.summary["latency_ms"]["p50"]


def test_the_time_that_orion_may_search_is_reckoned_with_the_same_figure() -> None:
    """Where a millisecond stands for ten times as many nodes, its 100 ms do, too."""
    usual = run(requests=40, policy="orion", slo_scale=0.7, orion_cutoff_ms=1)
    quick = run(
        requests=40, policy="orion", slo_scale=0.7, orion_cutoff_ms=1, search_steps_per_ms=3000
    )
    searched = [max(task.decision.effort for task in ran.seen.started) for ran in (usual, quick)]
    assert searched[1] > 2 * searched[0]
