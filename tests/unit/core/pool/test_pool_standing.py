"""Standing orders: a node goes on by itself, on what it holds, and says so."""

import pytest

from esg.core.messages.events import JobFailure
from esg.core.messages.node import AbortTask, ExecuteTask, ExecutionEnded
from esg.core.messages.task_order import TaskOrder
from esg.units import ms
from tests.support.node import (
    Node,
    drop,
    failed,
    finished,
    loaded,
    recall,
    start,
    stop,
    unloaded,
    warm,
)

LABEL = start("t3", "crop", 0, within_us=ms(90))
THEN = start("t2", "crop", 0, vcpus=2, then=LABEL, within_us=ms(50))


@pytest.fixture
def node() -> Node:
    node = Node()
    node.at(0, warm(0, "blur"), warm(0, "crop"), loaded(0, "blur"), loaded(0, "crop"))
    return node


def order(then: TaskOrder = THEN) -> TaskOrder:
    return start("t1", "blur", 0, vcpus=2, then=then)


def ended(task: str) -> ExecutionEnded:
    return ExecutionEnded(task=task)


def test_a_chain_of_orders_is_followed_at_once(node: Node) -> None:
    node.at(ms(10), order())
    assert node.at(ms(30), ended("t1")) == [
        finished("t1", loading_us=0, running_us=ms(20), continued="t2"),
        ExecuteTask(order=THEN),
    ]
    assert node.at(ms(50), ended("t2")) == [
        finished("t2", loading_us=0, running_us=ms(20), continued="t3"),
        ExecuteTask(order=LABEL),
    ]
    assert node.at(ms(60), ended("t3")) == [finished("t3", loading_us=0, running_us=ms(10))]
    assert node.pool.vcpus_free == 4


def test_what_is_late_is_not_begun(node: Node) -> None:
    """The time counts from when the first of the chain was here, on the node's own clock."""
    node.at(ms(10), order())
    assert node.at(ms(61), ended("t1")) == [finished("t1", loading_us=0, running_us=ms(51))]


def test_a_later_part_of_a_chain_has_its_own_time(node: Node) -> None:
    node.at(ms(10), order())
    node.at(ms(30), ended("t1"))
    assert node.at(ms(101), ended("t2")) == [finished("t2", loading_us=0, running_us=ms(71))]


def test_nothing_follows_what_was_recalled(node: Node) -> None:
    node.at(ms(10), order())
    assert node.at(ms(20), recall("t1")) == []
    assert node.at(ms(30), ended("t1")) == [finished("t1", loading_us=0, running_us=ms(20))]


def test_a_recall_that_finds_the_next_task_ends_the_chain_there(node: Node) -> None:
    node.at(ms(10), order())
    node.at(ms(30), ended("t1"))
    assert node.at(ms(35), recall("t1")) == []
    assert node.at(ms(50), ended("t2")) == [finished("t2", loading_us=0, running_us=ms(20))]


def test_a_stop_that_finds_the_next_task_stops_that(node: Node) -> None:
    node.at(ms(10), order())
    node.at(ms(30), ended("t1"))
    assert node.at(ms(35), stop("t1")) == [AbortTask(task="t2")]
    assert node.at(ms(36), ExecutionEnded(task="t2", failure="stopped")) == [
        failed("t2", "stopped")
    ]


def test_a_stop_that_comes_just_before_the_end_ends_the_chain(node: Node) -> None:
    node.at(ms(10), order())
    assert node.at(ms(30), stop("t1")) == [AbortTask(task="t1")]
    assert node.at(ms(30), ended("t1")) == [finished("t1", loading_us=0, running_us=ms(20))]


def test_a_recall_of_a_task_that_is_gone_is_ignored(node: Node) -> None:
    assert node.at(ms(10), recall("t1"), stop("t1")) == []


def test_nothing_follows_a_failure_of_the_task_or_of_one_of_its_jobs(node: Node) -> None:
    node.at(ms(10), order())
    lost = (JobFailure(request="r1", reason="no picture", final=True),)
    (report,) = node.at(ms(30), ExecutionEnded(task="t1", failed=lost))
    assert report.event.continued == ""  # type: ignore[union-attr]
    node.at(ms(40), start("t4", "blur", 0, then=start("t5", "crop", 0, within_us=ms(50))))
    assert node.at(ms(50), ExecutionEnded(task="t4", failure="it broke")) == [
        failed("t4", "it broke")
    ]


def test_nothing_follows_where_the_model_is_gone(node: Node) -> None:
    node.at(ms(10), order(), drop(0, "crop"), unloaded(0, "crop"))
    assert node.at(ms(30), ended("t1")) == [finished("t1", loading_us=0, running_us=ms(20))]


def test_nothing_follows_that_wants_more_than_is_free(node: Node) -> None:
    greedy = start("t2", "crop", 0, vcpus=3, within_us=ms(50))
    node.at(ms(10), order(greedy), start("t9", "blur", 1, vcpus=2))
    assert node.at(ms(30), ended("t1")) == [finished("t1", loading_us=0, running_us=ms(20))]


def test_orders_that_came_meanwhile_are_not_taken_for_old_ones(node: Node) -> None:
    node.at(ms(10), order(), start("t7", "blur", 1, vcpus=2))
    node.at(ms(30), ended("t1"))
    assert node.pool.report().latest_task == 7
    assert sorted(task.task for task in node.pool.report().running) == ["t2", "t7"]
