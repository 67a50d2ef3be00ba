"""Aquatope: the learnt configs, and where they miss."""

from itertools import islice

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.durations import Durations
from esg.core.messages.commands import AnswerRequest, Command, StartTask
from esg.core.messages.events import Event
from esg.core.messages.outcome import Outcome
from esg.core.policies.aquatope import EFFORT, NODES_PER_MS, Aquatope
from esg.core.policies.placement import home
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy
from esg.core.scheduler.invariants import AnswerBook, check
from esg.core.scheduler.scheduler import Scheduler
from esg.core.search.plan import Step
from esg.emulator.run import build_pools, requests
from esg.emulator.scenario import Scenario
from esg.emulator.world import World
from esg.errors import Rejected
from esg.units import ms
from esg.workload.mix import Mix
from esg.workload.rates import steady
from tests.support.policy_cases import (
    Cell,
    by_name,
    catalog,
    chain,
    configs,
    function,
    make_node,
    queue_view,
)

BATCHES = {(1, 1, 1): 100, (1, 2, 1): 90, (2, 2, 1): 120, (4, 2, 1): 150, (8, 2, 1): 200}
TWO_STAGES = chain(BATCHES, {(1, 1, 1): 50, (2, 1, 1): 60})


def learnt(**cells: Cell) -> dict[str, dict[str, Config]]:
    return {"app": {stage: Config(*cell) for stage, cell in cells.items()}}


# What was learnt.


def test_the_learnt_configs_are_offered_and_no_others() -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(4, 2, 1), b=(2, 1, 1)))
    offer = aquatope.decide(queue_view(TWO_STAGES, waiting=4))
    (plan,) = offer.plans
    assert plan.steps == (Step("a", Config(4, 2, 1)), Step("b", Config(2, 1, 1)))
    assert plan.time_us == ms(150 + 60)
    # picodollars: 150 ms x (2 + 10) / 4 and 60 ms x (1 + 10) / 2
    assert plan.job_cost_pusd == 1000 * (150 * 12 // 4 + 60 * 11 // 2)
    assert not offer.missed


def test_aquatope_heeds_neither_the_time_left_nor_the_slo_of_a_request() -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(1, 2, 1), b=(1, 1, 1)))
    cases = [
        queue_view(TWO_STAGES, slo_ms=slo, now_ms=now)
        for slo, now in ((900, 0), (900, 899), (5, 0))
    ]
    first, *others = [aquatope.decide(one) for one in cases]
    assert others == [first, first]
    assert configs(first.plans) == [Config(1, 2, 1)]


def test_aquatope_does_not_look_at_the_plan_of_an_earlier_stage() -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(1, 1, 1), b=(1, 1, 1)))
    one = queue_view(TWO_STAGES, stage="b", waiting=3, planned=(Step("b", Config(2, 1, 1)),))
    assert configs(aquatope.decide(one).plans) == [Config(1, 1, 1)]


def test_a_plan_goes_on_with_all_stages_that_follow_and_no_others() -> None:
    tables = {"a": 10, "b": 20, "c": 40, "d": 80}
    after = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
    stages = [
        Stage(name, function(name, {(1, 1, 1): time}), after[name]) for name, time in tables.items()
    ]
    diamond = catalog(Application.of("app", stages))
    aquatope = Aquatope(diamond, learnt(a=(1, 1, 1), b=(1, 1, 1), c=(1, 1, 1), d=(1, 1, 1)))
    plans = {s: aquatope.decide(queue_view(diamond, stage=s)).plans[0] for s in tables}
    assert {s: [step.stage for step in plan.steps] for s, plan in plans.items()} == {
        "a": ["a", "b", "c", "d"],
        "b": ["b", "d"],
        "c": ["c", "d"],
        "d": ["d"],
    }
    assert [plan.time_us for plan in plans.values()] == [ms(130), ms(100), ms(120), ms(80)]
    assert plans["a"].job_cost_pusd == 1000 * 11 * (10 + 20 + 40 + 80)


def test_a_decision_is_one_look_up() -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(1, 1, 1), b=(1, 1, 1)))
    assert aquatope.decide(queue_view(TWO_STAGES)).effort == EFFORT == 1
    assert aquatope.search_steps_per_ms == NODES_PER_MS


# Misses.


@pytest.mark.parametrize(
    ("waiting", "run", "missed"),
    [
        (9, Config(8, 2, 1), False),
        (8, Config(8, 2, 1), False),
        (7, Config(4, 2, 1), True),  # the profile has no batch of 7, 6 or 5
        (4, Config(4, 2, 1), True),
        (3, Config(2, 2, 1), True),
        (1, Config(1, 2, 1), True),
    ],
)
def test_a_batch_that_the_queue_cannot_fill_is_a_miss_and_runs_with_what_is_there(
    waiting: int, run: Config, missed: bool
) -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(8, 2, 1), b=(1, 1, 1)))
    offer = aquatope.decide(queue_view(TWO_STAGES, waiting=waiting))
    assert configs(offer.plans) == [run]
    assert offer.missed is missed
    assert offer.plans[0].rest == (Step("b", Config(1, 1, 1)),)


