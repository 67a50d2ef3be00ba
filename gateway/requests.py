"""The use cases of requests, whichever call they came by: submit, follow, reply, cancel.

A call waits for a request in a block: `async with requests.submitted(...) as request`, or
`followed(...)`. When the last such block has ended, `request_table` sees to what follows.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import grpc

from esg.errors import Fault
from esg.gateway.access.identity import Caller, Identities
from esg.gateway.inference.models import ModelDirectory
from esg.gateway.inference.payloads import fitted
from esg.gateway.limits.memory_budget import MemoryBudget
from esg.gateway.limits.rate_limits import ClientQuotas, PayloadCharge
from esg.gateway.limits.validation import check_id, check_payload, checked
from esg.gateway.request import PendingReply, RequestPayload, TrackedRequest
from esg.gateway.request_table import RequestTable
from esg.protos import controller_v1_pb2 as controller
from esg.protos import gateway_v1_pb2 as public
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import InvalidRequest, NotFound, Unavailable
from esg.runtime.security.ownership import owned
from esg.runtime.settings import GatewaySettings
from esg.storage.errors import Missing, StorageRefused
from esg.storage.redis_store import RedisStore

Context = grpc.aio.ServicerContext[Any, Any]

STORED_AT_ONCE = 2**18
SHARED_AT_ONCE = 2**21
"""A larger payload is not stored, or not written to where its reader has it at once, before its
request is accepted."""


def going_away() -> Unavailable:
    return Unavailable("this gateway is going away; try again, with the same id")


def _over_all(caller: Caller, payload_bytes: int) -> controller.Quota:
    """A client's quota, which the controller keeps over all gateways."""
    return controller.Quota(
        client=caller.name,
        requests_per_s=caller.quota.requests_per_s,
        burst=caller.quota.burst,
        in_flight=caller.quota.in_flight,
        bytes_per_day=caller.quota.bytes_per_day,
        payload_bytes=payload_bytes,
    )


