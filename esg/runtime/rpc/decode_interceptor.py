"""Messages that are none: refused like any other mistake of a caller.

gRPC itself answers bytes that protobuf cannot read with UNKNOWN, and writes a traceback for each
into the log, so that a stranger could fill the disk.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from inspect import isasyncgenfunction
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from esg.errors import Rejected
from esg.runtime.rpc.status import aborting

Handler = Any
"""A handler of gRPC's, whose class only its stubs know how to parameterize."""


class Decoding(grpc.aio.ServerInterceptor):
    """Around all calls of a server."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(details)
        if handler is None or handler.request_deserializer is None:
            return handler
        read = _reading(handler.request_deserializer)
        if handler.request_streaming:
            return handler._replace(request_deserializer=read)  # raised where it is read: by us
        kind = "unary_stream" if handler.response_streaming else "unary_unary"
        inner = getattr(handler, kind)
        wrap = _generator if isasyncgenfunction(inner) else _coroutine
        return handler._replace(request_deserializer=None, **{kind: wrap(inner, read)})


def _reading(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(encoded: bytes) -> Any:
        try:
            return deserialize(encoded)
        except DecodeError:
            raise Rejected(
                "the message cannot be decoded; make it with this version's .proto files"
            ) from None

    return read


def _coroutine(inner: Any, read: Callable[[bytes], Any]) -> Any:
    async def call(encoded: bytes, context: Any) -> Any:
        async with aborting(context):
            asked = read(encoded)
        return await inner(asked, context)

    return call


def _generator(inner: Any, read: Callable[[bytes], Any]) -> Any:
    async def call(encoded: bytes, context: Any) -> AsyncIterator[Any]:
        async with aborting(context):
            asked = read(encoded)
        async with aclosing(inner(asked, context)) as replies:
            async for reply in replies:
                yield reply

    return call
