"""Handovers: what a task in phases is done with goes to the next one before the task has ended.

Of the 100 ms of a `detect` for one job, 30 are its CPU part, 60 it is on its slice, and 10 are its
CPU part after that. So its slice is promised to the next one 60 ms after it began, if nobody is on
it before: 30 ms before it is left.
"""

from collections.abc import Callable

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog
from esg.core.catalog.phases import Phases, TaskMode
from esg.core.messages.commands import AnswerRequest, StartTask
from esg.core.messages.events import InvokerJoined, RunningTask
from esg.core.policies.interface import Policy
from esg.core.policies.table import policy as named_policy
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.state.node_books import NodeBooks
from esg.units import ms
from tests.support.desk import Desk, arrived, failed, finished, joined, lost, start, started
from tests.support.small_catalog import PRICES, SMALL, in_phases

PHASED = in_phases(SMALL)
SETTINGS = SchedulerSettings(tasks=TaskMode.PHASED, prewarm=False)
WHOLE = Phases(ms(30), ms(60), ms(10))
SLOW_US = ms(10_000)


def esg(catalog: Catalog) -> Policy:
    return named_policy("esg", catalog)


def apex(catalog: Catalog) -> Policy:
    return named_policy("apex", catalog)


@pytest.fixture
def desk(open_desk: Callable[..., Desk]) -> Desk:
    return open_desk(catalog=PHASED, settings=SETTINGS)


def node(vcpus: int = 4, vgpus: int = 1, **more: object) -> InvokerJoined:
    resident = dict.fromkeys(range(vgpus), ("detect",))
    found = joined("i0", vcpus=vcpus, vgpus=vgpus, resident=resident, **more)  # type: ignore[arg-type]
    assert isinstance(found, InvokerJoined)
    return found


def ended(task: str, *, waited_us: int = 0, phases: Phases = WHOLE) -> object:
    return finished(task, running_us=phases.total_us + waited_us, phases=phases)


def names(desk: Desk) -> list[str]:
    return [order.task for order in started(desk.new_orders)]


def live(desk: Desk, until_us: int) -> list[str]:
    """The tasks that are started until then, if nothing happens."""
    found = []
    while desk.next_wake is not None and desk.next_wake <= until_us:
        found += names(desk.wake())
    return found


def books(desk: Desk) -> NodeBooks:
    return desk.scheduler.state.nodes["i0"]


def test_a_slice_is_promised_one_ahead_and_no_further(desk: Desk) -> None:
    desk.at(0, node(), *(arrived(f"r{n}", slo_us=SLOW_US) for n in (1, 2, 3)))
    assert names(desk) == ["t1"]
    assert live(desk, ms(59)) == []
    assert live(desk, ms(60)) == ["t2"]
    assert live(desk, ms(99)) == []
    part = books(desk).slices[0]
    assert (part.ahead, part.holder, part.ahead_until_us) == ("t1", "t2", ms(90))


def test_the_next_promise_is_made_when_the_task_before_has_been_reported(desk: Desk) -> None:
    desk.at(0, node(), *(arrived(f"r{n}", slo_us=SLOW_US) for n in (1, 2, 3, 4)))
    assert live(desk, ms(149)) == ["t2"]  # t1 is late: nobody knows by how much
    desk.at(ms(150), ended("t1", waited_us=ms(50)))
    assert names(desk) == []
    assert live(desk, ms(194)) == []
    # t2 is a batch of two: on the slice since 150 ms and for 90, and its CPU part took 45
    assert live(desk, ms(195)) == ["t3"]


def test_vcpus_are_given_back_when_the_cpu_part_should_be_over(desk: Desk) -> None:
    desk.at(0, node(vgpus=2), arrived("r1", "scan", slo_us=ms(61)))
    assert [order.config for order in started(desk.new_orders)] == [Config(1, 2, 2)]
    assert books(desk).vcpus_free == 2
    desk.at(ms(18), arrived("r2", "thumb", slo_us=SLOW_US))
    assert books(desk).vcpus_free == 3


def test_an_order_says_how_long_it_may_wait(desk: Desk) -> None:
    desk.at(0, node(), arrived("r1", slo_us=ms(250)))
    assert desk.new_orders == [
        start("t1", "scan/detect", "r1", phased=True, spare_us=ms(150), predicted_us=ms(100))
    ]


