"""Tasks in phases on a node: each phase begins when there is room for it, in turn.

A story's node has two slices and four vCPUs.
"""

import pytest

from esg.core.catalog.phases import Phases
from esg.core.messages.events import RunningTask
from esg.core.messages.node import (
    AbortTask,
    EnterSlices,
    ExecuteTask,
    ExecutionEnded,
    PoolCommand,
    ReloadFunction,
    ReplaceModel,
    SliceLost,
    TaskLeftSlices,
    TaskPrepared,
)
from esg.core.messages.task_order import TaskOrder
from esg.units import ms
from tests.support.node import (
    Node,
    drop,
    failed,
    finished,
    gone,
    load,
    loaded,
    ready,
    start,
    stop,
    unload,
    unloaded,
    warm,
)


@pytest.fixture
def node() -> Node:
    """With blur and crop on both slices."""
    node = Node()
    for index in (0, 1):
        for function in ("blur", "crop"):
            node.at(0, warm(index, function), loaded(index, function))
    return node


def order(
    task: str, *slices: int, function: str = "blur", vcpus: int = 1, spare_us: int = 0
) -> TaskOrder:
    return start(task, function, *slices, vcpus=vcpus, phased=True, spare_us=spare_us)


def prepared(task: str) -> TaskPrepared:
    return TaskPrepared(task=task)


def left(task: str) -> TaskLeftSlices:
    return TaskLeftSlices(task=task)


def ended(task: str, failure: str = "") -> ExecutionEnded:
    return ExecutionEnded(task=task, failure=failure)


def enter(task: str, *slices: int) -> EnterSlices:
    return EnterSlices(task=task, slices=slices)


def executed(orders: list[PoolCommand]) -> list[str]:
    return [order.order.task for order in orders if isinstance(order, ExecuteTask)]


def held(node: Node) -> dict[str, RunningTask]:
    return {task.task: task for task in node.pool.joined().running}


def test_a_task_gives_back_what_it_needs_no_longer(node: Node) -> None:
    one = order("t1", 0, vcpus=3)
    assert node.at(ms(10), one) == [ExecuteTask(order=one)]
    assert held(node)["t1"] == RunningTask(task="t1", vcpus=3, slices=())
    assert node.at(ms(40), prepared("t1")) == [enter("t1", 0)]
    assert held(node)["t1"] == RunningTask(task="t1", vcpus=1, slices=(0,))
    assert node.at(ms(90), left("t1")) == []
    assert held(node)["t1"] == RunningTask(task="t1", vcpus=1, slices=())
    phases = Phases(ms(30), ms(50), ms(5))
    assert node.at(ms(95), ended("t1")) == [
        finished("t1", loading_us=0, running_us=ms(85), phases=phases)
    ]
    assert held(node) == {}


def test_the_next_task_prepares_while_one_is_still_on_the_slice(node: Node) -> None:
    node.at(0, order("t1", 0), prepared("t1"))
    two = order("t2", 0)
    assert node.at(ms(10), two) == [ExecuteTask(order=two)]
    node.at(ms(10), order("t3", 1), prepared("t3"))
    assert node.at(ms(20), prepared("t2")) == []
    assert node.at(ms(50), left("t1")) == [enter("t2", 0)]
    node.at(ms(90), left("t2"))
    assert node.at(ms(95), ended("t2")) == [
        finished("t2", loading_us=0, running_us=ms(85), phases=Phases(ms(10), ms(40), ms(5)))
    ]


def test_a_prepared_task_takes_a_slice_that_was_promised_to_one_that_is_not(node: Node) -> None:
    node.at(0, order("t1", 0), prepared("t1"))
    node.at(ms(10), order("t2", 0), order("t3", 1))
    assert node.at(ms(20), prepared("t2")) == [enter("t2", 1)]
    assert node.at(ms(30), prepared("t3")) == []
    assert node.at(ms(40), left("t1")) == [enter("t3", 0)]


def test_it_takes_those_it_was_promised_if_they_are_free(node: Node) -> None:
    node.at(0, order("t1", 1))
    assert node.at(ms(20), prepared("t1")) == [enter("t1", 1)]


def test_slices_without_the_model_are_of_no_use(node: Node) -> None:
    node.at(0, drop(1, "blur"), unloaded(1, "blur"))
    node.at(0, order("t1", 0), prepared("t1"))
    node.at(ms(10), order("t2", 0))
    assert node.at(ms(20), prepared("t2")) == []
    assert node.at(ms(40), left("t1")) == [enter("t2", 0)]


