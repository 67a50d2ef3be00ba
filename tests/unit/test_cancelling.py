"""A client that gives up: whatever was done, waits or is kept for its request goes."""

from esg.commands import Outcome
from esg.units import ms
from tests.desk import (
    Desk,
    answer,
    arrived,
    cancelled,
    discard,
    failed,
    finished,
    job,
    joined,
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


def test_others_in_the_batch_get_their_answer(desk: Desk) -> None:
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


def test_in_a_split_both_branches_go(desk: Desk) -> None:
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
