"""The link to the controller breaks, and is made again."""

import asyncio

import grpc
import pytest

from esg.gateway import controller_link
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import NotFound
from esg.storage.redis_store import RedisStore
from tests.component.gateway.conftest import Keys
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.waiting import until


def asked(request_id: str) -> public.SubmitRequest:
    return public.SubmitRequest(application=KNOWN, payload=b"abc", request_id=request_id)


async def test_new_link_follows_accepted_requests_and_asks_again_for_the_others(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    accepted = stub.Submit(asked("r1"))
    await controller.takes_in("r1")
    unanswered = stub.Submit(asked("r2"))
    await controller.hears("submission")
    controller.break_links()
    assert await controller.hears("follow") == "r1"
    controller.accept("r1")
    await controller.takes_in("r2")
    await controller.finish("r1", second=b"one")
    await controller.finish("r2", second=b"two")
    assert (await accepted).outputs[0].content == b"one"
    assert (await unanswered).outputs[0].content == b"two"


async def test_news_that_come_twice_are_told_once(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.SubmitAsync(asked("r1"))
    await controller.takes_in("r1")
    await call
    watch = stub.Watch(public.WatchRequest(request_id="r1"))
    replies = aiter(watch)
    await controller.hears("follow")
    controller.accept("r1")
    controller.progress("r1", "first", finished=False)
    assert (await anext(replies)).progress.stage == "first"
    controller.break_links()
    assert await controller.hears("follow") == "r1"
    controller.accept("r1")  # and the past once more
    controller.progress("r1", "first", finished=True)
    controller.end("r1", model.OUTCOME_FAILED)
    told = [(r.WhichOneof("part"), r.progress.finished) async for r in replies]
    assert told == [("progress", True), ("result", False)]


async def test_a_cancellation_is_not_lost_with_the_link(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.Submit(asked("r1"))
    await controller.takes_in("r1")
    call.cancel()
    assert await controller.hears("leave") == "r1"
    controller.break_links()
    assert await controller.hears("follow") == "r1"
    controller.accept("r1")
    assert await controller.hears("leave") == "r1"


async def test_a_controller_that_has_forgotten_a_request_makes_its_client_try_again(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(asked("r1"))
    await controller.takes_in("r1")
    controller.break_links()
    await controller.hears("follow")
    controller.forget("r1")
    controller.refuse("r1", NotFound("unknown request"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "has forgotten request r1" in (caught.value.details() or "")
    controller.playing = True
    assert (await stub.Submit(asked("r1"))).outputs[0].content == b"cba"
    await until(lambda: keys() == [])


async def test_gateway_without_a_controller_refuses_requests_until_one_is_back(
    gateways: Gateways,
    controller: ScriptedController,
    store: RedisStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_link, "GIVE_UP_S", 0.1)
    address = await gateways.start()
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        waiting = stub.Submit(asked("r1"))
        await controller.hears("submission")
        await controller.stop()
        for call in (waiting, stub.Submit(asked("r2")), stub.ListApplications(_all())):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "the controller cannot be reached" in (caught.value.details() or "")
        restarted = ScriptedController(store, playing=True)
        await restarted.start(gateways.controller_port)
        try:
            async with asyncio.timeout(60):
                assert await _answered(stub) == b"cba"
        finally:
            await restarted.stop()


def _all() -> public.ListApplicationsRequest:
    return public.ListApplicationsRequest()


async def _answered(stub: public_grpc.PipelinesStub) -> bytes:
    while True:
        try:
            reply = await stub.Submit(asked("r3"))
            return bytes(reply.outputs[0].content)
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
