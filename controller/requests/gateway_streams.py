"""The door for gateways: submissions in, answers out.

A gateway that submits a request hears of its end; one that follows it hears of every stage as well,
those in the past first. Whoever breaks off only stops listening: the request goes on, and any
gateway may follow it later. Whoever leaves a request has it cancelled, unless somebody else wants
it (`esg.core.sessions.interest`).

Nobody is told that a request is kept for them, or what became of it, before that is on disk. Who
asks for a request whose arrival is not decided yet waits until it is, and who asks for a known one
for the first time becomes an event of its own, `RequestWanted`, and is heard again after that. Who
submits a request and waits for it hears of its acceptance along with something else: the gateway
has no use for it, unless it says so.
"""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from esg.controller.convert import progress_note, refusal_error, result_note
from esg.controller.driver import Driver
from esg.controller.effects import TellProgress
from esg.controller.requests.followers import Follower, Followers
from esg.controller.requests.quotas import RequestQuotas
from esg.controller.requests.request_log import AnsweredRequest, Outputs, RequestRecord
from esg.controller.requests.small_payloads import SmallPayloads
from esg.controller.shell import ControllerShell, request_memo
from esg.core.journal.format import Memo
from esg.core.messages.commands import AnswerRequest, RefusalKind, RefuseRequest, StageReport
from esg.core.messages.events import RequestArrived, RequestCancelled, RequestWanted
from esg.core.messages.task_order import TaskOrder
from esg.core.sessions.interest import Interest, wanted_memo
from esg.core.state.state import Request
from esg.errors import Rejected
from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.runtime.logs import about
from esg.runtime.rpc.status import AlreadyExists, Exhausted, NotFound, Unavailable, refusal
from esg.runtime.security.ownership import owned, seen
from esg.runtime.wire.checks import check_submission
from esg.suggest import did_you_mean

log = logging.getLogger(__name__)

TIMEOUT_IS_SLO = "; that SLO is the timeout of the call: give the call more time"


Repeat = tuple[Follower, Callable[[], None]]
"""Who asks for a request that is not decided yet, and what to do when it is."""


