"""A slice whose server is gone: what becomes of its models, its tasks, and who is told."""

from esg.core.messages.events import (
    InvokerReported,
    JobFailure,
    RunningTask,
    SliceInventory,
    TaskFinished,
)
from esg.core.messages.node import ExecuteTask, ExecutionEnded, SliceBack, SliceLost, TellScheduler
from tests.support.node import (
    SLICE_MB,
    Node,
    failed,
    gone,
    load,
    loaded,
    ready,
    start,
    unloaded,
    warm,
)

WELL = SliceInventory(memory_mb=SLICE_MB)
LOST = SliceInventory(memory_mb=SLICE_MB, usable=False)


def inventory(*slices: SliceInventory, latest_task: int = 0, running: str = "") -> TellScheduler:
    tasks = (RunningTask(task=running, vcpus=1, slices=(0,)),) if running else ()
    return TellScheduler(
        event=InvokerReported(invoker="i0", slices=slices, running=tasks, latest_task=latest_task)
    )


def test_a_lost_slice_has_no_models_and_the_scheduler_hears_of_it_at_once() -> None:
    node = Node()
    node.at(0, warm(0, "blur"), loaded(0, "blur"), warm(0, "crop"))
    assert node.at(1, SliceLost(slice=0, reason="killed")) == [inventory(LOST, WELL)]
    assert node.at(2, SliceLost(slice=0, reason="again")) == []
    assert node.at(3, SliceBack(slice=0)) == [inventory(WELL, WELL)]
    assert node.at(4, SliceBack(slice=0)) == []


def test_task_that_waits_for_a_model_on_a_lost_slice_fails() -> None:
    node = Node()
    node.at(0, start("t1", "blur", 0, 1))
    assert node.at(1, SliceLost(slice=0, reason="killed")) == [
        failed("t1", "killed"),
        inventory(LOST, SliceInventory(memory_mb=SLICE_MB, loading=("blur",)), latest_task=1),
    ]
    assert node.pool.running == {}


def test_task_under_way_on_a_lost_slice_goes_on_until_it_has_ended() -> None:
    node = Node()
    node.at(0, warm(0, "blur"), loaded(0, "blur"))
    assert node.at(1, start("t1", "blur", 0)) == [ExecuteTask(order=start("t1", "blur", 0))]
    assert node.at(2, SliceLost(slice=0, reason="killed")) == [
        inventory(LOST, WELL, latest_task=1, running="t1")
    ]
    failure = JobFailure(request="r1", reason="nobody there")
    assert node.at(5, ExecutionEnded(task="t1", failed=(failure,))) == [
        TellScheduler(
            event=TaskFinished(
                task="t1", invoker="i0", loading_us=0, running_us=4, failed=(failure,)
            )
        )
    ]
    assert node.pool.vcpus_free == 4


def test_work_for_a_lost_slice_is_refused_until_it_is_back() -> None:
    node = Node()
    node.at(0, SliceLost(slice=0, reason="killed"))
    words = "slice 0 of i0 is out of order"
    assert node.at(1, start("t1", "blur", 1, 0)) == [failed("t1", words)]
    assert node.at(2, warm(0, "blur")) == [gone(0, "blur", words)]
    node.at(3, SliceBack(slice=0))
    assert node.at(4, start("t2", "blur", 0)) == [load(0, "blur")]


def test_late_news_of_its_models_change_nothing() -> None:
    node = Node()
    node.at(0, warm(0, "blur"), SliceLost(slice=0, reason="killed"))
    assert node.at(1, loaded(0, "blur")) == []
    assert node.at(2, unloaded(0, "blur")) == []
    assert node.pool.slices[0].models == {}


def test_slice_may_come_back_with_models() -> None:
    node = Node()
    node.at(0, SliceLost(slice=0, reason="no answer"), SliceBack(slice=0))
    assert node.at(1, loaded(0, "blur")) == [ready(0, "blur")]
