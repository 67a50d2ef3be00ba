"""The requests that this gateway has to do with, and what is known about each of them.

No I/O and no waiting happens here: calls put requests in and leave them, the controller's notes
tell what became of them, and two functions carry away what follows from it (`send` a note to the
controller, `discard` data from the remote store).

**Who may write a payload.** Anyone, at once: a payload is stored under the request's id and the
fingerprint of its content (`storage.names`) while the controller decides. The controller tells the
first stage's invoker which fingerprint it has accepted. Whoever used the same id for something
else, on whichever gateway, is refused and takes its own payload away again; a repeat stores the
same bytes once more, without harm. So there is no owner to agree on between gateways, and a repeat
heals what a gateway left undone when it died.

**Who waits.** Every call that is interested in a request is counted. When the last one has gone:

    it has ended               it is forgotten; its payload is deleted, and its outputs too if they
                               were delivered (otherwise a repeat may still get them, until expiry)
    it was submitted to be     it goes on, and is forgotten at its end
    fetched later
    it runs only because of    it is cancelled
    a call that has gone
    it was submitted before,   it goes on: somebody else may wait for it
    or only asked about

**When the link breaks.** What the controller was asked and has not answered is asked again; the
rest is followed anew, from its beginning, so news that were lost come again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from gateway.request import Question, Request
from mesh.logs import about
from mesh.problems import AlreadyExists, Exhausted, NotFound, Unavailable, problem
from protos import controller_v1_pb2 as controller
from protos import model_v1_pb2 as model
from storage.names import payload_stage

log = logging.getLogger(__name__)

Send = Callable[[controller.GatewayNote], None]


class Book:
    def __init__(self, limit: int, discard: Callable[[str, Sequence[str]], None]) -> None:
        self._limit = limit
        self._discard = discard
        self._requests: dict[str, Request] = {}
        self._send: Send | None = None
        self._calls = 0
        self.idle = asyncio.Event()  # no call waits for anything
        self.idle.set()
        self.handing_back = False
        """Whether this gateway is going away: then nothing is cancelled, as those who were waiting
        here will ask for it elsewhere."""

    def __len__(self) -> int:
        return len(self._requests)

    # ---- calls

    def submit(self, submission: controller.Submission) -> Request:
        """Wait for a request, which may be new, or known already."""
        request_id, fingerprint = submission.request_id, submission.fingerprint
        known = self._requests.get(request_id)
        if known is not None and known.submission is not None:
            if known.fingerprint != fingerprint:
                raise AlreadyExists(
                    f"request id {request_id} was used for another request; choose a new id, "
                    "or send exactly the same again"
                )
            return self._waited_for(known)
        request = self._ask(controller.GatewayNote(submission=submission), request_id)
        request.fingerprint = fingerprint
        request.submission = request.open[-1]
        return request

    def follow(self, request_id: str) -> Request:
        """Wait for a request that should be known somewhere."""
        known = self._requests.get(request_id)
        if known is not None:
            return self._waited_for(known)
        request = self._ask(controller.GatewayNote(follow=request_id), request_id)
        request.watched = True
        return request

    def watch(self, request: Request) -> Question | None:
        """Have the controller tell of a request's stages; None if it does, or if they are past."""
        if request.watched or request.result is not None:
            return None
        if self._send is None:
            raise Unavailable("the controller cannot be reached at the moment; try again")
        request.watched = True
        question = Question(controller.GatewayNote(follow=request.id))
        request.open.append(question)
        self._send(question.note)
        return question

    def cancel(self, request: Request) -> None:
        request.cancelled = True
        if self._send is not None:
            self._send(controller.GatewayNote(cancel=request.id))

    def leave(self, request: Request, *, delivered: bool = False) -> None:
        """A call has ended. `delivered`: its client has got the outputs."""
        request.waiting -= 1
        self._calls -= 1
        if self._calls == 0:
            self.idle.set()
        request.delivered |= delivered
        if request.waiting == 0 and self._requests.get(request.id) is request:
            self._last_has_left(request)

    def _ask(self, note: controller.GatewayNote, request_id: str) -> Request:
        if self._send is None:
            raise Unavailable("the controller cannot be reached at the moment; try again")
        question = Question(note)
        request = self._requests.get(request_id)
        if request is not None:
            request.open.append(question)
        elif len(self._requests) >= self._limit:
            raise Exhausted(
                f"{self._limit} requests are under way here, the most that are accepted; "
                "try again when some have ended"
            )
        else:
            request = self._requests[request_id] = Request(request_id, question)
        self._send(note)
        return self._waited_for(request)

    def _waited_for(self, request: Request) -> Request:
        request.waiting += 1
        self._calls += 1
        self.idle.clear()
        return request

    def _last_has_left(self, request: Request) -> None:
        if request.result is not None:
            del self._requests[request.id]
            self._clean_up(request, request.result)
        elif request.submission is None:
            del self._requests[request.id]
        elif request.kept or self.handing_back or request.cancelled:
            pass  # its end will be heard of
        elif request.first or request.open:
            log.info(
                "request cancelled", extra=about(request=request.id, reason="its client has gone")
            )
            self.cancel(request)

    def _clean_up(self, request: Request, result: model.Result) -> None:
        useless = [payload_stage(request.fingerprint)] if request.submission is not None else []
        if request.delivered or result.outcome != model.OUTCOME_DONE:
            useless += result.output_stages
        if useless:
            self._discard(request.id, useless)

    # ---- the controller

    def hear(self, note: controller.ControllerNote) -> None:
        """What the controller says. About requests that were forgotten there is nothing to do."""
        request = self._requests.get(note.request_id)
        if request is None:
            return
        match note.WhichOneof("note"):
            case "accepted":
                self._accepted(request, note.accepted)
            case "refused":
                self._refused(request, note.refused)
            case "progress":
                progress = note.progress
                # After a link broke, the past is told once more
                request.progress.setdefault(
                    (progress.stage, progress.task, progress.finished), progress
                )
                request.tell()
            case "result":
                self._ended(request, note.result)
            case _:
                pass  # the controller is newer than this

    def _accepted(self, request: Request, accepted: controller.Accepted) -> None:
        request.application = accepted.application
        if request.open:
            question = request.open.popleft()
            if question is request.submission:
                request.first = not accepted.repeated
            question.settle(None)

    def _refused(self, request: Request, refused: controller.Refused) -> None:
        error = problem(refused.code, refused.message)
        question = request.open.popleft() if request.open else None
        if question is None and isinstance(error, NotFound):
            error = Unavailable(
                f"the controller has forgotten request {request.id}, it must have started anew; "
                "submit it again"
            )
        if question is not None and question is request.submission:
            self._discard(request.id, [payload_stage(request.fingerprint)])
        if question is None or question is request.origin:
            self._lose(request, question, error)
        else:
            request.submission = None
            question.settle(error)

    def _lose(self, request: Request, question: Question | None, error: Exception) -> None:
        log.info("request refused", extra=about(request=request.id, reason=str(error)))
        del self._requests[request.id]
        for unanswered in (question, *request.open):
            if unanswered is not None:
                unanswered.settle(error)
        request.finish(None, error)

    def _ended(self, request: Request, result: model.Result) -> None:
        if request.submission is not None:
            log.info(
                "request ended",
                extra=about(
                    request=request.id,
                    application=result.application,
                    outcome=model.Outcome.Name(result.outcome).removeprefix("OUTCOME_").lower(),
                    slo_met=result.slo_met,
                    latency_us=result.latency_us,
                ),
            )
        request.finish(result)
        if request.waiting == 0:
            self._last_has_left(request)

    # ---- the link to it

    def link_made(self, send: Send) -> None:
        self._send = send
        for note in self._questions():
            send(note)

    def link_lost(self) -> None:
        self._send = None

    def give_up(self, error: Exception) -> None:
        """Nobody should go on waiting here. The requests themselves are not concerned."""
        for request in list(self._requests.values()):
            if request.result is None:
                self._lose(request, None, error)

    def _questions(self) -> Iterator[controller.GatewayNote]:
        for request in self._requests.values():
            if request.result is not None:
                continue
            if request.open:
                yield from (question.note for question in request.open)
            else:
                yield controller.GatewayNote(follow=request.id)
            if request.cancelled:
                yield controller.GatewayNote(cancel=request.id)
