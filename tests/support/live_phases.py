"""Tasks in phases on a live node, and what happens to them as its pool has it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from esg.core.messages.commands import StopTask, WarmInstance
from esg.core.messages.events import InstanceReady
from esg.core.messages.node import (
    EnterSlices,
    ExecuteTask,
    ExecutionEnded,
    TaskLeftSlices,
    TaskPrepared,
)
from esg.core.messages.task_order import JobOrder, TaskOrder
from esg.units import seconds
from tests.support.live_node import LiveNode, job, start
from tests.support.waiting import until

Step = tuple[str, str]
"""What happened to a task: a message's name, and the task's."""


def begun(task: str) -> Step:
    return "ExecuteTask", task


def prepared(task: str) -> Step:
    return "TaskPrepared", task


def entered(task: str, *slices: int) -> Step:
    return f"EnterSlices {list(slices)}", task


def left(task: str) -> Step:
    return "TaskLeftSlices", task


def ended(task: str) -> Step:
    return "ExecutionEnded", task


def steps_of(live: LiveNode) -> list[Step]:
    """All that happens to tasks from now on, as the pool has it."""
    steps: list[Step] = []
    really = live.pool.handle

    def handle(now_us: int, event: Any) -> Any:
        if isinstance(event, TaskPrepared | TaskLeftSlices | ExecutionEnded):
            steps.append((type(event).__name__, event.task))
        commands = really(now_us, event)
        for command in commands:
            if isinstance(command, ExecuteTask):
                steps.append(begun(command.order.task))
            elif isinstance(command, EnterSlices):
                steps.append(entered(command.task, *command.slices))
        return commands

    live.pool.handle = handle  # type: ignore[method-assign]
    return steps


def phased(
    task: str, function: str, *jobs: JobOrder, slices: Sequence[int] = (0,), **more: Any
) -> TaskOrder:
    order = start(task, function, *jobs, slices=slices, **more)
    return replace(order, phased=True, spare_us=seconds(1))


def stop(task: str) -> StopTask:
    return StopTask(invoker="i0", task=task)


async def warm(live: LiveNode, index: int, function: str) -> None:
    known = len(live.told(InstanceReady))
    live.node.order(WarmInstance(invoker="i0", slice=index, function=function))
    await live.tells(InstanceReady, known + 1)


async def taken(live: LiveNode, index: int, task: str = "t1") -> None:
    """Have a slice held for half an hour."""
    await live.payload("r0", b"picture")
    live.node.order(phased(task, "endless", job("r0"), slices=[index]))
    await until(lambda: live.servers[index].busy)


async def ends(live: LiveNode, *tasks: str) -> None:
    """Stop those that hold something, and make sure that nothing is left."""
    for task in tasks:
        live.node.order(stop(task))
    await until(lambda: not live.node._under_way)
    assert live.idle
    assert not any(part.promised for part in live.pool.slices)
    assert not live.node._turns


def let_through(gate: Path, *methods: str) -> None:
    for method in methods:
        (gate / f"past-{method}").touch()
