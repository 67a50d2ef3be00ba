"""The shell around the scheduler: what it remembers besides, and what follows from each event.

    apply(now, event, memo, commands) -> [effect, ...]

A shell reads no clock, waits for nothing and does nothing itself: like the scheduler, it is a
function of what it is told, so the very same code runs live and in a replay. Live, its effects are
performed; in a replay they are dropped. What it has to know of an event besides what the scheduler
is told stands beside the event in the journal, as a memo.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from esg.controller.convert import result_to_wire
from esg.controller.counters import Counters
from esg.controller.effects import (
    ConfirmJoin,
    Effect,
    TellAccepted,
    TellAnswered,
    TellPayloadLost,
    TellProgress,
)
from esg.controller.requests.request_log import AnsweredRequest, RequestLog, RequestRecord
from esg.core.journal.format import Memo
from esg.core.messages.codec import Message
from esg.core.messages.commands import (
    AcceptApplication,
    AdmitRequest,
    AnswerRequest,
    Command,
    RefuseApplication,
    RefuseRequest,
    StartTask,
)
from esg.core.messages.events import (
    Event,
    InvokerJoined,
    InvokerLost,
    InvokerReported,
    RequestWanted,
    TaskFailed,
    TaskFinished,
)
from esg.core.messages.task_order import AwaitedJob, JobOrder, Payload, TaskOrder
from esg.core.sessions.brought import what_was_brought
from esg.core.sessions.controller_end import remember
from esg.core.sessions.interest import is_kept, who_waits
from esg.limits import MOST_BROUGHT_BYTES
from esg.names import payload_stage, plain_name
from esg.runtime.settings import ControllerSettings
from esg.units import seconds


class ShellSnapshot(Message, frozen=True, kw_only=True):
    """What a shell remembers, for a segment to begin with.

    `orders` are those of the tasks that run; `sessions` those of the invokers' processes. Who hears
    of a request is not part of it: gateways that come back say so again.
    """

    under_way: dict[str, RequestRecord]
    answered: dict[str, AnsweredRequest]
    orders: tuple[TaskOrder, ...]
    sessions: dict[str, str]


NOTHING = ShellSnapshot(under_way={}, answered={}, orders=(), sessions={})


def request_memo(content_hash: bytes, wanted: Memo) -> Memo:
    """What the journal keeps of a request for the shell."""
    return {"content_hash": content_hash.hex(), **wanted}


class ControllerShell:
    """Requests and their answers, the orders of running tasks, the invokers' sessions, counters."""

    def __init__(self, settings: ControllerSettings, memory: ShellSnapshot = NOTHING) -> None:
        self.requests = RequestLog(
            remembered=settings.remembered,
            fetched_later_us=seconds(settings.remembered_s),
            waited_for_us=seconds(settings.repeats_s),
        )
        for request, record in memory.under_way.items():
            self.requests.begin(request, record)
        for request, answered in memory.answered.items():
            self.requests.remember(request, answered)
        self._small_bytes = settings.small_result_bytes
        self.orders = {order.task: order for order in memory.orders}
        self.sessions = dict(memory.sessions)
        self.counters = Counters()

    def snapshot(self) -> Callable[[], ShellSnapshot]:
        """What is remembered as of now. Putting it together may take a while, and may be done in
        another thread."""
        under_way, sessions = dict(self.requests.under_way), dict(self.sessions)
        answered, orders = self.requests.answered(), tuple(self.orders.values())
        return lambda: ShellSnapshot(
            under_way=under_way, answered=dict(answered), orders=orders, sessions=sessions
        )

    def apply(
        self, now_us: int, event: Event, memo: Memo | None, commands: Iterable[Command]
    ) -> list[Effect]:
        """Learn what the scheduler decided because of an event; returns what to do, in order."""
        effects: list[Effect] = []
        payloads_lost: list[str] = []
        remember(self.sessions, event, memo)
        match event:
            case TaskFinished():
                self.counters.finished(event)
                order = self._ended(event)
                if order is not None:
                    self._bring(order, memo)
                    effects.append(self._progress(now_us, order, finished=True))
            case TaskFailed():
                payloads_lost = self._payloads_lost(event)
            case InvokerJoined():
                self._keep_orders(event.invoker, event)
                effects.append(ConfirmJoin(event=event))
            case InvokerReported():
                self._keep_orders(event.invoker, event)
            case InvokerLost():
                self._keep_orders(event.invoker, None)
            case RequestWanted():
                self.requests.want(event.request, memo or {})
            case _:
                pass
        for command in commands:
            self._apply_command(now_us, command, memo or {}, effects)
        effects += [
            TellPayloadLost(request=request)
            for request in payloads_lost
            if request in self.requests.under_way
        ]
        return effects

    def _apply_command(
        self, now_us: int, command: Command, memo: Memo, effects: list[Effect]
    ) -> None:
        match command:
            case StartTask(order=order):
                self.orders[order.task] = order
                self.counters.started(order, begun=command.begun)
                if not command.begun:
                    effects.append(self._as_sent(order))
                effects.append(self._progress(now_us, order, finished=False))
            case AdmitRequest():
                effects.append(self._admit(now_us, command, memo))
            case AnswerRequest():
                self._answer(now_us, command, effects)
            case RefuseRequest():
                self.counters.refused(command)
                effects.append(command)
            case AcceptApplication() | RefuseApplication():
                pass  # whoever asked sees it
            case _:
                effects.append(command)

    # ---- requests

    def _admit(self, now_us: int, command: AdmitRequest, memo: Memo) -> Effect:
        self.counters.admitted(command)
        record = RequestRecord(
            application=plain_name(command.application),
            content_hash=bytes.fromhex(memo.get("content_hash", "")),
            fetched_later=is_kept(memo),
            arrived_us=now_us,
            gateways=who_waits(memo),
        )
        self.requests.begin(command.request, record)
        return TellAccepted(request=command.request, record=record)

    def _answer(self, now_us: int, answer: AnswerRequest, effects: list[Effect]) -> None:
        self.counters.answered(answer, now_us)
        record = self.requests.under_way.get(answer.request)
        if record is None:
            return
        result = result_to_wire(answer, record.application, now_us)
        answered = AnsweredRequest(
            application=record.application,
            content_hash=record.content_hash,
            fetched_later=record.fetched_later,
            answered_us=now_us,
            result=result.SerializeToString(),
            shared=record.shared,
            outputs={s: made for s, made in record.outputs.items() if s in answer.results},
        )
        self.requests.remember(answer.request, answered)
        effects.append(TellAnswered(answer=answer, result=result, outputs=answered.outputs))

    # ---- tasks

    def _progress(self, now_us: int, order: TaskOrder, *, finished: bool) -> Effect:
        under_way = self.requests.under_way
        at_us = {
            job.request: now_us - record.arrived_us
            for job in order.jobs
            if (record := under_way.get(job.request)) is not None
        }
        return TellProgress(order=order, finished=finished, at_us=at_us)

    def _as_sent(self, order: TaskOrder) -> TaskOrder:
        """An order with what a scheduler does not know: the keys of the payloads that a first stage
        reads, which results are waited for, and how large those may be that come along. A standing
        order has those of its own."""
        jobs = order.jobs
        then = None if order.then is None else self._as_sent(order.then)
        first = isinstance(jobs[0].inputs[0], Payload)
        if first or any(job.publish for job in jobs):
            most_bytes = 0 if order.keep else self._room_for_results(len(jobs))
            jobs = tuple([self._job_as_sent(job, most_bytes) for job in jobs])
        if jobs is order.jobs and then is order.then:
            return order
        return replace(order, jobs=jobs, then=then)

    def _job_as_sent(self, job: JobOrder, bring_bytes: int) -> JobOrder:
        record = self.requests.under_way.get(job.request)
        inputs = job.inputs
        if isinstance(inputs[0], Payload):
            inputs = (Payload(key=payload_stage(record.content_hash if record else b"")),)
        if not job.publish or record is None or record.fetched_later:
            return JobOrder(request=job.request, inputs=inputs, publish=job.publish)
        return AwaitedJob(request=job.request, inputs=inputs, publish=True, bring_bytes=bring_bytes)

    def _room_for_results(self, jobs: int) -> int:
        """How large a result may be that comes along, of a task with so many jobs: nothing while
        there is no room for any."""
        if self.requests.holds_too_much:
            return 0
        return min(self._small_bytes, MOST_BROUGHT_BYTES // jobs)

    def _ended(self, event: TaskFinished | TaskFailed) -> TaskOrder | None:
        """The order of a task that has ended; only the node that had it can say so."""
        order = self.orders.get(event.task)
        if order is None or order.invoker != event.invoker:
            return None
        return self.orders.pop(event.task)

    def _bring(self, order: TaskOrder, memo: Memo | None) -> None:
        """A task has finished: take what came along of its results."""
        if not order.keep:
            brought = what_was_brought(memo)
            for job in order.jobs:
                self.requests.bring(job.request, order.stage, brought.get(job.request))

    def _payloads_lost(self, event: TaskFailed) -> list[str]:
        """The requests of a task whose payloads it did not find."""
        order = self._ended(event)
        if order is None:
            return []
        missing = {m.request for m in event.missing if isinstance(m.source, Payload)}
        return [job.request for job in order.jobs if job.request in missing]

    def _keep_orders(self, invoker: str, said: InvokerJoined | InvokerReported | None) -> None:
        """Forget the orders of a node's tasks that do not run there, going by what it says: all
        that it has heard of. A node that joins has heard of all that it ever will."""
        running = {found.task for found in said.running} if said is not None else set()
        latest = said.latest_task if isinstance(said, InvokerReported) else None
        for task, order in list(self.orders.items()):
            if order.invoker == invoker and task not in running:
                if latest is None or int(task[1:]) <= latest:
                    del self.orders[task]
