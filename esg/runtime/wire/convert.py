"""Orders and news between controller and invokers, as protobuf and back.

Both ends use this file, so that what one writes the other reads. Protobuf stops here: on either
side of the wire there are only the brains' own events and commands.
"""

from collections.abc import Callable, Iterable
from typing import Any

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
    JobFailure,
    MissingInput,
    RunningTask,
    SliceInventory,
    TaskFailed,
    TaskFinished,
)
from esg.core.messages.task_order import (
    AwaitedJob,
    InlinePayload,
    Input,
    JobOrder,
    Output,
    Payload,
    TaskOrder,
)
from esg.core.sessions.brought import NOTHING, Brought
from esg.errors import Rejected
from esg.protos import controller_v1_pb2 as wire
from esg.runtime.rpc.status import clipped
from esg.runtime.wire.checks import check_brought, check_news, check_order
from esg.runtime.wire.enums import config_from_wire, config_to_wire


def order_to_wire(order: InvokerOrder) -> wire.Order:
    return _ORDER_WRITERS[type(order)](order)


def order_from_wire(order: wire.Order, invoker: str) -> InvokerOrder:
    """What a controller asks of this invoker."""
    kind = order.WhichOneof("order")
    if kind not in _ORDER_READERS:
        raise Rejected(f"an order of an unknown kind ({kind}): is the controller newer than this?")
    asked = _ORDER_READERS[kind](order, invoker)
    check_order(asked)
    return asked


def news_to_wire(event: InvokerNews, brought: Brought = NOTHING) -> wire.InvokerNote:
    """What an invoker has to tell, and the results that come along."""
    note = _NEWS_WRITERS[type(event)](event)
    for request, content in brought.items():
        note.finished.brought.add(request_id=request, content=content)
    return note


def news_from_wire(note: wire.InvokerNote, invoker: str) -> InvokerNews:
    """What an invoker has to tell."""
    kind = note.WhichOneof("note")
    if kind not in _NEWS_READERS:
        raise Rejected(f"news of an unknown kind ({kind}): is the invoker newer than this?")
    event = _NEWS_READERS[kind](note, invoker)
    check_news(event)
    return event


def brought_from_wire(note: wire.InvokerNote) -> Brought:
    """The results that come along with what an invoker has to tell."""
    if note.WhichOneof("note") != "finished" or not note.finished.brought:
        return NOTHING
    brought = {output.request_id: output.content for output in note.finished.brought}
    check_brought(brought)
    return brought


def _task_to_wire(order: TaskOrder) -> wire.TaskOrder:
    return wire.TaskOrder(
        task=order.task,
        stage=order.stage,
        function=order.function,
        config=config_to_wire(order.config),
        slices=order.slices,
        jobs=[
            wire.Job(
                request_id=job.request,
                inputs=map(_input_to_wire, job.inputs),
                publish=job.publish,
                waited_for=isinstance(job, AwaitedJob),
                payload=_payload_of(job),
                bring_bytes=job.bring_bytes if isinstance(job, AwaitedJob) else 0,
            )
            for job in order.jobs
        ],
        keep=order.keep,
        predicted_us=order.predicted_us,
        then=None if order.then is None else _task_to_wire(order.then),
        within_us=order.within_us,
        phased=order.phased,
        spare_us=order.spare_us,
    )


def _phases(found: wire.Phases) -> Phases:
    return Phases(found.before_us, found.slices_us, found.after_us)


def _task_from_wire(start: wire.TaskOrder, invoker: str) -> TaskOrder:
    return TaskOrder(
        task=start.task,
        invoker=invoker,
        stage=start.stage,
        function=start.function,
        config=config_from_wire(start.config),
        slices=tuple(start.slices),
        jobs=tuple(map(_job_from_wire, start.jobs)),
        keep=start.keep,
        predicted_us=start.predicted_us,
        then=_task_from_wire(start.then, invoker) if start.HasField("then") else None,
        within_us=start.within_us,
        phased=start.phased,
        spare_us=start.spare_us,
    )


