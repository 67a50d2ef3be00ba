"""The models of a node: loaded ahead of time or when needed, kept, evicted, unloaded when idle."""

import pytest

from esg.core.messages.events import Woke
from esg.core.messages.node import (
    ExecuteTask,
    ExecutionEnded,
    PoolCommand,
    PoolEvent,
)
from esg.core.node_settings import KEEP_ALIVE_US
from esg.units import ms, seconds
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
    return Node()


# Loading ahead of time.


def test_a_model_is_loaded_in_the_background_of_a_running_task(node: Node) -> None:
    node.at(0, start("t1", "blur", 0), loaded(0, "blur"))
    assert node.at(ms(1), warm(0, "crop")) == [load(0, "crop")]
    assert node.at(ms(2), loaded(0, "crop")) == [ready(0, "crop", loading_us=ms(1))]
    assert node.at(ms(5), ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=0, running_us=ms(5))
    ]


def test_a_model_that_is_there_or_on_its_way_is_not_loaded_twice(node: Node) -> None:
    assert node.at(0, warm(0, "blur"), warm(0, "blur")) == [load(0, "blur")]
    assert node.at(ms(1), loaded(0, "blur"), warm(0, "blur")) == [
        ready(0, "blur", loading_us=ms(1))
    ]


def test_a_dropped_model_is_unloaded_without_a_report(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"))
    assert node.at(ms(1), drop(0, "blur")) == [unload(0, "blur")]
    assert node.at(ms(2), unloaded(0, "blur"), drop(0, "blur"), drop(1, "crop")) == []


def test_a_model_wanted_while_it_is_unloaded_is_loaded_again_afterwards(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"), drop(0, "blur"))
    order = start("t1", "blur", 0)
    assert node.at(ms(1), order) == []
    assert node.at(ms(2), unloaded(0, "blur")) == [load(0, "blur")]
    assert node.at(ms(9), loaded(0, "blur")) == [
        ready(0, "blur", loading_us=ms(7)),
        ExecuteTask(order=order),
    ]


@pytest.mark.parametrize("begun", [True, False])
def test_a_model_in_use_is_not_dropped(node: Node, begun: bool) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"), start("t1", "blur", 0, 1))
    if begun:
        node.at(ms(1), loaded(1, "blur"))
    assert node.at(ms(2), drop(0, "blur")) == []


# Memory.


def test_a_model_waits_until_the_memory_it_needs_is_confirmed_free(node: Node) -> None:
    node.at(0, warm(0, "deep"), loaded(0, "deep"))
    assert node.at(ms(1), drop(0, "deep"), start("t1", "deep", 1)) == [
        unload(0, "deep"),
        load(1, "deep"),
    ]
    order = start("t2", "crop", 0)
    assert node.at(ms(2), order) == [load(0, "crop")]  # 4 MB of 10 are free
    assert node.at(ms(3), warm(0, "blur")) == []
    assert node.at(ms(4), unloaded(0, "deep")) == [load(0, "blur")]
    assert node.at(ms(5), loaded(0, "crop")) == [
        ready(0, "crop", loading_us=ms(3)),
        ExecuteTask(order=order),
    ]


def test_the_longest_unused_model_makes_room_and_is_reported_gone(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"))
    node.at(ms(1), warm(0, "crop"), loaded(0, "crop"))
    node.at(ms(2), warm(0, "blur"))  # now crop is the longest unused
    order = start("t1", "deep", 0)
    assert node.at(ms(3), order) == [unload(0, "crop"), gone(0, "crop", "its memory was needed")]
    assert node.at(ms(4), unloaded(0, "crop")) == [load(0, "deep")]
    assert node.at(ms(5), loaded(0, "deep")) == [
        ready(0, "deep", loading_us=ms(1)),
        ExecuteTask(order=order),
    ]
    assert node.pool.report().slices[0].resident == ("blur", "deep")


def test_no_more_models_make_room_than_must(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"), warm(0, "crop"), loaded(0, "crop"))
    node.at(ms(1), drop(0, "crop"))
    assert node.at(ms(2), warm(0, "deep")) == []  # fits once crop is gone
    assert node.at(ms(3), unloaded(0, "crop")) == [load(0, "deep")]


def test_a_model_in_use_never_makes_room(node: Node) -> None:
    node.at(0, start("t1", "deep", 0), loaded(0, "deep"))
    node.at(ms(1), warm(0, "crop"), loaded(0, "crop"))
    assert node.at(ms(2), warm(0, "blur")) == [
        unload(0, "crop"),
        gone(0, "crop", "its memory was needed"),
    ]
    assert node.at(ms(3), unloaded(0, "crop"), warm(0, "crop")) == [load(0, "blur")]
    assert node.at(ms(4), ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=0, running_us=ms(4)),
        unload(0, "deep"),
        gone(0, "deep", "its memory was needed"),
    ]
    assert node.at(ms(5), unloaded(0, "deep")) == [load(0, "crop")]


def test_a_model_larger_than_the_slice_fails_its_task_with_the_reason(node: Node) -> None:
    reason = "giant needs 11 MB, the slice has 10 MB"
    assert node.at(0, start("t1", "giant", 0, 1)) == [
        gone(0, "giant", reason),
        failed("t1", f"giant could not be loaded: {reason}"),
    ]
    assert node.at(ms(1), warm(1, "giant")) == [gone(1, "giant", reason)]


def test_a_load_that_fails_fails_the_task_that_waits_for_it(node: Node) -> None:
    node.at(0, start("t1", "blur", 0, 1), loaded(0, "blur"))
    assert node.at(ms(1), unloaded(1, "blur", "no such model")) == [
        gone(1, "blur", "no such model"),
        failed("t1", "blur could not be loaded: no such model"),
    ]
    assert node.at(ms(2), start("t2", "blur", 1)) == [load(1, "blur")]


def test_a_load_that_fails_in_the_background_leaves_the_running_task_alone(node: Node) -> None:
    node.at(0, start("t1", "blur", 0), loaded(0, "blur"), warm(0, "crop"))
    assert node.at(ms(1), unloaded(0, "crop", "out of memory")) == [
        gone(0, "crop", "out of memory")
    ]
    assert node.at(ms(5), ExecutionEnded(task="t1")) == [
        finished("t1", loading_us=0, running_us=ms(5))
    ]


BROKEN = [gone(1, "deep", "broken"), failed("t1", "deep could not be loaded: broken")]


@pytest.mark.parametrize(
    ("end", "news"),
    [
        (stop("t1"), [failed("t1", "stopped before it began")]),
        (unloaded(1, "deep", "broken"), BROKEN),
    ],
)
def test_a_model_that_waited_for_the_memory_of_a_task_that_never_began_gets_it(
    node: Node, end: PoolEvent, news: list[PoolCommand]
) -> None:
    node.at(0, warm(0, "deep"), loaded(0, "deep"), start("t1", "deep", 0, 1))
    assert node.at(ms(1), warm(0, "wide")) == []
    order = start("t2", "wide", 0)
    assert node.at(ms(2), end, order) == [
        *news,
        unload(0, "deep"),
        gone(0, "deep", "its memory was needed"),
    ]
    assert node.at(ms(3), unloaded(0, "deep")) == [load(0, "wide")]


# Keep-alive.


def test_an_idle_model_is_unloaded_ten_minutes_after_its_last_use(node: Node) -> None:
    node.at(0, warm(0, "blur"))
    node.at(seconds(3), loaded(0, "blur"))
    node.at(seconds(60), start("t1", "blur", 0))
    node.at(seconds(61), ExecutionEnded(task="t1"))
    assert node.pool.next_wake == seconds(603)  # a first look, in vain
    assert node.at(seconds(603), Woke()) == []
    assert node.pool.next_wake == seconds(661)
    assert node.at(seconds(661) - 1, Woke()) == []
    assert node.at(seconds(661), Woke()) == [unload(0, "blur"), gone(0, "blur", "idle")]
    assert node.at(seconds(662), unloaded(0, "blur")) == []
    assert node.pool.next_wake is None


def test_a_model_in_use_is_kept_for_as_long_as_it_is_used(node: Node) -> None:
    node.at(0, start("t1", "blur", 0, 1), loaded(0, "blur"), loaded(1, "blur"))
    assert node.at(KEEP_ALIVE_US, Woke()) == []
    assert node.at(2 * KEEP_ALIVE_US, Woke()) == []
    node.at(2 * KEEP_ALIVE_US + 5, ExecutionEnded(task="t1"))
    assert node.at(3 * KEEP_ALIVE_US, Woke()) == []
    assert node.at(3 * KEEP_ALIVE_US + 5, Woke()) == [
        unload(0, "blur"),
        gone(0, "blur", "idle"),
        unload(1, "blur"),
        gone(1, "blur", "idle"),
    ]


def test_a_model_for_which_a_task_waits_elsewhere_is_kept(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"), start("t1", "blur", 0, 1))
    assert node.at(KEEP_ALIVE_US, Woke()) == []


def test_pool_has_no_alarm_while_no_model_is_loaded(node: Node) -> None:
    assert node.pool.next_wake is None
    node.at(0, start("t1", "blur", 0))
    assert node.pool.next_wake is None
    node.at(ms(5), loaded(0, "blur"))
    assert node.pool.next_wake == ms(5) + KEEP_ALIVE_US


def test_waking_early_is_harmless(node: Node) -> None:
    assert node.at(0, Woke()) == []
    node.at(0, warm(0, "blur"))
    node.at(seconds(3), loaded(0, "blur"))
    assert node.at(seconds(4), Woke(), Woke()) == []
    assert node.at(seconds(603) - 1, Woke()) == []
    assert node.pool.next_wake == seconds(603)
    assert node.at(seconds(603), Woke()) == [unload(0, "blur"), gone(0, "blur", "idle")]


def test_an_alarm_for_a_model_that_left_meanwhile_finds_nothing(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"), drop(0, "blur"), unloaded(0, "blur"))
    assert node.at(KEEP_ALIVE_US, Woke()) == []
    assert node.pool.next_wake is None


def test_the_alarm_is_never_behind_even_if_other_news_came_first(node: Node) -> None:
    node.at(0, warm(0, "blur"), loaded(0, "blur"))
    node.at(KEEP_ALIVE_US, warm(1, "crop"))
    assert node.pool.next_wake is None or node.pool.next_wake > KEEP_ALIVE_US
