"""A desk, where stories are told to a scheduler and its orders are read.

    desk.at(ms(0), joined("i0"), arrived("r1")).at(ms(100), finished("t1"))
    assert desk.orders == [start("t1", "scan/detect", "r1"), answer("r1"), discard("i0", "r1")]

Facts are told with the small functions in the past tense, expected orders with those in the
imperative. An expected order compares equal to a real one in all that it mentions. What was
admitted or accepted as asked is in `desk.accepted`: few stories are about that.

When a story is over, `Desk.close` tells it twice more: to a fresh scheduler from the journal, and,
for every point of the story, the rest of it to a scheduler restored from a snapshot taken there.
All must act the same.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog
from esg.core.catalog.phases import Phases
from esg.core.journal.format import orders_digest
from esg.core.messages.codec import Message
from esg.core.messages.commands import (
    AcceptApplication,
    AdmitRequest,
    AnswerRequest,
    Command,
    Decision,
    DiscardData,
    DropInstance,
    PublishData,
    RefuseApplication,
    RefuseRequest,
    StartTask,
    StopTask,
    WarmInstance,
)
from esg.core.messages.events import (
    ApplicationRegistered,
    ApplicationRetired,
    Event,
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    InvokerLost,
    InvokerReported,
    MissingInput,
    RequestArrived,
    RequestCancelled,
    RunningTask,
    SliceInventory,
    StageSpec,
    TaskFailed,
    TaskFinished,
    Woke,
)
from esg.core.messages.outcome import Outcome
from esg.core.messages.task_order import JobOrder, Output, Payload, TaskOrder
from esg.core.policies.interface import Policy
from esg.core.policies.table import policy as named_policy
from esg.core.scheduler.scheduler import Scheduler
from esg.core.scheduler.settings import SchedulerSettings
from tests.support.checked_scheduler import Witness, as_text
from tests.support.small_catalog import SMALL

PolicyMaker = Callable[[Catalog], Policy]


def esg_policy(catalog: Catalog) -> Policy:
    return named_policy("esg", catalog)


class Desk:
    """One scheduler and its story so far."""

    def __init__(
        self,
        *,
        catalog: Catalog = SMALL,
        policy: PolicyMaker = esg_policy,
        settings: SchedulerSettings | None = None,
    ) -> None:
        self._catalog = catalog
        self._make_policy = policy
        self._policy = policy(catalog)
        self._settings = settings or SchedulerSettings(prewarm=False)
        self._witness = Witness(self._restored(None))
        self._snapshots: list[str] = []
        self._broken = False
        self.orders: list[Command] = []
        self.new_orders: list[Command] = []
        self.accepted: list[Command] = []

    def at(self, now_us: int, *events: Event) -> "Desk":
        """Tell what happened at one moment; `new_orders` is what it led to."""
        self.new_orders = []
        for event in events:
            self._snapshots.append(as_text(self.scheduler))
            self._broken = True
            for order in self._witness.handle(now_us, event):
                accepts = isinstance(order, AdmitRequest | AcceptApplication)
                (self.accepted if accepts else self.new_orders).append(order)
            self._broken = False
        self.orders += self.new_orders
        return self

    def wake(self) -> "Desk":
        """Nothing happens until the alarm goes off."""
        assert self.next_wake is not None
        return self.at(self.next_wake, Woke())

    @property
    def scheduler(self) -> Scheduler:
        return self._witness.scheduler

    @property
    def now_us(self) -> int:
        return self.scheduler.state.now_us

    @property
    def next_wake(self) -> int | None:
        return self.scheduler.next_wake

    def close(self) -> None:
        """The story is over; tell it again, in every way it could have been interrupted."""
        if self._broken:
            return  # it ended in an error, which the test has seen
        self._policy = self._make_policy(self._catalog)
        self._witness.replay_into(self._restored(None))
        journal = self._witness.journal
        for position, text in enumerate(self._snapshots):
            restored = self._restored(json.loads(text))
            assert as_text(restored) == text
            for entry in journal[position:]:
                orders = restored.handle(entry.now_us, entry.event)
                assert orders_digest(orders) == entry.orders, f"restored before {position}: {entry}"
            assert as_text(restored) == as_text(self.scheduler)

    def _restored(self, snapshot: Any) -> Scheduler:
        return Scheduler(
            self._catalog,
            self._policy,
            self._settings,
            snapshot=snapshot,
            policy_for=self._make_policy,
        )


# Facts.


def arrived(
    request: str, application: str = "scan", *, slo_us: int | None = None, client: str = ""
) -> Event:
    return RequestArrived(request=request, application=application, slo_us=slo_us, client=client)


def cancelled(request: str) -> Event:
    return RequestCancelled(request=request)


def registered(
    application: str,
    *chain: str,
    stages: Mapping[str, tuple[str, ...]] | None = None,
    slo_us: int | None = None,
    slo_scale: float | None = None,
) -> Event:
    """A chain of functions; or stages, named as their functions, with those they come after."""
    if stages is None:
        stages = {name: chain[:index][-1:] for index, name in enumerate(chain)}
    specs = tuple(StageSpec(name=name, function=name, after=a) for name, a in stages.items())
    return ApplicationRegistered(
        application=application, stages=specs, slo_us=slo_us, slo_scale=slo_scale
    )


def retired(application: str) -> Event:
    return ApplicationRetired(application=application)


Models = Mapping[int, tuple[str, ...]]


def _inventory(vgpus: int, memory_mb: int, resident: Models | None) -> tuple[SliceInventory, ...]:
    return tuple(
        SliceInventory(memory_mb=memory_mb, resident=(resident or {}).get(index, ()))
        for index in range(vgpus)
    )


def joined(
    invoker: str = "i0",
    *,
    vcpus: int = 4,
    vgpus: int = 2,
    memory_mb: int = 1000,
    resident: Models | None = None,
    running: tuple[str | RunningTask, ...] = (),
    latest_task: int = 0,
    kept: tuple[str, ...] = (),
) -> Event:
    """`resident` names the models found on each slice."""
    return InvokerJoined(
        invoker=invoker,
        vcpus=vcpus,
        slices=_inventory(vgpus, memory_mb, resident),
        running=_tasks(running),
        latest_task=latest_task,
        kept=kept,
    )


def _tasks(running: tuple[str | RunningTask, ...]) -> tuple[RunningTask, ...]:
    """A task that is only named holds nothing that matters to the story."""
    return tuple(RunningTask(task=task) if isinstance(task, str) else task for task in running)


def reported(
    invoker: str = "i0",
    *,
    vgpus: int = 2,
    memory_mb: int = 1000,
    resident: Models | None = None,
    running: tuple[str | RunningTask, ...] = (),
    latest_task: int,
) -> Event:
    slices = _inventory(vgpus, memory_mb, resident)
    return InvokerReported(
        invoker=invoker, slices=slices, running=_tasks(running), latest_task=latest_task
    )


def lost(invoker: str = "i0") -> Event:
    return InvokerLost(invoker=invoker)


def finished(
    task: str,
    on: str = "i0",
    *,
    loading_us: int = 0,
    running_us: int = 0,
    phases: Phases | None = None,
) -> Event:
    return TaskFinished(
        task=task, invoker=on, loading_us=loading_us, running_us=running_us, phases=phases
    )


def failed(
    task: str, on: str = "i0", *, reason: str = "it broke", missing: tuple[str, ...] = ()
) -> Event:
    """`missing` are outputs, as "request/stage", and payloads, as "request/"."""
    outputs = [output.split("/") for output in missing]
    return TaskFailed(
        task=task,
        invoker=on,
        reason=reason,
        missing=tuple(
            MissingInput(
                request=request, source=Output(stage=stage, invoker=on) if stage else Payload()
            )
            for request, stage in outputs
        ),
    )


def ready(function: str, on: str = "i0", slice: int = 0) -> Event:
    return InstanceReady(invoker=on, slice=slice, function=function)


def gone(function: str, on: str = "i0", slice: int = 0, *, reason: str = "") -> Event:
    return InstanceGone(invoker=on, slice=slice, function=function, reason=reason)


# Orders.


class Some:
    """A message of which only some fields are given; equal to every one that has them."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, kind: type[Message], /, **fields: Any) -> None:
        self._kind = kind
        self._fields = fields

    def __eq__(self, other: object) -> bool:
        return type(other) is self._kind and all(
            getattr(other, name) == value for name, value in self._fields.items()
        )

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"{self._kind.__name__}({fields}, ...)"


