"""What is done for one request, whichever call it came by: take it in, wait, read its outputs.

A call that was given a request by `take_in` or `find` must `leave` it in the end.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext

from esg.errors import Fault
from esg.gateway.identity import Caller, Identities
from esg.gateway.rate_limits import ClientQuotas
from esg.gateway.request import TrackedRequest
from esg.gateway.request_table import RequestTable
from esg.gateway.validation import check_id, checked
from esg.protos import gateway_v1_pb2 as public
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import FailedPrecondition, NotFound, Unavailable
from esg.runtime.security.ownership import owned
from esg.runtime.settings import GatewaySettings
from esg.storage.errors import Missing
from esg.storage.keys import payload_stage
from esg.storage.redis_store import RedisStore


def going_away() -> Unavailable:
    return Unavailable("this gateway is going away; try again, with the same id")


class Requests:
    def __init__(
        self, settings: GatewaySettings, book: RequestTable, store: RedisStore, callers: Identities
    ) -> None:
        self._settings = settings
        self._book = book
        self._store = store
        self._callers = callers
        self.limits = ClientQuotas(settings.max_streams, time.monotonic)
        self.leave = book.leave

    async def take_in(
        self,
        asked: public.SubmitRequest,
        payload: bytes,
        caller: Caller,
        remaining_s: float | None,
        *,
        fetched_later: bool = False,
    ) -> TrackedRequest:
        """Check a request, store its payload, and have the controller accept it."""
        if self._book.handing_back:
            raise going_away()
        caller = self._callers.still(caller)
        self.limits.take(caller)
        submission = await checked(asked, payload, remaining_s, self._settings, caller.owner)
        submission.fetched_later = fetched_later
        # A client repeats by itself what it had no answer to; the payload counts once
        repeated = self._book.submitted(submission.request_id)
        with nullcontext() if repeated else self.limits.payload(caller, len(payload)):
            request = self._book.submit(submission, caller.quota.in_flight)
            question = request.submission
            assert question is not None
            durably = fetched_later and self._settings.durable_payloads
            storing = request.storing
            if storing is None or (durably and not request.durable):
                storing = self._begin_storing(request, payload, durably=durably)
            try:
                await question.accepted()
                await self._stored(request, storing)
            except BaseException:
                self._book.leave(request)
                raise
        return request

    def _begin_storing(
        self, request: TrackedRequest, payload: bytes, *, durably: bool
    ) -> asyncio.Task[None]:
        """While the controller decides; it will be there when the first stage wants it. If nobody
        waits for the request, nobody could bring its payload again: it has to be durable, also if
        somebody who waits has brought it before."""

        def stored(storing: asyncio.Task[None]) -> None:
            failed = storing.cancelled() or storing.exception() is not None
            if failed and request.storing is storing:
                request.storing = None  # a repeat brings it again

        name = payload_stage(request.content_hash)
        put = self._store.put(request.id, name, payload, durably=durably)
        request.storing, request.durable = asyncio.create_task(put), durably
        request.storing.add_done_callback(stored)
        return request.storing

    async def _stored(self, request: TrackedRequest, storing: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(storing)  # others may wait for it too
        except FailedPrecondition:
            raise  # it will not be submitted again
        except Fault:
            # The client is told to try again, and then finds the request waiting for its payload
            request.kept = True
            raise

    async def find(
        self, request_id: str, caller: Caller, *, stages: bool = False
    ) -> TrackedRequest:
        """A request that was taken in before, here or elsewhere; with `stages`, all that has
        happened to it is known, and all that will happen is heard of."""
        inside = owned(caller.owner, check_id(request_id))
        request = self._book.follow(inside, caller.owner)
        try:
            await request.origin.accepted()
            watching = self._book.watch(request) if stages else None
            if watching is not None:
                await watching.accepted()
        except BaseException:
            self._book.leave(request)
            raise
        return request

    async def reply(self, request: TrackedRequest) -> public.SubmitReply:
        """Wait for a request's end: its result, with its outputs if they fit into one message."""
        result = await request.end()
        outputs = await self.outputs(request, result)
        if sum(len(content) for _, content in outputs) > self._settings.inline_bytes:
            return public.SubmitReply(result=result, fetch_outputs=True)
        return public.SubmitReply(
            result=result,
            outputs=[public.Output(stage=stage, content=content) for stage, content in outputs],
        )

    async def outputs(
        self, request: TrackedRequest, result: model.Result
    ) -> list[tuple[str, bytes]]:
        if result.outcome != model.OUTCOME_DONE:
            return []
        stages = list(result.output_stages)
        try:
            if len(stages) == 1:
                contents = [await self._store.get(request.id, stages[0])]
            else:
                contents = await asyncio.gather(
                    *(self._store.get(request.id, stage) for stage in stages)
                )
        except Missing:
            raise NotFound(
                f"the outputs of request {request.name} are gone: they were delivered before, have "
                "expired, or were lost with the memory of a Redis; Get still has its result, a new "
                "request id runs it again"
            ) from None
        return list(zip(stages, contents, strict=True))

    async def cancel(self, request: TrackedRequest) -> bool:
        """Whether it was cancelled; false if it had ended before."""
        if request.result is not None:
            return False
        self._book.cancel(request)
        result = await request.end()
        return result.outcome == model.OUTCOME_CANCELLED

    async def progress(self, request: TrackedRequest) -> AsyncIterator[model.StageProgress]:
        """Every stage as it begins and ends, until the request has ended."""
        told = 0
        while True:
            news, ended = request.news, request.ended.is_set()
            for progress in request.stages()[told:]:
                told += 1
                yield progress
            if ended:
                return
            await news.wait()
