"""The tasks of a node: started, refused, stopped, ended, and told of."""

import pytest

from esg.core.messages.events import (
    InvokerJoined,
    InvokerReported,
    MissingInput,
    RunningTask,
    SliceInventory,
    TaskFailed,
)
from esg.core.messages.node import (
    AbortTask,
    ExecuteTask,
    ExecutionEnded,
    TellScheduler,
)
from esg.core.messages.task_order import Output
from esg.limits import LONGEST_TASK_US
from esg.units import ms
from tests.support.node import (
    SLICE_MB,
    Node,
    drop,
    failed,
    finished,
    load,
    loaded,
    ready,
    start,
    stop,
    warm,
)


@pytest.fixture
def node() -> Node:
    return Node()


# Starting and ending.


def test_a_task_on_warm_slices_executes_at_once(node: Node) -> None:
    node.at(0, warm(0, "blur"), warm(1, "blur"), loaded(0, "blur"), loaded(1, "blur"))
    order = start("t1", "blur", 0, 1)
    assert node.at(ms(5), order) == [ExecuteTask(order=order)]
    assert node.at(ms(25), ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=0, running_us=ms(20))
    ]


def test_a_task_on_cold_slices_loads_everywhere_and_waits_for_the_last_model(node: Node) -> None:
    order = start("t1", "blur", 0, 1)
    assert node.at(0, order) == [load(0, "blur"), load(1, "blur")]
    assert node.at(ms(30), loaded(1, "blur")) == [ready(1, "blur", loading_us=ms(30))]
    assert node.at(ms(40), loaded(0, "blur")) == [
        ready(0, "blur", loading_us=ms(40)),
        ExecuteTask(order=order),
    ]
    assert node.at(ms(60), ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=ms(40), running_us=ms(20))
    ]


def test_a_task_on_a_warm_and_a_cold_slice_loads_only_on_the_cold_one(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"))
    order = start("t1", "blur", 0, 1)
    assert node.at(ms(10), order) == [load(1, "blur")]
    assert node.at(ms(40), loaded(1, "blur")) == [
        ready(1, "blur", loading_us=ms(30)),
        ExecuteTask(order=order),
    ]
    assert node.at(ms(60), ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=ms(30), running_us=ms(20))
    ]


def test_a_task_waits_for_a_model_that_is_being_loaded_already(node: Node) -> None:
    order = start("t1", "blur", 0)
    assert node.at(0, warm(0, "blur")) == [load(0, "blur")]
    assert node.at(ms(10), order) == []
    assert node.at(ms(30), loaded(0, "blur")) == [
        ready(0, "blur", loading_us=ms(30)),
        ExecuteTask(order=order),
    ]


def test_an_order_heard_twice_is_carried_out_once(node: Node) -> None:
    node.at(0, start("t1", "blur", 0), loaded(0, "blur"))
    assert node.at(ms(1), start("t1", "blur", 0)) == []
    assert node.at(ms(5), ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=0, running_us=ms(5))
    ]
    assert node.at(ms(6), start("t1", "blur", 0)) == []
    assert node.pool.running == {}


def test_an_order_older_than_the_latest_is_ignored(node: Node) -> None:
    node.at(0, start("t7", "blur", 0), loaded(0, "blur"), ExecutionEnded(task="t7"))
    assert node.at(ms(1), start("t6", "blur", 0)) == []
    assert node.pool.report().latest_task == 7


def test_an_order_for_a_busy_slice_is_refused_and_changes_nothing(node: Node) -> None:
    node.at(0, start("t1", "blur", 0))
    before = node.pool.report().running, node.pool.vcpus_free
    assert node.at(ms(1), start("t2", "crop", 1, 0)) == [failed("t2", "slice 0 is not free on i0")]
    assert (node.pool.report().running, node.pool.vcpus_free) == before
    assert node.at(ms(2), start("t3", "crop", 1)) == [load(1, "crop")]


def test_an_order_for_more_vcpus_than_are_free_is_refused_and_changes_nothing(node: Node) -> None:
    node.at(0, start("t1", "blur", 0, vcpus=3))
    assert node.at(ms(1), start("t2", "crop", 1, vcpus=2)) == [
        failed("t2", "2 vCPUs are not free on i0")
    ]
    assert node.at(ms(2), start("t3", "crop", 1, vcpus=1)) == [load(1, "crop")]


