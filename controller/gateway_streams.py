"""The door for gateways: submissions in, answers out.

A gateway that submits a request hears of its end; one that follows it hears of every stage as well,
those in the past first. Whoever breaks off only stops listening: the request goes on, and any
gateway may follow it later.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

from msgspec.structs import replace

from esg.controller.convert import progress_note, refusal_error, result_to_wire
from esg.controller.driver import Driver
from esg.controller.request_log import AnsweredRequest, Follower, RequestLog, RequestRecord
from esg.core.journal.format import Memo
from esg.core.messages.commands import AnswerRequest, Input, JobOrder, RefuseRequest, StartTask
from esg.core.messages.events import RequestArrived, RequestCancelled
from esg.core.state.state import Request
from esg.protos import controller_v1_pb2 as wire
from esg.runtime.logs import about
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.status import (
    AlreadyExists,
    NotFound,
    Unavailable,
    refusal,
)
from esg.runtime.security.ownership import owned, seen
from esg.storage.keys import payload_stage
from esg.suggest import did_you_mean

log = logging.getLogger(__name__)


class GatewayStreams:
    """Everyone who asks for something."""

    def __init__(self, driver: Driver, requests: RequestLog) -> None:
        self._driver = driver
        self._requests = requests
        self.draining = False

    async def admit(
        self, messages: AsyncIterator[wire.FromGateway]
    ) -> AsyncIterator[wire.ToGateway]:
        """Serve one gateway's stream."""
        outbox: BatchedSender[wire.ControllerNote] = BatchedSender()
        reader = asyncio.get_running_loop().create_task(self._read(outbox, messages))
        try:
            async for notes in outbox.groups():
                yield wire.ToGateway(notes=notes)
        finally:
            reader.cancel()
            self._requests.forget_follower(outbox)

    async def _read(
        self, outbox: BatchedSender[wire.ControllerNote], messages: AsyncIterator[wire.FromGateway]
    ) -> None:
        try:
            async for message in messages:
                for note in message.notes:
                    match note.WhichOneof("note"):
                        case "submission":
                            self._submit(outbox, note.submission)
                        case "cancel":
                            self._cancel(outbox, note.cancel)
                        case "follow":
                            self._follow(outbox, note.follow)
                        case _:
                            pass  # a newer gateway's; it cannot need an answer from this one
        finally:
            outbox.close()

    def _submit(self, follower: Follower, submission: wire.Submission) -> None:
        request = submission.request_id
        record = self._requests.find(request, self._driver.now_us)
        if record is not None:
            if record.content_hash != submission.content_hash:
                _refuse(
                    follower,
                    request,
                    AlreadyExists(
                        f"request id {request} was used for another request; "
                        "choose a new id, or send exactly the same again"
                    ),
                )
            else:
                self._repeat(follower, request, record)
        elif self.draining:
            _refuse(follower, request, Unavailable("the controller is going away; try again"))
        elif not self._find_application(submission):
            _refuse(follower, request, self._unseen(submission))
        else:
            record = RequestRecord(
                submission.application, submission.content_hash, submission.fetched_later
            )
            record.follow(follower)
            self._requests.begin(request, record)
            self._driver.tell(
                RequestArrived(
                    request=request,
                    application=submission.application,
                    slo_us=self._slo_us(submission),
                    all_stages=submission.all_stages,
                ),
                memo_of(record),
            )

    def _find_application(self, submission: wire.Submission) -> bool:
        """Have it name the application as the mesh does: its owner's own, or else everybody's.
        Where there is no owner, the scheduler says what it does not know."""
        known = self._driver.scheduler.applications
        own = owned(submission.owner, submission.application)
        if own in known:
            submission.application = own
        return not submission.owner or submission.application in known

    def _unseen(self, submission: wire.Submission) -> NotFound:
        """Without a word about what others own."""
        visible = (seen(submission.owner, name) for name in self._driver.scheduler.applications)
        return NotFound(did_you_mean("application", submission.application, filter(None, visible)))

    def _slo_us(self, submission: wire.Submission) -> int | None:
        """The request's own SLO; the client's deadline, if that is shorter; or none of its own."""
        slo_us = submission.slo_us if submission.HasField("slo_us") else None
        if not submission.HasField("deadline_us"):
            return slo_us
        application = self._driver.scheduler.current(submission.application)
        known_us = application.slo_us if slo_us is None and application is not None else slo_us
        shorter = known_us is None or submission.deadline_us < known_us
        return submission.deadline_us if shorter else slo_us

    def _repeat(
        self, follower: Follower, request: str, known: RequestRecord | AnsweredRequest
    ) -> None:
        accepted = wire.Accepted(
            application=known.application, repeated=True, content_hash=known.content_hash
        )
        follower.put(wire.ControllerNote(request_id=request, accepted=accepted))
        if isinstance(known, AnsweredRequest):
            follower.put(wire.ControllerNote(request_id=request, result=known.result))
        else:
            known.follow(follower)

    def _follow(self, follower: Follower, request: str) -> None:
        """Its past first; the rest as it happens."""
        known = self._requests.find(request, self._driver.now_us)
        if known is None:
            _refuse(follower, request, _unknown(request))
            return
        running = self._driver.scheduler.state.requests.get(request)
        if running is not None:
            for note in self._past(running):
                follower.put(note)
        # After the past: whoever hears this knows all that has happened
        accepted = wire.Accepted(application=known.application, content_hash=known.content_hash)
        follower.put(wire.ControllerNote(request_id=request, accepted=accepted))
        if isinstance(known, AnsweredRequest):
            follower.put(wire.ControllerNote(request_id=request, result=known.result))
        else:
            known.watch(follower)

    def _past(self, request: Request) -> list[wire.ControllerNote]:
        notes = []
        for stage, run in request.runs.items():
            report = run.report
            task = self._driver.scheduler.state.tasks.get(run.task)
            if report is not None:
                for at_us, finished in ((report.started_us, False), (report.finished_us, True)):
                    notes.append(
                        progress_note(
                            request.name,
                            stage,
                            report.task,
                            report.invoker,
                            report.config,
                            finished=finished,
                            at_us=at_us - request.arrived_us,
                        )
                    )
            elif task is not None:
                notes.append(
                    progress_note(
                        request.name,
                        stage,
                        task.name,
                        task.invoker,
                        task.config,
                        finished=False,
                        at_us=task.started_us - request.arrived_us,
                    )
                )
        return sorted(notes, key=lambda note: note.progress.at_us)

    def _cancel(self, follower: Follower, request: str) -> None:
        known = self._requests.find(request, self._driver.now_us)
        if known is None:
            _refuse(follower, request, _unknown(request))
        elif isinstance(known, AnsweredRequest):
            follower.put(wire.ControllerNote(request_id=request, result=known.result))
        else:
            known.follow(follower)
            self._driver.tell(RequestCancelled(request=request))

    # ---- what the scheduler decided

    def accepted(self, request: str, now_us: int) -> None:
        record = self._requests.under_way(request)
        if record is not None:
            record.arrived_us = now_us
            accepted = wire.Accepted(
                application=record.application, content_hash=record.content_hash
            )
            record.tell(wire.ControllerNote(request_id=request, accepted=accepted))

    def refused(self, command: RefuseRequest) -> None:
        record = self._requests.refuse(command.request)
        if record is None:
            return
        log.info("refused", extra=about(request=command.request, reason=command.reason))
        error = refusal_error(command.kind, command.reason, command.retry_after_us)
        for follower in record.followers:
            _refuse(follower, command.request, error)

    def payload_lost(self, request: str) -> None:
        """A task did not find it. The next one waits for it, too: it may be brought meanwhile."""
        record = self._requests.under_way(request)
        if record is not None:
            log.warning("payload lost", extra=about(request=request))
            record.tell(wire.ControllerNote(request_id=request, payload_lost=True))

    def with_payloads(self, order: StartTask) -> StartTask:
        """An order for a first stage, with the names of the payloads that it reads."""
        if any(source.stage for source in order.jobs[0].inputs):
            return order
        return replace(order, jobs=tuple(map(self._with_payload, order.jobs)))

    def _with_payload(self, job: JobOrder) -> JobOrder:
        record = self._requests.under_way(job.request)
        name = payload_stage(record.content_hash if record is not None else b"")
        return replace(job, inputs=(Input(stage="", invoker=name),))

    def started(self, order: StartTask, now_us: int) -> None:
        self._progress(order, now_us, finished=False)

    def finished(self, order: StartTask, now_us: int) -> None:
        self._progress(order, now_us, finished=True)

    def _progress(self, order: StartTask, now_us: int, *, finished: bool) -> None:
        for job in order.jobs:
            record = self._requests.under_way(job.request)
            if record is not None and record.watchers:
                note = progress_note(
                    job.request,
                    order.stage,
                    order.task,
                    order.invoker,
                    order.config,
                    finished=finished,
                    at_us=now_us - record.arrived_us,
                )
                for watcher in record.watchers:
                    watcher.put(note)

    def answered(self, answer: AnswerRequest, now_us: int) -> None:
        record = self._requests.under_way(answer.request)
        if record is None:
            return
        result = result_to_wire(answer, record.application, now_us)
        self._requests.answer(answer.request, result, now_us)
        record.tell(wire.ControllerNote(request_id=answer.request, result=result))
        log.debug(
            "answered",
            extra=about(request=answer.request, outcome=answer.outcome, in_time=answer.slo_met),
        )


def memo_of(record: RequestRecord) -> Memo:
    """What the journal keeps of a request for us, beside what the scheduler is told of it."""
    later = {"fetched_later": "yes"} if record.fetched_later else {}
    return {"content_hash": record.content_hash.hex(), **later}


def record_of(event: RequestArrived, memo: Memo | None) -> RequestRecord:
    """The way back."""
    known = memo or {}
    content_hash = bytes.fromhex(known.get("content_hash", ""))
    return RequestRecord(event.application, content_hash, "fetched_later" in known)


def _unknown(request: str) -> NotFound:
    return NotFound(
        f"no request {request} is known; it may have ended too long ago, or never been accepted"
    )


def _refuse(follower: Follower, request: str, error: Exception) -> None:
    refused = refusal(wire.Refused, error)
    follower.put(wire.ControllerNote(request_id=request, refused=refused))