def test_who_has_least_time_to_spare_goes_first(node: Node) -> None:
    node.at(0, order("t1", 0, 1), prepared("t1"))
    node.at(ms(10), order("t2", 0, spare_us=ms(50)), order("t3", 1, spare_us=ms(30)))
    node.at(ms(20), prepared("t2"), prepared("t3"))
    node.at(ms(35), order("t4", 0, spare_us=ms(10)))
    node.at(ms(36), prepared("t4"))
    assert node.at(ms(40), left("t1")) == [enter("t3", 1), enter("t4", 0)]
    assert node.at(ms(60), left("t4")) == [enter("t2", 0)]


def test_the_first_in_line_for_several_slices_is_not_overtaken_for_ever(node: Node) -> None:
    node.at(0, order("t1", 0), order("t2", 1), prepared("t1"), prepared("t2"))
    node.at(ms(10), order("t3", 0, 1), order("t4", 0, spare_us=ms(50)))
    node.at(ms(20), prepared("t3"), prepared("t4"))
    assert node.at(ms(30), left("t1")) == []  # kept for t3
    assert node.at(ms(40), left("t2")) == [enter("t3", 0, 1)]
    assert node.at(ms(50), left("t3")) == [enter("t4", 0)]


def test_tasks_wait_in_line_for_vcpus(node: Node) -> None:
    node.at(0, order("t1", 0, vcpus=3))
    two, three = order("t2", 1, vcpus=3), order("t3", 0)
    assert node.at(ms(10), two, three) == []  # the one that needs less waits behind
    assert node.at(ms(20), prepared("t1")) == [ExecuteTask(order=two), enter("t1", 0)]
    assert node.at(ms(30), left("t1")) == []
    assert node.at(ms(40), ended("t1"))[1:] == [ExecuteTask(order=three)]


def test_what_can_never_fit_fails(node: Node) -> None:
    assert node.at(0, order("t1", 0, vcpus=5)) == [failed("t1", "i0 has no 5 vCPUs")]
    assert node.at(0, order("t2", 7)) == [failed("t2", "i0 has no slice 7")]


def test_loading_hides_behind_the_cpu_part() -> None:
    node = Node()
    one = order("t1", 0)
    assert node.at(0, one) == [load(0, "blur"), ExecuteTask(order=one)]
    assert node.at(ms(10), loaded(0, "blur")) == [ready(0, "blur", loading_us=ms(10))]
    assert node.at(ms(30), prepared("t1")) == [enter("t1", 0)]
    node.at(ms(50), left("t1"))
    (told,) = node.at(ms(50), ended("t1"))
    phases = Phases(ms(30), ms(20), 0)
    assert told == finished("t1", loading_us=0, running_us=ms(50), phases=phases)


def test_loading_is_what_remains_of_it_when_the_cpu_part_is_over() -> None:
    node = Node()
    node.at(0, order("t1", 0))
    assert node.at(ms(10), prepared("t1")) == []
    assert node.at(ms(30), loaded(0, "blur"))[1:] == [enter("t1", 0)]
    node.at(ms(50), left("t1"))
    (told,) = node.at(ms(50), ended("t1"))
    phases = Phases(ms(10), ms(20), 0)
    assert told == finished("t1", loading_us=ms(20), running_us=ms(30), phases=phases)


def test_a_model_that_somebody_will_need_next_stays(node: Node) -> None:
    node.at(0, order("t1", 0, function="crop"), prepared("t1"))
    node.at(ms(10), order("t2", 0))
    assert node.at(ms(10), drop(0, "blur"), drop(1, "blur")) == [unload(1, "blur")]


def test_a_model_that_has_gone_is_loaded_again_when_it_is_needed() -> None:
    node = Node()
    node.at(0, warm(0, "wide"), loaded(0, "wide"))
    node.at(0, order("t1", 0, function="wide", vcpus=4))
    two = order("t2", 0)
    assert node.at(ms(5), two) == []  # no vCPUs, and no memory while t1 needs wide
    node.at(ms(10), prepared("t1"))
    assert node.at(ms(20), left("t1")) == [
        unload(0, "wide"),
        gone(0, "wide", "its memory was needed"),
    ]
    assert node.at(ms(30), unloaded(0, "wide")) == [load(0, "blur")]
    node.at(ms(31), prepared("t2"))
    assert node.at(ms(40), loaded(0, "blur"))[1:] == [enter("t2", 0)]


def test_a_load_that_fails_fails_the_tasks_that_wait_for_it() -> None:
    node = Node()
    node.at(0, order("t1", 0), order("t2", 0, vcpus=4))
    told = node.at(ms(10), unloaded(0, "blur", "too hot"))
    reason = "blur could not be loaded: too hot"
    assert told == [gone(0, "blur", "too hot"), AbortTask(task="t1"), failed("t2", reason)]
    assert node.at(ms(11), prepared("t1")) == []  # it ended just then
    assert node.at(ms(12), ended("t1", "stopped")) == [failed("t1", reason)]


