"""A client that gives up: whatever was done, waits or is kept for its request goes."""

from collections.abc import Callable

import pytest

from esg.core.messages.outcome import Outcome
from esg.units import ms
from tests.support.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    discard,
    failed,
    finished,
    job,
    joined,
    ready,
    start,
    stop,
)


def test_a_queued_request_is_answered_and_never_started(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1"), arrived("r2"), arrived("r3")).at(ms(5), cancelled("r2"))
    assert desk.orders == [
        answer("r2", Outcome.CANCELLED, reason="cancelled", slo_met=False, cost_pusd=0, stages=())
    ]
    desk.at(ms(6), joined("i0"))
    assert desk.new_orders == [start("t1", "scan/detect", "r1", "r3")]


def test_a_task_that_nobody_else_needs_is_stopped(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1")).at(ms(5), cancelled("r1"))
    assert desk.new_orders == [stop("t1"), answer("r1", Outcome.CANCELLED)]
    # until it has ended, it holds what it was given
    desk.at(ms(6), arrived("r2"))
    assert desk.new_orders == []
    desk.at(ms(7), failed("t1", reason="stopped"))
    assert desk.new_orders == [start("t2", "scan/detect", "r2")]


def test_a_task_that_ends_before_it_could_be_stopped_leaves_nothing_behind(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(5), cancelled("r1"))
    desk.at(ms(6), finished("t1"))
    assert desk.new_orders == [discard("i0", "r1", results=True)]


def test_other_requests_in_the_batch_of_a_cancelled_one_get_their_answer(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1"), arrived("r2"), joined("i0")).at(ms(5), cancelled("r1"))
    assert desk.new_orders == [answer("r1", Outcome.CANCELLED)]
    desk.at(ms(150), finished("t1", running_us=ms(150)))
    assert desk.new_orders == [
        discard("i0", "r1", results=True),
        answer("r2", cost_pusd=11 * ms(150) // 2),
        discard("i0", "r2"),
    ]


def test_a_batch_is_stopped_when_the_last_of_it_is_cancelled(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1"), arrived("r2"), joined("i0"))
    desk.at(ms(5), cancelled("r1")).at(ms(6), cancelled("r2"))
    assert desk.new_orders == [stop("t1"), answer("r2", Outcome.CANCELLED)]


def test_between_stages_what_was_made_is_discarded_and_paid_for(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1", "photo")).at(ms(1), arrived("r2"))
    desk.at(ms(10), finished("t1", running_us=ms(10)))
    assert desk.new_orders == [start("t2", "photo/detect", job("r1", resize="i0"))]
    desk.at(ms(50), failed("t2"))
    assert desk.new_orders == [start("t3", "scan/detect", "r2")]
    desk.at(ms(60), cancelled("r1"))
    assert desk.new_orders == [
        answer("r1", Outcome.CANCELLED, cost_pusd=11 * ms(10)),
        discard("i0", "r1"),
    ]


def test_cancelled_request_in_a_split_loses_both_branches(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1", "scene")).at(ms(10), finished("t1"))
    assert desk.new_orders == [start("t2", "scene/depth", job("r1", resize="i0"), config=(1, 4, 1))]
    desk.at(ms(20), cancelled("r1"))
    assert desk.new_orders == [stop("t2"), answer("r1", Outcome.CANCELLED), discard("i0", "r1")]
    desk.at(ms(21), failed("t2", reason="stopped"))
    assert desk.new_orders == []


def test_cancelling_what_is_over_or_never_was_changes_nothing(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(100), finished("t1"))
    desk.at(ms(101), cancelled("r1"), cancelled("r9"))
    assert desk.new_orders == []


def test_a_request_cancelled_twice_is_answered_once(desk: Desk) -> None:
    desk.at(ms(0), arrived("r1")).at(ms(1), cancelled("r1"), cancelled("r1"))
    assert desk.orders == [answer("r1", Outcome.CANCELLED)]


# What it held is free again, whatever it was doing.


def waits_for_room(desk: Desk) -> Desk:
    """On the recheck list: its model fits on no slice."""
    return desk.at(ms(0), joined("i0", memory_mb=300), arrived("r1"))


def loads_its_model(desk: Desk) -> Desk:
    return desk.at(ms(0), joined("i0", vgpus=1), arrived("r1"))


def runs_its_first_stage(desk: Desk) -> Desk:
    return loads_its_model(desk).at(ms(200), ready("detect"))


def runs_a_later_stage(desk: Desk) -> Desk:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1", "photo"))
    return desk.at(ms(10), finished("t1"))


def pauses_after_failures(desk: Desk) -> Desk:
    return loads_its_model(desk).at(ms(1), failed("t1")).at(ms(2), failed("t2"))


def waits_for_a_lost_input(desk: Desk) -> Desk:
    return runs_a_later_stage(desk).at(ms(11), failed("t2", missing=("r1/resize",)))


def waits_for_a_node(desk: Desk) -> Desk:
    return desk.at(ms(0), arrived("r1"))


PHASES = (
    waits_for_room,
    loads_its_model,
    runs_its_first_stage,
    runs_a_later_stage,
    pauses_after_failures,
    waits_for_a_lost_input,
    waits_for_a_node,
)


def test_a_node_that_comes_back_is_told_again_what_nobody_wants(desk: Desk) -> None:
    """The first order may have been lost while it was away."""
    desk.at(ms(0), joined("i0", resident={0: ("resize",)}), arrived("r1"))
    (task,) = desk.scheduler.state.tasks
    desk.at(ms(5), cancelled("r1")).at(ms(6), joined("i0", running=(task,)))
    assert stop(task) in desk.new_orders


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_cancelled_request_frees_all_it_held_in_any_phase(
    desk: Desk, phase: Callable[[Desk], Desk]
) -> None:
    phase(desk).at(ms(300), cancelled("r1"))
    assert answer("r1", Outcome.CANCELLED) in desk.new_orders
    for task in list(desk.scheduler.state.tasks):
        desk.at(ms(301), failed(task, reason="stopped"))
    state = desk.scheduler.state
    assert (state.requests, state.tasks, state.resting) == ({}, {}, [])
    assert not any(queue.jobs for queue in state.queues.values())
    assert all(node.vgpus_free == len(node.slices) for node in state.nodes.values())
    assert all(node.vcpus_free == node.vcpus for node in state.nodes.values())
