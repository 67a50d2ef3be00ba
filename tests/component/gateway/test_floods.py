"""Clients that send too much: they are refused, or wait, before it costs anything."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from esg.gateway.limits.memory_budget import MemoryBudget
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import told_retry_after_us
from tests.component.gateway.conftest import Keys
from tests.support.held_memory import held_since
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.token_clients import Clients, refusal
from tests.support.waiting import until

EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
MB = 2**20


def asked(request_id: str, payload: bytes = b"abc") -> public.SubmitRequest:
    return public.SubmitRequest(application=KNOWN, payload=payload, request_id=request_id)


async def megabytes_taken(call: Any) -> int:
    """How much of a call's messages a server takes that asks for none."""
    for sent in range(32):
        _, blocked = await asyncio.wait([asyncio.ensure_future(call.write(bytes(MB)))], timeout=2)
        if blocked:
            return sent
    return 32


async def upload(*pieces: bytes, end: bool = True) -> AsyncIterator[public.SubmitChunk]:
    yield public.SubmitChunk(request=asked("r1", pieces[0]))
    for piece in pieces[1:]:
        yield public.SubmitChunk(payload=piece)
    if not end:
        await asyncio.Event().wait()


async def test_a_group_of_a_million_requests_is_refused_as_a_whole(
    address: str, stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    # attack: B1
    controller.playing = True
    async with channel(address) as link:
        flood = link.stream_stream("/esg.gateway.v1.Pipelines/SubmitMany")(
            iter([b"\x0a\x00" * 1_000_000])
        )
        code, said = await refusal(flood.read())
    assert (code, "more than 256 parts" in said) == (EXHAUSTED, True)
    assert (await stub.Submit(asked("r1"))).result.request_id == "r1"


async def test_a_stream_is_read_no_faster_than_it_is_answered(
    gateways: Gateways, controller: ScriptedController
) -> None:
    # attack: B1
    address = await gateways.start(max_unanswered=2)
    async with channel(address) as link:
        stub = public_grpc.PipelinesStub(link)
        group = public.SubmitGroup(requests=[asked(f"r{number}") for number in range(4)])
        replies = stub.SubmitMany(iter([group]))
        for number in range(2):
            await controller.takes_in(f"r{number}")
        other = stub.Submit(asked("other"))
        await controller.takes_in("other")  # and none of the group before it
        for number in (0, 1):
            await controller.finish(f"r{number}", second=b"y")
        for number in (2, 3):
            await controller.takes_in(f"r{number}")
            await controller.finish(f"r{number}", second=b"y")
        answered = [reply.request_id async for group in replies for reply in group.replies]
        await controller.finish("other", second=b"y")
        await other
    assert answered == ["r0", "r1", "r2", "r3"]


async def test_requests_beyond_a_clients_rate_are_refused_before_anything_is_done_for_them(
    clients: Clients, controller: ScriptedController
) -> None:
    # attack: B1
    controller.playing = True
    clients.allow("alice", requests_per_s=0.001, burst=2)
    alice = await clients.stub("alice")
    group = public.SubmitGroup(requests=[asked(f"r{number}") for number in range(200)])
    replies = [r async for group in alice.SubmitMany(iter([group])) for r in group.replies]
    refused = [reply for reply in replies if reply.HasField("refusal")]
    assert (len(replies), len(refused)) == (200, 198)
    assert all(reply.refusal.retry_after_us for reply in refused)


async def test_uploads_hold_no_more_than_a_clients_memory(
    gateways: Gateways, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    # attack: B3
    budgets: list[MemoryBudget] = []

    class Noted(MemoryBudget):
        def __init__(self, per_client: int, in_all: int) -> None:
            super().__init__(per_client, in_all)
            budgets.append(self)

    monkeypatch.setattr("esg.gateway.__main__.MemoryBudget", Noted)
    controller.playing = True
    address = await gateways.start(max_client_memory_mb=20)
    async with channel(address) as link:
        stub = public_grpc.PipelinesStub(link)
        idle = stub.SubmitChunked(upload(*[bytes(MB)] * 9, end=False))
        await until(lambda: budgets[0].held == (4 + 9) * MB)  # a message to come, and what came
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.SubmitChunked(upload(*[bytes(MB)] * 8)).read()
        assert refused.value.code() is EXHAUSTED
        assert told_retry_after_us(refused.value.trailing_metadata())
        assert (await stub.Submit(asked("small"))).result.request_id == "small"
        idle.cancel()
        await until(lambda: budgets[0].held == 0)


@pytest.mark.parametrize("why", ["memory", "rejected", "unknown"])
async def test_what_a_refused_upload_held_is_freed_without_waiting_for_the_garbage_collector(
    why: str, gateways: Gateways, controller: ScriptedController
) -> None:
    # attack: B3
    controller.playing = True
    address = await gateways.start(max_client_memory_mb=8)
    sent = bytes(MB)

    async def pieces() -> AsyncIterator[public.SubmitChunk]:
        application = "unknown" if why == "unknown" else KNOWN
        yield public.SubmitChunk(request=public.SubmitRequest(application=application))
        for _ in range(8 if why == "memory" else 2):
            yield public.SubmitChunk(payload=sent)
        if why == "rejected":
            yield public.SubmitChunk(request=asked("again"))

    async with channel(address) as link:
        stub = public_grpc.PipelinesStub(link)
        with held_since(MB) as held:
            code, _ = await refusal(stub.SubmitChunked(pieces()).read())
            await until(lambda: all(content is sent for content in held()))
    assert (
        code
        is {
            "memory": EXHAUSTED,
            "rejected": grpc.StatusCode.INVALID_ARGUMENT,
            "unknown": grpc.StatusCode.NOT_FOUND,
        }[why]
    )


async def test_an_upload_that_falls_silent_is_ended(gateways: Gateways) -> None:
    # attack: B3
    address = await gateways.start(upload_silent_s=0.1)
    async with channel(address) as link:
        stub = public_grpc.PipelinesStub(link)
        code, said = await refusal(stub.SubmitChunked(upload(b"abc", end=False)).read())
        assert (code, "was silent" in said) == (EXHAUSTED, True)
        submit = link.stream_unary("/esg.gateway.v1.Pipelines/Submit")

        async def nothing() -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

        code, said = await refusal(submit(nothing()))
        assert (code, "did not come" in said) == (EXHAUSTED, True)


async def test_pieces_of_an_upload_are_a_days_bytes_as_they_come(
    clients: Clients, controller: ScriptedController
) -> None:
    # attack: B3
    clients.allow("bob", bytes_per_day=5)
    bob = await clients.stub("bob")
    code, said = await refusal(bob.SubmitChunked(upload(b"abc", b"abc")).read())
    assert (code, "may send in a day" in said) == (grpc.StatusCode.OUT_OF_RANGE, True)
    controller.playing = True
    assert [chunk async for chunk in bob.SubmitChunked(upload(b"abc", b"ab"))]


async def test_uploads_and_fetches_are_streams(
    gateways: Gateways, controller: ScriptedController
) -> None:
    # attack: B3, B4
    address = await gateways.start(max_streams=1)
    async with channel(address) as link:
        stub = public_grpc.PipelinesStub(link)
        first = stub.WatchMesh(public.WatchMeshRequest(interval_ms=50))
        await first.read()
        for call in (
            stub.SubmitChunked(upload(b"abc")),
            stub.Fetch(public.FetchRequest(request_id="r1")),
        ):
            code, said = await refusal(call.read())
            assert (code, "1 streams open" in said) == (EXHAUSTED, True)


async def test_a_compressed_message_counts_as_what_it_becomes(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    # attack: B3
    controller.playing = True
    gzip = grpc.Compression.Gzip
    fits = await stub.Submit(asked("r1", bytes(3 * MB)), compression=gzip)
    assert fits.result.request_id == "r1"
    code, _ = await refusal(stub.Submit(asked("r2", bytes(5 * MB)), compression=gzip))
    assert code is EXHAUSTED
    words = public.FetchRequest(request_id="x" * MB)
    code, said = await refusal(stub.Fetch(words, compression=gzip).read())
    assert (code, "are read here" in said) == (grpc.StatusCode.INVALID_ARGUMENT, True)


async def test_calls_wait_for_room_in_memory_and_are_all_answered(
    gateways: Gateways, controller: ScriptedController
) -> None:
    # attack: B3
    controller.playing = True
    address = await gateways.start(max_client_memory_mb=8)
    async with channel(address) as link:
        stub = public_grpc.PipelinesStub(link)
        calls = [stub.Submit(asked(f"r{number}", bytes(3 * MB))) for number in range(8)]
        assert len(await asyncio.gather(*calls)) == 8


async def test_what_nobody_has_asked_for_stays_with_the_caller(
    gateways: Gateways, controller: ScriptedController
) -> None:
    """The memory of its client is full: the call's message is not read yet."""
    address = await gateways.start(max_client_memory_mb=8)
    async with channel(address) as link:
        stub = public_grpc.PipelinesStub(link)
        busy = [stub.Submit(asked(f"r{number}", bytes(3 * MB))) for number in range(2)]
        await until(lambda: sum(n.WhichOneof("note") == "submission" for n in controller.said) == 2)
        waiting = [link.stream_stream("/esg.gateway.v1.Pipelines/Submit")() for _ in range(20)]
        sent = await asyncio.gather(*map(megabytes_taken, waiting))
        assert sum(sent) < 4 * len(waiting)
        for call in waiting:
            call.cancel()
        for call in busy:
            call.cancel()


async def test_a_large_payload_is_stored_when_its_request_was_accepted(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    # attack: B3
    call = stub.Submit(asked("r1", bytes(MB)))
    submission = await controller.hears("submission")
    other = stub.Submit(asked("other"))
    await controller.takes_in("other")  # so that there was time
    assert not [key for key in keys() if "r1" in key]
    controller.accept("r1")
    assert await controller.payload(submission) == bytes(MB)
    for request, waiting in (("r1", call), ("other", other)):
        await controller.finish(request, second=b"y")
        await waiting


async def test_a_large_payload_that_nobody_waits_for_comes_in_pieces(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    # attack: B3
    first = public.SubmitChunk(request=asked("r1", bytes(MB)), fetched_later=True)
    call = stub.SubmitChunked(iter([first, public.SubmitChunk(payload=bytes(MB))]))
    submission = await controller.hears("submission")
    controller.accept("r1")
    assert [chunk.accepted async for chunk in call] == ["r1"]
    assert (submission.fetched_later, submission.HasField("deadline_us")) == (True, False)
    assert await controller.payload(submission) == bytes(2 * MB)
    await controller.finish("r1", second=b"y")
