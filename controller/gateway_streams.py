"""The door for gateways: submissions in, answers out.

A gateway that submits a request hears of its end; one that follows it hears of every stage as well,
those in the past first. Whoever breaks off only stops listening: the request goes on, and any
gateway may follow it later.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable

from esg.controller.convert import progress_note, refusal_error
from esg.controller.driver import Driver
from esg.controller.effects import TellProgress
from esg.controller.followers import Follower, Followers
from esg.controller.quotas import RequestQuotas
from esg.controller.request_log import AnsweredRequest, RequestRecord
from esg.controller.shell import ControllerShell, request_memo
from esg.core.messages.commands import AnswerRequest, RefuseRequest, StageReport
from esg.core.messages.events import RequestArrived, RequestCancelled
from esg.core.messages.task_order import TaskOrder
from esg.core.state.state import Request
from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.runtime.logs import about
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.status import AlreadyExists, Exhausted, NotFound, Unavailable, refusal
from esg.runtime.security.ownership import owned, seen
from esg.suggest import did_you_mean

log = logging.getLogger(__name__)


class GatewayStreams:
    """The streams of all gateways, and which of them follow which request."""

    def __init__(
        self, driver: Driver, shell: ControllerShell, refusing: Callable[[], str] = lambda: ""
    ) -> None:
        self._driver = driver
        self._shell = shell
        self._refusing = refusing
        self._submitted: dict[str, RequestRecord] = {}  # not decided yet, or not on disk
        self._followers = Followers()
        self._quotas = RequestQuotas(time.monotonic)
        self.draining = False

    @property
    def idle(self) -> bool:
        """Whether all that was submitted is answered or refused."""
        return not (self._submitted or self._shell.requests.under_way)

    async def admit(
        self, messages: AsyncIterator[wire.FromGateway]
    ) -> AsyncIterator[wire.ToGateway]:
        """Serve one gateway's stream."""
        outbox: Follower = BatchedSender()
        try:
            async with outbox.while_reading(self._read(outbox, messages)):
                async for notes in outbox.groups():
                    yield wire.ToGateway(notes=notes)
        finally:
            self._followers.forget(outbox)

    async def _read(self, outbox: Follower, messages: AsyncIterator[wire.FromGateway]) -> None:
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

    def _find(self, request: str) -> RequestRecord | AnsweredRequest | None:
        known = self._submitted.get(request)
        return known or self._shell.requests.find(request, self._driver.now_us)

    def _submit(self, follower: Follower, submission: wire.Submission) -> None:
        request = submission.request_id
        record = self._find(request)
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
                follower.put(_accepted_note(request, record, repeated=True))
                if not _told_end(follower, request, record):
                    self._followers.follow(request, follower)
        elif self.draining:
            _refuse(follower, request, Unavailable("the controller is going away; try again"))
        elif why := self._refusing():
            _refuse(follower, request, Unavailable(why))
        elif (application := self._application(submission)) is None:
            _refuse(follower, request, self._unseen(submission))
        elif (too_much := self._too_much(submission)) is not None:
            _refuse(follower, request, too_much)
        else:
            content_hash, later = submission.content_hash, submission.fetched_later
            self._submitted[request] = RequestRecord(
                application=application, content_hash=content_hash
            )
            self._followers.follow(request, follower)
            self._driver.tell(
                RequestArrived(
                    request=request,
                    application=application,
                    slo_us=self._slo_us(submission, application),
                    all_stages=submission.all_stages,
                    client=submission.owner,
                ),
                request_memo(content_hash, fetched_later=later),
                refused=lambda error: self._end(request, error),
            )

    def _too_much(self, submission: wire.Submission) -> Exhausted | None:
        """Why a new request is more than its client may do, if it is."""
        under_way = self._shell.requests.under_way_of(submission.owner)
        return self._quotas.refusal(submission, under_way)

    def _application(self, submission: wire.Submission) -> str | None:
        """The application as the mesh calls it: the owner's own, or else everybody's; None if the
        owner sees neither. Where there is no owner, the scheduler says what it does not know."""
        known = self._driver.scheduler.applications
        own = owned(submission.owner, submission.application)
        if own in known or not submission.owner:
            return own
        return submission.application if submission.application in known else None

    def _unseen(self, submission: wire.Submission) -> NotFound:
        """The error for an application that its owner cannot see, without a word about what others
        own."""
        visible = (seen(submission.owner, name) for name in self._driver.scheduler.applications)
        return NotFound(did_you_mean("application", submission.application, filter(None, visible)))

    def _slo_us(self, submission: wire.Submission, name: str) -> int | None:
        """The request's own SLO; the client's deadline, if that is shorter; or none of its own."""
        slo_us = submission.slo_us if submission.HasField("slo_us") else None
        if not submission.HasField("deadline_us"):
            return slo_us
        application = self._driver.scheduler.current(name)
        known_us = application.slo_us if slo_us is None and application is not None else slo_us
        shorter = known_us is None or submission.deadline_us < known_us
        return submission.deadline_us if shorter else slo_us

    def _follow(self, follower: Follower, request: str) -> None:
        """Have a follower hear of a request: its past first, the rest as it happens."""
        known = self._find(request)
        if known is None:
            _refuse(follower, request, _unknown(request))
            return
        running = self._driver.scheduler.state.requests.get(request)
        if running is not None:
            for note in self._past(running):
                follower.put(note)
        # After the past: whoever hears this knows all that has happened
        follower.put(_accepted_note(request, known))
        if not _told_end(follower, request, known):
            self._followers.watch(request, follower)

    def _past(self, request: Request) -> list[wire.ControllerNote]:
        notes: list[wire.ControllerNote] = []

        def add(ran: StageReport | TaskOrder, at_us: int, *, finished: bool) -> None:
            since_us = at_us - request.arrived_us
            notes.append(progress_note(request.name, ran, finished=finished, at_us=since_us))

        for run in request.runs.values():
            task = self._driver.scheduler.state.tasks.get(run.task)
            order = self._shell.orders.get(run.task)
            if run.report is not None:
                add(run.report, run.report.started_us, finished=False)
                add(run.report, run.report.finished_us, finished=True)
            elif task is not None and order is not None:
                add(order, task.started_us, finished=False)
        return sorted(notes, key=lambda note: note.progress.at_us)

    def _cancel(self, follower: Follower, request: str) -> None:
        """Should the scheduler fail at it, the request goes on, and its end is heard of."""
        known = self._find(request)
        if known is None:
            _refuse(follower, request, _unknown(request))
        elif not _told_end(follower, request, known):
            self._followers.follow(request, follower)
            self._driver.tell(RequestCancelled(request=request))

    # ---- what the scheduler decided

    def accepted(self, request: str, record: RequestRecord) -> None:
        self._submitted.pop(request, None)
        self._quotas.decided(request, accepted=True)
        self._followers.tell(request, _accepted_note(request, record))

    def refused(self, command: RefuseRequest) -> None:
        log.info("refused", extra=about(request=command.request, reason=command.reason))
        error = refusal_error(command.kind, command.reason, command.retry_after_us)
        self._end(command.request, error)

    def _end(self, request: str, error: Exception) -> None:
        """A request is not admitted."""
        self._submitted.pop(request, None)
        self._quotas.decided(request, accepted=False)
        self._followers.tell_end(request, _refused_note(request, error))

    def payload_lost(self, request: str) -> None:
        log.warning("payload lost", extra=about(request=request))
        self._followers.tell(request, wire.ControllerNote(request_id=request, payload_lost=True))

    def progressed(self, progress: TellProgress) -> None:
        for request, at_us in progress.at_us.items():
            watchers = self._followers.watchers(request)
            if watchers:
                finished = progress.finished
                note = progress_note(request, progress.order, finished=finished, at_us=at_us)
                for watcher in watchers:
                    watcher.put(note)

    def answered(self, answer: AnswerRequest, result: model.Result) -> None:
        note = wire.ControllerNote(request_id=answer.request, result=result)
        self._followers.tell_end(answer.request, note)
        log.debug(
            "answered",
            extra=about(request=answer.request, outcome=answer.outcome, in_time=answer.slo_met),
        )


def _unknown(request: str) -> NotFound:
    return NotFound(
        f"no request {request} is known; it may have ended too long ago, or never been accepted"
    )


def _accepted_note(
    request: str, known: RequestRecord | AnsweredRequest, *, repeated: bool = False
) -> wire.ControllerNote:
    accepted = wire.Accepted(
        application=known.application, repeated=repeated, content_hash=known.content_hash
    )
    return wire.ControllerNote(request_id=request, accepted=accepted)


def _told_end(follower: Follower, request: str, known: RequestRecord | AnsweredRequest) -> bool:
    """Tell a follower the result of a request that has one; whether that was so."""
    if not isinstance(known, AnsweredRequest):
        return False
    result = model.Result.FromString(known.result)
    follower.put(wire.ControllerNote(request_id=request, result=result))
    return True


def _refuse(follower: Follower, request: str, error: Exception) -> None:
    follower.put(_refused_note(request, error))


def _refused_note(request: str, error: Exception) -> wire.ControllerNote:
    return wire.ControllerNote(request_id=request, refused=refusal(wire.Refused, error))
