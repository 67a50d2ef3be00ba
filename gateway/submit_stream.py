"""Many requests over one stream: groups come in, replies go out as they are ready, in groups.

A stream is read no faster than it is answered (back-pressure): while as many requests as there may
be have no reply yet, or their payloads fill what memory their client has, nothing more is read, and
gRPC's flow control keeps the rest with the client.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

from esg.errors import Fault, Rejected
from esg.gateway.identity import Caller
from esg.gateway.rate_limits import PayloadCharge
from esg.gateway.request import TrackedRequest
from esg.gateway.requests import Requests
from esg.gateway.uploads import detached
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.chunks import grouped
from esg.runtime.rpc.status import refusal
from esg.runtime.settings import GatewaySettings

Outgoing = tuple[public.Reply, Callable[[], None]]
"""A reply, and whom to tell that it was sent."""


class SubmitStream:
    """One client's stream. Every request on it that was let in has a task, until its reply was
    sent."""

    def __init__(
        self,
        requests: Requests,
        caller: Caller,
        remaining_s: float | None,
        settings: GatewaySettings,
    ) -> None:
        self._requests = requests
        self._caller = caller
        loop = asyncio.get_running_loop()
        self._until_s = None if remaining_s is None else loop.time() + remaining_s
        self._loop = loop
        self._message_bytes = settings.inline_bytes
        self._silent_s = settings.upload_silent_s
        self._unanswered = asyncio.Semaphore(settings.max_unanswered)
        self._outbox: BatchedSender[Outgoing] = BatchedSender()
        self._calls: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None

    async def replies(
        self, groups: AsyncIterator[public.SubmitGroup]
    ) -> AsyncIterator[public.ReplyGroup]:
        """Until the client has no more to ask, and has got every reply."""
        self._reader = self._loop.create_task(self._read(groups))
        self._reader.add_done_callback(lambda _: self._close_if_done())
        try:
            async for ready in self._outbox.groups():
                for part in grouped(ready, self._message_bytes, lambda one: one[0].ByteSize()):
                    yield public.ReplyGroup(replies=[reply for reply, _ in part])
                    for _, sent in part:
                        self._unanswered.release()
                        sent()
            if self._reader.done() and not self._reader.cancelled():
                self._reader.result()  # what was wrong with its groups is the end of the stream
        finally:
            await self._break_off()

    def hear_no_more(self) -> None:
        """Read no further; what was read is still answered."""
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self, groups: AsyncIterator[public.SubmitGroup]) -> None:
        async for group in groups:
            for asked in group.requests:
                await self._unanswered.acquire()
                await self._begin(*detached(asked))

    async def _begin(self, asked: public.SubmitRequest, payload: bytes) -> None:
        """Begin a request once it is let in and paid for, or refuse it."""
        try:
            if not asked.request_id:
                raise Rejected("request_id: is empty; on a stream answers are told apart by it")
            caller = self._requests.admit(self._caller)
            charge = self._requests.charge(asked, caller)
            await charge.wait_and_add(payload, self._silent_s)
        except (Rejected, Fault) as error:
            self._refuse(asked.request_id, error)
            return
        call = self._loop.create_task(self._call(asked, charge))
        self._calls.add(call)
        call.add_done_callback(lambda _: charge.release())  # it may never have begun
        call.add_done_callback(self._called)

    def _called(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._close_if_done()

    def _close_if_done(self) -> None:
        if not self._calls and self._reader is not None and self._reader.done():
            self._outbox.close()

    async def _call(self, asked: public.SubmitRequest, charge: PayloadCharge) -> None:
        try:
            with charge:
                left_s = None if self._until_s is None else self._until_s - self._loop.time()
                submitted = self._requests.submitted(asked, charge, self._caller, left_s)
                await self._answer(submitted)
        except Exception as error:
            self._refuse(asked.request_id, error)

    def _refuse(self, request_id: str, error: Exception) -> None:
        refused = refusal(public.Refusal, error, request=request_id)
        reply = public.Reply(request_id=request_id, refusal=refused)
        self._outbox.put((reply, lambda: None))

    async def _answer(self, submitted: AbstractAsyncContextManager[TrackedRequest]) -> None:
        async with submitted as request:
            done = await self._requests.reply(request)
            over = asyncio.Event()

            def sent() -> None:
                request.delivered |= not done.fetch_outputs
                over.set()

            self._outbox.put((public.Reply(request_id=request.name, done=done), sent))
            await over.wait()  # until then nothing of it is forgotten

    async def _break_off(self) -> None:
        """The client has gone, or has got everything: nothing goes on in its name."""
        assert self._reader is not None
        pending = [self._reader, *self._calls]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