def _job_from_wire(job: wire.Job) -> JobOrder:
    request, inputs, publish = job.request_id, _inputs_from_wire(job), job.publish
    if not job.waited_for:
        return JobOrder(request=request, inputs=inputs, publish=publish)
    return AwaitedJob(request=request, inputs=inputs, publish=publish, bring_bytes=job.bring_bytes)


def _payload_of(job: JobOrder) -> bytes:
    """The payload that travels with a job, which is then its only input; empty if none does."""
    first = job.inputs[0] if job.inputs else None
    return first.content if isinstance(first, InlinePayload) else b""


def _inputs_from_wire(job: wire.Job) -> tuple[Input, ...]:
    inputs = tuple(map(_input_from_wire, job.inputs))
    if not job.payload:
        return inputs
    if len(inputs) != 1 or not isinstance(inputs[0], Payload):
        raise Rejected("an order: a payload came with a job that does not read it alone")
    return (InlinePayload(key=inputs[0].key, content=job.payload),)


def _input_to_wire(source: Input) -> wire.Input:
    if isinstance(source, Payload):
        return wire.Input(payload=source.key)
    return wire.Input(output=wire.Output(stage=source.stage, invoker=source.invoker))


def _input_from_wire(source: wire.Input) -> Input:
    match source.WhichOneof("source"):
        case "payload":
            return Payload(key=source.payload)
        case "output":
            return Output(stage=source.output.stage, invoker=source.output.invoker)
        case kind:
            raise Rejected(f"an input of an unknown kind ({kind}): is the other side newer?")


def _instance(order: WarmInstance | DropInstance) -> wire.Instance:
    return wire.Instance(slice=order.slice, function=order.function)


_ORDER_WRITERS: dict[type[Any], Callable[[Any], wire.Order]] = {
    TaskOrder: lambda order: wire.Order(start=_task_to_wire(order)),
    StopTask: lambda order: wire.Order(stop=order.task),
    RecallStanding: lambda order: wire.Order(recall=order.task),
    WarmInstance: lambda order: wire.Order(warm=_instance(order)),
    DropInstance: lambda order: wire.Order(drop=_instance(order)),
    PublishData: lambda order: wire.Order(
        publish=wire.StageOutput(request_id=order.request, stage=order.stage)
    ),
    DiscardData: lambda order: wire.Order(
        discard=wire.Discard(request_id=order.request, results=order.results)
    ),
}

_ORDER_READERS: dict[str | None, Callable[[wire.Order, str], InvokerOrder]] = {
    "start": lambda order, invoker: _task_from_wire(order.start, invoker),
    "stop": lambda order, invoker: StopTask(invoker=invoker, task=order.stop),
    "recall": lambda order, invoker: RecallStanding(invoker=invoker, task=order.recall),
    "warm": lambda order, invoker: WarmInstance(
        invoker=invoker, slice=order.warm.slice, function=order.warm.function
    ),
    "drop": lambda order, invoker: DropInstance(
        invoker=invoker, slice=order.drop.slice, function=order.drop.function
    ),
    "publish": lambda order, invoker: PublishData(
        invoker=invoker, request=order.publish.request_id, stage=order.publish.stage
    ),
    "discard": lambda order, invoker: DiscardData(
        invoker=invoker, request=order.discard.request_id, results=order.discard.results
    ),
}


def _inventory(
    event: InvokerJoined | InvokerReported, vcpus: int = 0, kept: Iterable[str] = ()
) -> wire.Inventory:
    return wire.Inventory(
        vcpus=vcpus,
        slices=[
            wire.Slice(
                memory_mb=s.memory_mb,
                resident=s.resident,
                loading=s.loading,
                lost=not s.usable,
                kind=s.kind,
            )
            for s in event.slices
        ],
        running=[
            wire.RunningTask(task=r.task, vcpus=r.vcpus, slices=r.slices) for r in event.running
        ],
        latest_task=event.latest_task,
        kept=kept,
    )