def test_waiting_for_a_slice_is_expected(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(catalog=PHASED, settings=SETTINGS)
    models = {0: ("detect", "resize")}
    desk.at(0, joined(vgpus=1, resident=models), arrived("r1", slo_us=SLOW_US))
    desk.at(ms(1), arrived("r2", "thumb", slo_us=SLOW_US))
    assert live(desk, ms(60)) == ["t2"]
    # it is prepared 3 ms later, and the slice is left 30 ms later
    assert desk.orders[1:] == [start("t2", "thumb/resize", "r2", predicted_us=ms(10 + 27))]


def test_a_task_pays_for_what_it_held_and_waits_on_one_vcpu(desk: Desk) -> None:
    desk.at(0, node(vgpus=2), arrived("r1", slo_us=ms(61)))
    phases = Phases(ms(20), ms(40), ms(5))
    desk.at(ms(100), finished("t1", running_us=ms(75), phases=phases))
    (answer,) = [order for order in desk.new_orders if isinstance(order, AnswerRequest)]
    vcpu_us, vgpu_us = 2 * ms(20) + ms(40) + ms(5) + ms(10), 2 * ms(40)
    assert answer.cost_pusd == vcpu_us + 10 * vgpu_us
    assert PRICES.vgpu_usd_per_hour == 10 * PRICES.vcpu_usd_per_hour
    (stage,) = answer.stages
    assert (stage.slices_from_us, stage.slices_until_us) == (ms(55), ms(95))


def test_what_was_promised_is_for_the_next_one_when_a_task_fails(desk: Desk) -> None:
    desk.at(0, node(), arrived("r1", slo_us=SLOW_US), arrived("r2", slo_us=SLOW_US))
    assert live(desk, ms(60)) == ["t2"]
    desk.at(ms(70), failed("t1"))
    part = books(desk).slices[0]
    assert (part.ahead, part.holder, books(desk).promised) == ("", "t2", 0)
    assert live(desk, ms(119)) == []
    assert live(desk, ms(120)) == ["t3"]  # t2 is on the slice at 90 ms, and leaves it at 150


def test_a_node_that_is_lost_leaves_nothing_to_hand_over(desk: Desk) -> None:
    desk.at(0, node(), arrived("r1", slo_us=SLOW_US), arrived("r2", slo_us=SLOW_US))
    live(desk, ms(60))
    desk.at(ms(70), lost("i0"))
    live(desk, ms(500))
    assert not desk.scheduler.state.handovers


def test_a_task_that_was_given_up_and_is_still_there_hands_nothing_over(desk: Desk) -> None:
    """Whoever stops it does not know how far it is."""
    desk.at(0, node(), arrived("r1", slo_us=SLOW_US))
    stray = RunningTask(task="t1", vcpus=4, slices=(0,))
    desk.at(ms(10), node(vgpus=2, running=(stray,), latest_task=1))  # with one slice more
    live(desk, ms(500))
    assert (books(desk).vcpus_free, books(desk).slices[0].holder) == (0, "t1")


def test_tasks_with_standing_orders_keep_what_they_have(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(catalog=PHASED, settings=SETTINGS, policy=apex)
    models = ("resize", "detect", "label")
    desk.at(0, joined("i0", vgpus=2, resident={0: models, 1: models}))
    desk.at(0, arrived("r1", "photo", slo_us=SLOW_US))
    (order,) = started(desk.new_orders)
    assert order.then is not None
    desk.at(ms(500), arrived("r2", "map", slo_us=SLOW_US))
    part = books(desk).slices[order.slices[0]]
    assert (part.ahead, part.holder) == ("", "t1")


def test_apex_prefers_slices_that_nobody_is_on(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(catalog=PHASED, settings=SETTINGS, policy=apex)
    resident = {0: ("detect",)}
    desk.at(0, joined("i0", vcpus=8, vgpus=1, resident=resident))
    desk.at(0, arrived("r1", slo_us=SLOW_US))
    desk.at(ms(59), joined("i1", vcpus=2, vgpus=1, resident=resident))
    desk.at(ms(60), arrived("r2", slo_us=SLOW_US), arrived("r3", slo_us=SLOW_US))
    placed = [(o.order.task, o.order.invoker) for o in desk.orders if isinstance(o, StartTask)]
    assert placed[:2] == [("t1", "i0"), ("t2", "i1")]


def test_a_stray_task_holds_what_its_node_says(desk: Desk) -> None:
    stray = RunningTask(task="t7", vcpus=1, slices=())
    desk.at(0, node(running=(stray,), latest_task=7), arrived("r1", slo_us=SLOW_US))
    assert books(desk).vcpus_free == 2
    assert names(desk) == ["t8"]
