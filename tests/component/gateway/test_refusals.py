"""What is wrong with a call, and what it is told; afterwards the gateway works as before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import grpc
import pytest

from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel
from tests.component.gateway.conftest import Keys
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController

BAD = {
    "empty payload": (
        public.SubmitRequest(application=KNOWN),
        "payload: is empty; send",
    ),
    "no application": (
        public.SubmitRequest(payload=b"x"),
        "application: is empty; name one",
    ),
    "negative SLO": (
        public.SubmitRequest(application=KNOWN, payload=b"x", slo_us=-1),
        "slo_us: is -1; it must be from 1",
    ),
    "no SLO at all": (
        public.SubmitRequest(application=KNOWN, payload=b"x", slo_us=0),
        "slo_us: is 0; it must be from 1",
    ),
    "id with a slash": (
        public.SubmitRequest(application=KNOWN, payload=b"x", request_id="a/b"),
        "request_id: is 'a/b'; it must be 1 to 100 letters",
    ),
    "id with a line end": (
        public.SubmitRequest(application=KNOWN, payload=b"x", request_id="a\n"),
        "request_id: is 'a\\n'; it must be",
    ),
    "long id": (
        public.SubmitRequest(application=KNOWN, payload=b"x", request_id="a" * 101),
        "it must be 1 to 100 letters",
    ),
}


@pytest.mark.parametrize(("asked", "words"), BAD.values(), ids=BAD)
async def test_a_bad_request_is_refused_with_advice(
    asked: public.SubmitRequest, words: str, stub: public_grpc.PipelinesStub
) -> None:
    for method in (stub.Submit, stub.SubmitAsync):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(asked)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in (caught.value.details() or "")


async def test_a_payload_that_is_too_large_is_refused(gateways: Gateways) -> None:
    address = await gateways.start(max_payload_bytes=1000)
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        for size, code in (
            (1001, grpc.StatusCode.OUT_OF_RANGE),
            (
                3_000_000,
                grpc.StatusCode.RESOURCE_EXHAUSTED,
            ),  # gRPC's own: no message may be so large
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Submit(public.SubmitRequest(application=KNOWN, payload=b"x" * size))
            assert caught.value.code() is code
            assert "larger than" in (caught.value.details() or "")


async def test_request_beyond_those_that_may_be_under_way_is_refused(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start(max_under_way=1)
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        asked = public.SubmitRequest(application=KNOWN, payload=b"x")
        first = stub.Submit(asked)
        submission = await controller.hears("submission")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Submit(asked)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "1 requests are under way" in (caught.value.details() or "")
        controller.accept(submission.request_id)
        await controller.finish(submission.request_id, second=b"y")
        await first
        controller.playing = True
        await stub.Submit(asked)


async def test_a_client_that_begins_too_many_requests_is_refused(
    gateways: Gateways, controller: ScriptedController
) -> None:
    controller.playing = True
    address = await gateways.start(max_requests_per_s=0.001, burst=2)
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        asked = public.SubmitRequest(application=KNOWN, payload=b"x")
        await stub.Submit(asked)
        await stub.Submit(asked)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Submit(asked)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "more than 0.001 requests per second from 127.0.0.1" in str(caught.value.details())


async def test_a_request_that_nobody_knows_is_not_found(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    controller.playing = True
    for call in (
        stub.Get(public.GetRequest(request_id="r1")),
        stub.Cancel(public.CancelRequest(request_id="r1")),
        anext(aiter(stub.Watch(public.WatchRequest(request_id="r1")))),
        anext(aiter(stub.Fetch(public.FetchRequest(request_id="r1")))),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_garbage_on_the_port_harms_nobody(
    address: str, stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    controller.playing = True
    host, _, port = address.partition(":")
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 100, b""):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        with suppress(OSError):
            writer.write_eof()
        async with asyncio.timeout(60):
            with suppress(ConnectionError):
                while await reader.read(4096):
                    pass
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
    reply = await stub.Submit(public.SubmitRequest(application=KNOWN, payload=b"abc"))
    assert reply.outputs[0].content == b"cba"


async def test_chunks_that_make_no_request_are_refused(
    stub: public_grpc.PipelinesStub, keys: Keys
) -> None:
    request = public.SubmitChunk(request=public.SubmitRequest(application=KNOWN, payload=b"x"))
    piece = public.SubmitChunk(payload=b"x")
    for chunks, words in (
        ([], "there are none"),
        ([piece], "the first must be the request"),
        ([request, request], "the first must be the request"),
        ([request, public.SubmitChunk()], "the first must be the request"),
    ):
        call = stub.SubmitChunked(iter(chunks))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(call))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert words in (caught.value.details() or "")
    assert keys() == []


async def test_chunks_that_are_too_many_are_refused(gateways: Gateways) -> None:
    address = await gateways.start(max_payload_bytes=10_000)
    request = public.SubmitRequest(application=KNOWN, payload=b"x")
    chunks = [public.SubmitChunk(request=request), *[public.SubmitChunk(payload=b"x" * 1000)] * 11]
    async with channel(address) as to_gateway:
        call = public_grpc.PipelinesStub(to_gateway).SubmitChunked(iter(chunks))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(call))
    assert caught.value.code() is grpc.StatusCode.OUT_OF_RANGE
    assert "payload: is larger than 10000 bytes" in (caught.value.details() or "")


async def test_chunks_that_never_end_are_cut_off(gateways: Gateways) -> None:
    address = await gateways.start(max_payload_bytes=10_000)

    async def endless() -> AsyncIterator[public.SubmitChunk]:
        yield public.SubmitChunk(request=public.SubmitRequest(application=KNOWN, payload=b"x"))
        while True:
            yield public.SubmitChunk(payload=b"x" * 1000)

    async with channel(address) as to_gateway:
        call = public_grpc.PipelinesStub(to_gateway).SubmitChunked(endless())
        with pytest.raises(grpc.aio.AioRpcError):
            await asyncio.wait_for(anext(aiter(call)), 60)
