"""A worker node for stories: its pool, and short words for what it is told and what it orders.

    node.at(0, warm(0, "blur"), loaded(0, "blur"))
    assert node.at(ms(5), start("t1", "blur", 0)) == [...]

After every event the books are checked. Every story is told to a twin as well, which must give the
same orders. The node has two slices of 10 MB and four vCPUs.
"""

from collections.abc import Collection, Sequence

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog, Function
from esg.core.catalog.phases import Phases
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import USUAL, SliceKind
from esg.core.messages.commands import (
    DropInstance,
    RecallStanding,
    StopTask,
    WarmInstance,
)
from esg.core.messages.events import InstanceGone, InstanceReady, TaskFailed, TaskFinished
from esg.core.messages.node import (
    AbortTask,
    EnterSlices,
    ExecuteTask,
    ExecutionEnded,
    FunctionReloaded,
    LoadModel,
    ModelLoaded,
    ModelUnloaded,
    PoolCommand,
    PoolEvent,
    ReplaceModel,
    SliceLost,
    TaskLeftSlices,
    TaskPrepared,
    TellScheduler,
    UnloadModel,
)
from esg.core.messages.task_order import JobOrder, Payload, TaskOrder
from esg.core.node_settings import KEEP_ALIVE_US
from esg.core.pool.pool import Pool
from esg.core.pool.slices import Running
from esg.units import ms, seconds

SLICE_MB = 10
LARGE = "3g.40gb"
KINDS = {
    USUAL: SliceKind(name="1g.10gb", memory_mb=SLICE_MB, usd_per_hour=0.67),
    LARGE: SliceKind(name=LARGE, memory_mb=SLICE_MB, usd_per_hour=2.01),
}
MEMORY_MB = {"blur": 4, "crop": 4, "deep": 6, "wide": 8, "giant": 11}


def _function(name: str, memory_mb: int) -> Function:
    times_us = {Config(1, 1, 1, kind): ms(100) for kind in KINDS}
    profile = Profile.of(name, times_us, Prices())
    return Function(
        name=name, profile=profile, cold_start_us=seconds(3), input_bytes=0, memory_mb=memory_mb
    )


CATALOG = Catalog(
    functions={name: _function(name, memory_mb) for name, memory_mb in MEMORY_MB.items()},
    applications={},
    cluster=Cluster.alike(nodes=1, vcpus=4, vgpus=2),
    kinds=KINDS,
    prices=Prices(),
)


def new_pool(
    slices: int = 2, keep_alive_us: int = KEEP_ALIVE_US, kinds: Sequence[str] = ()
) -> Pool:
    """With so many usual slices, or slices of these kinds."""
    kinds = kinds or (USUAL,) * slices
    memories_mb = (SLICE_MB,) * len(kinds)
    return Pool(
        CATALOG, "i0", vcpus=4, memories_mb=memories_mb, kinds=kinds, keep_alive_us=keep_alive_us
    )


class Node:
    """A pool to tell stories to."""

    def __init__(self, *kinds: str) -> None:
        self.pool = new_pool(kinds=kinds)
        self._twin = new_pool(kinds=kinds)
        self._lost: set[int] = set()

    def at(self, now_us: int, *events: PoolEvent) -> list[PoolCommand]:
        """Tell what happens at this moment; returns all orders that follow."""
        orders: list[PoolCommand] = []
        for event in events:
            orders += self.pool.handle(now_us, event)
            if isinstance(event, SliceLost):
                self._lost.add(event.slice)
            check(self.pool, now_us, self._lost)
        assert [o for event in events for o in self._twin.handle(now_us, event)] == orders
        return orders


def check(pool: Pool, now_us: int, lost: Collection[int] = ()) -> None:
    """What is free and what is held add up, and nothing runs without its model, but on slices that
    were lost."""
    inventory = [task.inventory() for task in pool.running.values()]
    assert pool.vcpus_free >= 0
    assert pool.vcpus_free + sum(task.vcpus for task in inventory) == pool.vcpus
    holders = {i: part.holder for i, part in enumerate(pool.slices) if part.holder}
    assert holders == {i: task.task for task in inventory for i in task.slices}
    for index, part in enumerate(pool.slices):
        assert part.promised == [n for n, t in pool.running.items() if index in _promised(t)]
        assert sum(MEMORY_MB[name] for name in part.models) <= part.memory_mb
        assert part.usable or not (part.models or part.wanted)
    for running in pool.running.values():
        order = running.order
        assert not order.phased or running.vcpus in (0, 1, order.config.vcpus)
        began_us = running.entered_us if order.phased else running.executing_us
        assert all(pool.slices[i].kind == order.config.kind for i in running.slices)
        if began_us is not None and running.left_us is None:
            assert len(running.slices) == order.config.vgpus
            # one that was lost under a task may be back, and empty, before the task has ended
            kept = [pool.slices[i] for i in running.slices if i not in lost]
            assert all(part.has(order.function) for part in kept)
    assert pool.next_wake is None or pool.next_wake > now_us


