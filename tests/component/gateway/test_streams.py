"""Requests in pieces, and many requests over one stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import grpc
import pytest

from esg.gateway.uploads import Upload
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.channels import channel
from tests.component.gateway.conftest import Keys
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.waiting import until

LARGE = bytes(range(256)) * 40_000  # 10 MB, more than gRPC's messages hold by default


def asked(request_id: str, payload: bytes = b"abc") -> public.SubmitRequest:
    return public.SubmitRequest(application=KNOWN, payload=payload, request_id=request_id)


def in_chunks(payload: bytes, piece: int = 1_000_000) -> list[public.SubmitChunk]:
    first = public.SubmitChunk(request=asked("r1", payload[:piece]))
    rest = range(piece, len(payload), piece)
    return [first, *(public.SubmitChunk(payload=payload[i : i + piece]) for i in rest)]


async def test_a_large_payload_goes_in_and_out_in_pieces(
    address: str, controller: ScriptedController, keys: Keys
) -> None:
    controller.playing = True
    async with grpc.aio.insecure_channel(address) as plain:  # with gRPC's own limits
        stub = public_grpc.PipelinesStub(plain)
        chunks = [chunk async for chunk in stub.SubmitChunked(iter(in_chunks(LARGE)))]
    assert chunks[0].result.outcome == model.OUTCOME_DONE
    assert {chunk.output.stage for chunk in chunks[1:]} == {"second"}
    assert b"".join(chunk.output.content for chunk in chunks[1:]) == LARGE[::-1]
    await until(lambda: keys() == [])


async def test_outputs_too_large_for_one_message_are_to_be_fetched(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    controller.playing = True
    payload = LARGE[:3_000_000]  # fits into a message; what is made of it does not go back in one
    reply = await stub.Submit(asked("r1", payload))
    assert reply.fetch_outputs
    assert list(reply.outputs) == []
    chunks = [chunk async for chunk in stub.Fetch(public.FetchRequest(request_id="r1"))]
    assert b"".join(chunk.output.content for chunk in chunks[1:]) == payload[::-1]
    await until(lambda: keys() == [])


async def test_an_empty_output_is_an_output(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.SubmitChunked(iter([public.SubmitChunk(request=asked("r1"))]))
    await controller.takes_in("r1")
    await controller.finish("r1", second=b"")
    chunks = [chunk async for chunk in call]
    assert [chunk.output for chunk in chunks[1:]] == [public.Output(stage="second")]


async def test_a_client_that_goes_away_between_pieces_leaves_nothing(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To who reads, its stream ends as any other does; that it was cancelled is heard later."""
    sent, ended = asyncio.Event(), asyncio.Event()
    really = Upload.receive

    async def half() -> AsyncIterator[public.SubmitChunk]:
        yield in_chunks(LARGE)[0]
        sent.set()
        await asyncio.Event().wait()

    async def receive(
        upload: Upload, chunks: AsyncIterator[public.SubmitChunk], charge: Any
    ) -> Any:
        joining = asyncio.create_task(really(upload, chunks, charge))
        with suppress(asyncio.CancelledError):
            await asyncio.shield(joining)
        ended.set()
        return await joining

    monkeypatch.setattr(Upload, "receive", receive)
    call = stub.SubmitChunked(half())
    await sent.wait()
    await stub.ListApplications(public.ListApplicationsRequest())  # by now the piece is there
    call.cancel()
    await ended.wait()
    other = stub.Submit(asked("r2"))
    await controller.takes_in("r2")  # and nothing before it
    await controller.finish("r2", second=b"y")
    await other
    assert controller.said == []
    await until(lambda: keys() == [])


