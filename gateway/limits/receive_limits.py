"""Receive limits: what a call may have the gateway read, paid for before it is read.

gRPC puts a message together, and decompresses it, as soon as somebody asks for it. So nobody asks
before the memory budget of its client has room for the largest message there may be; until then
gRPC's flow control leaves the bytes where they are. A call with one message is served as if it had
a stream of them, since only a stream's handler begins before a message is read.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from inspect import isasyncgenfunction
from traceback import clear_frames
from typing import Any, cast

import grpc

from esg.errors import Rejected
from esg.gateway.access.identity import Identities
from esg.gateway.limits.memory_budget import MemoryBudget, Reservation, received
from esg.runtime.rpc.status import Exhausted, aborting
from esg.runtime.rpc.wrapping import Handler, Wrapping
from esg.runtime.settings import GatewaySettings

WITH_PAYLOAD = ("/Submit", "/SubmitAsync", "/ModelInfer")
WORDS_BYTES = 2**18
"""What all other calls may say in one message: an application of as many stages as there may be,
with the longest names."""


class ReceiveLimits(Wrapping):
    """Around all calls of the gateway, health and reflection too."""

    def __init__(
        self, settings: GatewaySettings, identities: Identities, memory: MemoryBudget
    ) -> None:
        super().__init__()
        self._message_bytes = settings.max_message_bytes
        self._silent_s = settings.upload_silent_s
        self._identities = identities
        self._memory = memory

    def wrapped(self, handler: Handler, method: str) -> Handler:
        kinds = [handler.unary_unary, handler.unary_stream]
        if handler.request_streaming:
            kinds = [handler.stream_unary, handler.stream_stream]
        inner = kinds[handler.response_streaming]
        if handler.request_streaming:
            call = self._stream(inner)
        else:
            limit = WORDS_BYTES
            if method.endswith(WITH_PAYLOAD):
                limit = self._message_bytes
            call = self._single(inner, handler.request_deserializer, limit)
        return grpc.stream_stream_rpc_method_handler(
            call,
            request_deserializer=handler.request_deserializer
            if handler.request_streaming
            else None,
            response_serializer=handler.response_serializer,
        )

    def _single(self, inner: Any, decode: Callable[[bytes], Any] | None, limit: int) -> Any:
        """A call with one message."""

        many = isasyncgenfunction(inner)

        async def call(_: AsyncIterator[bytes], context: Any) -> None:
            async with aborting(context):
                client = self._identities.known_as(context.peer())
                paid = await self._memory.reserve_when_free(
                    client, self._message_bytes, self._silent_s
                )
            received.set(paid)
            try:
                async with aborting(context):
                    encoded = await self._message(context)
                    if len(encoded) > limit:
                        raise Rejected(
                            f"the message has {len(encoded)} bytes; at most {limit} are read here"
                        )
                    asked = encoded if decode is None else decode(encoded)
                    paid.shrink(len(encoded))
                del encoded
                replying = inner(asked, context)
                del asked  # the handler drops what it does not need any more
                await _send(replying, context, many=many)
            except grpc.aio.AbortError as error:
                _let_go(error)
                raise
            finally:
                paid.release()

        return call

    async def _message(self, context: Any) -> bytes:
        """The one message there is. Who could go on sending while the call is served would fill
        memory that nobody has paid for: so nothing begins before the caller has ended its side."""
        try:
            async with asyncio.timeout(self._silent_s):
                message = await context.read()
                more = message is not grpc.aio.EOF and await context.read() is not grpc.aio.EOF
        except TimeoutError:
            raise Exhausted("the call's message did not come; try again") from None
        if message is grpc.aio.EOF:
            raise Rejected("the call has no message; it must have one")
        if more:
            raise Rejected("the call has several messages; it must have one")
        return cast(bytes, message)

    def _stream(self, inner: Any) -> Any:
        """A call with many messages, one of which is read at a time."""

        many = isasyncgenfunction(inner)

        async def call(messages: AsyncIterator[Any], context: Any) -> None:
            async with aborting(context):
                client = self._identities.known_as(context.peer())
                memory = self._memory.reserve(client, self._message_bytes)
            try:
                await _send(inner(_until_read(messages, memory), context), context, many=many)
            except grpc.aio.AbortError as error:
                _let_go(error)
                raise
            finally:
                memory.release()

        return call


def _let_go(error: grpc.aio.AbortError) -> None:
    """Free what the frames of an aborted call hold. gRPC keeps the error for as long as the call,
    and the error's traceback keeps the call: a cycle, and pieces of a payload in it would stay in
    memory that nobody pays for, until Python happens to collect garbage."""
    clear_frames(error.__traceback__)
    error.__context__ = None


async def _until_read(messages: AsyncIterator[Any], memory: Reservation) -> AsyncIterator[Any]:
    async for message in messages:
        yield message
    memory.release()


async def _send(replying: Any, context: Any, *, many: bool) -> None:
    """What a handler replies: one message, or any number of them."""
    if many:
        async with aclosing(replying):
            async for reply in replying:
                await context.write(reply)
    elif (reply := await replying) is not None:
        await context.write(reply)
