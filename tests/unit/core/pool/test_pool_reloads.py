"""A pool has a function's model replaced between two tasks of it, and keeps it resident."""

import pytest

from esg.core.messages.node import (
    ExecuteTask,
    ExecutionEnded,
    FunctionReloaded,
    PoolCommand,
    ReloadFunction,
    ReplaceModel,
    SliceLost,
)
from esg.core.node_settings import KEEP_ALIVE_US
from tests.support.node import (
    Node,
    drop,
    finished,
    gone,
    load,
    loaded,
    ready,
    start,
    unload,
    unloaded,
    warm,
)

RELOAD = ReloadFunction(function="blur")
RELOADED = FunctionReloaded(function="blur")


@pytest.fixture
def node() -> Node:
    """Both slices have the model of `blur`."""
    node = Node()
    node.at(0, loaded(0, "blur"), loaded(1, "blur"))
    return node


def replace(*slices: int) -> ReplaceModel:
    return ReplaceModel(function="blur", slices=slices)


def executed(orders: list[PoolCommand]) -> list[str]:
    return [order.order.task for order in orders if isinstance(order, ExecuteTask)]


def test_the_model_of_a_function_that_nobody_runs_is_replaced_at_once(node: Node) -> None:
    assert node.at(1, RELOAD) == [replace(0, 1)]
    assert node.at(2, RELOADED) == []


def test_a_function_that_is_loaded_nowhere_is_replaced_too() -> None:
    assert Node().at(1, RELOAD) == [replace()]


def test_tasks_that_run_end_with_the_old_one_and_those_that_come_begin_with_the_new(
    node: Node,
) -> None:
    assert executed(node.at(1, start("t1", "blur", 0))) == ["t1"]
    assert node.at(2, RELOAD) == []
    assert node.at(3, start("t2", "blur", 1)) == []
    assert node.at(5, ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=0, running_us=4),
        replace(0, 1),
    ]
    assert executed(node.at(8, RELOADED)) == ["t2"]
    assert node.at(9, ExecutionEnded(task="t2")) == [finished("t2", loading_us=5, running_us=1)]


def test_tasks_of_other_functions_do_not_wait(node: Node) -> None:
    node.at(1, loaded(0, "crop"), RELOAD)
    assert executed(node.at(2, start("t1", "crop", 0))) == ["t1"]


def test_a_model_that_is_being_loaded_is_waited_for(node: Node) -> None:
    """Nobody knows what of it was read before it changed."""
    node.at(1, drop(1, "blur"), unloaded(1, "blur"), warm(1, "blur"))
    assert node.at(2, RELOAD) == []
    assert node.at(3, loaded(1, "blur")) == [ready(1, "blur", loading_us=2), replace(0, 1)]


def test_a_model_that_cannot_be_loaded_is_not_waited_for(node: Node) -> None:
    node.at(1, drop(1, "blur"), unloaded(1, "blur"), warm(1, "blur"), RELOAD)
    assert node.at(2, unloaded(1, "blur", "broken")) == [gone(1, "blur", "broken"), replace(0)]


def test_to_reload_what_is_being_reloaded_is_no_news(node: Node) -> None:
    assert node.at(1, RELOAD) == [replace(0, 1)]
    assert node.at(2, RELOAD) == []
    assert node.at(3, RELOADED) == []
    assert node.at(4, RELOAD) == [replace(0, 1)]


def test_a_model_that_is_being_replaced_is_not_unloaded(node: Node) -> None:
    node.at(1, RELOAD)
    assert node.at(2, drop(0, "blur")) == []
    assert node.at(KEEP_ALIVE_US) == []
    assert node.at(KEEP_ALIVE_US + 1, RELOADED) == [
        unload(0, "blur"),
        gone(0, "blur", "idle"),
        unload(1, "blur"),
        gone(1, "blur", "idle"),
    ]


def test_a_model_that_needs_its_room_waits_until_it_is_replaced(node: Node) -> None:
    node.at(1, RELOAD)
    assert node.at(2, warm(0, "wide")) == []
    assert node.at(3, RELOADED) == [unload(0, "blur"), gone(0, "blur", "its memory was needed")]
    assert node.at(4, unloaded(0, "blur")) == [load(0, "wide")]


def test_a_slice_that_is_lost_meanwhile_is_no_reason_to_wait(node: Node) -> None:
    node.at(1, start("t1", "blur", 0), RELOAD)
    assert not any(
        isinstance(order, ReplaceModel) for order in node.at(2, SliceLost(slice=1, reason="killed"))
    )
    assert replace(0) in node.at(3, ExecutionEnded(task="t1"))