def _promised(task: Running) -> tuple[int, ...]:
    """The slices that a task in phases will have, or others."""
    waits = task.order.phased and not task.slices
    return task.order.slices if waits else ()


# What a node is told.


def answer(order: PoolCommand | TaskLeftSlices, failure: str) -> PoolEvent:
    """What the slices say of an order, or of having been left, if all goes well or fails."""
    match order:
        case LoadModel(slice=index, function=function):
            return unloaded(index, function, failure) if failure else loaded(index, function)
        case UnloadModel(slice=index, function=function):
            return unloaded(index, function)
        case ReplaceModel(function=function):
            return FunctionReloaded(function=function)
        case ExecuteTask(order=task) if task.phased and not failure:
            return TaskPrepared(task=task.task)
        case EnterSlices(task=name) if not failure:
            return TaskLeftSlices(task=name)
        case EnterSlices(task=name) | TaskLeftSlices(task=name):
            return ExecutionEnded(task=name, failure=failure)
        case ExecuteTask(order=task):
            return ExecutionEnded(task=task.task, failure=failure)
        case AbortTask(task=name):
            return ExecutionEnded(task=name, failure="stopped")
        case TellScheduler():
            raise AssertionError("nobody answers a report")


def start(
    task: str,
    function: str,
    *slices: int,
    vcpus: int = 1,
    then: TaskOrder | None = None,
    within_us: int = 0,
    phased: bool = False,
    spare_us: int = 0,
    kind: str = USUAL,
) -> TaskOrder:
    return TaskOrder(
        task=task,
        invoker="i0",
        stage=function,
        function=function,
        config=Config(1, vcpus, len(slices), kind),
        slices=slices,
        jobs=(JobOrder(request="r1", inputs=(Payload(),), publish=True),),
        keep=then is not None,
        predicted_us=ms(100),
        then=then,
        within_us=within_us,
        phased=phased,
        spare_us=spare_us,
    )


def stop(task: str) -> StopTask:
    return StopTask(invoker="i0", task=task)


def warm(index: int, function: str) -> WarmInstance:
    return WarmInstance(invoker="i0", slice=index, function=function)


def recall(task: str) -> RecallStanding:
    return RecallStanding(invoker="i0", task=task)


def drop(index: int, function: str) -> DropInstance:
    return DropInstance(invoker="i0", slice=index, function=function)


def loaded(index: int, function: str) -> ModelLoaded:
    return ModelLoaded(slice=index, function=function)


def unloaded(index: int, function: str, failure: str = "") -> ModelUnloaded:
    return ModelUnloaded(slice=index, function=function, failure=failure)


# What it orders and reports.


def load(index: int, function: str) -> LoadModel:
    return LoadModel(slice=index, function=function)


def unload(index: int, function: str) -> UnloadModel:
    return UnloadModel(slice=index, function=function)


def ready(index: int, function: str, *, loading_us: int = 0) -> TellScheduler:
    return TellScheduler(
        event=InstanceReady(invoker="i0", slice=index, function=function, loading_us=loading_us)
    )


def gone(index: int, function: str, reason: str) -> TellScheduler:
    return TellScheduler(
        event=InstanceGone(invoker="i0", slice=index, function=function, reason=reason)
    )


def finished(
    task: str,
    *,
    loading_us: int,
    running_us: int,
    continued: str = "",
    phases: Phases | None = None,
    slices: tuple[int, ...] = (),
) -> TellScheduler:
    return TellScheduler(
        event=TaskFinished(
            task=task,
            invoker="i0",
            loading_us=loading_us,
            running_us=running_us,
            continued=continued,
            phases=phases,
            slices=slices,
        )
    )


def failed(task: str, reason: str) -> TellScheduler:
    return TellScheduler(event=TaskFailed(task=task, invoker="i0", reason=reason))
