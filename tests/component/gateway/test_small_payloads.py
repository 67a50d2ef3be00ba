"""Small payloads go along with their submissions, and to Redis only if the controller lost them."""

import pytest

from esg.names import payload_stage
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel
from esg.storage.redis_store import RedisStore
from tests.component.gateway.conftest import Keys
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, PREFIX, ScriptedController
from tests.support.waiting import until

ASKED = public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id="r1")


@pytest.fixture
async def address(gateways: Gateways) -> str:
    return await gateways.start()


async def test_a_small_payload_never_comes_to_redis(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    assert submission.payload == b"a picture"
    controller.accept("r1")
    controller.progress("r1", "first", finished=False)
    assert keys() == []
    await controller.finish("r1", second=b"y")
    assert [output.content for output in (await call).outputs] == [b"y"]
    await until(lambda: keys() == [])


@pytest.mark.parametrize("size", [99, 100])
async def test_the_limit_is_a_setting(
    gateways: Gateways, controller: ScriptedController, store: RedisStore, size: int
) -> None:
    address = await gateways.start(small_payload_bytes=99)
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        asked = public.SubmitRequest(application=KNOWN, payload=bytes(size), request_id="r1")
        call = stub.Submit(asked)
        submission = await controller.hears("submission")
        assert len(submission.payload) == (size if size <= 99 else 0)
        assert await controller.payload(submission) == bytes(size)
        controller.accept("r1")
        await controller.finish("r1", second=b"y")
        await call


async def test_if_nobody_waits_the_payload_is_stored_however_small(
    gateways: Gateways, controller: ScriptedController, keys: Keys
) -> None:
    address = await gateways.start(durable_payloads=False)
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        call = stub.SubmitAsync(ASKED)
        submission = await controller.hears("submission")
        assert submission.payload == b""
        controller.accept("r1")
        await call
        assert keys() == [f"{PREFIX}/r1/{payload_stage(submission.content_hash)}"]


async def test_if_some_wait_and_others_will_fetch_it_the_payload_is_stored_after_all(
    gateways: Gateways, controller: ScriptedController, keys: Keys
) -> None:
    address = await gateways.start(durable_payloads=False)
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        waiting = stub.Submit(ASKED)
        await controller.takes_in("r1")
        later = stub.SubmitAsync(ASKED)
        submission = await controller.hears("submission")
        controller.accept("r1", repeated=True)
        await later
        assert keys() == [f"{PREFIX}/r1/{payload_stage(submission.content_hash)}"]
        await controller.finish("r1", second=b"y")
        await waiting
        await until(lambda: keys() == [f"{PREFIX}/r1/second"])  # for who fetches it


async def test_a_controller_that_lost_the_payload_has_it_stored_until_the_request_ends(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys, store: RedisStore
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    controller.accept("r1")
    controller.break_links()
    assert await controller.hears("follow") == "r1"
    assert keys() == []
    controller.accept("r1", store_payload=True)
    name = payload_stage(submission.content_hash)
    assert await store.wait("r1", name, 10) == b"a picture"
    await controller.finish("r1", second=b"y")
    assert [output.content for output in (await call).outputs] == [b"y"]
    await until(lambda: keys() == [])


async def test_a_submission_that_was_not_answered_brings_its_payload_on_the_next_link(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.break_links()
    assert (await controller.hears("submission")).payload == b"a picture"
    controller.accept("r1")
    await controller.finish("r1", second=b"y")
    await call


async def test_a_task_that_does_not_find_the_payload_has_it_stored_and_no_client_is_asked(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, store: RedisStore
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    controller.accept("r1")
    controller.lose_payload("r1")
    name = payload_stage(submission.content_hash)
    assert await store.wait("r1", name, 10) == b"a picture"
    await controller.finish("r1", second=b"y")
    assert [output.content for output in (await call).outputs] == [b"y"]