class Requests:
    def __init__(
        self,
        settings: GatewaySettings,
        table: RequestTable,
        store: RedisStore,
        identities: Identities,
        memory: MemoryBudget,
        models: ModelDirectory,
    ) -> None:
        self._settings = settings
        self._models = models
        self._table = table
        self._store = store
        self._identities = identities
        self.quotas = ClientQuotas(settings.max_streams, memory, time.monotonic)

    def admit(self, caller: Caller) -> Caller:
        """One request, before anything is done for it; refused if its client has sent too many."""
        caller = self._identities.still(caller)
        self.quotas.take(caller)
        return caller

    def charge(self, asked: public.SubmitRequest, caller: Caller) -> PayloadCharge:
        """What the payload of a request is paid with. A client repeats by itself what it had no
        answer to; the payload counts once."""
        repeated = self._table.submitted(owned(caller.owner, asked.request_id))
        return self.quotas.payload(caller, counted=not repeated)

    @asynccontextmanager
    async def submitted(
        self,
        asked: public.SubmitRequest,
        charge: PayloadCharge,
        caller: Caller,
        remaining_s: float | None,
        *,
        fetched_later: bool = False,
        label: str = "",
    ) -> AsyncIterator[TrackedRequest]:
        """Check a request, store its payload, have the controller accept it, and wait for it. It
        was admitted, and its payload charged for. With a `label`, an id that is made up begins with
        it."""
        if self._table.handing_back:
            raise going_away()
        # Again, as a stream or a payload in pieces may have begun long ago: the token may have been
        # removed or replaced since, or its quotas changed
        caller = self._identities.still(caller)
        if asked.in_parts or self._models.packs(asked.application, caller.owner):
            await self._fit(asked, charge, caller.owner)
        submission = await checked(
            asked,
            charge,
            remaining_s,
            self._settings,
            caller.owner,
            fetched_later=fetched_later,
            label=label,
        )
        submission.quota.CopyFrom(_over_all(caller, len(charge.content)))
        with ExitStack() as waiting:
            size = len(charge.content)
            shared = not fetched_later and self._store.has_room(size)
            submission.awaits_acceptance = size > (SHARED_AT_ONCE if shared else STORED_AT_ONCE)
            request = self._table.submit(submission, caller.quota.in_flight)
            waiting.callback(self._table.leave, request)
            went_along = await self._accepted(request, charge, fetched_later=fetched_later)
            charge.settle(held=went_along)
            request.kept |= fetched_later
            yield request

    async def _fit(self, asked: public.SubmitRequest, charge: PayloadCharge, owner: str) -> None:
        """Make the payload what the application takes, of the inputs that are packed in it."""
        check_payload(len(charge.content), self._settings)
        model = await self._models.find(asked.application, owner)
        charge.content = fitted(model, charge.content, in_parts=asked.in_parts)

    async def _accepted(
        self, request: TrackedRequest, charge: PayloadCharge, *, fetched_later: bool
    ) -> bool:
        """Wait until the controller has accepted it, and its payload is stored, or went along with
        the request: whether it did, and is held here until the request has ended.

        It is offered to the store while the controller decides, and will be there when the first
        stage wants it. A large one is stored when the controller has agreed, as a refused one would
        be work for nothing; and so is one that has to be durable: if nobody waits for the request,
        nobody could bring its payload again, also if somebody who waits has brought it before.
        """
        question, payload = request.asked.submission, request.payload
        assert question is not None
        assert payload is not None
        if payload.went_along and not fetched_later:
            await question.accepted()
            return True
        durably = fetched_later and self._settings.durable_payloads
        if not fetched_later and await self._shared(request.id, payload, charge.content, question):
            return False
        early = len(charge.content) <= STORED_AT_ONCE and not durably
        if not early:
            await question.accepted()
        storing = payload.storing(durably=durably)
        if storing is None:
            name, content = (request.id, payload.stage), charge.content
            if early:
                put = self._offered(name, content, question)
            else:
                put = self._store.put(*name, content, durably=durably)
            storing = payload.store(put, durably=durably)
        await question.accepted()
        try:
            await asyncio.shield(storing)  # others may wait for it too
        except StorageRefused:
            self._table.keep_not(request)
            raise  # it will not be submitted again
        except Fault:
            # The client is told to try again, and then finds the request waiting for its payload
            request.kept = True
            raise
        return False

    async def _shared(
        self, request: str, payload: RequestPayload, content: bytes, question: PendingReply
    ) -> bool:
        """Have the controller accept a request with its payload where a node on this machine has it
        at once: before that can hear of it, unless that takes long. False if there is no room."""
        share, stage = self._store.share, payload.stage
        if payload.in_store or not self._store.has_room(len(content)):
            return False
        if len(content) <= SHARED_AT_ONCE:
            payload.shared = share(request, stage, content)
        else:
            await question.accepted()
            writing = asyncio.ensure_future(asyncio.to_thread(share, request, stage, content))
            try:
                payload.shared = await asyncio.shield(writing)
            except asyncio.CancelledError:
                writing.add_done_callback(lambda _: self._store.unshare(request, stage))
                raise
        if payload.shared:
            await question.accepted()
        return payload.shared

    async def _offered(self, name: tuple[str, str], content: bytes, question: PendingReply) -> None:
        """Store a payload while the controller decides, for good only if it agrees. One that was
        refused is not deleted: the same request may have been accepted through another gateway,
        which relies on the same payload."""
        await self._store.offer(*name, content)
        await question.accepted()
        if not await self._store.keep(*name):
            await self._store.put(*name, content)

    @asynccontextmanager
    async def followed(
        self, request_id: str, caller: Caller, *, stages: bool = False
    ) -> AsyncIterator[TrackedRequest]:
        """Wait for a request that was submitted before, here or elsewhere; with `stages`, all that
        has happened to it is known, and all that will happen is heard of."""
        inside = owned(caller.owner, check_id(request_id))
        request = self._table.follow(inside, caller.owner)
        with ExitStack() as waiting:
            waiting.callback(self._table.leave, request)
            await request.asked.origin.accepted()
            watching = self._table.watch(request) if stages else None
            if watching is not None:
                await watching.accepted()
            yield request

    def wait_until_sent(self, request: TrackedRequest, context: Context, *, whole: bool) -> None:
        """Wait for it on behalf of a unary call, whose reply leaves when its handler has returned.
        `whole`: the reply has all outputs."""
        self._table.wait_for(request)

        def sent(_: Context) -> None:
            request.delivered |= whole and not context.cancelled()
            self._table.leave(request)

        context.add_done_callback(sent)  # type: ignore[arg-type] # its stub wants a class

    async def valid_end(self, request: TrackedRequest) -> model.Result:
        """Wait for the end of a request, for whoever sent its payload: if a function could do
        nothing with that, it is refused like any other mistake of a caller."""
        result = await request.history.end()
        if result.outcome == model.OUTCOME_INVALID:
            raise InvalidRequest(result.reason)
        return result

    async def reply(self, request: TrackedRequest) -> public.SubmitReply:
        """Wait for a request's end: its result, with its outputs if they fit into one message."""
        result = await self.valid_end(request)
        outputs = await self.outputs(request, result)
        if sum(len(content) for _, content in outputs) > self._settings.inline_bytes:
            return public.SubmitReply(result=result, fetch_outputs=True)
        return public.SubmitReply(
            result=result,
            outputs=[
                public.Output(stage=stage, content=bytes(content)) for stage, content in outputs
            ],
        )

    async def outputs(
        self, request: TrackedRequest, result: model.Result
    ) -> list[tuple[str, bytes | memoryview]]:
        """The outputs of a request that has ended, by stage."""
        if result.outcome != model.OUTCOME_DONE:
            return []
        stored, outputs = request.in_store(result.output_stages), request.outputs
        try:
            if len(stored) == 1:
                contents = [await self._store.get(request.id, stored[0])]
            elif stored:
                contents = await asyncio.gather(
                    *(self._store.get(request.id, stage) for stage in stored)
                )
            else:
                contents = []
        except Missing:
            raise NotFound(
                f"the outputs of request {request.name} are gone: they were delivered before, have "
                "expired, or were lost with the memory of a Redis; Get still has its result, a new "
                "request id runs it again"
            ) from None
        found = outputs | dict(zip(stored, contents, strict=True))
        return [(stage, found[stage]) for stage in result.output_stages]

    async def stored_outputs(self, request: TrackedRequest) -> list[public.StoredOutput]:
        """What can be fetched of a request that was submitted to be fetched later; nothing while it
        is under way."""
        result, left_s = request.history.result, request.fetch_within_s
        if result is None or result.outcome != model.OUTCOME_DONE or not left_s:
            return []
        sizes: dict[str, int | None] = {s: len(made) for s, made in request.outputs.items()}
        stored = request.in_store(result.output_stages)
        if stored:
            sizes |= await self._store.expire(request.id, stored, left_s)
        return [
            public.StoredOutput(stage=stage, bytes=size)
            for stage, size in sizes.items()
            if size is not None
        ]

    async def cancel(self, request: TrackedRequest) -> bool:
        """Whether it was cancelled; false if it had ended before."""
        if request.history.result is not None:
            return False
        self._table.cancel(request)
        result = await request.history.end()
        return result.outcome == model.OUTCOME_CANCELLED

    async def progress(self, request: TrackedRequest) -> AsyncIterator[model.StageProgress]:
        """Every stage as it begins and ends, until the request has ended."""
        told, history = 0, request.history
        while True:
            news, ended = history.news, history.ended.is_set()
            for progress in history.stages()[told:]:
                told += 1
                yield progress
            if ended:
                return
            await news.wait()