@pytest.mark.parametrize(("name", "index"), [("blur", 2), ("blur", -1), ("no-such", 0)])
def test_an_order_for_what_the_node_has_not_got_is_refused_and_changes_nothing(
    node: Node, name: str, index: int
) -> None:
    (order,) = node.at(0, start("t1", name, index))
    assert isinstance(order, TellScheduler)
    assert isinstance(order.event, TaskFailed)
    assert node.at(ms(1), start("t2", "blur", 0, 1, vcpus=4)) == [load(0, "blur"), load(1, "blur")]


def test_a_task_that_ended_badly_is_reported_with_what_it_missed(node: Node) -> None:
    missing = (MissingInput(request="r1", source=Output(stage="crop", invoker="i1")),)
    node.at(0, start("t1", "blur", 0), loaded(0, "blur"))
    ended = ExecutionEnded(task="t1", failure="input not found", missing=missing)
    assert node.at(ms(5), ended) == [
        TellScheduler(
            event=TaskFailed(task="t1", invoker="i0", reason="input not found", missing=missing)
        )
    ]


def test_news_of_a_task_that_is_over_are_ignored(node: Node) -> None:
    node.at(0, start("t1", "blur", 0), loaded(0, "blur"), ExecutionEnded(task="t1"))
    assert node.at(ms(1), ExecutionEnded(task="t1"), ExecutionEnded(task="t9")) == []


# Stopping.


def test_a_task_stopped_before_it_began_fails_and_its_model_goes_on_loading(node: Node) -> None:
    node.at(0, start("t1", "blur", 0, 1), loaded(0, "blur"))
    assert node.at(ms(5), stop("t1")) == [failed("t1", "stopped before it began")]
    assert node.at(ms(9), loaded(1, "blur")) == [ready(1, "blur", loading_us=ms(9))]
    order = start("t2", "blur", 0, 1)
    assert node.at(ms(10), order) == [ExecuteTask(order=order)]


def test_a_task_stopped_while_it_runs_holds_its_slices_until_it_has_ended(node: Node) -> None:
    node.at(0, start("t1", "blur", 0), loaded(0, "blur"))
    assert node.at(ms(5), stop("t1")) == [AbortTask(task="t1")]
    assert node.at(ms(6), start("t2", "blur", 0)) == [failed("t2", "slice 0 is not free on i0")]
    assert node.at(ms(7), ExecutionEnded(task="t1", failure="stopped")) == [failed("t1", "stopped")]
    order = start("t3", "blur", 0)
    assert node.at(ms(8), order) == [ExecuteTask(order=order)]


def test_stopping_a_task_that_is_not_here_does_nothing(node: Node) -> None:
    assert node.at(0, stop("t1")) == []


# Inventory.


def test_a_node_tells_what_it_has_and_runs(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"), warm(1, "crop"), start("t4", "blur", 0))
    node.at(ms(1), start("t5", "deep", 0))  # refused, but heard of
    slices = (
        SliceInventory(memory_mb=SLICE_MB, resident=("blur",)),
        SliceInventory(memory_mb=SLICE_MB, loading=("crop",)),
    )
    running = (RunningTask(task="t4", vcpus=1, slices=(0,)),)
    assert node.pool.joined() == InvokerJoined(
        invoker="i0", vcpus=4, slices=slices, running=running, latest_task=5
    )
    assert node.pool.report() == InvokerReported(
        invoker="i0", slices=slices, running=running, latest_task=5
    )


def test_a_model_that_is_leaving_is_no_longer_in_the_inventory(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"), drop(0, "blur"))
    assert node.pool.joined().slices[0].resident == ()


def test_a_model_found_on_a_slice_is_taken_into_the_books(node: Node) -> None:
    assert node.at(0, loaded(1, "blur")) == [ready(1, "blur")]
    assert node.pool.joined().slices[1].resident == ("blur",)
    order = start("t1", "blur", 1)
    assert node.at(ms(1), order) == [ExecuteTask(order=order)]


def test_times_of_more_than_a_day_are_told_as_a_day(node: Node) -> None:
    """More is not believed, and a report that is refused would be told again for ever."""
    day_us = LONGEST_TASK_US
    node.at(0, start("t1", "blur", 0))
    told, _ = node.at(2 * day_us, loaded(0, "blur"))
    assert told == ready(0, "blur", loading_us=day_us)
    assert node.at(5 * day_us, ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=day_us, running_us=day_us)
    ]
