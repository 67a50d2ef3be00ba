"""Stories with one kind of trouble each, so that it is clear what they are about.

To see one again, run its test, for example

    .venv/bin/pytest 'tests/simulation/test_days.py::test_nodes_crash[3]'
"""

from random import Random
from typing import Any

import pytest

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.durations import DurationSettings
from esg.core.messages.commands import AnswerRequest
from esg.core.messages.events import RequestArrived
from esg.core.messages.outcome import Outcome
from esg.units import ms, seconds
from tests.simulation.checked_run import Told, tell
from tests.simulation.faults.fault_injection import Luck
from tests.simulation.faults.schedule import (
    Cancellation,
    ControllerCrashes,
    DataExpires,
    Fault,
    NodeCrashes,
    NodeReports,
    RequestComes,
    StreamBreaks,
)
from tests.simulation.story import SPAN_US, Story
from tests.support.small_catalog import SMALL

NODES = ("i0", "i1", "i2", "i3")
seeds = pytest.mark.parametrize("seed", range(3))


def day(
    seed: int,
    *trouble: Fault,
    catalog: Catalog = SMALL,
    requests: int = 60,
    cancelled: float = 0.1,
    **more: Any,
) -> Told:
    """Requests for random applications, some of which are cancelled a little later."""
    chance = Random(f"{seed}:arrivals")
    faults = list(trouble)
    for number in range(requests):
        name, at_us = f"r{number}", chance.randrange(SPAN_US)
        event = RequestArrived(
            request=name, application=chance.choice(sorted(catalog.applications))
        )
        faults.append(RequestComes(at_us=at_us, event=event))
        if chance.random() < cancelled:
            later_us = at_us + chance.randrange(1, ms(400))
            faults.append(Cancellation(at_us=later_us, request=name))
    return tell(Story(seed=seed, faults=tuple(faults), catalog=catalog, **more))


def outcomes(told: Told) -> set[Outcome]:
    answers = told.mesh.clients.gateways["g0"].answers.values()
    return {answer.outcome for answer in answers if isinstance(answer, AnswerRequest)}


def drawn(seed: int, kind: Any, count: int, longest_ms: int) -> list[Fault]:
    """Some nodes are struck for a while."""
    chance = Random(f"{seed}:{kind.__name__}")
    return [
        kind(
            at_us=chance.randrange(SPAN_US),
            node=chance.choice(NODES),
            for_us=chance.randrange(1, ms(longest_ms)),
        )
        for _ in range(count)
    ]


@seeds
def test_requests_do_not_fail_on_a_day_without_trouble(seed: int) -> None:
    assert outcomes(day(seed)) <= {Outcome.DONE, Outcome.CANCELLED}


def test_simulated_day_with_the_same_seed_is_the_same() -> None:
    luck = Luck(task_failures=0.1)
    first, second = day(1, luck=luck), day(1, luck=luck)
    assert first.mesh.controller.journal == second.mesh.controller.journal
    assert first.mesh.controller.journal != day(2, luck=luck).mesh.controller.journal


@seeds
def test_tasks_and_loads_fail(seed: int) -> None:
    told = day(seed, luck=Luck(task_failures=0.15, load_failures=0.15))
    assert any("bad luck" in line for line in told.mesh.controller.journal)


def test_requests_whose_tasks_always_fail_are_answered_as_failed() -> None:
    told = day(0, luck=Luck(task_failures=1.0), requests=30, cancelled=0)
    assert outcomes(told) == {Outcome.FAILED}


# attack: H2
@seeds
def test_inputs_that_no_function_can_use_end_their_requests_and_no_others(seed: int) -> None:
    told = day(seed, *drawn(seed, NodeCrashes, 3, 600), luck=Luck(invalid_inputs=0.3))
    assert outcomes(told) == {Outcome.DONE, Outcome.INVALID, Outcome.CANCELLED}


@seeds
def test_nodes_crash(seed: int) -> None:
    day(seed, *drawn(seed, NodeCrashes, 6, 600), luck=Luck(task_failures=0.03))


def test_requests_outlive_a_while_without_any_node() -> None:
    gone = [
        NodeCrashes(at_us=ms(700) + n, node=node, for_us=ms(600)) for n, node in enumerate(NODES)
    ]
    assert outcomes(day(0, *gone)) <= {Outcome.DONE, Outcome.CANCELLED}


@seeds
def test_streams_break_and_nothing_is_done_twice(seed: int) -> None:
    """Who is back in time goes on with what it ran, and its news are not lost."""
    told = day(
        seed,
        *drawn(seed, StreamBreaks, 6, 900),
        latency_us=ms(2),
        durations=DurationSettings(noise=0.5),
    )
    assert outcomes(told) <= {Outcome.DONE, Outcome.CANCELLED}


@seeds
def test_the_controller_crashes(seed: int) -> None:
    chance = Random(f"{seed}:controller")
    crashes = [
        ControllerCrashes(at_us=at_us, for_us=chance.randrange(ms(300)), torn=chance.random())
        for at_us in (ms(400), ms(900), ms(1400))
    ]
    told = day(seed, *crashes, sync_us=ms(2), latency_us=ms(1), snapshot_every=40)
    assert outcomes(told) <= {Outcome.DONE, Outcome.CANCELLED}


def test_nodes_report_what_they_have() -> None:
    reports = [
        NodeReports(at_us=at_us, node=node) for at_us in range(0, SPAN_US, ms(50)) for node in NODES
    ]
    day(0, *reports, luck=Luck(task_failures=0.03), latency_us=ms(3), charge_us_per_effort=300)


@seeds
def test_published_data_expires(seed: int) -> None:
    day(seed, *(DataExpires(at_us=at_us) for at_us in range(0, SPAN_US, ms(100))))


@seeds
def test_a_node_that_comes_back_busy_does_not_use_up_the_tries_of_new_tasks(seed: int) -> None:
    """It takes a while until what it was running has been stopped."""
    told = day(
        seed, *drawn(seed, StreamBreaks, 6, 3000), durations=DurationSettings(abort_us=ms(50))
    )
    assert Outcome.FAILED not in outcomes(told)
    assert not any("not free" in line for line in told.mesh.controller.journal)


@pytest.mark.parametrize("us_per_effort", [1, 500])
def test_decisions_that_take_time_do_not_lose_orders(us_per_effort: int) -> None:
    """Orders to one node arrive in the order of their decisions, however long those took."""
    day(0, *drawn(0, NodeCrashes, 6, 600), charge_us_per_effort=us_per_effort)


@pytest.mark.parametrize("engine", ["frontier", "astar"])
def test_the_default_catalog_on_the_papers_nodes(engine: str) -> None:
    day(
        5,
        *drawn(5, NodeCrashes, 4, 600),
        catalog=load_catalog(),
        engine=engine,
        vcpus=16,
        memories_mb=(10_000,) * 7,
        requests=30,
        patience_us=seconds(120),  # models take up to 22 s to load
    )


@pytest.mark.parametrize("name", ["fast-gshare", "infless", "orion"])
def test_under_every_policy_everyone_gets_an_answer(name: str) -> None:
    trouble = [*drawn(1, NodeCrashes, 4, 600), *drawn(1, StreamBreaks, 4, 3000)]
    luck = Luck(task_failures=0.05, load_failures=0.05)
    day(1, *trouble, policy=name, requests=40, luck=luck)
