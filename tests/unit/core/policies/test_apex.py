"""Apex, feature by feature. A vCPU costs one picodollar per microsecond and a vGPU ten."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from esg.core.catalog.config import Config
from esg.core.messages.commands import StageReport
from esg.core.policies.apex.features import Feature
from esg.core.policies.apex.policy import SPARED, Apex, BatchPlansCache
from esg.core.policies.interface import Offer, Placement, QueueView
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Phase
from esg.errors import Rejected
from esg.units import PPM, ms
from tests.support.apex_cases import (
    LEAN_AND_FAST,
    PAIRS,
    apex,
    held_until_ms,
    offered,
    trusted,
)
from tests.support.emulated_runs import run
from tests.support.policy_cases import (
    by_name,
    chain,
    make_node,
    queue_view,
    run_two_hundred_heavy_requests,
)


def test_a_plan_on_the_edge_is_not_taken_if_times_vary() -> None:
    varying = chain(LEAN_AND_FAST, spread=0.02)
    on_the_edge = queue_view(varying, slo_ms=104)  # less than 100 and two and a half times 2
    assert offered(varying, on_the_edge).plans[0].config == Config(1, 2, 1)
    assert offered(varying, on_the_edge, "risk").plans[0].config == Config(1, 1, 1)
    assert offered(varying, queue_view(varying, slo_ms=106)).plans[0].config == Config(1, 1, 1)


def test_plans_reckon_with_the_pace_that_was_measured() -> None:
    steady = chain(LEAN_AND_FAST)
    one = queue_view(steady, slo_ms=105)
    assert offered(steady, one).plans[0].config == Config(1, 1, 1)
    one.queue.pace_ppm, one.queue.spread_ppm = PPM * 11 // 10, 0
    assert offered(steady, one).plans[0].config == Config(1, 2, 1)  # 95 takes 104.5


def test_a_slow_stage_is_not_evened_out_by_fast_ones_that_take_less_of_the_time() -> None:
    two = chain({(1, 1, 1): 100, (1, 2, 1): 95}, {(1, 1, 1): 100, (1, 4, 1): 20})
    one = queue_view(two, slo_ms=145)
    one.queue.pace_ppm, one.queue.spread_ppm = PPM * 12 // 10, 0
    later = one.state.queues["app/b"]
    later.pace_ppm, later.spread_ppm = PPM * 8 // 10, 0
    # the mean pace is 1, but 100 and 20 take 120 + 16
    assert offered(two, one).plans[0].config == Config(1, 1, 1)
    one = queue_view(two, slo_ms=132)
    one.queue.pace_ppm, one.queue.spread_ppm = PPM * 12 // 10, 0
    one.state.queues["app/b"] = later
    assert offered(two, one).plans[0].config == Config(1, 2, 1)  # 114 + 16


def test_safety_is_bought_where_it_is_cheap() -> None:
    cheap = chain({(1, 1, 1): 100, (1, 2, 1): 95}, spread=0.02)  # 11 x 100, 12 x 95
    dear = chain({(1, 1, 1): 100, (1, 3, 2): 95}, spread=0.02)  # 23 x 95
    # both would be late one time in forty, at three times 1100
    assert offered(cheap, queue_view(cheap, slo_ms=104)).plans[0].config == Config(1, 2, 1)
    assert offered(dear, queue_view(dear, slo_ms=104)).plans[0].config == Config(1, 1, 1)
    late = queue_view(dear, slo_ms=100)  # one time in two
    assert offered(dear, late).plans[0].config == Config(1, 3, 2)


def test_profiles_that_were_never_seen_at_work_are_not_relied_on_by_a_batch() -> None:
    pairs = chain(PAIRS, spread=0.01)
    two = queue_view(pairs, waiting=2, slo_ms=135)
    assert offered(pairs, two).plans[0].config == Config(1, 1, 1)
    assert offered(pairs, trusted(two)).plans[0].config == Config(2, 1, 1)
    lone = queue_view(pairs, slo_ms=130, interval_ms=20)
    assert held_until_ms(pairs, lone) is None
    assert held_until_ms(pairs, trusted(lone)) is not None


DEAR = {(1, 1, 1): 100, (1, 6, 1): 95, (2, 1, 1): 300}
"""One vCPU costs 1100, six cost 1520. At 104 ms the former is late one time in forty, which counts
three times 28 or thirty times."""


def test_a_batch_takes_no_risk_at_the_last_stage() -> None:
    last = chain(DEAR, spread=0.02)
    one, two = (trusted(queue_view(last, waiting=waiting, slo_ms=104)) for waiting in (1, 2))
    assert offered(last, one).plans[0].config == Config(1, 1, 1)
    assert offered(last, two).plans[0].config == Config(1, 6, 1)


def test_a_batch_takes_a_risk_that_a_later_stage_can_make_up_for() -> None:
    """If it gets late, the next stage has a faster config; but there is no room for that where
    vCPUs are scarce."""
    two = chain(DEAR, {(1, 1, 1): 3, (1, 2, 1): 2}, spread=0.02)
    pair = trusted(queue_view(two, waiting=2, slo_ms=106))
    pair.state.nodes = by_name(make_node("i0", vcpus=10))
    assert offered(two, pair).plans[0].config == Config(1, 1, 1)
    pair.state.nodes = by_name(make_node("i0", vcpus=10, free=(4, 1)))
    assert offered(two, pair).plans[0].config == Config(1, 6, 1)


def test_job_that_was_in_a_batch_takes_no_risk_at_the_last_stage() -> None:
    two = chain({(1, 1, 1): 50, (2, 1, 1): 60}, DEAR, spread=0.02)
    for batch, config in ((1, Config(1, 1, 1)), (2, Config(1, 6, 1))):
        lone = trusted(queue_view(two, stage="b", slo_ms=104))
        run = lone.requests["r1"].runs["a"]
        run.phase, run.keeper = Phase.DONE, "i0"
        run.report = StageReport(
            stage="a",
            task="t1",
            invoker="i0",
            config=Config(batch, 1, 1),
            ready_us=0,
            started_us=0,
            finished_us=0,
            cost_pusd=0,
        )
        assert offered(two, lone).plans[0].config == config


def test_a_batch_does_not_rely_on_a_few_runs_that_hardly_varied() -> None:
    last = chain(DEAR, spread=0.02)
    for waiting, config in ((1, Config(1, 1, 1)), (2, Config(1, 6, 1))):
        lucky = trusted(queue_view(last, waiting=waiting, slo_ms=104))
        lucky.queue.spread_ppm = 1000
        assert offered(last, lucky).plans[0].config == config


def test_a_plan_takes_no_batch_larger_than_its_cohort() -> None:
    two = chain(LEAN_AND_FAST, PAIRS)
    assert offered(two, queue_view(two, slo_ms=220)).plans[0].rest[0].config == Config(1, 1, 1)
    alone = offered(two, trusted(queue_view(two, slo_ms=220)), "cohorts").plans[0]
    assert alone.rest[0].config == Config(2, 1, 1)


def test_the_nearest_to_the_end_comes_first_and_the_lost_come_last() -> None:
    two = chain(LEAN_AND_FAST, LEAN_AND_FAST)
    first, second = queue_view(two, slo_ms=400), queue_view(two, stage="b", slo_ms=400)
    both = [first.queue, second.queue]
    assert [queue.stage for queue in apex(two).order(both, ms(0))] == ["b", "a"]
    assert [queue.stage for queue in apex(two).order(both, ms(399))] == ["a", "b"]  # round-robin
    second.queue.jobs[0].deadline_us = ms(10)
    assert [queue.stage for queue in apex(two).order(both, ms(0))] == ["a", "b"]
    second.queue.visit, first.queue.visit = 1, 2
    assert [queue.stage for queue in apex(two, "order").order(both, ms(0))] == ["b", "a"]


def test_jobs_that_can_be_in_time_do_not_wait_behind_those_that_cannot() -> None:
    pairs = chain(PAIRS)
    three = queue_view(pairs, waiting=3, slo_ms=300)
    three.jobs[0].deadline_us = ms(99)
    assert offered(pairs, three).picks == (1, 2)


def test_lost_jobs_go_together_where_there_is_room_to_spare() -> None:
    pairs = chain(PAIRS)
    lost = queue_view(pairs, waiting=3, slo_ms=50)
    lost.state.nodes = by_name(make_node("i0", vgpus=4))
    assert offered(pairs, lost).plans[0].config.batch == 2
    lost.state.nodes = by_name(make_node("i0", vgpus=4, free=(2, int(4 * SPARED))))
    assert held_until_ms(pairs, lost) == 50
    assert held_until_ms(pairs, lost, "hopeless") is None


def test_the_books_balance_while_two_hundred_heavy_requests_are_served() -> None:
    assert len(run_two_hundred_heavy_requests("apex")) == 200


def test_apex_is_cheaper_than_esg_and_in_time() -> None:
    ours, theirs = run(policy="apex").summary, run(policy="esg").summary
    assert ours["slo_hit_rate"] > 0.99
    assert ours["cost_usd"] < 0.97 * theirs["cost_usd"]
    assert ours["mean_batch"] > 1.2


def test_apex_serves_from_a_cold_start_as_soon_as_models_are_loaded() -> None:
    found = run("moderate-normal", policy="apex", requests=1200, warm_start=False).summary
    # the slowest model takes 22 s, two thirds of this run
    assert found["slo_hit_rate"] > 0.2
    assert run("moderate-normal", requests=1200, warm_start=False).summary["slo_hit_rate"] < 0.01


def test_nodes_are_looked_at_once_in_a_backlog_however_many_plans_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []
    look, place = NodeBooks.warm_free, Apex.place

    def counted(node: NodeBooks, function: str, count: int, kind: str) -> list[int]:
        looks.append(node.invoker)
        return look(node, function, count, kind)

    def checked(
        self: Apex, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        del looks[:]
        found = place(self, view, offer, nodes)
        if found is None:  # all plans were tried
            assert len(looks) <= 3 * len(nodes), f"{len(offer.plans)} plans: {looks}"
        return found

    monkeypatch.setattr(NodeBooks, "warm_free", counted)
    monkeypatch.setattr(Apex, "place", checked)
    cold = run("moderate-normal", policy="apex", requests=40, warm_start=False, nodes=4)
    assert cold.summary["failed"] == 0


def test_unknown_feature_of_apex_cannot_be_left_out() -> None:
    catalog = chain(LEAN_AND_FAST)
    with pytest.raises(Rejected, match="did you mean 'holding'"):
        policy("apex", catalog, PolicySettings(without=("holdin",)))


def test_batch_plans_needed_so_far_are_built_at_once_for_a_corrected_profile() -> None:
    cache = BatchPlansCache()
    before = cache.of(chain(PAIRS))["app"]
    assert before[0].whole_pusd > 0
    after = cache.of(chain({cell: 2 * time_ms for cell, time_ms in PAIRS.items()}))["app"]
    assert [plans.built for plans in before] == [plans.built for plans in after]
    assert after[0].whole_pusd == 2 * before[0].whole_pusd


@pytest.mark.parametrize("feature", list(Feature))
def test_apex_serves_every_request_without_any_one_feature(feature: Feature) -> None:
    found = run(requests=60, policy="apex", without=(str(feature),)).summary
    assert found["requests"] == 60
    assert found["failed"] == 0
    assert found["slo_hit_rate"] > 0.9


def test_a_later_version_of_an_application_is_planned_for_like_the_first() -> None:
    first = chain(LEAN_AND_FAST, PAIRS)
    ((name, application),) = first.applications.items()
    later = replace(application, name=f"{name}@2")
    both = replace(first, applications={name: application, later.name: later})
    assert offered(both, queue_view(both, slo_ms=300)) == offered(
        first, queue_view(first, slo_ms=300)
    )
    assert set(BatchPlansCache().of(both)) == {name, later.name}
