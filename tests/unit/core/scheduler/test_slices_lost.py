"""Slices that go out of order, and jobs that fail alone, as the scheduler sees them."""

from esg.core.messages.events import (
    Event,
    InvokerReported,
    JobFailure,
    RunningTask,
    SliceInventory,
    TaskFinished,
)
from esg.core.messages.outcome import Outcome
from esg.units import ms
from tests.support.desk import Desk, answer, arrived, discard, finished, joined, ready, start

WELL = SliceInventory(memory_mb=1000)
LOST = SliceInventory(memory_mb=1000, usable=False)


def inventory(*slices: SliceInventory, running: str = "", latest_task: int = 0) -> Event:
    tasks = (RunningTask(task=running, vcpus=1, slices=(0,)),) if running else ()
    return InvokerReported(invoker="i0", slices=slices, running=tasks, latest_task=latest_task)


def partly(task: str, *requests: str) -> Event:
    """A task that was run, and had no result for these requests."""
    failures = tuple(JobFailure(request=request, reason="not a picture") for request in requests)
    return TaskFinished(task=task, invoker="i0", loading_us=0, running_us=ms(90), failed=failures)


def test_work_waits_for_a_slice_that_is_out_of_order(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), inventory(LOST))
    desk.at(ms(1), arrived("r1", "thumb"))
    assert desk.new_orders == []
    desk.at(ms(5), inventory(WELL))
    assert desk.new_orders == [start("t1", "thumb/resize", "r1", slices=(0,))]


def test_work_goes_to_the_slices_that_are_left(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), inventory(LOST, WELL), arrived("r1"))
    assert desk.new_orders == [start("t1", "scan/detect", "r1", slices=(1,))]


def test_a_task_on_a_slice_that_is_lost_is_expected_to_end_by_itself(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1", "thumb")).at(ms(1), ready("resize"))
    desk.at(ms(5), inventory(LOST, running="t1", latest_task=1))
    assert desk.new_orders == []
    desk.at(ms(6), partly("t1", "r1"))
    assert desk.new_orders == []  # there is nowhere to go
    desk.at(ms(60), inventory(WELL, latest_task=1))
    assert desk.new_orders == [start("t2", "thumb/resize", "r1")]
    desk.at(ms(70), finished("t2"))
    assert desk.new_orders == [answer("r1"), discard("i0", "r1")]


def test_a_slice_that_is_back_is_cold(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, resident={0: ("resize", "detect")}))
    desk.at(ms(1), inventory(LOST)).at(ms(2), inventory(WELL))
    assert desk.scheduler.state.nodes["i0"].instances == {}


def test_a_node_may_join_with_a_slice_that_is_out_of_order(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1), arrived("r1", "thumb"))
    desk.at(ms(5), inventory(LOST, running="t1", latest_task=1))
    assert desk.scheduler.state.nodes["i0"].vgpus_free == 0


def test_a_job_that_fails_alone_is_tried_again_and_the_others_go_on(desk: Desk) -> None:
    desk.at(ms(0), joined("i0", vgpus=1, vcpus=1), arrived("r0", "thumb"))
    desk.at(ms(1), arrived("r1")).at(ms(2), arrived("r2"))
    desk.at(ms(10), finished("t1"))
    assert desk.new_orders[-1] == start("t2", "scan/detect", "r1", "r2", config=(2, 1, 1))
    desk.at(ms(160), partly("t2", "r2"))
    assert answer("r1") in desk.new_orders
    assert start("t3", "scan/detect", "r2") in desk.new_orders
    desk.at(ms(260), finished("t3"))
    assert desk.new_orders == [answer("r2"), discard("i0", "r2")]


def test_a_job_that_fails_alone_too_often_fails_its_request_with_the_cause(desk: Desk) -> None:
    desk.at(ms(0), joined("i0"), arrived("r1"))
    for number in (1, 2, 3):
        while f"t{number}" not in desk.scheduler.state.tasks:
            desk.wake()  # after a pause
        desk.at(desk.now_us + ms(100), partly(f"t{number}", "r1"))
    reason = "detect failed 3 times, last: not a picture"
    assert desk.new_orders == [answer("r1", Outcome.FAILED, reason=reason, slo_met=False)]
