"""Calls to a gateway: each is tried again while the mesh is unavailable, until the client closes;
at another gateway, if there is one.

Large payloads and results travel in pieces, which is the concern of nobody but this file.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc

from esg.client.closing import Closing
from esg.client.errors import ClientError, call_error
from esg.client.gateways import Gateway, Gateways
from esg.client.results import Result, result_of
from esg.client.retries import Patience
from esg.client.submission import SubmitOptions, submit_chunks, submit_request
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.chunks import PIECE_BYTES
from esg.runtime.rpc.status import ServerError, Unavailable

T = TypeVar("T")
Stub = public_grpc.PipelinesStub


class Calls:
    """The calls of one client. `patience_s` is how long one without a timeout is tried again."""

    def __init__(self, gateways: Gateways, patience_s: float) -> None:
        self.gateways = gateways
        self.patience_s = patience_s
        self.closing = Closing()

    def patience(self, timeout_s: float | None = None) -> Patience:
        return Patience(self.patience_s, timeout_s)

    def failed(self, failed: grpc.aio.AioRpcError, gateway: Gateway) -> ClientError:
        """The error for a call to a gateway that failed. If it was not available, the next call
        goes to another one."""
        error = call_error(failed, gateway.address)
        if isinstance(error, Unavailable):
            self.gateways.failed(gateway)
        return error

    async def persistently(
        self, once: Callable[[Stub, float | None], Awaitable[T]], patience: Patience
    ) -> T:
        """Make a call (which is told where, and the time it has), again and again while it is
        unavailable."""
        with self.closing.told():
            while True:
                gateway = self.gateways.current
                try:
                    return await once(gateway.stub, patience.left_s())
                except grpc.aio.AioRpcError as failed:
                    error = self.failed(failed, gateway)
                    pause_s = patience.pause_s() if isinstance(error, Unavailable) else None
                    if pause_s is None:
                        raise error from None
                await asyncio.sleep(pause_s)

    async def unary(self, method: str, message: Any, timeout_s: float | None) -> Any:
        """A call with one message each way."""

        def once(stub: Stub, left_s: float | None) -> Any:
            return getattr(stub, method)(message, timeout=left_s)

        return await self.persistently(once, self.patience(timeout_s))

    async def submit(self, application: str, payload: bytes, options: SubmitOptions) -> Result:
        """Submit a request and wait for its result with its outputs."""
        message = submit_request(application, payload, options)
        patience = self.patience(options.timeout_s)

        async def once(stub: Stub, left_s: float | None) -> Result:
            if len(payload) > PIECE_BYTES:
                chunks = submit_chunks(application, payload, options)
                return await _collected(stub.SubmitChunked(chunks, timeout=left_s))
            reply = await stub.Submit(message, timeout=left_s)
            if reply.fetch_outputs:
                return await _fetch_once(stub, options.request_id, patience.left_s())
            return reply_result(reply)

        return await self.persistently(once, patience)

    async def submit_async(self, application: str, payload: bytes, options: SubmitOptions) -> str:
        """Have a request accepted: its id."""
        message = submit_request(application, payload, options)

        async def once(stub: Stub, left_s: float | None) -> str:
            if len(payload) > PIECE_BYTES:
                chunks = submit_chunks(application, payload, options, fetched_later=True)
                call = stub.SubmitChunked(chunks, timeout=left_s)
                told: list[public.ResultChunk] = [chunk async for chunk in call]
                return told[0].accepted
            reply: public.SubmitAsyncReply = await stub.SubmitAsync(message, timeout=left_s)
            return reply.request_id

        return await self.persistently(once, self.patience(options.timeout_s))

    async def fetch(self, request_id: str, timeout_s: float | None = None) -> Result:
        """Wait for a request's result and get its outputs."""

        def once(stub: Stub, left_s: float | None) -> Awaitable[Result]:
            return _fetch_once(stub, request_id, left_s)

        return await self.persistently(once, self.patience(timeout_s))


async def _fetch_once(stub: Stub, request_id: str, left_s: float | None) -> Result:
    asked = public.FetchRequest(request_id=request_id)
    return await _collected(stub.Fetch(asked, timeout=left_s))


def reply_result(reply: public.SubmitReply) -> Result:
    """The result of a reply that has its outputs with it."""
    return result_of(reply.result, {output.stage: output.content for output in reply.outputs})


async def _collected(chunks: AsyncIterator[public.ResultChunk]) -> Result:
    """A result and its outputs, put together."""
    told = None
    found: dict[str, list[bytes]] = {}
    async for chunk in chunks:
        if chunk.HasField("result"):
            told = chunk.result
        else:
            found.setdefault(chunk.output.stage, []).append(chunk.output.content)
    if told is None:
        raise ServerError("the gateway sent no result")
    return result_of(told, {stage: b"".join(content) for stage, content in found.items()})
