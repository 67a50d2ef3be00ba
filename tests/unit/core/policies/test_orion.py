"""Orion: the search, the plan that travels with the jobs, and where it misses."""

from collections.abc import Callable

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.messages.commands import StartTask
from esg.core.policies.interface import Policy
from esg.core.policies.orion import (
    CUTOFF_NODES,
    NODES_PER_MS,
    Aim,
    Orion,
    OrionPipeline,
    SearchResult,
)
from esg.core.search.plan import Step
from esg.units import ms
from tests.support.desk import Desk, arrived, failed, finished, joined, start
from tests.support.policy_cases import (
    Cell,
    catalog,
    chain,
    configs,
    function,
    queue_view,
    run_two_hundred_heavy_requests,
)

# The worked example of the module
EXAMPLE = chain({(1, 1, 1): 100, (1, 2, 1): 60}, {(1, 1, 1): 100, (1, 2, 1): 80, (2, 1, 1): 130})


def search(
    what: Catalog, slo_ms: float, *, aim: Aim = Aim.LOW, cutoff_nodes: int = CUTOFF_NODES
) -> SearchResult:
    return OrionPipeline(what.applications["app"]).search(ms(slo_ms), aim, cutoff_nodes)


def cells(found: SearchResult) -> list[Config]:
    return [step.config for step in found.steps]


def steps(**planned: Cell) -> tuple[Step, ...]:
    return tuple(Step(stage, Config(*cell)) for stage, cell in planned.items())


# The search.


def test_the_minimum_is_kept_if_it_meets_the_goal() -> None:
    found = search(EXAMPLE, 200)
    assert cells(found) == [Config(1, 1, 1), Config(1, 1, 1)]
    assert (found.reached, found.effort) == (True, 1)


def test_the_search_goes_down_in_latency_one_step_at_a_time() -> None:
    # 1 start; 3 successors; of the best of them 2; the best of those is the goal
    found = search(EXAMPLE, 150)
    assert cells(found) == [Config(1, 2, 1), Config(1, 2, 1)]
    assert (found.reached, found.effort) == (True, 6)


def test_the_state_with_the_lowest_latency_is_the_goal_not_the_one_that_just_meets_it() -> None:
    # 160 and 180 both meet it; the queue gives 160 first
    found = search(EXAMPLE, 190)
    assert cells(found) == [Config(1, 2, 1), Config(1, 1, 1)]
    assert found.effort == 4


def test_a_step_is_to_the_next_value_that_exists() -> None:
    # From 1 vCPU the next is 4; a second vGPU comes only with 4 vCPUs.
    table = chain({(1, 1, 1): 100, (1, 4, 1): 80, (1, 4, 2): 50})
    assert cells(search(table, 85)) == [Config(1, 4, 1)]
    found = search(table, 60)
    assert cells(found) == [Config(1, 4, 2)]
    assert found.effort == 3


def test_orion_takes_the_cheaper_of_equal_latencies() -> None:
    # A second vCPU costs 60 x (2 + 10), a second vGPU 60 x (1 + 20)
    table = chain({(1, 1, 1): 100, (1, 1, 2): 60, (1, 2, 1): 60})
    assert cells(search(table, 60)) == [Config(1, 2, 1)]


def test_orion_raises_the_later_stage_first_at_equal_latency_and_cost() -> None:
    # the state with the smaller places in the profiles, from the first stage on
    table = {(1, 1, 1): 100, (1, 2, 1): 60}
    assert cells(search(chain(table, table), 160)) == [Config(1, 1, 1), Config(1, 2, 1)]


def test_the_spread_of_the_stages_adds_up_to_a_p95() -> None:
    # sigma is 10 and 30 ms: 400 + 1.645 x root of (100 + 900) = 400 + 52.019
    spread = chain({(1, 1, 1): 100}, {(1, 1, 1): 300}, spread=0.1)
    assert search(spread, 452.019).reached
    assert not search(spread, 452.018).reached


def test_a_dag_is_as_long_as_its_longest_path() -> None:
    # a, then b beside c, then d: 100 + 100 + 100. Raising b alone helps until c is as long.
    both = {(1, 1, 1): 100, (1, 2, 1): 50}
    tables = {"a": {(1, 1, 1): 100}, "b": both, "c": {(1, 1, 1): 70}, "d": {(1, 1, 1): 100}}
    after = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    stages = [Stage(name, function(name, table), after[name]) for name, table in tables.items()]
    diamond = catalog(Application.of("app", stages))
    assert search(diamond, 270).reached
    assert not search(diamond, 269).reached


# The cut-off.


def test_a_search_that_takes_too_long_gives_the_state_closest_to_the_slo() -> None:
    # Made by then: the start 200, a on two vCPUs 160, b with two jobs 230
    found = search(EXAMPLE, 150, cutoff_nodes=3)
    assert cells(found) == [Config(1, 2, 1), Config(1, 1, 1)]
    assert (found.reached, found.effort) == (False, 3)
    assert cells(search(EXAMPLE, 150, cutoff_nodes=1)) == [Config(1, 1, 1), Config(1, 1, 1)]


