"""Standing orders: what a node may go on with by itself, as the scheduler sees it."""

from collections.abc import Callable

import pytest

from esg.core.catalog.model import Catalog
from esg.core.messages.commands import Command, RecallStanding, StartTask
from esg.core.messages.events import Event, InvokerLeaving, RunningTask, TaskFinished
from esg.core.messages.task_order import TaskOrder
from esg.core.policies.interface import Policy
from esg.core.policies.table import policy as named_policy
from esg.units import ms
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    discard,
    finished,
    job,
    joined,
    reported,
    start,
    started,
    stop,
)

CHAIN = ("resize", "detect", "label")
WARM = {0: CHAIN, 1: CHAIN}


def apex(catalog: Catalog) -> Policy:
    return named_policy("apex", catalog)


@pytest.fixture
def desk(open_desk: Callable[..., Desk]) -> Desk:
    return open_desk(policy=apex)


def goes_on(task: str, continued: str, *, running_us: int) -> Event:
    return TaskFinished(
        task=task, invoker="i0", loading_us=0, running_us=running_us, continued=continued
    )


def recall(task: str, on: str = "i0") -> Command:
    return RecallStanding(invoker=on, task=task)


def chain(order: TaskOrder | None) -> list[str]:
    stages = []
    while order is not None:
        stages.append(f"{order.task}:{order.stage}")
        order = order.then
    return stages


def begun(orders: list[Command]) -> list[str]:
    """Of the tasks that a node says it has gone on with."""
    return [o.order.task for o in orders if isinstance(o, StartTask) and o.begun]


