"""Messages that are none, or that hold too much: refused like any other mistake of a caller.

gRPC itself answers bytes that protobuf cannot read with UNKNOWN, and writes a traceback for each
into the log, so that a stranger could fill the disk. And two bytes on the wire can be a hundred
times as many in memory, so that the parts of a message are counted before it is decoded.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from inspect import isasyncgenfunction
from typing import Any

from google.protobuf.message import DecodeError

from esg.errors import Rejected
from esg.runtime.rpc.status import Exhausted, aborting
from esg.runtime.rpc.wrapping import Handler, Wrapping


class Decoding(Wrapping):
    """Around all calls of a server. `most` has how many parts (fields, on the top level) a message
    of some methods may have."""

    def __init__(self, most: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self._most = most or {}

    def wrapped(self, handler: Handler, method: str) -> Handler:
        if handler.request_deserializer is None:
            return handler
        read = _reading(handler.request_deserializer, self._most.get(method))
        if handler.request_streaming:
            return handler._replace(request_deserializer=read)  # raised where it is read: by us
        kind = "unary_stream" if handler.response_streaming else "unary_unary"
        inner = getattr(handler, kind)
        wrap = _generator if isasyncgenfunction(inner) else _coroutine
        return handler._replace(request_deserializer=None, **{kind: wrap(inner, read)})


def _reading(
    deserialize: Callable[[bytes], Any], most: int | None = None
) -> Callable[[bytes], Any]:
    def read(encoded: bytes) -> Any:
        if most is not None and not has_at_most(most, encoded):
            raise Exhausted(f"the message has more than {most} parts, the most that are read")
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
            replying = inner(read(encoded), context)
        del encoded  # the handler alone says how long what was sent is held
        return await replying

    return call


def _generator(inner: Any, read: Callable[[bytes], Any]) -> Any:
    async def call(encoded: bytes, context: Any) -> AsyncIterator[Any]:
        async with aborting(context):
            replies = inner(read(encoded), context)
        del encoded
        async with aclosing(replies):
            async for reply in replies:
                yield reply

    return call


def has_at_most(most: int, encoded: bytes) -> bool:
    """Whether a message has at most so many fields on its top level; one that is none may have.

    >>> has_at_most(2, bytes.fromhex("0a00 0a01ff")), has_at_most(1, bytes.fromhex("0a00 0a01ff"))
    (True, False)
    """
    position = 0
    for _ in range(most):
        if position >= len(encoded):
            return True
        tag, position = _varint(encoded, position)
        match tag & 7:
            case 0:
                _, position = _varint(encoded, position)
            case 1:
                position += 8
            case 2:
                size, position = _varint(encoded, position)
                position += size
            case 5:
                position += 4
            case 3 | 4:
                pass  # the marks around a group: what is in it counts
            case _:
                return True  # it is no message, and will not be decoded
    return position >= len(encoded)


def _varint(encoded: bytes, position: int) -> tuple[int, int]:
    """A number, and what comes after it. At the end of the message it is cut off."""
    value = shift = 0
    for byte in encoded[position : position + 10]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, position
