"""Tasks that fail: their jobs come back to their place, and missing inputs are made again."""

from collections.abc import Callable

from esg.core.messages.events import Woke
from esg.core.messages.outcome import Outcome
from esg.core.policies.placement import home
from esg.core.scheduler.settings import SchedulerSettings
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
    lost,
    publish,
    start,
    started,
    stop,
)

# Tasks that fail.


def test_a_failed_task_is_tried_again_at_once(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(50), failed("t1"))
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]
    desk.at(ms(150), finished("t2"))
    assert desk.new_orders == [answer("r1"), discard("i0", "r1")]


def test_jobs_of_a_failed_task_keep_their_place_in_line(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1", "thumb"))
    desk.at(ms(1), arrived("r2", "thumb")).at(ms(2), arrived("r3", "thumb"))
    desk.at(ms(5), failed("t1"))
    assert desk.new_orders == [start("t2", "thumb/resize", "r1")]
    desk.at(ms(15), finished("t2"))
    assert desk.new_orders[-1] == start("t3", "thumb/resize", "r2")


def test_a_request_that_fails_too_often_is_answered_with_the_cause(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    desk.at(ms(10), failed("t1", reason="out of memory"))
    desk.at(ms(20), failed("t2", reason="out of memory")).wake()
    desk.at(ms(50), failed("t3", reason="CUDA error 700"))
    reason = "detect failed 3 times, last: CUDA error 700"
    assert desk.new_orders == [answer("r1", Outcome.FAILED, reason=reason, slo_met=False)]


def test_number_of_attempts_can_be_set(open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(settings=SchedulerSettings(max_attempts=1, prewarm=False))
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(10), failed("t1"))
    assert desk.new_orders == [answer("r1", Outcome.FAILED)]


def test_a_request_that_fails_leaves_nothing_behind(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vcpus=8), arrived("r1", "scene")).at(ms(10), finished("t1"))
    assert [order.task for order in started(desk.new_orders)] == ["t2", "t3"]  # depth and detect
    desk.at(ms(20), failed("t3")).at(ms(30), failed("t4")).wake().at(ms(51), failed("t5"))
    assert desk.new_orders == [stop("t2"), answer("r1", Outcome.FAILED), discard("i0", "r1")]
    desk.at(ms(52), failed("t2", reason="stopped"))
    assert desk.new_orders == []


def test_other_requests_in_the_batch_are_not_harmed_beyond_the_retry(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(10), failed("t1")).at(ms(20), lost("i0"))
    desk.at(ms(21), arrived("r2")).at(ms(22), joined("i0"))
    assert desk.new_orders == [start("t3", "scan/detect", "r1", "r2")]
    desk.at(ms(30), failed("t3"))  # the second time for r1, the first for r2
    assert desk.new_orders == [start("t4", "scan/detect", "r2")]
    desk.at(ms(50), Woke())
    assert desk.new_orders == [start("t5", "scan/detect", "r1")]
    desk.at(ms(60), failed("t5")).at(ms(130), finished("t4"))
    assert desk.orders[-3:] == [answer("r1", Outcome.FAILED), answer("r2"), discard("i0", "r2")]


# When and where it is tried again.


def test_pause_before_an_attempt_doubles_after_the_second_failure(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(settings=SchedulerSettings(max_attempts=9, prewarm=False))
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(10), failed("t1"))
    for task, pause_ms in ((2, 20), (3, 40), (4, 80)):
        desk.at(desk.now_us, failed(f"t{task}"))
        assert desk.new_orders == []
        assert desk.next_wake == desk.now_us + ms(pause_ms)
        desk.wake()
        assert desk.new_orders == [start(f"t{task + 1}", "scan/detect", "r1")]


def test_a_job_that_pauses_holds_up_nobody(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(1), failed("t1")).at(ms(2), failed("t2"))
    desk.at(ms(3), arrived("r2"))
    assert desk.new_orders == [start("t3", "scan/detect", "r2")]


def test_a_job_that_pauses_can_be_cancelled(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(1), failed("t1")).at(ms(2), failed("t2"))
    desk.at(ms(3), cancelled("r1"))
    assert desk.new_orders == [answer("r1", Outcome.CANCELLED)]
    assert desk.next_wake is None


def test_a_job_that_pauses_waits_for_its_input_if_that_is_lost(desk: Desk) -> None:
    photo_before_label(desk).at(ms(111), failed("t3")).at(ms(112), failed("t4"))
    desk.at(ms(113), lost("i0"), joined("i1"))
    assert desk.new_orders == [start("t5", "photo/resize", "r1", on="i1")]
    assert desk.next_wake is None


def test_failed_task_is_tried_on_another_node_if_there_is_room(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(1), joined("i1"))
    desk.at(ms(10), failed("t1"))
    assert desk.new_orders == [start("t2", "scan/detect", "r1", on="i1")]


def test_failed_task_is_tried_again_on_its_node_if_no_other_has_room(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(1), joined("i1", memory_mb=300))
    desk.at(ms(10), failed("t1"))
    assert desk.new_orders == [start("t2", "scan/detect", "r1")]


# Inputs that are missing.


def photo_before_label(desk: Desk) -> Desk:
    """r1 has been resized and detected on i0."""
    desk.at(ms(0), joined("i0"), arrived("r1", "photo"))
    return desk.at(ms(10), finished("t1")).at(ms(110), finished("t2"))


def test_a_missing_input_is_made_again(desk: Desk) -> None:
    photo_before_label(desk).at(ms(111), failed("t3", missing=("r1/detect",)))
    assert desk.new_orders == [start("t4", "photo/detect", job("r1", resize="i0"))]
    desk.at(ms(211), finished("t4"))
    assert desk.new_orders == [start("t5", "photo/label", job("r1", detect="i0"))]


def test_request_begins_earlier_if_the_input_of_its_input_is_gone_too(desk: Desk) -> None:
    photo_before_label(desk).at(ms(111), failed("t3", missing=("r1/detect",)))
    desk.at(ms(112), failed("t4", missing=("r1/resize",)))
    assert desk.new_orders == [start("t5", "photo/resize", "r1")]


def test_work_done_twice_is_paid_for_twice(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1", "photo"))
    desk.at(ms(10), finished("t1", running_us=ms(10)))
    desk.at(ms(11), failed("t2", missing=("r1/resize",)))
    desk.at(ms(21), finished("t3", running_us=ms(10)))
    desk.at(ms(121), finished("t4", running_us=ms(100)))
    desk.at(ms(141), finished("t5", running_us=ms(20)))
    assert desk.new_orders == [answer("r1", cost_pusd=11 * ms(140)), discard("i0", "r1")]


def test_requests_whose_input_is_missing_go_back_and_others_do_not(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", memory_mb=300), arrived("r1", "photo"), arrived("r2", "photo"))
    desk.at(ms(10), finished("t1"), finished("t2"))  # detect does not fit there
    desk.at(ms(12), joined("i1"))
    assert desk.new_orders == [
        publish("r1/resize"),
        publish("r2/resize"),
        start("t3", "photo/detect", job("r1", resize="i0"), job("r2", resize="i0"), on="i1"),
    ]
    desk.at(ms(13), failed("t3", on="i1", missing=("r1/resize",)))
    assert desk.new_orders == [
        start("t4", "photo/resize", "r1", on="i1"),
        start("t5", "photo/detect", job("r2", resize="i0"), on="i1"),
    ]


def test_a_missing_input_is_held_against_those_who_miss_it_only(
    open_desk: Callable[..., Desk],
) -> None:
    desk = open_desk(settings=SchedulerSettings(max_attempts=1, prewarm=False))
    desk.at(ms(0), joined("i0", memory_mb=300), arrived("r1", "photo"), arrived("r2", "photo"))
    desk.at(ms(10), finished("t1"), finished("t2")).at(ms(12), joined("i1"))
    desk.at(ms(13), failed("t3", on="i1", missing=("r1/resize",)))
    assert desk.new_orders == [
        answer("r1", Outcome.FAILED),
        discard("i0", "r1"),
        start("t4", "photo/detect", job("r2", resize="i0"), on="i1"),
    ]


def test_a_payload_that_stays_missing_fails_its_request_in_the_end(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    for n in (1, 2, 3):  # no stage made it, so none can make it again
        desk.at(ms(100 * n), Woke(), failed(f"t{n}", missing=("r1/",)))
    assert desk.new_orders[-1] == answer("r1", Outcome.FAILED)


def test_the_other_branch_of_a_split_goes_on_while_its_input_is_made_again(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vcpus=8), arrived("r1", "scene")).at(ms(10), finished("t1"))
    assert [order.stage for order in started(desk.new_orders)] == ["depth", "detect"]
    desk.at(ms(11), failed("t3", missing=("r1/resize",)))
    assert desk.new_orders == [start("t4", "scene/resize", "r1")]
    desk.at(ms(21), finished("t4"))
    assert desk.new_orders == [start("t5", "scene/detect", job("r1", resize="i0"))]
    desk.at(ms(60), finished("t2"))  # depth has been running all the time
    assert desk.new_orders == []
    desk.at(ms(121), finished("t5"))
    assert desk.new_orders == [start("t6", "scene/label", job("r1", detect="i0", depth="i0"))]


def test_a_branch_that_is_done_is_not_done_again(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vcpus=8), arrived("r1", "scene")).at(ms(10), finished("t1"))
    desk.at(ms(60), finished("t2"))  # depth
    desk.at(ms(61), failed("t3", missing=("r1/resize",))).at(ms(71), finished("t4"))
    assert desk.new_orders == [start("t5", "scene/detect", job("r1", resize="i0"))]


def test_missing_inputs_of_requests_that_are_not_in_the_task_are_no_news(
    desk: Desk,
) -> None:
    desk.at(ms(0), joined("i0", memory_mb=300), arrived("r1", "photo"), arrived("r2", "thumb"))
    desk.at(ms(10), finished("t1"))
    desk.at(ms(11), failed("t2", missing=("r1/resize", "r2/poetry", "r9/resize")))
    assert desk.new_orders == [start("t3", "thumb/resize", "r2")]
    desk.at(ms(12), joined("i1"))
    assert desk.new_orders == [
        publish("r1/resize"),
        start("t4", "photo/detect", job("r1", resize="i0"), on="i1"),
    ]


def test_kept_outputs_are_all_discarded_even_if_made_again_elsewhere(desk: Desk) -> None:
    near = home("photo/resize", ("i0", "i1"))
    far = "i1" if near == "i0" else "i0"
    desk.at(ms(0), joined(near, memory_mb=300), joined(far), arrived("r1", "photo"))
    desk.at(ms(10), finished("t1", on=near))
    assert desk.new_orders[0] == publish("r1/resize", on=near)
    # the published copy is not there; meanwhile others keep near busy, so far makes it again
    desk.at(ms(11), arrived("r2", "photo"))
    assert desk.new_orders == [start("t3", "photo/resize", "r2", on=near)]
    desk.at(ms(11), arrived("r3", "photo"))
    desk.at(ms(12), failed("t2", on=far, missing=("r1/resize",)))
    assert desk.new_orders[-1] == start("t5", "photo/resize", "r1", on=far)
    desk.at(ms(13), cancelled("r1"))
    assert discard(near, "r1") in desk.new_orders
