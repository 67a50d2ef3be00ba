"""gRPC within one process: a channel whose calls go straight to handlers that are here.

A process that hosts several nodes has their emulated slices, too (`slices.bringup`). Client and
handlers are those that speak over a socket elsewhere, and what goes between them is the same bytes;
but there is no HTTP/2, no socket and no other process to wake for them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc

_END = object()
Deserializer = Callable[[bytes], Any] | None


class InProcessChannel(grpc.aio.Channel):
    """A connection to these handlers. When it is closed, calls under way are cancelled."""

    def __init__(self, handlers: grpc.GenericRpcHandler) -> None:
        self._handlers = handlers
        self._under_way: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def __aenter__(self) -> "InProcessChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        self._closed = True
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        closed = self._closed
        return grpc.ChannelConnectivity.SHUTDOWN if closed else grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await asyncio.get_running_loop().create_future()  # it never changes while it is open

    async def channel_ready(self) -> None:
        """It always is."""

    def unary_unary(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Deserializer = None,
        **_: Any,
    ) -> Any:
        def call(request: Any, timeout: float | None = None, **_: Any) -> asyncio.Task[Any]:
            content = _serialized(request_serializer, request)
            work = self._answer(method, content, response_deserializer, timeout)
            return self._begin(work)

        return call

    def stream_stream(
        self,
        method: str,
        request_serializer: Any = None,
        response_deserializer: Deserializer = None,
        **_: Any,
    ) -> Any:
        def call(**_: Any) -> "InProcessStream":
            stream = InProcessStream(request_serializer, response_deserializer)
            stream.task = self._begin(stream.serve(self._handler(method)))
            return stream

        return call

    def unary_stream(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("slices have no such method")

    def stream_unary(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("slices have no such method")

    def _begin(self, work: Any) -> asyncio.Task[Any]:
        if self._closed:
            work.close()
            raise grpc.aio.UsageError("Channel is closed.")
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    def _handler(self, method: str) -> Any:
        return self._handlers.service(_Details(method=method, invocation_metadata=()))

    async def _answer(
        self, method: str, content: bytes, deserializer: Deserializer, timeout_s: float | None
    ) -> Any:
        handler = self._handler(method)
        if handler is None:
            raise _error(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        try:
            async with asyncio.timeout(timeout_s):
                answer = await handler.unary_unary(handler.request_deserializer(content), _CONTEXT)
        except TimeoutError:
            raise _error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded") from None
        answered = _serialized(handler.response_serializer, answer)
        return answered if deserializer is None else deserializer(answered)


class InProcessStream:
    """One call with a stream each way. Both ends read and write, as gRPC calls it; neither is an
    iterator."""

    def __init__(self, serializer: Any, deserializer: Deserializer) -> None:
        self.task: asyncio.Task[None] | None = None
        self._written: asyncio.Queue[Any] = asyncio.Queue()
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._serializer = serializer
        self._deserializer = deserializer

    async def serve(self, handler: Any) -> None:
        """The handler's side: whatever ends it is the last thing that the caller reads."""
        end: Any = grpc.aio.EOF
        try:
            context = _StreamContext(handler, self._written, self._answers)
            await handler.stream_stream(None, context)
        except asyncio.CancelledError:
            end = _error(grpc.StatusCode.CANCELLED, "Locally cancelled by application!")
        except Exception as error:
            end = _error(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}")
        self._answers.put_nowait(end)

    async def write(self, request: Any) -> None:
        self._written.put_nowait(_serialized(self._serializer, request))

    async def done_writing(self) -> None:
        self._written.put_nowait(_END)

    async def read(self) -> Any:
        answer = await self._answers.get()
        if answer is grpc.aio.EOF:
            self._answers.put_nowait(answer)  # whoever reads on gets it again
            return answer
        if isinstance(answer, Exception):
            self._answers.put_nowait(answer)
            raise answer
        return answer if self._deserializer is None else self._deserializer(answer)

    def cancel(self) -> bool:
        return self.task is not None and self.task.cancel()

    def done(self) -> bool:
        return self.task is not None and self.task.done()


@dataclass(frozen=True, slots=True)
class _Details(grpc.HandlerCallDetails):
    """What handlers are found by."""

    method: str
    invocation_metadata: Any


class _Context:
    """What a handler may do besides answering."""

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        raise _error(code, details)


_CONTEXT = _Context()


class _StreamContext(_Context):
    """The handler's end of a stream."""

    def __init__(
        self, handler: Any, written: "asyncio.Queue[Any]", answers: "asyncio.Queue[Any]"
    ) -> None:
        self._handler = handler
        self._written = written
        self._answers = answers

    async def read(self) -> Any:
        content = await self._written.get()
        return grpc.aio.EOF if content is _END else self._handler.request_deserializer(content)

    async def write(self, answer: Any) -> None:
        self._answers.put_nowait(_serialized(self._handler.response_serializer, answer))


def _serialized(serializer: Any, message: Any) -> Any:
    return message if serializer is None else serializer(message)


def _error(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, nothing, nothing, details=details)
