"""Clients that mean no good: what they send must cost nobody else anything."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import pytest

from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.addresses import socket_address
from esg.runtime.rpc.channels import channel
from tests.chaos.conftest import Scene

MANY = 1_000_000
LARGEST = 1.7e308
UPLOADS, BOMBS, STRANGERS = 3, 3, 20
MB = 2**20


async def hostile_clients(scene: Scene) -> None:
    """At every gateway: absurd numbers, groups without end, uploads that stop, bombs of zeros,
    and connections that say nothing."""
    for address in scene.mesh.gateways:
        async with channel(address) as link:
            stub = public_grpc.PipelinesStub(link)
            strangers = [await _stranger(address) for _ in range(STRANGERS)]
            uploads = [stub.SubmitChunked(_stops()) for _ in range(UPLOADS)]
            await asyncio.gather(
                *(_refused(stub.RegisterApplication(_absurd(scale))) for scale in (LARGEST, 1e300)),
                *(_refused(_bomb(stub)) for _ in range(BOMBS)),
                _refused(_endless_group(link)),
            )
            await scene.load.goes_on(10)
            for upload in uploads:
                upload.cancel()
            for writer in strangers:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()


def _absurd(slo_scale: float) -> public.RegisterApplicationRequest:
    stages = [model.Stage(name="a", function="resize")]
    return public.RegisterApplicationRequest(name="x", stages=stages, slo_scale=slo_scale)


async def _stops() -> AsyncIterator[public.SubmitChunk]:
    yield public.SubmitChunk(request=public.SubmitRequest(application="photo"))
    yield public.SubmitChunk(payload=b"x" * MB)
    await asyncio.Event().wait()


async def _bomb(stub: Any) -> None:
    zeros = public.SubmitRequest(application="photo", payload=bytes(8 * MB))
    await stub.Submit(zeros, compression=grpc.Compression.Gzip)


async def _endless_group(link: grpc.aio.Channel) -> None:
    open_stream: Any = link.stream_stream("/esg.gateway.v1.Pipelines/SubmitMany")
    call = open_stream(iter([b"\x0a\x00" * MANY]))
    if await call.read() is grpc.aio.EOF:
        raise grpc.aio.AioRpcError(
            await call.code(), await call.initial_metadata(), await call.trailing_metadata()
        )


async def _stranger(address: str) -> asyncio.StreamWriter:
    """A connection with half of what HTTP/2 begins with."""
    _, writer = await asyncio.open_connection(*socket_address(address))
    writer.write(b"PRI * HTTP/2.0")
    await writer.drain()
    return writer


async def _refused(call: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() not in (grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN)
