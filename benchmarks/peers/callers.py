"""How each server is called: one function from a payload to the result, whatever is in between.

All callers are in this one process. HTTP is spoken by a client that does no more than it must, so
that a peer is not charged for its client.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
from tritonclient.grpc import service_pb2 as v2
from tritonclient.grpc import service_pb2_grpc as v2_grpc

from benchmarks.closed_loop import NotAnswered
from esg.client import AsyncClient, ClientError, Result

HOST = "127.0.0.1"
LIMIT_S = 30.0
LARGEST = 4 * 10**6
SMALL, LARGE = "chain", "large"
"""The mesh's applications: whose stages give 100 B, and whose stages give 1 MB."""

Caller = Callable[[bytes], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Server:
    """How it is called, and all of its processes."""

    call: Caller
    pids: list[int]


@asynccontextmanager
async def http(port: int, path: str, *, key: str = "") -> AsyncIterator[Caller]:
    """The payload is the body, or the text of this key in a JSON object."""
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    kind = "application/json" if key else "application/octet-stream"
    head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {kind}\r\n"

    async def ask(message: bytes) -> bytes:
        """On a connection that is left from before, if there is one: a server may close it at any
        time, so what it did not begin to answer is asked again on another."""
        while True:
            is_new = not idle
            reader, writer = (
                await asyncio.open_connection(HOST, port, limit=LARGEST) if is_new else idle.pop()
            )
            try:
                writer.write(message)
                result, keeps = await _response(reader)
            except BaseException as error:
                writer.close()
                left = isinstance(error, ConnectionError) or (
                    isinstance(error, asyncio.IncompleteReadError) and not error.partial
                )
                if is_new or not left:
                    raise
            else:
                if keeps:
                    idle.append((reader, writer))
                else:
                    writer.close()
                return result

    async def call(payload: bytes) -> bytes:
        body = json.dumps({key: payload.decode()}).encode() if key else payload
        try:
            async with asyncio.timeout(LIMIT_S):
                return await ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        except (OSError, EOFError, TimeoutError) as error:
            raise NotAnswered(repr(error)) from error

    try:
        yield call
    finally:
        for _, writer in idle:
            writer.close()


async def _response(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """The body, and whether the connection may be used again."""
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines if line)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    if status.split()[1] != "200":
        raise EOFError(f"{status}: {body[:200]!r}")
    return body, headers.get("connection") != "close"


@asynccontextmanager
async def three_models(port: int) -> AsyncIterator[Caller]:
    """Triton's protocol, which MLServer speaks: three calls, one after the other."""
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(f"{HOST}:{port}", options) as channel:
        stub = v2_grpc.GRPCInferenceServiceStub(channel)

        async def call(payload: bytes) -> bytes:
            for number in (1, 2, 3):
                given = v2.ModelInferRequest.InferInputTensor(
                    name="input",
                    datatype="BYTES",
                    shape=[1],
                    contents=v2.InferTensorContents(bytes_contents=[payload]),
                )
                request = v2.ModelInferRequest(model_name=f"stage{number}", inputs=[given])
                try:
                    response = await stub.ModelInfer(request, timeout=LIMIT_S)
                except grpc.aio.AioRpcError as error:
                    raise NotAnswered(repr(error)) from error
                (payload,) = response.outputs[0].contents.bytes_contents
            return payload

        yield call


@asynccontextmanager
async def mesh(gateway: str) -> AsyncIterator[tuple[Caller, Caller]]:
    """On a stream, and with a call for each request."""
    async with AsyncClient(gateway) as client, client.stream() as stream:

        async def streamed(payload: bytes) -> bytes:
            return await _output(stream.submit(_application(payload), payload))

        async def unary(payload: bytes) -> bytes:
            return await _output(client.submit(_application(payload), payload))

        yield streamed, unary


def _application(payload: bytes) -> str:
    return SMALL if len(payload) < 10**6 else LARGE


async def _output(answer: Awaitable[Result]) -> bytes:
    try:
        (output,) = (await answer).raise_for_outcome().outputs.values()
    except ClientError as error:
        raise NotAnswered(repr(error)) from error
    return output