async def test_a_client_that_goes_away_while_it_reads_keeps_its_outputs(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    controller.playing = True
    call = stub.SubmitChunked(iter(in_chunks(LARGE)))
    assert (await anext(aiter(call))).result.request_id == "r1"
    call.cancel()
    fetch = stub.Fetch(public.FetchRequest(request_id="r1"))
    chunks = [chunk async for chunk in fetch]
    assert b"".join(chunk.output.content for chunk in chunks[1:]) == LARGE[::-1]
    await until(lambda: keys() == [])


async def test_many_requests_are_answered_over_one_stream(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    controller.playing = True
    groups = [
        public.SubmitGroup(requests=[asked(f"r{i}-{j}", b"%d-%d" % (i, j)) for j in range(100)])
        for i in range(5)
    ]
    outputs = {}
    async for group in stub.SubmitMany(iter(groups)):
        for reply in group.replies:
            outputs[reply.request_id] = reply.done.outputs[0].content
    assert outputs == {
        request.request_id: request.payload[::-1] for group in groups for request in group.requests
    }
    await until(lambda: keys() == [])


async def test_a_bad_request_does_not_harm_the_others_of_its_stream(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    controller.playing = True
    unknown = public.SubmitRequest(application="no such", payload=b"x", request_id="unknown")
    nameless = public.SubmitRequest(application=KNOWN, payload=b"x")
    group = public.SubmitGroup(requests=[asked("empty", b""), unknown, nameless, asked("good")])
    replies = {}
    async for answered in stub.SubmitMany(iter([group])):
        replies.update({reply.request_id: reply for reply in answered.replies})
    codes = {name: reply.refusal.code for name, reply in replies.items()}
    invalid = grpc.StatusCode.INVALID_ARGUMENT.value[0]
    not_found = grpc.StatusCode.NOT_FOUND.value[0]
    assert codes == {"empty": invalid, "unknown": not_found, "": invalid, "good": 0}
    assert "answers are told apart by it" in replies[""].refusal.message
    assert replies["good"].done.outputs[0].content == b"cba"


async def test_groups_of_answers_stay_small_enough_for_any_client(
    gateways: Gateways, controller: ScriptedController
) -> None:
    controller.playing = True
    address = await gateways.start()
    payload = b"x" * 1_500_000
    groups = [public.SubmitGroup(requests=[asked(f"r{i}", payload)]) for i in range(8)]
    answered = 0
    async with grpc.aio.insecure_channel(address) as plain:  # takes 4 MB at most
        stub = public_grpc.PipelinesStub(plain)
        async for replies in stub.SubmitMany(iter(groups)):
            answered += len(replies.replies)
    assert answered == 8


async def test_a_stream_that_breaks_cancels_what_it_waited_for(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    async def two() -> AsyncIterator[public.SubmitGroup]:
        yield public.SubmitGroup(requests=[asked("r1"), asked("r2")])
        await asyncio.Event().wait()

    call = stub.SubmitMany(two())
    for _ in range(2):
        submission = await controller.hears("submission")
        controller.accept(submission.request_id)
        await controller.payload(submission)
    call.cancel()
    cancelled = {await controller.hears("leave") for _ in range(2)}
    assert cancelled == {"r1", "r2"}
    for request in cancelled:
        controller.end(request, model.OUTCOME_CANCELLED)
    await until(lambda: keys() == [])


async def test_request_submitted_without_waiting_survives_a_stream_that_asked_for_it(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    kept = stub.SubmitAsync(asked("r1"))
    await controller.takes_in("r1")
    await kept

    async def one() -> AsyncIterator[public.SubmitGroup]:
        yield public.SubmitGroup(requests=[asked("r1")])
        await asyncio.Event().wait()

    call = stub.SubmitMany(one())
    with pytest.raises(grpc.aio.AioRpcError):  # by now the stream has been read
        await stub.Submit(asked("r1", b"other"))
    call.cancel()
    await controller.finish("r1", second=b"y")
    await until(lambda: keys() == ["test/r1/second"])  # it has ended, and nobody waits
    assert controller.said == []


async def test_a_long_conversation_needs_no_end(
    address: str, controller: ScriptedController
) -> None:
    controller.playing = True
    asking: asyncio.Queue[public.SubmitGroup] = asyncio.Queue()

    async def groups() -> AsyncIterator[public.SubmitGroup]:
        while True:
            yield await asking.get()

    async with channel(address) as to_gateway:
        call = public_grpc.PipelinesStub(to_gateway).SubmitMany(groups())
        for i in range(3):
            asking.put_nowait(public.SubmitGroup(requests=[asked(f"r{i}")]))
            group = await call.read()
            assert [reply.request_id for reply in group.replies] == [f"r{i}"]
        call.cancel()
