"""What controller and invokers may say to each other: numbers that can be, names of a length that
can be.

A controller believes its invokers about what they have and do; that is their own affair. But no
invoker, broken or hostile, may say what would make the controller's books wrong and so stop
everyone else's work. What cannot be is refused, and with it the stream. In the same way an invoker
keeps its own books right, whatever it is ordered.
"""

from collections.abc import Sequence

from esg.core.catalog.phases import Phases
from esg.core.messages.commands import (
    DiscardData,
    DropInstance,
    InvokerOrder,
    PublishData,
    RecallStanding,
    StopTask,
    WarmInstance,
)
from esg.core.messages.events import (
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    InvokerLeaving,
    InvokerNews,
    InvokerReported,
    RunningTask,
    SliceInventory,
    TaskFailed,
    TaskFinished,
)
from esg.core.messages.task_order import (
    AwaitedJob,
    InlinePayload,
    Input,
    Output,
    Payload,
    TaskOrder,
)
from esg.core.sessions.brought import Brought
from esg.errors import Rejected
from esg.limits import (
    LAST_TASK,
    LONGEST_TASK_US,
    LONGEST_US,
    MOST_BROUGHT_BYTES,
    MOST_INLINE_BYTES,
    MOST_NAMES,
    MOST_SLICE_MB,
    MOST_SLICES,
    MOST_VCPUS,
)
from esg.names import LONGEST


def check_order(order: InvokerOrder) -> None:
    """Refuse an order that no books could bear. Whether it fits is the pool's to say."""
    match order:
        case TaskOrder():
            _check_task(order)
        case StopTask() | RecallStanding():
            _check_names(order.task)
        case WarmInstance() | DropInstance():
            _check_names(order.function)
        case PublishData():
            _check_names(order.request, order.stage)
        case DiscardData():
            _check_names(order.request)


def _check_task(order: TaskOrder) -> None:
    _check_names(order.task, order.stage, order.function)
    for job in order.jobs:
        _check_names(job.request)
        for source in job.inputs:
            _check_source(source)
        if isinstance(job, AwaitedJob):
            _within("bring_bytes", job.bring_bytes, MOST_INLINE_BYTES)
            if order.keep and job.bring_bytes:
                raise Rejected("an order: what later stages read is not brought along")
    number = order.task[1:]
    if not (number.isascii() and number.isdigit()):
        raise Rejected(f"an order: task {order.task!r} has no number")
    _within("the number of a task", int(number), LAST_TASK)
    _within("vcpus", order.config.vcpus, MOST_VCPUS)
    _check_names(order.config.kind)
    if len(set(order.slices)) < len(order.slices):
        raise Rejected("an order: one slice is there twice")
    _within("within_us", order.within_us, LONGEST_US)
    _within("spare_us", order.spare_us, LONGEST_US)
    if order.then is not None:
        _check_task(order.then)


def check_news(event: InvokerNews) -> None:
    """Refuse what cannot be."""
    match event:
        case InvokerJoined():
            _within("vcpus", event.vcpus, MOST_VCPUS)
            _check_inventory(event.slices, event.running, event.latest_task)
            _check_names(*event.kept)
            if sum(task.vcpus for task in event.running) > event.vcpus:
                raise Rejected("an inventory: its tasks hold more vCPUs than there are")
        case InvokerLeaving():
            pass
        case InvokerReported():
            _check_inventory(event.slices, event.running, event.latest_task)
        case TaskFinished():
            _check_names(event.task, event.continued)
            _check_names(*(failure.request for failure in event.failed))
            _within("loading_us", event.loading_us, LONGEST_TASK_US)
            _within("running_us", event.running_us, LONGEST_TASK_US)
            if event.phases is not None:
                _check_phases(event.phases, event.loading_us + event.running_us)
        case TaskFailed():
            _check_names(event.task)
            for missing in event.missing:
                _check_names(missing.request)
                _check_source(missing.source)
        case InstanceReady():
            _check_names(event.function)
            _within("loading_us", event.loading_us, LONGEST_TASK_US)
        case InstanceGone():
            _check_names(event.function)


def _check_phases(phases: Phases, whole_us: int) -> None:
    for phase, time_us in phases._asdict().items():
        _within(phase, time_us, LONGEST_TASK_US)
    if phases.total_us > whole_us and whole_us < LONGEST_TASK_US:  # what is longer counts as that
        raise Rejected("a report: the phases of a task take longer than all of it")


def check_brought(brought: Brought) -> None:
    """Refuse results that are too large to come along with a report."""
    _check_names(*brought)
    for content in brought.values():
        check_inline(content)
    _within("bytes of results", sum(map(len, brought.values())), MOST_BROUGHT_BYTES)


def _check_inventory(
    slices: Sequence[SliceInventory], running: Sequence[RunningTask], latest_task: int
) -> None:
    _within("latest_task", latest_task, LAST_TASK)
    _within("slices", len(slices), MOST_SLICES)
    for part in slices:
        _within("memory_mb", part.memory_mb, MOST_SLICE_MB)
        _check_names(part.kind)
        _check_different("models of a slice", [*part.resident, *part.loading])
    for task in running:
        _within("vcpus of a task", task.vcpus, MOST_VCPUS)
        if not task.task:  # in the books, nobody holds what is free
            raise Rejected("an inventory: one of its tasks has no name")
    _check_different("tasks", [task.task for task in running])
    held = [index for task in running for index in task.slices]
    if len(set(held)) < len(held) or any(not 0 <= index < len(slices) for index in held):
        raise Rejected("an inventory: its tasks hold slices that are not there, or one twice")


def _check_different(what: str, names: Sequence[str]) -> None:
    _within(what, len(names), MOST_NAMES)
    _check_names(*names)
    if len(set(names)) < len(names):
        raise Rejected(f"an inventory: of its {what}, one is there twice")


def _check_source(source: Input) -> None:
    match source:
        case Payload(key=key):
            _check_names(key)
            if isinstance(source, InlinePayload):
                check_inline(source.content)
        case Output(stage=stage, invoker=invoker):
            _check_names(stage, invoker)


def check_submission(request: str, owner: str, payload: bytes) -> None:
    """Refuse what no node would take an order for."""
    _check_names(request, owner)
    check_inline(payload)


def check_inline(content: bytes) -> None:
    """Refuse data that is too large to travel with a message."""
    _within("bytes of inline data", len(content), MOST_INLINE_BYTES)


def _check_names(*names: str) -> None:
    for name in names:
        if len(name) > LONGEST:
            raise Rejected(f"a name of {len(name)} characters, {name[:40]!r}...")


def _within(what: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        raise Rejected(f"{what} is {number}; it must be from 0 to {most}")