def test_a_goal_that_no_state_meets_gives_the_closest_of_all() -> None:
    found = search(EXAMPLE, 100)
    assert cells(found) == [Config(1, 2, 1), Config(1, 2, 1)]
    assert not found.reached


def test_the_cut_off_stands_for_a_hundred_milliseconds() -> None:
    assert CUTOFF_NODES == 100 * NODES_PER_MS
    assert Orion(EXAMPLE).search_steps_per_ms == NODES_PER_MS


# The second reading.


def test_aiming_at_the_slo_spends_what_is_left_on_a_batch() -> None:
    # 200 is too far below 230; a batch of 2 for b makes just 230
    found = search(EXAMPLE, 230, aim=Aim.AT_SLO)
    assert cells(found) == [Config(1, 1, 1), Config(2, 1, 1)]
    assert found.reached
    assert cells(search(EXAMPLE, 230)) == [Config(1, 1, 1), Config(1, 1, 1)]


def test_aiming_at_the_slo_ends_within_a_hundredth_below_it() -> None:
    assert search(EXAMPLE, 202, aim=Aim.AT_SLO).reached  # 200 > 0.99 x 202 = 199.98
    found = search(EXAMPLE, 203, aim=Aim.AT_SLO)
    assert (cells(found), found.reached) == ([Config(1, 1, 1), Config(1, 1, 1)], False)
    assert search(EXAMPLE, 199, aim=Aim.AT_SLO).reached is False  # 200 is nearest, but above


# The plan.


def test_the_first_stage_is_offered_the_whole_plan_and_no_other() -> None:
    offer = Orion(EXAMPLE).decide(queue_view(EXAMPLE, slo_ms=150))
    (plan,) = offer.plans
    assert plan.steps == steps(a=(1, 2, 1), b=(1, 2, 1))
    assert plan.time_us == ms(140)
    # picodollars: 60 ms x (2 + 10) and 80 ms x (2 + 10)
    assert plan.job_cost_pusd == 1000 * (60 * 12 + 80 * 12)
    assert (offer.effort, offer.missed) == (6, False)


def test_the_effort_is_charged_every_time_though_the_search_is_remembered() -> None:
    orion = Orion(EXAMPLE)
    one = queue_view(EXAMPLE, slo_ms=150)
    assert orion.decide(one) == orion.decide(one)
    assert orion.decide(one).effort == 6


def test_the_plan_is_for_the_slo_not_for_what_is_left_of_it() -> None:
    on_time, late = (queue_view(EXAMPLE, slo_ms=200, now_ms=now) for now in (0, 190))
    assert Orion(EXAMPLE).decide(on_time) == Orion(EXAMPLE).decide(late)
    assert configs(Orion(EXAMPLE).decide(late).plans) == [Config(1, 1, 1)]


def test_a_later_stage_follows_the_plan_of_its_oldest_job_at_no_effort() -> None:
    one = queue_view(EXAMPLE, stage="b", waiting=3, slo_ms=150, planned=steps(b=(2, 1, 1)))
    offer = Orion(EXAMPLE).decide(one)
    assert configs(offer.plans) == [Config(2, 1, 1)]
    assert offer.plans[0].rest == ()
    assert (offer.effort, offer.missed) == (0, False)


def test_a_first_stage_that_is_tried_again_keeps_its_plan() -> None:
    planned = steps(a=(1, 1, 1), b=(2, 1, 1))
    offer = Orion(EXAMPLE).decide(queue_view(EXAMPLE, slo_ms=150, planned=planned))
    assert offer.plans[0].steps == planned
    assert offer.effort == 0


def test_a_later_stage_without_a_plan_has_the_one_its_first_stage_had() -> None:
    offer = Orion(EXAMPLE).decide(queue_view(EXAMPLE, stage="b", slo_ms=150))
    assert offer.plans[0].steps == steps(b=(1, 2, 1))
    assert offer.effort == 0


# Misses.

BATCHES = chain({(1, 1, 1): 100, (2, 1, 1): 120, (4, 1, 1): 150, (4, 2, 1): 140, (8, 2, 1): 170})


@pytest.mark.parametrize(
    ("planned", "waiting", "run", "missed"),
    [
        ((4, 1, 1), 5, Config(4, 1, 1), False),
        ((4, 1, 1), 4, Config(4, 1, 1), False),
        ((4, 1, 1), 3, Config(2, 1, 1), True),  # there is no batch of 3
        ((8, 2, 1), 7, Config(4, 2, 1), True),
        ((8, 2, 1), 3, Config(1, 1, 1), True),  # nothing smaller with two vCPUs: the minimum
    ],
)
def test_a_planned_batch_that_the_queue_cannot_fill_runs_with_what_is_there(
    planned: Cell, waiting: int, run: Config, missed: bool
) -> None:
    one = queue_view(BATCHES, waiting=waiting, planned=steps(a=planned))
    offer = Orion(BATCHES).decide(one)
    assert configs(offer.plans) == [run]
    assert offer.missed is missed