def test_a_missed_plan_predicts_what_will_run() -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(8, 2, 1), b=(1, 1, 1)))
    (plan,) = aquatope.decide(queue_view(TWO_STAGES, waiting=3)).plans
    assert plan.time_us == ms(120 + 50)
    assert plan.job_cost_pusd == 1000 * (120 * 12 // 2 + 50 * 11)


def test_aquatope_runs_the_minimum_where_the_profile_has_no_smaller_batch() -> None:
    gap = chain({(1, 1, 1): 100, (1, 2, 1): 90, (4, 4, 2): 80})
    offer = Aquatope(gap, learnt(a=(4, 4, 2))).decide(queue_view(gap, waiting=3))
    assert configs(offer.plans) == [Config(1, 1, 1)]
    assert offer.missed


def test_a_batch_of_one_never_misses() -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(1, 2, 1), b=(1, 1, 1)))
    assert not aquatope.decide(queue_view(TWO_STAGES, waiting=1)).missed


# Placement and order.


def test_a_first_stage_goes_home_unless_locality_is_off() -> None:
    trained = learnt(a=(1, 1, 1), b=(1, 1, 1))
    one = queue_view(TWO_STAGES)
    nodes = by_name(make_node("i0"), make_node("i1"))
    at_home = home(one.queue.name, tuple(nodes))
    nodes[at_home].take("t0", "other", 100, Config(1, 1, 1), 0)  # the other one is roomier
    for locality, expected in ((True, {at_home}), (False, nodes.keys() - {at_home})):
        settings = PolicySettings(trained=trained, locality=locality)
        aquatope = policy("aquatope", TWO_STAGES, settings)
        offer = aquatope.decide(one)
        placement = aquatope.place(one, offer, nodes)  # type: ignore[arg-type]
        assert placement is not None
        assert {placement.node.invoker} == expected


def test_a_plan_that_fits_nowhere_has_no_second() -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(1, 2, 1), b=(1, 1, 1)))
    one = queue_view(TWO_STAGES)
    assert aquatope.place(one, aquatope.decide(one), by_name(make_node("i0", free=(1, 2)))) is None


def test_queues_are_visited_round_robin() -> None:
    aquatope = Aquatope(TWO_STAGES, learnt(a=(1, 1, 1), b=(1, 1, 1)))
    queues = [queue_view(TWO_STAGES, stage=stage).queue for stage in ("b", "a")]
    assert [queue.stage for queue in aquatope.order(queues, now_us=0)] == ["a", "b"]
    queues[1].visit = 1
    assert [queue.stage for queue in aquatope.order(queues, now_us=0)] == ["b", "a"]


# Refusals.


@pytest.mark.parametrize(
    ("trained", "complaint"),
    [
        ({}, "nothing was learnt for 'app'.*train with"),
        (learnt(a=(1, 1, 1)), "stage 'b'"),
        (learnt(a=(1, 1, 1), b=(3, 1, 1)), "of another catalog.*no config 3/1/1.*train again"),
    ],
)
def test_aquatope_with_configs_not_learnt_is_refused_with_advice(
    trained: dict[str, dict[str, Config]], complaint: str
) -> None:
    with pytest.raises(Rejected, match=complaint):
        policy("aquatope", TWO_STAGES, PolicySettings(trained=trained))


def test_aquatope_without_training_is_refused() -> None:
    with pytest.raises(Rejected, match="esg train FILE"):
        policy("aquatope", TWO_STAGES)


# All together.


def middling(shipped: Catalog) -> dict[str, dict[str, Config]]:
    """Batches of 4 for first stages and of 2 for later ones."""
    return {
        name: {s.name: Config(2 if s.after else 4, 6, 1) for s in application.stages.values()}
        for name, application in shipped.applications.items()
    }


def test_aquatope_serves_two_hundred_heavy_requests() -> None:
    shipped = on_its_cluster(load_catalog())
    trained = middling(shipped)
    settings = PolicySettings(trained=trained)
    scheduler = Scheduler(shipped, policy("aquatope", shipped, settings))
    pools = build_pools(shipped, Scenario(policy="aquatope", nodes=16, vcpus=16, vgpus=7))
    book = AnswerBook()
    started: list[StartTask] = []

    def watch(_now_us: int, _event: Event, commands: list[Command]) -> None:
        check(scheduler)
        book.note(commands)
        started.extend(c for c in commands if isinstance(c, StartTask))

    world = World(scheduler, pools, Durations(shipped, seed=1), observe=watch)
    for pool in pools.values():
        world.tell(0, pool.joined())
    mix = Mix.uniform(list(shipped.applications))
    world.run(requests(islice(steady("heavy", mix, seed=1), 200)))

    answers = [answer for answer in book.answers.values() if isinstance(answer, AnswerRequest)]
    assert [answer.outcome for answer in answers] == [Outcome.DONE] * 200
    assert not scheduler.state.requests
    assert not scheduler.state.tasks
    # Whatever was started had the learnt config, or was a miss, or was the third round's minimum
    for command in started:
        order, decision = command.order, command.decision
        planned = trained[decision.application][order.stage]
        minimum = shipped.functions[order.function].profile.minimum
        if order.config != minimum:
            assert order.config[1:] == planned[1:]
            assert decision.missed == (order.config.batch < planned.batch)
    # A first stage is offered every request as it comes, and never waits for three more
    assert any(command.decision.missed for command in started)