class GatewayStreams:
    """The streams of all gateways: which of them hear of which request, and wait for it."""

    def __init__(
        self, driver: Driver, shell: ControllerShell, refusing: Callable[[], str] = lambda: ""
    ) -> None:
        self._driver = driver
        self._shell = shell
        self._refusing = refusing
        self._undecided: dict[str, list[Repeat]] = {}  # not decided yet, or not on disk
        self._timeouts: set[str] = set()  # those of them whose SLO is the timeout of their call
        self._awaited: set[str] = set()  # those whose gateway does nothing before it is accepted
        self.payloads = SmallPayloads()
        self._followers = Followers()
        self._quotas = RequestQuotas(time.monotonic)
        self._interest = Interest()
        for request, record in shell.requests.under_way.items():
            self._interest.recall(request, record.gateways, kept=record.fetched_later)
        self.draining = False

    @property
    def idle(self) -> bool:
        """Whether all that was submitted is answered or refused."""
        return not (self._undecided or self._shell.requests.under_way)

    async def admit(
        self,
        messages: AsyncIterator[wire.FromGateway],
        write: Callable[[wire.ToGateway], Awaitable[None]],
    ) -> None:
        """Serve one gateway's stream."""
        follower = Follower()
        outbox = follower.outbox
        try:
            async with outbox.while_reading(self._read(follower, messages)):
                while notes := await outbox.group():
                    await write(wire.ToGateway(notes=notes))
        finally:
            self._followers.forget(follower)

    async def _read(self, follower: Follower, messages: AsyncIterator[wire.FromGateway]) -> None:
        async for message in messages:
            await self._driver.whole.wait()
            for note in message.notes:
                match note.WhichOneof("note"):
                    case "session":
                        follower.session = note.session
                    case "submission":
                        self._submit(follower, note.submission)
                    case "cancel":
                        self._cancel(follower, note.cancel)
                    case "leave":
                        gone = self._interest.leave(note.leave, follower.session)
                        self._cancel_if(note.leave, unwanted=gone)
                    case "keep_not":
                        gone = self._interest.keep_not(note.keep_not, follower.session)
                        self._cancel_if(note.keep_not, unwanted=gone)
                    case "follow":
                        self._follow(follower, note.follow)
                    case _:
                        pass  # a newer gateway's; it cannot need an answer from this one

    def _find(self, request: str) -> RequestRecord | AnsweredRequest | None:
        return self._shell.requests.find(request, self._driver.now_us)

    def _submit(self, follower: Follower, submission: wire.Submission) -> None:
        def again() -> None:
            self._submit(follower, submission)

        request, later = submission.request_id, submission.fetched_later
        try:
            check_submission(request, submission.owner, submission.payload)
        except Rejected as error:
            _refuse(follower, request, error)
            return
        memo = wanted_memo(follower.session, fetched_later=later)
        record = self._find(request)
        if request in self._undecided:
            self._undecided[request].append((follower, again))
        elif record is not None and record.content_hash != submission.content_hash:
            _refuse(
                follower,
                request,
                AlreadyExists(
                    f"request id {request} was used for another request; "
                    "choose a new id, or send exactly the same again"
                ),
            )
        elif record is not None:
            self._count(follower, request, memo)
            if not record.knows(memo):
                self._driver.tell(
                    RequestWanted(request=request),
                    memo,
                    lambda _: again(),
                    refused=lambda error: _refuse(follower, request, error),
                )
                return
            self._driver.when_durable(lambda: self._repeat(follower, submission))
        elif self.draining:
            _refuse(follower, request, Unavailable("the controller is going away; try again"))
        elif why := self._refusing():
            _refuse(follower, request, Unavailable(why))
        elif (application := self._application(submission)) is None:
            _refuse(follower, request, self._unseen(submission))
        elif (too_much := self._too_much(submission)) is not None:
            _refuse(follower, request, too_much)
        else:
            self._undecided[request] = []
            self.payloads.keep(request, submission.payload)
            self._followers.follow(request, follower)
            self._interest.ask(request, follower.session, memo)
            slo_us = self._slo_us(submission, application)
            if later or submission.awaits_acceptance:
                self._awaited.add(request)
            if submission.HasField("deadline_us") and slo_us == submission.deadline_us:
                self._timeouts.add(request)
            self._driver.tell(
                RequestArrived(
                    request=request,
                    application=application,
                    slo_us=slo_us,
                    all_stages=submission.all_stages,
                    client=submission.owner,
                ),
                request_memo(submission.content_hash, memo),
                refused=lambda error: self._end(request, error),
            )

    def _repeat(self, follower: Follower, submission: wire.Submission) -> None:
        """Answer a submission of a request that is known, and wanted by who submitted it again."""
        request = submission.request_id
        known = self._find(request)
        if known is None:
            _refuse(follower, request, _unknown(request))
            return
        follower.put(self._accepted_note(request, known, repeated=True))
        if request in self._shell.requests.under_way:
            self.payloads.keep(request, submission.payload)
        if not self._told_end(follower, request, known):
            self._followers.follow(request, follower)

    def _too_much(self, submission: wire.Submission) -> Exhausted | None:
        """Why a new request is more than its client may do, if it is."""
        under_way = self._shell.requests.under_way_of(submission.owner)
        return self._quotas.refusal(submission, under_way)

    def _count(self, follower: Follower, request: str, memo: Memo) -> None:
        """Whoever asks for a request under way counts at once, also while that is being written."""
        if request in self._shell.requests.under_way:
            self._interest.ask(request, follower.session, memo)

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

        def again() -> None:
            self._follow(follower, request)

        known = self._find(request)
        if request in self._undecided:
            self._undecided[request].append((follower, again))
            return
        if known is None:
            _refuse(follower, request, _unknown(request))
            return
        memo = wanted_memo(follower.session, fetched_later=False)
        if not known.fetched_later:  # otherwise it goes on, whoever waits or leaves
            self._count(follower, request, memo)
            if not known.knows(memo):
                self._driver.tell(
                    RequestWanted(request=request),
                    memo,
                    lambda _: again(),
                    refused=lambda error: _refuse(follower, request, error),
                )
                return
        running = self._driver.scheduler.state.requests.get(request)
        if running is not None:
            for note in self._past(running):
                follower.put(note)
        # After the past, and with the end: whoever hears this knows all that has happened
        accepted = self._accepted_note(request, known)
        if isinstance(known, AnsweredRequest):
            self._driver.when_durable(lambda: follower.put(accepted))
        else:
            follower.put(accepted)
        if not self._told_end(follower, request, known):
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
        if known is None and request not in self._undecided:
            _refuse(follower, request, _unknown(request))
        elif known is None or not self._told_end(follower, request, known):
            self._followers.follow(request, follower)
            self._driver.tell(RequestCancelled(request=request))

    def _cancel_if(self, request: str, *, unwanted: bool) -> None:
        if unwanted:
            log.info("cancelled", extra=about(request=request, reason="nobody waits for it"))
            self._driver.tell(RequestCancelled(request=request))

    # ---- what the scheduler decided

    def accepted(self, request: str, record: RequestRecord) -> None:
        self._timeouts.discard(request)
        self._quotas.decided(request, accepted=True)
        lazily = request not in self._awaited
        self._awaited.discard(request)
        self._followers.tell(request, self._accepted_note(request, record), lazily=lazily)
        for _, ask_again in self._undecided.pop(request, ()):
            ask_again()

    def refused(self, command: RefuseRequest) -> None:
        reason = command.reason
        if command.request in self._timeouts and command.kind is RefusalKind.IMPOSSIBLE:
            reason += TIMEOUT_IS_SLO
        log.info("refused", extra=about(request=command.request, reason=reason))
        error = refusal_error(command.kind, reason, command.retry_after_us)
        self._end(command.request, error)

    def _end(self, request: str, error: Exception) -> None:
        """A request is not admitted."""
        self._timeouts.discard(request)
        self._awaited.discard(request)
        self._quotas.decided(request, accepted=False)
        self._interest.end(request)
        self.payloads.forget(request)
        self._followers.tell_end(request, _refused_note(request, error))
        for follower, _ in self._undecided.pop(request, ()):
            _refuse(follower, request, error)

    def _told_end(
        self, follower: Follower, request: str, known: RequestRecord | AnsweredRequest
    ) -> bool:
        """Tell a follower the result of a request that has one, once that is durable; whether it
        has one."""
        if not isinstance(known, AnsweredRequest):
            return False
        result = model.Result.FromString(known.result)
        note = result_note(request, result, known.outputs)
        self._say_who_comes(note, known)
        self._driver.when_durable(lambda: follower.put(note))
        return True

    def _say_who_comes(self, note: wire.ControllerNote, known: AnsweredRequest) -> None:
        """Who may still come for the outputs, and for how long they can."""
        note.shared = known.shared
        note.fetch_within_us = self._shell.requests.fetch_within_us(known, self._driver.now_us)

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

    def answered(self, answer: AnswerRequest, result: model.Result, outputs: Outputs) -> None:
        request = answer.request
        note = result_note(request, result, outputs)
        if isinstance(known := self._find(request), AnsweredRequest):
            self._say_who_comes(note, known)
        self._followers.tell_end(request, note)
        self._interest.end(request)
        self.payloads.forget(request)
        log.debug(
            "answered",
            extra=about(request=answer.request, outcome=answer.outcome, in_time=answer.slo_met),
        )

    def _accepted_note(
        self, request: str, known: RequestRecord | AnsweredRequest, *, repeated: bool = False
    ) -> wire.ControllerNote:
        accepted = wire.Accepted(
            application=known.application,
            repeated=repeated,
            content_hash=known.content_hash,
            store_payload=isinstance(known, RequestRecord) and request not in self.payloads,
        )
        return wire.ControllerNote(request_id=request, accepted=accepted)


def _unknown(request: str) -> NotFound:
    return NotFound(
        f"no request {request} is known; it may have ended too long ago, or never been accepted"
    )


def _refuse(follower: Follower, request: str, error: Exception) -> None:
    follower.put(_refused_note(request, error))


def _refused_note(request: str, error: Exception) -> wire.ControllerNote:
    return wire.ControllerNote(request_id=request, refused=refusal(wire.Refused, error))