def test_a_lone_request_is_ordered_as_a_whole_and_followed_by_reports(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo"))
    (order,) = started(desk.new_orders)
    assert chain(order) == ["t1:resize", "t2:detect", "t3:label"]
    assert order.then is not None
    assert order.then.slices == order.slices
    desk.at(ms(15), goes_on("t1", "t2", running_us=ms(10)))
    assert begun(desk.new_orders) == ["t2"]
    desk.at(ms(120), goes_on("t2", "t3", running_us=ms(100)))
    assert begun(desk.new_orders) == ["t3"]
    desk.at(ms(131), finished("t3", running_us=ms(20)))
    assert desk.new_orders == [answer("r1"), discard("i0", "r1")]
    assert desk.scheduler.state.tasks == {}


def test_times_are_those_of_the_node_and_not_of_its_late_reports(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo"))
    desk.at(ms(30), goes_on("t1", "t2", running_us=ms(10)))
    desk.at(ms(125), goes_on("t2", "t3", running_us=ms(100)))
    desk.at(ms(135), finished("t3", running_us=ms(20)))
    (answered,) = [o for o in desk.new_orders if o == answer("r1")]
    spans = [(s.started_us, s.finished_us) for s in answered.stages]  # type: ignore[attr-defined]
    assert spans == [(0, ms(10)), (ms(10), ms(110)), (ms(110), ms(135))]


def test_a_follow_up_holds_for_as_long_as_the_rest_can_be_in_time(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo", slo_us=ms(500)))
    (order,) = started(desk.new_orders)
    assert order.then is not None
    assert order.then.then is not None
    # what is left for the last two stages, and for the last one; with a margin for noise
    assert ms(500 - 120 * 1.3) < order.then.within_us < ms(500 - 120)
    assert ms(500 - 20 * 1.3) < order.then.then.within_us < ms(500 - 20)


def test_a_deadline_without_room_is_decided_stage_by_stage(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo", slo_us=ms(136)))
    (order,) = started(desk.new_orders)
    assert order.then is None


def test_a_stage_whose_model_is_not_there_is_decided_by_itself(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident={0: CHAIN[:2], 1: CHAIN[:2]}), arrived("r1", "photo"))
    (order,) = started(desk.new_orders)
    assert chain(order) == ["t1:resize", "t2:detect"]


def test_a_stage_with_several_before_it_is_decided_by_itself(desk: Desk) -> None:
    everything = {0: ("resize", "detect", "depth", "label")}
    desk.at(ms(0), joined("i0", vgpus=1, memory_mb=2000, resident=everything))
    desk.at(ms(1), arrived("r1", "scene"))
    (order,) = started(desk.new_orders)
    assert order.then is None  # two stages follow from the first, and the last one from both


def test_a_request_beside_another_of_its_application_is_decided_stage_by_stage(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo"))
    desk.at(ms(1), arrived("r2", "photo"))
    while not started(desk.new_orders):
        desk.wake()
    assert desk.new_orders[0] == recall("t1")  # the two may become a batch
    (order,) = started(desk.new_orders)
    assert order.then is None


def test_others_on_the_node_change_nothing(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo"))
    desk.at(ms(1), arrived("r2", "scan"))
    assert recall("t1") not in desk.new_orders


def test_who_finds_no_room_has_all_standing_orders_recalled(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, resident=WARM), arrived("r1", "photo"))
    desk.at(ms(1), arrived("r2", "scan"))
    assert desk.new_orders == [recall("t1")]
    desk.at(ms(2), arrived("r3", "scan"))
    assert desk.new_orders == []  # once is enough
    desk.at(ms(10), finished("t1", running_us=ms(10)))
    assert recall("t1") not in desk.new_orders


def test_a_recall_that_came_too_late_is_no_harm(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, resident=WARM), arrived("r1", "photo"))
    desk.at(ms(1), arrived("r2", "scan"))
    desk.at(ms(10), goes_on("t1", "t2", running_us=ms(10)))
    assert begun(desk.new_orders) == ["t2"]
    assert started(desk.new_orders)[1:] == []  # the slice is taken; r2 waits
    desk.at(ms(110), finished("t2", running_us=ms(100)))
    assert "t4" in [order.task for order in started(desk.new_orders)]


def test_a_node_that_leaves_gets_no_follow_ups(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo"))
    desk.at(ms(1), InvokerLeaving(invoker="i0"))
    assert desk.new_orders == [recall("t1")]


def test_a_cancelled_request_stops_what_the_node_has_gone_on_with(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo"))
    desk.at(ms(5), cancelled("r1"))
    assert stop("t1") in desk.new_orders
    desk.at(ms(11), goes_on("t1", "t2", running_us=ms(10)))  # said before that was heard
    assert stop("t2") in desk.new_orders


def test_what_a_node_went_on_with_and_nobody_ordered_is_stopped_and_keeps_its_place(
    desk: Desk,
) -> None:
    """The controller's machine failed before it knew what it had ordered."""
    stray = RunningTask(task="t8", vcpus=1, slices=(0,))
    desk.at(ms(0), joined("i0", resident=WARM, running=(stray,), latest_task=8))
    desk.at(ms(1), goes_on("t8", "t9", running_us=ms(10)))
    assert desk.new_orders == [stop("t9")]
    assert desk.scheduler.state.nodes["i0"].vgpus_free == 1
    desk.at(ms(2), finished("t9"))
    assert desk.scheduler.state.nodes["i0"].vgpus_free == 2


def test_a_report_that_is_said_again_stops_nothing(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo"))
    desk.at(ms(10), goes_on("t1", "t2", running_us=ms(10)))
    desk.at(ms(11), goes_on("t1", "t2", running_us=ms(10)))
    assert desk.new_orders == []


def test_a_report_of_what_follows_a_task_that_is_unknown_has_it_stopped(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM))
    desk.at(ms(1), goes_on("t8", "t9", running_us=ms(10)))
    assert desk.new_orders == [stop("t9")]


def test_a_task_of_which_the_node_knows_nothing_any_more_is_decided_anew(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", resident=WARM), arrived("r1", "photo"))
    desk.at(ms(10), goes_on("t1", "t2", running_us=ms(10)))
    desk.at(ms(20), reported("i0", resident=WARM, latest_task=2))
    assert start("t4", "photo/detect", job("r1", resize="i0"), config=(1, 1, 1)) in desk.new_orders
