"""Clusters whose nodes have slices of different kinds, under every policy."""

from dataclasses import replace
from itertools import islice

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog, Cluster
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.slice_kinds import USUAL, NodeClass, parse_layouts
from esg.core.durations import Durations
from esg.core.messages.commands import AnswerRequest, Command, StartTask
from esg.core.messages.events import Event
from esg.core.messages.outcome import Outcome
from esg.core.policies.settings import Trained
from esg.core.policies.table import POLICIES
from esg.core.scheduler.invariants import AnswerBook
from esg.core.scheduler.scheduler import build_scheduler
from esg.emulator.run import build_pools, requests
from esg.emulator.scenario import Scenario, applied, sized
from esg.emulator.world import World
from esg.workload.mix import Mix
from esg.workload.rates import steady
from tests.support.checked_scheduler import inspect

CATALOG = load_catalog()
LARGE = ("4g.40gb", "3g.40gb")
LAYOUTS = parse_layouts("4g.40gb+3g.40gb, 2g.20gb+2", CATALOG.kinds)
MIXED = CATALOG.cluster.resized(nodes=4, layouts=LAYOUTS)
ONLY_LARGE = CATALOG.cluster.resized(nodes=4, layouts=LAYOUTS[:1])


def test_layouts_are_what_nodes_have_in_turn() -> None:
    assert LAYOUTS == [LARGE, ("2g.20gb", USUAL, USUAL)]
    assert [one.slices for one in MIXED.each()] == LAYOUTS * 2
    assert MIXED.vcpus == CATALOG.cluster.vcpus
    three = Cluster.alike(nodes=3, vcpus=8, vgpus=2)
    assert three.resized(vcpus=4) == Cluster.alike(nodes=3, vcpus=4, vgpus=2)
    assert Cluster.of(three.each()) == three


def test_cluster_of_several_classes_keeps_their_proportions_when_it_grows() -> None:
    small = NodeClass(count=3, vcpus=8, slices=(USUAL,))
    cluster = Cluster(classes=(small, NodeClass(count=1, vcpus=16, slices=LARGE)))
    assert [one.count for one in cluster.resized(nodes=8).classes] == [6, 2]


def test_scenario_says_of_a_cluster_what_is_needed_to_have_it_again() -> None:
    for cluster in (CATALOG.cluster, MIXED):
        scenario = Scenario(**sized(cluster))
        assert scenario.cluster == cluster
        assert (scenario.nodes, scenario.vgpus) == (cluster.nodes, cluster.vgpus)
    assert "classes" not in sized(CATALOG.cluster)


def test_pools_have_the_slices_of_their_class_and_the_memory_of_these() -> None:
    scenario = Scenario(**sized(MIXED))
    pools = list(build_pools(applied(CATALOG, scenario), scenario).values())
    assert [tuple(part.kind for part in pool.slices) for pool in pools] == LAYOUTS * 2
    assert [part.memory_mb for part in pools[1].slices] == [20_000, 10_000, 10_000]


def test_l_does_not_move_with_the_layout() -> None:
    known = applied(CATALOG, Scenario(**sized(ONLY_LARGE)))
    assert {n: a.alone_us for n, a in known.applications.items()} == {
        n: a.alone_us for n, a in CATALOG.applications.items()
    }
    assert {kind for f in known.functions.values() for kind in f.profile.kinds} == set(LARGE)


def learnt(catalog: Catalog) -> Trained:
    """Some config for every stage, on slices of a kind that its function knows."""
    return {
        name: {
            s.name: Config(1, 4, 1, s.function.profile.kinds[number % 2])
            for number, s in enumerate(application.stages.values())
        }
        for name, application in catalog.applications.items()
    }


@pytest.mark.parametrize("tasks", list(TaskMode))
@pytest.mark.parametrize(
    ("policy", "engine"), [("esg", "astar"), *((policy, "frontier") for policy in POLICIES)]
)
def test_every_policy_serves_requests_on_slices_of_several_kinds(
    policy: str, engine: str, tasks: TaskMode
) -> None:
    """Whatever is done, the books balance."""
    scenario = Scenario(**sized(MIXED), policy=policy, engine=engine, tasks=tasks, slo_scale=1.5)
    catalog = applied(CATALOG, scenario)
    scenario = replace(scenario, trained=learnt(catalog))
    scheduler = build_scheduler(catalog, scenario)
    book, kinds = AnswerBook(), set[str]()

    def watch(_now_us: int, _event: Event, commands: list[Command]) -> None:
        inspect(scheduler, commands)
        book.note(commands)
        kinds.update(c.order.config.kind for c in commands if isinstance(c, StartTask))

    pools = build_pools(catalog, scenario)
    world = World(scheduler, pools, Durations(catalog, seed=1), observe=watch)
    for pool in pools.values():
        world.tell(0, pool.joined())
    mix = Mix.uniform(list(catalog.applications))
    world.run(requests(islice(steady("heavy", mix, seed=1), 60)))
    answers = [answer for answer in book.answers.values() if isinstance(answer, AnswerRequest)]
    assert [answer.outcome for answer in answers] == [Outcome.DONE] * 60
    assert len(kinds) >= 2
    assert not scheduler.state.tasks
