"""Many requests over one stream: groups come in, answers go out as they are ready, in groups."""

import asyncio
import logging
from collections.abc import AsyncIterator

from esg.errors import Fault, Rejected
from esg.gateway.identity import Caller
from esg.gateway.request import TrackedRequest
from esg.gateway.requests import Requests
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.logs import about
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.chunks import grouped
from esg.runtime.rpc.status import refusal

log = logging.getLogger(__name__)

Answer = tuple[public.Reply, TrackedRequest | None]


class SubmitStream:
    """One client's stream."""

    def __init__(
        self, desk: Requests, caller: Caller, remaining_s: float | None, message_bytes: int
    ) -> None:
        self._desk = desk
        self._caller = caller
        loop = asyncio.get_running_loop()
        self._until_s = None if remaining_s is None else loop.time() + remaining_s
        self._loop = loop
        self._message_bytes = message_bytes
        self._answers: BatchedSender[Answer] = BatchedSender()
        self._calls: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None

    async def replies(
        self, groups: AsyncIterator[public.SubmitGroup]
    ) -> AsyncIterator[public.ReplyGroup]:
        """Until the client has no more to ask, and has got every answer."""
        self._reader = self._loop.create_task(self._read(groups))
        self._reader.add_done_callback(lambda _: self._close_if_done())
        unsent: list[Answer] = []
        try:
            async for answers in self._answers.groups():
                unsent = answers
                for part in grouped(answers, self._message_bytes, lambda a: a[0].ByteSize()):
                    yield public.ReplyGroup(replies=[reply for reply, _ in part])
                    self._leave(part, delivered=True)
                    unsent = unsent[len(part) :]
            if self._reader.done() and not self._reader.cancelled():
                self._reader.result()  # what was wrong with its groups is the end of the stream
        finally:
            await self._break_off()
            self._leave(unsent, delivered=False)

    def hear_no_more(self) -> None:
        """Read no further; what was read is still answered."""
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self, groups: AsyncIterator[public.SubmitGroup]) -> None:
        async for group in groups:
            for asked in group.requests:
                call = self._loop.create_task(self._call(asked))
                self._calls.add(call)
                call.add_done_callback(self._called)

    def _called(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._close_if_done()

    def _close_if_done(self) -> None:
        if not self._calls and self._reader is not None and self._reader.done():
            self._answers.close()

    async def _call(self, asked: public.SubmitRequest) -> None:
        request = None
        try:
            if not asked.request_id:
                raise Rejected("request_id: is empty; on a stream answers are told apart by it")
            request = await self._desk.take_in(
                asked, asked.payload, self._caller, self._remaining_s()
            )
            reply = public.Reply(request_id=request.name, done=await self._desk.reply(request))
        except Exception as error:
            if not isinstance(error, Rejected | Fault):
                log.exception("call failed", extra=about(request=asked.request_id))
            refused = refusal(public.Refusal, error)
            reply = public.Reply(request_id=asked.request_id, refusal=refused)
        except asyncio.CancelledError:
            if request is not None:
                self._desk.leave(request)
            raise
        self._answers.put((reply, request))

    def _remaining_s(self) -> float | None:
        return None if self._until_s is None else self._until_s - self._loop.time()

    def _leave(self, answers: list[Answer], *, delivered: bool) -> None:
        for reply, request in answers:
            if request is not None:
                got = delivered and reply.HasField("done") and not reply.done.fetch_outputs
                self._desk.leave(request, delivered=got)

    async def _break_off(self) -> None:
        """The client has gone, or has got everything: nothing goes on in its name."""
        assert self._reader is not None
        pending = [self._reader, *self._calls]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        self._answers.close()
        async for answers in self._answers.groups():
            self._leave(answers, delivered=False)