def test_a_slice_that_is_lost_takes_those_along_that_were_promised_it(node: Node) -> None:
    node.at(0, order("t1", 0), prepared("t1"), order("t2", 0), order("t3", 1))
    orders = node.at(ms(10), SliceLost(slice=0, reason="killed"))
    assert AbortTask(task="t2") in orders
    assert AbortTask(task="t1") not in orders  # its executor knows what can be saved
    assert node.at(ms(20), ended("t2", "stopped")) == [failed("t2", "killed")]
    node.at(ms(30), left("t1"))
    assert node.at(ms(30), prepared("t3")) == [enter("t3", 1)]


@pytest.mark.parametrize("steps", range(4))
def test_a_task_can_be_stopped_in_every_phase(node: Node, steps: int) -> None:
    node.at(0, order("t1", 0, 1), prepared("t1"))
    node.at(ms(1), order("t2", 0, vcpus=2))
    happens = [prepared("t2"), left("t1"), left("t2")]
    for step in happens[:steps]:
        node.at(ms(10), step)
    assert node.at(ms(20), stop("t2")) == [AbortTask(task="t2")]
    assert node.at(ms(21), *happens[steps:]) == []
    assert node.at(ms(30), ended("t2", "stopped")) == [failed("t2", "stopped")]


def test_a_task_that_has_not_begun_is_stopped_at_once(node: Node) -> None:
    node.at(0, order("t1", 0, vcpus=4), order("t2", 1))
    assert node.at(ms(1), stop("t2")) == [failed("t2", "stopped before it began")]


def test_a_standing_order_is_followed_at_once_and_phase_by_phase(node: Node) -> None:
    then = start("t3", "crop", 0, vcpus=2, within_us=ms(90), phased=True)
    one = start("t2", "blur", 0, vcpus=2, then=then, phased=True)
    node.at(0, order("t1", 0), prepared("t1"), one)
    assert node.at(ms(10), prepared("t2")) == [enter("t2", 1)]
    assert held(node)["t2"] == RunningTask(task="t2", vcpus=1, slices=(1,))
    assert node.at(ms(20), left("t2")) == []
    phases = Phases(ms(10), ms(10), ms(5))
    assert node.at(ms(25), ended("t2")) == [
        finished("t2", loading_us=0, running_us=ms(25), continued="t3", phases=phases, slices=(1,)),
        ExecuteTask(order=then),
    ]
    assert held(node)["t3"] == RunningTask(task="t3", vcpus=2, slices=())
    assert node.at(ms(30), prepared("t3")) == [enter("t3", 1)]


def test_it_is_not_followed_if_others_have_taken_the_vcpus(node: Node) -> None:
    then = start("t3", "crop", 0, vcpus=4, within_us=ms(90), phased=True)
    node.at(0, start("t1", "blur", 0, vcpus=4, then=then, phased=True), prepared("t1"))
    node.at(ms(5), order("t4", 1))
    (told,) = node.at(ms(25), left("t1"), ended("t1"))
    phases = Phases(0, ms(25), 0)
    assert told == finished("t1", loading_us=0, running_us=ms(25), phases=phases)


def test_a_model_that_had_to_go_while_its_task_waited_is_loaded_again() -> None:
    node = Node()
    node.at(0, warm(0, "blur"), loaded(0, "blur"), warm(0, "crop"), loaded(0, "crop"))
    node.at(3, order("t1", 0), prepared("t1"))
    node.at(5, order("t2", 0, function="crop", spare_us=1000), prepared("t2"))
    node.at(7, order("t3", 0, function="deep", spare_us=10))  # it has less to spare
    node.at(8, left("t1"))
    orders = node.at(9, ended("t1"), unloaded(0, "blur"), unloaded(0, "crop"))
    orders += node.at(10, loaded(0, "deep"))
    assert node.at(12, prepared("t3")) == [enter("t3", 0)]
    orders += node.at(14, left("t3"), ended("t3"))
    assert load(0, "crop") in orders
    assert enter("t2", 0) in node.at(15, loaded(0, "crop"))


def test_a_function_is_reloaded_when_no_task_of_it_is_under_way(node: Node) -> None:
    node.at(0, order("t1", 0), ReloadFunction(function="blur"))
    two = order("t2", 1)
    assert node.at(ms(1), two) == []  # it waits for the new one
    node.at(ms(2), prepared("t1"), left("t1"))
    assert ReplaceModel(function="blur", slices=(0, 1)) in node.at(ms(9), ended("t1"))


def test_a_joint_task_finds_its_slices_free_or_fails(node: Node) -> None:
    node.at(0, order("t1", 0))
    assert node.at(1, start("t2", "blur", 0)) == [failed("t2", "slice 0 is not free on i0")]
    assert executed(node.at(2, start("t3", "blur", 1))) == ["t3"]
    assert node.at(3, order("t4", 1)) == [failed("t4", "slice 1 is not free on i0")]
