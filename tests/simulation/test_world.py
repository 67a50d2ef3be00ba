"""Real brains in virtual time, on good days and bad ones.

A seed is a story: to see one again, run its test, for example

    .venv/bin/pytest 'tests/simulation/test_world.py::test_nodes_crash[3]'
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from emulator.nature import Nature
from esg.catalog import Catalog
from esg.catalog_file import load_catalog
from esg.commands import AnswerRequest, Outcome
from esg.events import Event, RequestArrived, RequestCancelled, TaskFailed
from esg.policies import PolicySettings, policy
from esg.pool import Pool
from esg.scheduler import Scheduler
from esg.units import ms
from tests.simulation.faulty_world import (
    Crash,
    Expiry,
    FaultyWorld,
    Inventory,
    Mishap,
    ReachableAgain,
    Restart,
    Unreachable,
    refusals,
)
from tests.small_catalog import SMALL
from tests.witness import Witness

NODES = ("i0", "i1", "i2", "i3")
SPAN_US = ms(2000)
"""When the last request arrives, and the last mishap begins."""


@dataclass
class Day:
    """One seed's requests, on small nodes unless told otherwise."""

    seed: int
    catalog: Catalog = SMALL
    policy: str = "esg"
    engine: str = "frontier"
    vcpus: int = 4
    memories_mb: tuple[int, ...] = (700, 700)
    requests: int = 100
    cancelled: float = 0.1
    bad_luck: float = 0.0
    abort_us: int = 0
    charge_us_per_effort: int = 0
    mishaps: Sequence[tuple[int, Mishap]] = ()

    def run(self) -> "Evening":
        scheduler = self.scheduler()
        witness = Witness(scheduler)
        world = FaultyWorld(
            scheduler,
            witness,
            Nature(self.catalog, self.seed),
            self.pool,
            NODES,
            seed=self.seed,
            bad_luck=self.bad_luck,
            abort_us=self.abort_us,
            charge_us=lambda order: order.effort * self.charge_us_per_effort,
        )
        for at_us, mishap in self.mishaps:
            world.mishap(at_us, mishap)
        world.run(self.arrivals())
        return Evening(self, world, witness)

    def scheduler(self) -> Scheduler:
        settings = PolicySettings(engine=self.engine)
        return Scheduler(self.catalog, policy(self.policy, self.catalog, settings))

    def pool(self, node: str) -> Pool:
        return Pool(self.catalog, node, vcpus=self.vcpus, memories_mb=self.memories_mb)

    def arrivals(self) -> list[tuple[int, Event]]:
        """Requests for random applications, some of which are cancelled a little later."""
        chance = Random(f"{self.seed}:arrivals")
        found: list[tuple[int, Event]] = []
        for number in range(self.requests):
            name, at_us = f"r{number}", chance.randrange(SPAN_US)
            application = chance.choice(sorted(self.catalog.applications))
            found.append((at_us, RequestArrived(request=name, application=application)))
            if chance.random() < self.cancelled:
                later_us = at_us + chance.randrange(1, ms(400))
                found.append((later_us, RequestCancelled(request=name)))
        return sorted(found, key=lambda pair: pair[0])


@dataclass
class Evening:
    """What is left when nothing happens any more."""

    day: Day
    world: FaultyWorld
    witness: Witness

    def answers(self) -> dict[str, AnswerRequest]:
        found = self.witness.book.answers.items()
        return {name: said for name, said in found if isinstance(said, AnswerRequest)}

    def failures(self) -> list[TaskFailed]:
        return [event for event in self.world.reports if isinstance(event, TaskFailed)]

    def assert_in_order(self) -> None:
        """Everyone got an answer, everything is free, and a replay tells the same story."""
        state = self.witness.scheduler.state
        assert set(self.answers()) == {f"r{n}" for n in range(self.day.requests)}
        assert (state.requests, state.tasks) == ({}, {})
        assert set(state.seats) == set(NODES)
        for name, seat in state.seats.items():
            pool = self.world.pools[name]
            assert seat.vcpus_free == pool.vcpus_free == self.day.vcpus
            assert seat.vgpus_free == len(pool.slices)
            assert pool.running == {}
            for part, its in zip(seat.slices, pool.slices, strict=True):
                assert (part.holder, its.holder, its.wanted) == ("", "", [])
                assert set(part.residents) == set(its.models) == set()  # idle for ten minutes
        for name, said in self.answers().items():
            if said.outcome is Outcome.DONE:
                self.assert_published(name, said.application)
        self.witness.replay_into(self.day.scheduler())

    def assert_published(self, request: str, application: str) -> None:
        for stage, followers in self.day.catalog.applications[application].successors.items():
            assert followers or (request, stage) in self.world.published

    def assert_nothing_kept(self) -> None:
        assert not any(self.world.kept.values()), self.world.kept


seeds = pytest.mark.parametrize("seed", range(4))


@seeds
def test_on_a_good_day_nothing_fails_and_nothing_is_left_behind(seed: int) -> None:
    evening = Day(seed).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()
    assert {said.outcome for said in evening.answers().values()} <= {
        Outcome.DONE,
        Outcome.CANCELLED,
    }
    assert {event.reason for event in evening.failures()} <= {"stopped", "stopped before it began"}