# Through a scheduler. Two jobs of an odd function are faster together than one alone, so that the
# search plans batches: a 100 -> 70, b 100 -> 60, an SLO of 140. The start, then a or b with two
# jobs (170, 160), then both (130): 4 states.

ODD = chain({(1, 1, 1): 100, (2, 1, 1): 70}, {(1, 1, 1): 100, (2, 1, 1): 60}, slo_ms=140)

OpenDesk = Callable[..., Desk]


def orion(what: Catalog) -> Policy:
    return Orion(what)


def test_a_plan_travels_with_its_jobs(open_desk: OpenDesk) -> None:
    desk = open_desk(catalog=ODD, policy=orion)
    desk.at(0, arrived("r1", "app"), arrived("r2", "app"), joined("i0"))
    assert desk.new_orders == [
        start("t1", "app/a", "r1", "r2", config=(2, 1, 1), effort=4, missed=False)
    ]
    desk.at(ms(70), finished("t1"))
    (second,) = desk.new_orders
    assert isinstance(second, StartTask)
    assert (second.order.stage, second.order.config) == ("b", Config(2, 1, 1))
    assert (second.decision.effort, second.decision.missed) == (0, False)
    desk.at(ms(130), finished("t2"))


def test_a_plan_misses_at_every_stage_where_jobs_are_missing(open_desk: OpenDesk) -> None:
    desk = open_desk(catalog=ODD, policy=orion)
    desk.at(0, joined("i0"), arrived("r1", "app"))
    assert desk.new_orders == [start("t1", "app/a", "r1", effort=4, missed=True)]
    assert desk.scheduler.state.requests["r1"].runs["a"].planned == steps(a=(1, 1, 1), b=(2, 1, 1))
    desk.at(ms(100), finished("t1"))
    (second,) = desk.new_orders
    assert isinstance(second, StartTask)
    assert (second.order.stage, second.order.config) == ("b", Config(1, 1, 1))
    assert (second.decision.effort, second.decision.missed) == (0, True)
    desk.at(ms(200), finished("t2"))


def test_a_failed_first_stage_is_tried_again_under_the_same_plan(open_desk: OpenDesk) -> None:
    table = chain({(1, 1, 1): 100, (1, 2, 1): 60}, {(1, 1, 1): 100}, slo_ms=170)
    desk = open_desk(catalog=table, policy=orion)
    desk.at(0, joined("i0"), arrived("r1", "app")).at(ms(5), failed("t1"))
    first, again = desk.orders
    assert first == start("t1", "app/a", "r1", config=(1, 2, 1), effort=2)
    assert again == start("t2", "app/a", "r1", config=(1, 2, 1), effort=0)


def test_orions_plan_still_stands_after_the_minimum_config(open_desk: OpenDesk) -> None:
    # The goal of 115 takes a on four vCPUs (50) and b on two (60); the node has only two.
    table = chain({(1, 1, 1): 100, (1, 4, 1): 50}, {(1, 1, 1): 100, (1, 2, 1): 60}, slo_ms=115)
    desk = open_desk(catalog=table, policy=orion)
    desk.at(0, joined("i0", vcpus=2), arrived("r1", "app"))
    assert desk.orders == []
    desk.wake().wake().wake()
    assert desk.orders == [start("t1", "app/a", "r1", config=(1, 1, 1), effort=4)]
    desk.at(ms(200), finished("t1"))
    (second,) = desk.new_orders
    assert isinstance(second, StartTask)
    assert (second.order.stage, second.order.config) == ("b", Config(1, 2, 1))
    assert second.decision.effort == 0
    desk.at(ms(260), finished("t2"))


def test_the_branches_of_a_dag_follow_one_plan(open_desk: OpenDesk) -> None:
    # Everything is 100 or 60 ms; all of it must be 60 for an SLO of 180.
    table = {(1, 1, 1): 100, (1, 2, 1): 60}
    after = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    stages = [Stage(name, function(name, table), before) for name, before in after.items()]
    desk = open_desk(catalog=catalog(Application.of("app", stages, slo_us=ms(180))), policy=orion)
    desk.at(0, joined("i0"), arrived("r1", "app"))
    desk.at(ms(60), finished("t1")).at(ms(120), finished("t2"), finished("t3"))
    tasks = [order for order in desk.orders if isinstance(order, StartTask)]
    assert [(task.order.stage, task.order.config) for task in tasks] == [
        (stage, Config(1, 2, 1)) for stage in "abcd"
    ]
    assert [task.decision.effort > 0 for task in tasks] == [True, False, False, False]
    desk.at(ms(180), finished("t4"))


def test_orion_answers_every_request_of_a_heavy_load() -> None:
    run_two_hundred_heavy_requests("orion")