def _slices(inventory: wire.Inventory) -> tuple[SliceInventory, ...]:
    return tuple(
        SliceInventory(
            memory_mb=s.memory_mb,
            resident=tuple(s.resident),
            loading=tuple(s.loading),
            usable=not s.lost,
            kind=s.kind,
        )
        for s in inventory.slices
    )


def _running(inventory: wire.Inventory) -> tuple[RunningTask, ...]:
    return tuple(
        RunningTask(task=r.task, vcpus=r.vcpus, slices=tuple(r.slices)) for r in inventory.running
    )


_NEWS_WRITERS: dict[type[Any], Callable[[Any], wire.InvokerNote]] = {
    InvokerJoined: lambda event: wire.InvokerNote(
        joined=_inventory(event, event.vcpus, event.kept)
    ),
    InvokerReported: lambda event: wire.InvokerNote(inventory=_inventory(event)),
    InvokerLeaving: lambda _: wire.InvokerNote(leaving=wire.Leaving()),
    TaskFinished: lambda event: wire.InvokerNote(
        finished=wire.TaskFinished(
            task=event.task,
            loading_us=event.loading_us,
            running_us=event.running_us,
            failed=[
                wire.JobFailure(request_id=f.request, reason=f.reason, final=f.final)
                for f in event.failed
            ],
            continued=event.continued,
            phases=None if event.phases is None else wire.Phases(**event.phases._asdict()),
            slices=event.slices,
        )
    ),
    TaskFailed: lambda event: wire.InvokerNote(
        failed=wire.TaskFailed(
            task=event.task,
            reason=event.reason,
            missing=[
                wire.MissingInput(request_id=m.request, source=_input_to_wire(m.source))
                for m in event.missing
            ],
        )
    ),
    InstanceReady: lambda event: wire.InvokerNote(
        ready=wire.Instance(slice=event.slice, function=event.function, loading_us=event.loading_us)
    ),
    InstanceGone: lambda event: wire.InvokerNote(
        gone=wire.InstanceGone(slice=event.slice, function=event.function, reason=event.reason)
    ),
}

_NEWS_READERS: dict[str | None, Callable[[wire.InvokerNote, str], InvokerNews]] = {
    "joined": lambda note, invoker: InvokerJoined(
        invoker=invoker,
        vcpus=note.joined.vcpus,
        slices=_slices(note.joined),
        running=_running(note.joined),
        latest_task=note.joined.latest_task,
        kept=tuple(note.joined.kept),
    ),
    "inventory": lambda note, invoker: InvokerReported(
        invoker=invoker,
        slices=_slices(note.inventory),
        running=_running(note.inventory),
        latest_task=note.inventory.latest_task,
    ),
    "leaving": lambda _, invoker: InvokerLeaving(invoker=invoker),
    "finished": lambda note, invoker: TaskFinished(
        task=note.finished.task,
        invoker=invoker,
        loading_us=note.finished.loading_us,
        running_us=note.finished.running_us,
        failed=tuple(
            JobFailure(request=f.request_id, reason=clipped(f.reason), final=f.final)
            for f in note.finished.failed
        ),
        continued=note.finished.continued,
        phases=_phases(note.finished.phases) if note.finished.HasField("phases") else None,
        slices=tuple(note.finished.slices),
    ),
    "failed": lambda note, invoker: TaskFailed(
        task=note.failed.task,
        invoker=invoker,
        reason=clipped(note.failed.reason),
        missing=tuple(
            MissingInput(request=m.request_id, source=_input_from_wire(m.source))
            for m in note.failed.missing
        ),
    ),
    "ready": lambda note, invoker: InstanceReady(
        invoker=invoker,
        slice=note.ready.slice,
        function=note.ready.function,
        loading_us=note.ready.loading_us,
    ),
    "gone": lambda note, invoker: InstanceGone(
        invoker=invoker,
        slice=note.gone.slice,
        function=note.gone.function,
        reason=clipped(note.gone.reason),
    ),
}