def job(request: str, *, publish: bool | None = None, **inputs: str) -> Some:
    """A job, with the invokers that keep its inputs: `job("r1", resize="i0")`."""
    found = tuple(Output(stage=stage, invoker=invoker) for stage, invoker in inputs.items())
    more = {} if publish is None else {"publish": publish}
    return Some(JobOrder, request=request, inputs=found or (Payload(),), **more)


def start(
    task: str,
    queue: str,
    *jobs: str | Some,
    on: str = "i0",
    config: tuple[int, int, int] | Config | None = None,
    **more: Any,
) -> Some:
    """Without a config, it is the minimum config for as many jobs as there are."""
    application, stage = queue.split("/")
    decided = {name: more.pop(name) for name in Decision.__struct_fields__ if name in more}
    order = Some(
        TaskOrder,
        task=task,
        invoker=on,
        stage=stage,
        config=Config(*config) if config else Config(len(jobs), 1, 1),
        jobs=tuple(job(one) if isinstance(one, str) else one for one in jobs),
        **more,
    )
    return Some(StartTask, order=order, decision=Some(Decision, application=application, **decided))


def started(orders: Iterable[Command]) -> list[TaskOrder]:
    """The tasks among some orders, as nodes are told of them."""
    return [order.order for order in orders if isinstance(order, StartTask)]


def stop(task: str, on: str = "i0") -> Command:
    return StopTask(invoker=on, task=task)


def warm(function: str, on: str = "i0", slice: int = 0) -> Command:
    return WarmInstance(invoker=on, slice=slice, function=function)


def drop(function: str, on: str = "i0", slice: int = 0) -> Command:
    return DropInstance(invoker=on, slice=slice, function=function)


def publish(output: str, on: str = "i0") -> Command:
    """The output as "request/stage"."""
    request, stage = output.split("/")
    return PublishData(invoker=on, request=request, stage=stage)


def discard(invoker: str, request: str, *, results: bool = False) -> Command:
    return DiscardData(invoker=invoker, request=request, results=results)


def answer(request: str, outcome: Outcome = Outcome.DONE, **more: Any) -> Some:
    return Some(AnswerRequest, request=request, outcome=outcome, **more)


def refuse(request: str, **more: Any) -> Some:
    return Some(RefuseRequest, request=request, **more)


def refuse_application(application: str, **more: Any) -> Some:
    return Some(RefuseApplication, application=application, **more)