def test_the_same_seed_is_the_same_day() -> None:
    first, second = Day(1, bad_luck=0.1).run(), Day(1, bad_luck=0.1).run()
    assert first.witness.journal == second.witness.journal
    assert first.witness.journal != Day(2, bad_luck=0.1).run().witness.journal


@seeds
def test_tasks_and_loads_fail(seed: int) -> None:
    evening = Day(seed, bad_luck=0.15).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()
    assert {"bad luck"} <= {event.reason for event in evening.failures()}


def test_what_always_fails_is_answered_as_failed() -> None:
    evening = Day(0, bad_luck=1.0, requests=30, cancelled=0).run()
    evening.assert_in_order()
    assert {said.outcome for said in evening.answers().values()} == {Outcome.FAILED}


def crashes(seed: int) -> list[tuple[int, Mishap]]:
    chance = Random(f"{seed}:crashes")
    found: list[tuple[int, Mishap]] = []
    for _ in range(6):
        node, at_us = chance.choice(NODES), chance.randrange(SPAN_US)
        found.append((at_us, Crash(node)))
        found.append((at_us + chance.randrange(1, ms(600)), Restart(node)))
    return found


@seeds
def test_nodes_crash(seed: int) -> None:
    evening = Day(seed, bad_luck=0.03, mishaps=crashes(seed)).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()
    assert refusals(evening.world) == []


@seeds
def test_all_nodes_are_gone_for_a_while(seed: int) -> None:
    gone = [(ms(700) + n, Crash(node)) for n, node in enumerate(NODES)]
    back = [(ms(1300) + n, Restart(node)) for n, node in enumerate(NODES)]
    evening = Day(seed, mishaps=[*gone, *back]).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()


@seeds
def test_nodes_restart_before_anyone_notices(seed: int) -> None:
    chance = Random(f"{seed}:restarts")
    restarts = [(chance.randrange(SPAN_US), Restart(chance.choice(NODES))) for _ in range(8)]
    evening = Day(seed, mishaps=restarts).run()
    evening.assert_in_order()
    assert refusals(evening.world) == []


@seeds
def test_nodes_report_what_they_have(seed: int) -> None:
    reports = [(at_us, Inventory(node)) for at_us in range(0, SPAN_US, ms(50)) for node in NODES]
    evening = Day(seed, bad_luck=0.03, charge_us_per_effort=300, mishaps=reports).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()


@seeds
def test_published_data_expires(seed: int) -> None:
    expiries = [(at_us, Expiry()) for at_us in range(0, SPAN_US, ms(100))]
    evening = Day(seed, mishaps=expiries).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()


def interruptions(seed: int) -> list[tuple[int, Mishap]]:
    chance = Random(f"{seed}:interruptions")
    found: list[tuple[int, Mishap]] = []
    for _ in range(6):
        node, at_us = chance.choice(NODES), chance.randrange(SPAN_US)
        found.append((at_us, Unreachable(node)))
        found.append((at_us + chance.randrange(1, ms(300)), ReachableAgain(node)))
    return found


@seeds
def test_nodes_cannot_be_reached_for_a_while(seed: int) -> None:
    Day(seed, bad_luck=0.03, mishaps=interruptions(seed)).run().assert_in_order()


@seeds
def test_a_node_that_comes_back_busy_does_not_use_up_the_tries_of_new_tasks(seed: int) -> None:
    """It takes a while until what it was running has been stopped."""
    evening = Day(seed, abort_us=ms(50), mishaps=interruptions(seed)).run()
    evening.assert_in_order()
    assert refusals(evening.world) == []
    assert Outcome.FAILED not in {said.outcome for said in evening.answers().values()}


@seeds
def test_everything_goes_wrong_at_once(seed: int) -> None:
    reports = [(at_us, Inventory(node)) for at_us in range(0, SPAN_US, ms(200)) for node in NODES]
    mishaps = [*crashes(seed), *interruptions(seed), *reports]
    Day(seed, bad_luck=0.1, charge_us_per_effort=200, mishaps=mishaps).run().assert_in_order()


@pytest.mark.parametrize("us_per_effort", [1, 500])
def test_decisions_that_take_time_do_not_lose_orders(us_per_effort: int) -> None:
    """Orders to one node arrive in the order of their decisions, however long those took."""
    evening = Day(0, charge_us_per_effort=us_per_effort, mishaps=crashes(0)).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()


@pytest.mark.parametrize("engine", ["frontier", "astar"])
def test_the_default_catalog_on_the_papers_nodes(engine: str) -> None:
    evening = Day(
        5,
        catalog=load_catalog(),
        engine=engine,
        vcpus=16,
        memories_mb=(10_000,) * 7,
        requests=40,
        mishaps=crashes(5),
    ).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()


def test_small_slices_make_models_come_and_go() -> None:
    evening = Day(3, memories_mb=(500, 500), requests=60).run()
    evening.assert_in_order()
    evening.assert_nothing_kept()


@pytest.mark.parametrize("name", ["fast-gshare", "infless", "orion"])
def test_under_every_policy_everyone_gets_an_answer(name: str) -> None:
    mishaps = [*crashes(1), *interruptions(1)]
    Day(1, policy=name, requests=60, bad_luck=0.05, mishaps=mishaps).run().assert_in_order()
