"""What must be true of any emulation worth the name, checked against numbers done by hand."""

from itertools import pairwise
from statistics import fmean

import pytest

from esg.core.catalog.config import Config
from esg.core.messages.commands import AnswerRequest
from esg.core.messages.outcome import Outcome
from esg.core.policies.table import POLICIES
from esg.emulator.sweep import Estimate, Generated
from esg.workload.plan import Workload
from tests.support.emulated_runs import limits, paper, run, run_on, scenario, smallest

SETTINGS = ("strict-light", "moderate-normal", "relaxed-heavy")


@pytest.mark.parametrize(("rate", "share"), [("light", 0.21), ("normal", 0.43), ("heavy", 0.85)])
def test_at_the_minimum_config_the_load_is_the_papers(rate: str, share: float) -> None:
    """Busy vGPUs over the time in which requests came: what starts late ends late."""
    ran = run_on(
        smallest(), scenario(slo_scale=None), Generated(Workload(rate=rate, requests=1500))
    )
    assert {task.order.config for task in ran.seen.started} == {Config(1, 1, 1)}
    last_us = ran.seen.arrived[-1][0]
    busy = ran.emulation.report.vgpu_busy_us / (16 * 7 * last_us)
    assert busy == pytest.approx(share, abs=0.02)
    assert ran.summary["vgpu_utilisation"] == pytest.approx(share, rel=0.12)  # with the last ones


@pytest.mark.parametrize("name", ["moderate-normal", "relaxed-heavy"])
def test_esg_with_unlimited_nodes_is_almost_always_in_time(name: str) -> None:
    assert run(name, requests=500, nodes=200).summary["slo_hit_rate"] >= 0.99


def test_doubling_the_noise_never_raises_the_hit_rate_by_more_than_chance() -> None:
    seeds, noises = range(4), (0.0, 1.0, 2.0, 4.0)
    rates = {
        noise: [
            run("strict-light", requests=300, noise=noise, seed=seed).summary["slo_hit_rate"]
            for seed in seeds
        ]
        for noise in noises
    }
    for calm, wild in pairwise(noises):
        rise = Estimate.of([w - c for w, c in zip(rates[wild], rates[calm], strict=True)])
        assert rise.mean <= rise.margin, (calm, wild, rates)
    assert fmean(rates[4.0]) < fmean(rates[0.0])


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_request_is_answered_exactly_once(name: str, policy: str) -> None:
    ran = run(name, policy=policy)  # its books are checked at the end by the emulator itself
    assert set(ran.seen.book.answers) == {request for _, request in ran.seen.arrived}
    assert len(ran.seen.arrived) == 300
    for answer in ran.seen.book.answers.values():
        assert isinstance(answer, AnswerRequest)
        assert answer.outcome is Outcome.DONE
        stages = paper().applications[answer.application].stages
        assert {stage.stage for stage in answer.stages} == set(stages)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("policy", list(POLICIES))
def test_no_policy_is_beyond_the_limits(name: str, policy: str) -> None:
    reached, limit = run(name, policy=policy).summary, limits(name, 300)
    assert reached["slo_hit_rate"] <= limit.slo_hit_rate + 0.01
    assert reached["cost_usd_per_1k_requests"] >= 0.99 * limit.cost_usd_per_1k_requests


@pytest.mark.parametrize("name", SETTINGS)
def test_a_request_takes_at_least_what_it_takes_alone(name: str) -> None:
    """Noise aside, nobody is faster than the fastest configs, one after the other."""
    ran = run(name, noise=0.0)
    for answer in ran.seen.book.answers.values():
        assert isinstance(answer, AnswerRequest)
        application = paper().applications[answer.application]
        last_us = max(stage.finished_us for stage in answer.stages)
        assert last_us - answer.arrived_us >= application.fastest_us()[application.root]


def test_cost_of_a_run_is_the_sum_of_its_requests_costs() -> None:
    ran = run()
    answers = [a for a in ran.seen.book.answers.values() if isinstance(a, AnswerRequest)]
    assert ran.emulation.report.served.cost_pusd == sum(answer.cost_pusd for answer in answers)
    assert ran.summary["cost_usd_per_1k_requests"] == pytest.approx(
        1000 * ran.summary["cost_usd"] / 300
    )
    for answer in answers:
        assert answer.cost_pusd == sum(stage.cost_pusd for stage in answer.stages)
