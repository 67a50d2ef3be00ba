"""A node whose slices are of different kinds runs tasks on those that they were planned for."""

import pytest

from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.node import EnterSlices, ExecuteTask, ExecutionEnded, TaskPrepared
from tests.support.node import LARGE, Node, failed, finished, loaded, start, warm


@pytest.fixture
def node() -> Node:
    """A usual slice and two large ones; all of them have the model."""
    found = Node(USUAL, LARGE, LARGE)
    for index in range(3):
        found.at(0, warm(index, "blur"), loaded(index, "blur"))
    return found


@pytest.mark.parametrize("phased", [False, True])
def test_order_for_slices_of_another_kind_is_refused(node: Node, phased: bool) -> None:
    assert node.at(5, start("t1", "blur", 1, phased=phased)) == [
        failed("t1", "slice 1 of i0 is of kind 3g.40gb, which 1/1/1 is not for")
    ]
    assert node.at(6, start("t2", "blur", 1, 0, kind=LARGE, phased=phased)) == [
        failed("t2", "slice 0 of i0 is a usual one, which 1/1/2x3g.40gb is not for")
    ]
    order = start("t3", "blur", 1, 2, kind=LARGE, phased=phased)
    assert node.at(7, order) == [ExecuteTask(order=order)]


def test_inventory_says_of_which_kind_slices_are(node: Node) -> None:
    assert [part.kind for part in node.pool.joined().slices] == [USUAL, LARGE, LARGE]
    assert [part.kind for part in node.pool.report().slices] == [USUAL, LARGE, LARGE]


def test_task_that_is_bound_late_takes_another_slice_of_its_own_kind(node: Node) -> None:
    """It was promised one that somebody is still on."""
    for name in ("t1", "t2"):
        node.at(5, start(name, "blur", 1, kind=LARGE, phased=True))
    assert node.at(6, TaskPrepared(task="t1")) == [EnterSlices(task="t1", slices=(1,))]
    assert node.at(7, TaskPrepared(task="t2")) == [EnterSlices(task="t2", slices=(2,))]


def test_task_that_is_bound_late_waits_although_a_slice_of_another_kind_is_free(
    node: Node,
) -> None:
    for name in ("t1", "t2", "t3"):
        node.at(5, start(name, "blur", 1, kind=LARGE, phased=True))
    for name in ("t1", "t2"):
        node.at(6, TaskPrepared(task=name))
    assert node.at(7, TaskPrepared(task="t3")) == []
    orders = node.at(8, ExecutionEnded(task="t1"))
    assert orders[-1] == EnterSlices(task="t3", slices=(1,))


def test_what_follows_on_slices_of_another_kind_does_not_begin(node: Node) -> None:
    following = start("t2", "blur", 1)
    node.at(5, start("t1", "blur", 1, kind=LARGE, then=following, within_us=100))
    (report,) = node.at(9, ExecutionEnded(task="t1"))
    assert report == finished("t1", loading_us=0, running_us=4)
    assert not node.pool.running
