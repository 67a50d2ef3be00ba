"""Slices that load nothing, and nodes that are slow: both are left alone for a while."""

from collections.abc import Callable

import pytest

from esg.core.messages.events import Event, Woke
from esg.core.messages.outcome import Outcome
from esg.core.policies.placement import home
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import PPM, ms, seconds
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    failed,
    finished,
    gone,
    joined,
    lost,
    ready,
    start,
    started,
)

# Slices on which a model cannot be loaded.


def cold_start_fails(desk: Desk, task: str, slice: int = 0, on: str = "i0") -> Desk:
    return desk.at(
        desk.now_us,
        gone("detect", on, slice, reason="no luck"),
        failed(task, on, reason="no luck"),
    )


def slices_of(desk: Desk) -> list[tuple[int, ...]]:
    return [order.slices for order in started(desk.new_orders)]


def test_a_slice_that_failed_to_load_a_model_is_left_alone(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    assert slices_of(desk) == [(0,)]
    cold_start_fails(desk, "t1")
    assert slices_of(desk) == [(1,)]
    desk.at(ms(1), arrived("r2"))  # the first slice is free, and waits for its next chance
    assert slices_of(desk) == []


def test_a_slice_is_quarantined_for_twice_as_long_after_every_failure(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1"))
    cold_start_fails(desk, "t1")  # loading takes 200 ms
    desk.at(ms(199), Woke())
    assert desk.new_orders == []
    desk.at(ms(200), Woke())
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]
    cold_start_fails(desk, "t2").at(ms(599), Woke())
    assert desk.new_orders == []
    desk.at(ms(600), Woke())
    assert desk.new_orders == [start("t3", "scan/detect", "r1")]


def test_a_slice_is_quarantined_for_one_model_only(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1"))
    cold_start_fails(desk, "t1").at(ms(1), arrived("r2", "thumb"))
    assert desk.new_orders == [start("t2", "thumb/resize", "r2")]


def test_a_successful_load_ends_the_doubling_of_a_slices_quarantine(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1"))
    cold_start_fails(desk, "t1").at(ms(200), Woke()).at(ms(400), ready("detect"))
    desk.at(ms(500), finished("t2")).at(ms(501), gone("detect")).at(ms(502), arrived("r2"))
    assert desk.new_orders == [start("t3", "scan/detect", "r2")]
    cold_start_fails(desk, "t3").at(ms(702), Woke())  # 200 ms, not 400
    assert desk.new_orders == [start("t4", "scan/detect", "r2")]


def test_a_model_that_was_unloaded_as_ordered_has_not_failed(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, resident={0: ("detect",)})).at(ms(1), gone("detect"))
    desk.at(ms(2), arrived("r1"))
    assert desk.new_orders == [start("t1", "scan/detect", "r1")]


def test_no_model_is_prewarmed_on_a_slice_that_failed(foreseeing_desk: Desk) -> None:
    desk = foreseeing_desk.at(ms(0), joined("i0", vgpus=1))
    desk.at(ms(0), arrived("r1"))
    cold_start_fails(desk, "t1").at(ms(50), arrived("r2")).at(ms(60), arrived("r3"))
    assert desk.new_orders == []


def test_a_model_that_loads_nowhere_fails_all_who_wait_for_it(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(settings=SchedulerSettings(max_attempts=2, prewarm=False))
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1"), arrived("r2", "watch"))
    cold_start_fails(desk, "t1").at(ms(200), Woke())
    assert desk.new_orders == [start("t2", "watch/detect", "r2")]
    cold_start_fails(desk, "t2")
    nowhere = "detect could not be loaded anywhere, last: no luck"
    assert desk.new_orders == [
        answer("r1", Outcome.FAILED, reason=nowhere),
        answer("r2", Outcome.FAILED, reason="detect failed once, last: no luck"),
    ]


def test_jobs_go_on_waiting_for_a_model_while_one_slice_may_load_it(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(settings=SchedulerSettings(max_attempts=1, prewarm=False))
    desk.at(ms(0), joined("i0", vgpus=2), arrived("r1"), arrived("r2", "thumb"))
    cold_start_fails(desk, "t1")  # the other slice has `thumb`
    assert desk.new_orders == [answer("r1", Outcome.FAILED)]
    desk.at(ms(1), arrived("r3")).at(ms(10), finished("t2"))
    assert desk.new_orders[-1] == start("t3", "scan/detect", "r3")


# Nodes that are slow.

SLOW = home("scan/detect", ("i0", "i1"))
OTHER = "i1" if SLOW == "i0" else "i0"


def used_both(desk: Desk, took_ms: int) -> Desk:
    """`scan` is at home on one of two nodes, where its first request took so long."""
    desk.at(ms(0), joined(SLOW), joined(OTHER), arrived("r1"))
    assert where(desk) == [SLOW]
    return desk.at(ms(took_ms), finished("t1", SLOW, running_us=ms(took_ms)), arrived("r2"))


def where(desk: Desk) -> list[str]:
    return [order.invoker for order in started(desk.new_orders)]


@pytest.mark.parametrize(("took_ms", "expected"), [(100, SLOW), (130, SLOW), (400, OTHER)])
def test_a_node_that_is_much_slower_than_planned_comes_last(
    desk: Desk, took_ms: int, expected: str
) -> None:
    assert where(used_both(desk, took_ms)) == [expected]


@pytest.mark.parametrize("told_in_between", [(), (cancelled("r1"),)])
def test_an_input_that_takes_long_to_fetch_speaks_against_no_node(
    desk: Desk, told_in_between: tuple[Event, ...]
) -> None:
    near = home("photo/resize", ("i0", "i1"))
    far = "i1" if near == "i0" else "i0"
    desk.at(ms(0), joined(near, memory_mb=300), joined(far), arrived("r1", "photo"))
    desk.at(ms(10), finished("t1", near, running_us=ms(10)))
    assert where(desk) == [far]
    desk.at(ms(50), *told_in_between)
    desk.at(ms(1010), finished("t2", far, running_us=ms(1000)))
    assert desk.scheduler.state.health.quarantined == {}
    queue = desk.scheduler.state.queues["photo/detect"]
    assert queue.pace_ppm == PPM  # it is the network that takes so long
    assert queue.remote_us > 0


def failed_here_and_done_there(desk: Desk) -> Desk:
    desk.at(ms(0), joined(SLOW), joined(OTHER), arrived("r1"))
    assert where(desk) == [SLOW]
    desk.at(ms(1), failed("t1", SLOW, reason="out of order"))
    assert where(desk) == [OTHER]
    return desk.at(ms(101), finished("t2", OTHER, running_us=ms(100)))


def test_a_node_where_a_job_failed_that_was_done_elsewhere_comes_last(desk: Desk) -> None:
    failed_here_and_done_there(desk).at(ms(102), arrived("r2"))
    assert where(desk) == [OTHER]
    desk.at(ms(202), finished("t3", OTHER, running_us=ms(100)))
    desk.at(seconds(10.2), arrived("r3"))  # another chance
    assert where(desk) == [SLOW]


def test_an_input_that_is_nowhere_speaks_against_no_node(desk: Desk) -> None:
    desk.at(ms(0), joined(SLOW), joined(OTHER), arrived("r1"))
    desk.at(ms(1), failed("t1", SLOW, missing=("r1/",)))
    assert where(desk) == [SLOW]  # no other would find it either


def test_a_job_that_fails_everywhere_speaks_against_no_node(desk: Desk) -> None:
    desk.at(ms(0), joined(SLOW), joined(OTHER), arrived("r1"))
    desk.at(ms(1), failed("t1", SLOW)).at(ms(2), failed("t2", OTHER)).wake()
    desk.at(seconds(1), failed("t3", SLOW), arrived("r2"))
    assert where(desk) == [SLOW]


def test_a_quarantined_node_is_used_when_no_other_has_room(desk: Desk) -> None:
    used_both(desk, 400).at(ms(401), lost(OTHER))
    assert where(desk) == [SLOW]


def test_a_quarantined_node_gets_another_chance(desk: Desk) -> None:
    used_both(desk, 400).at(ms(500), finished("t2", OTHER, running_us=ms(100)))
    desk.at(seconds(10), arrived("r3"))
    assert where(desk) == [OTHER]
    desk.at(seconds(10.1), finished("t3", OTHER, running_us=ms(100)))
    desk.at(seconds(10.5), arrived("r4"))
    assert where(desk) == [SLOW]


def test_nodes_that_are_all_slow_are_all_used(desk: Desk) -> None:
    """Then it is as if nothing spoke against any of them."""
    used_both(desk, 400).at(ms(2400), finished("t2", OTHER, running_us=ms(2000)))
    desk.at(ms(2401), arrived("r3"))
    assert where(desk) == [SLOW]


def test_a_node_that_comes_back_begins_anew(desk: Desk) -> None:
    used_both(desk, 400).at(ms(500), finished("t2", OTHER, running_us=ms(100)))
    desk.at(ms(501), lost(SLOW), joined(SLOW)).at(ms(502), arrived("r3"))
    assert where(desk) == [SLOW]
