"""The requests that this gateway has to do with, and what is known about each of them.

No I/O and no waiting happens here: calls put requests in and leave them, the controller's notes
tell what became of them, and four functions carry away what follows from it (`send` a note to the
controller, `discard` data from the remote store, or `keep` it there for so long, `store` a payload
there).

**Idempotency.** The idempotency key is the request's id: whatever is submitted again under the same
id with the same content (`content_hash`) is the same request, and runs once. Whether it is known is
decided here for the requests of this gateway, and by the controller for those of all gateways.

**Who may write a payload.** Anyone, at once: a payload is stored under the request's id and the
content_hash of its content (`esg.names`) while the controller decides. The controller tells the
first stage's invoker which content_hash it has accepted. What is stored before that expires soon;
who is accepted has it kept, and who is refused does nothing: the same bytes may be those that
another gateway's request was accepted with. A repeat stores them once more, without harm. So there
is no owner to agree on between gateways, and a repeat heals what a gateway left undone when it
died. A small payload goes along with the submission instead, and is stored only if the controller
has lost it (`small_payloads`).

**Questions.** What the controller was asked about a request, and what is asked again when the link
broke, is its `Inquiry` (`esg.core.sessions.inquiry`). A request stays here until every question
about it is answered, even if nobody waits any more; otherwise a late answer would be taken for the
answer to something else. And while a submission is unanswered nothing else is asked: whether the id
is ours is not known yet.

**Who waits.** Every call that is interested in a request is counted. When the last one has gone:

    a question is open         it stays until that is answered
    it has ended               it is forgotten; its payload is deleted, and its outputs too unless
                               somebody may still come for them: nobody got them, or clients wait
                               through other gateways, or it was submitted to be fetched later
    it was only asked about    the controller is told, and it is forgotten
    it was submitted to be     it goes on, and is forgotten at its end
    fetched later
    it was submitted           the controller is told, which cancels it unless it is wanted through
                               another gateway; it is forgotten at its end

**When a payload is lost**, because Redis died and keeps no log, those who wait are told to submit
the request again.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from esg.core.sessions.inquiry import Inquiry, RefusalScope
from esg.gateway.request import PendingReply, RequestPayload, TrackedRequest
from esg.names import payload_stage
from esg.protos import controller_v1_pb2 as controller
from esg.protos import model_v1_pb2 as model
from esg.runtime.logs import about
from esg.runtime.redaction import redacted
from esg.runtime.rpc.status import AlreadyExists, Exhausted, NotFound, Unavailable, refusal_error
from esg.runtime.security.ownership import owned, plainly, seen
from esg.runtime.wire.copies import changed
from esg.runtime.wire.enums import outcome_from_wire

log = logging.getLogger(__name__)

Send = Callable[[controller.GatewayNote], None]


class RequestTable:
    """The requests of one gateway. A call is counted from `submit` or `follow` to its `leave`;
    `esg.gateway.requests` sees to that."""

    def __init__(
        self,
        limit: int,
        discard: Callable[[str, Sequence[str]], None],
        keep: Callable[[str, Sequence[str], float], None],
        ended: Callable[[model.Result], None] = lambda _: None,
        store: Callable[[TrackedRequest], bool] = lambda _: False,
    ) -> None:
        self._limit = limit
        self._store = store
        self._count_ended = ended
        self._discard = discard
        self._keep = keep
        self._requests: dict[str, TrackedRequest] = {}
        self._of_owner: Counter[str] = Counter()
        self._send: Send | None = None
        self._calls = 0
        self.idle = asyncio.Event()  # no call waits for anything
        self.idle.set()
        self.handing_back = False
        """Whether this gateway is going away: then nothing is cancelled, as those who were waiting
        here will ask for it elsewhere."""

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def linked(self) -> bool:
        """Whether the controller can be reached, as far as is known."""
        return self._send is not None

    def applications(self) -> set[str]:
        """What requests here are for. Whether a client's application is its own or everybody's is
        not known here, so both names are among them."""
        names = {(request.owner, request.application) for request in self._requests.values()}
        return {name for owner, seen_as in names for name in (seen_as, owned(owner, seen_as))}

    # ---- calls

    def submit(self, submission: controller.Submission, most: int = 0) -> TrackedRequest:
        """Wait for a request, which may be new, or known already (see Idempotency above). With
        `most`, its owner may have so many under way."""
        request_id, content_hash = submission.request_id, submission.content_hash
        owner = submission.owner
        known = self._requests.get(request_id)
        if known is not None and known.asked.submission is not None:
            if known.payload is None or known.payload.content_hash != content_hash:
                raise AlreadyExists(
                    f"request id {known.name} was used for another request; choose a new id, "
                    "or send exactly the same again"
                )
            known.shared |= submission.fetched_later != known.told_to_keep
            if submission.fetched_later and not known.told_to_keep:
                # Only the controller can keep it, whoever leaves, and its result for longer
                self._submit_again(known, submission)
            return self.wait_for(known)
        note = controller.GatewayNote(submission=submission)
        if known is None:
            if most and self._of_owner[owner] >= most:
                raise Exhausted(
                    f"{owner} has {most} requests under way, the most that are allowed; "
                    "try again when some have ended"
                )
            request = self._begin(request_id, note, owner)
        else:
            request = known
            request.asked.submission = self._ask(request, note)
        request.payload = RequestPayload(submission)
        request.told_to_keep = submission.fetched_later
        return self.wait_for(request)

    def _submit_again(self, request: TrackedRequest, submission: controller.Submission) -> None:
        note = controller.GatewayNote(submission=submission)
        request.told_to_keep = submission.fetched_later
        self._send_if_linked(note)
        request.asked.submit_again(PendingReply(note))

    def submitted(self, request_id: str) -> bool:
        """Whether it was, and is still known here: then the next one is a repeat."""
        known = self._requests.get(request_id)
        return known is not None and known.asked.submission is not None

    def follow(self, request_id: str, owner: str = "") -> TrackedRequest:
        """Wait for a request that should be known somewhere."""
        request = self._requests.get(request_id)
        if request is None:
            request = self._begin(request_id, controller.GatewayNote(follow=request_id), owner)
        return self.wait_for(request)

    def watch(self, request: TrackedRequest) -> PendingReply | None:
        """Have the controller tell of an accepted request's stages. Once it has accepted, those in
        the past are known; None if the request has ended, as its result has them all."""
        if request.history.result is not None:
            return None
        if request.asked.watching is None:
            self._watch(request)
        return request.asked.watching

    def cancel(self, request: TrackedRequest) -> None:
        request.asked.cancelled = True
        if request.history.result is None:
            self._send_if_linked(controller.GatewayNote(cancel=request.id))

    def keep_not(self, request: TrackedRequest) -> None:
        """A submission to be fetched later was accepted, but its payload cannot be made durable."""
        if request.told_to_keep and not request.kept:
            request.told_to_keep = False
            self._send_if_linked(controller.GatewayNote(keep_not=request.id))

    def leave(self, request: TrackedRequest) -> None:
        """A call has ended."""
        request.waiting -= 1
        self._calls -= 1
        if self._calls == 0:
            self.idle.set()
        self._tidy(request)

    def _begin(self, request_id: str, note: controller.GatewayNote, owner: str) -> TrackedRequest:
        if self._send is None:
            raise Unavailable("the controller cannot be reached at the moment; try again")
        if len(self) >= self._limit:
            raise Exhausted(
                f"{self._limit} requests are under way here, the most that are accepted; "
                "try again when some have ended"
            )
        asked = Inquiry(PendingReply(note), submitted=note.HasField("submission"))
        request = self._requests[request_id] = TrackedRequest(request_id, asked, owner)
        self._of_owner[owner] += 1
        self._send(note)
        return request

    def _watch(self, request: TrackedRequest) -> None:
        follow = controller.GatewayNote(follow=request.id)
        request.asked.watching = self._ask(request, follow)

    def _ask(self, request: TrackedRequest, note: controller.GatewayNote) -> PendingReply:
        """One more question. While the link is down, it is kept for the next one."""
        self._send_if_linked(note)
        return request.asked.ask(PendingReply(note))

    def _send_if_linked(self, note: controller.GatewayNote) -> None:
        if self._send is not None:
            self._send(note)

    def wait_for(self, request: TrackedRequest) -> TrackedRequest:
        """One more call waits for it, until it says `leave`."""
        if request.asked.left and request.history.result is None:
            self._watch(request)  # we are there again
        request.waiting += 1
        self._calls += 1
        self.idle.clear()
        return request

    def _tidy(self, request: TrackedRequest) -> None:
        """What follows when nobody waits for it any more."""
        asked = request.asked
        if request.waiting or asked.open or self._requests.get(request.id) is not request:
            return
        if request.history.result is not None:
            self._forget(request)
            self._discard_all(request, request.history.result)
        elif self.handing_back:
            pass  # those who were waiting here will ask for it elsewhere
        elif asked.submission is None:
            self._withdraw(request)
            self._forget(request)
        elif not (request.kept or asked.cancelled):
            log.info("request left", extra=about(request=request.id, reason="its client has gone"))
            self._withdraw(request)

    def _withdraw(self, request: TrackedRequest) -> None:
        """Tell the controller that nobody waits here any more."""
        request.asked.left = True
        self._send_if_linked(controller.GatewayNote(leave=request.id))

    def _forget(self, request: TrackedRequest) -> None:
        del self._requests[request.id]
        self._of_owner[request.owner] -= 1
        if not self._of_owner[request.owner]:
            del self._of_owner[request.owner]

    def _discard_all(self, request: TrackedRequest, result: model.Result) -> None:
        """Delete what is left of a request that has ended: its payload, what its stages had
        published for each other, should the node that did so be gone, though on one node alone they
        had no reason to; and its outputs, unless somebody may still come for them."""
        wanted = result.outcome == model.OUTCOME_DONE and (request.shared or not request.delivered)
        kept = set(result.output_stages) if wanted else set()
        travelled = len({stage.node for stage in result.stages}) > 1
        between = [stage.stage for stage in result.stages] if travelled else []
        stages = request.in_store(dict.fromkeys([*between, *result.output_stages]))
        useless = [stage for stage in stages if stage not in kept]
        payload = [request.accepted_payload] if request.leaves_payload else []
        if payload or useless:
            self._discard(request.id, [*payload, *useless])

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
                request.history.hear(note.progress)
            case "result":
                request.shared |= note.shared
                request.fetch_for(note.fetch_within_us)
                self._ended(request, note.result, note.outputs)
            case "payload_lost":
                self._payload_lost(request)
            case _:
                pass  # the controller is newer than this

    def _accepted(self, request: TrackedRequest, accepted: controller.Accepted) -> None:
        request.application = seen(request.owner, accepted.application) or ""
        request.accepted_payload = payload_stage(accepted.content_hash)
        question = request.asked.accepted()
        if question is not None:
            question.settle(None)
        if accepted.store_payload and request.payload is not None and request.payload.went_along:
            self._store(request)
        if request.asked.cancelled:
            self.cancel(request)  # once more: it may have been lost with a link
        self._tidy(request)

    def _refused(self, request: TrackedRequest, refused: controller.Refused) -> None:
        error: Exception = refusal_error(refused, plainly(request.owner, refused.message))
        question, scope = request.asked.refused()
        payload = request.payload
        if payload is not None and payload.shared and scope is not RefusalScope.QUESTION:
            self._discard(request.id, [payload.stage])
        if scope is RefusalScope.REQUEST:
            if isinstance(error, NotFound) and request.application:
                error = Unavailable(
                    f"the controller has forgotten request {request.name}, it must have started "
                    "anew; submit it again"
                )
            log.info("request refused", extra=about(request=request.id, reason=str(error)))
            self._lose(request, error)
        elif scope is RefusalScope.SUBMISSION:
            request.payload = None
        else:
            request.application = ""
        question.settle(error)
        self._tidy(request)

    def _lose(self, request: TrackedRequest, error: Exception) -> None:
        """End a request with an error for its callers, unless it has ended before."""
        for question in request.asked.open:
            question.settle(error)
        request.asked.open.clear()
        if request.history.result is None:
            self._forget(request)
            request.history.finish(None, error)

    def _payload_lost(self, request: TrackedRequest) -> None:
        """The callers are told to submit it again, since a client that waits still has what it
        sent; that finds the request waiting for its payload. Not so if it is to be fetched later,
        or if the payload is on its way. Should the note come at a bad time, there will be another
        one: a job is tried more than once. A payload that went along is still here, and so may be
        one that was where a node should have had it."""
        if request.payload is not None and (request.payload.went_along or request.payload.shared):
            if self._store(request):
                return
        if request.asked.submission is None or request.kept or request.asked.open:
            return
        if request.payload is not None and request.payload.on_its_way:
            return
        if request.waiting:
            log.warning("payload lost", extra=about(request=request.id))
            self._lose(
                request,
                Unavailable(
                    f"the payload of request {request.name} was lost; submit it again, with the "
                    "same id"
                ),
            )

    def _ended(
        self,
        request: TrackedRequest,
        result: model.Result,
        outputs: Iterable[controller.StageContent],
    ) -> None:
        if request.history.result is not None:
            return  # whoever asks about what has ended is told again
        request.outputs = {output.stage: output.content for output in outputs}
        if request.asked.submission is not None:
            log.info(
                "request ended",
                extra=about(
                    request=request.id,
                    application=result.application,
                    outcome=outcome_from_wire(result.outcome),
                    slo_met=result.slo_met,
                    latency_us=result.latency_us,
                    **({"reason": result.reason} if result.reason else {}),
                ),
            )
            self._count_ended(result)
        application = seen(request.owner, result.application) or ""
        # what failed inside is told with where; an invalid input by its function, for the client
        told = result.outcome == model.OUTCOME_INVALID
        reason = result.reason if told else redacted(result.reason)
        shown = changed(result, request_id=request.name, application=application, reason=reason)
        request.history.finish(shown)
        if request.fetch_within_s and result.outcome == model.OUTCOME_DONE:
            stored = request.in_store(result.output_stages)
            if stored:
                self._keep(request.id, stored, request.fetch_within_s)
        self._tidy(request)

    # ---- the link to it

    def link_made(self, send: Send) -> None:
        self._send = send
        for request in self._requests.values():
            follow = PendingReply(controller.GatewayNote(follow=request.id))
            ended = request.history.result is not None
            for question in request.asked.again(None if ended else follow):
                send(question.note)

    def link_lost(self) -> None:
        self._send = None

    def give_up(self, error: Exception) -> None:
        """End the waiting of all callers. The requests themselves are not concerned: those that
        nobody waits for are kept, to be followed when there is a link again."""
        for request in list(self._requests.values()):
            if request.waiting:
                self._lose(request, error)
