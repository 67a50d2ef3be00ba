"""The same request id again: it finds the first request, here or through another gateway."""

import grpc
import pytest

from esg.errors import Rejected
from mesh.problems import AlreadyExists
from mesh.serving import channel
from protos import gateway_v1_pb2 as public
from protos import gateway_v1_pb2_grpc as public_grpc
from protos import model_v1_pb2 as model
from tests.redis_server import RedisServer
from tests.unit.gateway.conftest import Keys
from tests.unit.gateway.running import Gateways
from tests.unit.gateway.scripted import KNOWN, ScriptedController, until

ASKED = public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id="r1")
OTHER = public.SubmitRequest(application=KNOWN, payload=b"another one", request_id="r1")


async def test_two_calls_for_one_id_wait_for_one_request(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    calls = [stub.Submit(ASKED), stub.Submit(ASKED)]
    await controller.hears("submission")
    controller.accept("r1")
    await controller.store.wait("r1", "", 60)
    await controller.finish("r1", second=b"y")
    assert [(await call).outputs[0].content for call in calls] == [b"y", b"y"]
    assert controller.said == []
    await until(lambda: keys() == [])


async def test_one_of_two_calls_may_go_away(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    stays, goes = stub.Submit(ASKED), stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    await controller.store.wait("r1", "", 60)
    goes.cancel()
    # A call that is answered after the other one was cancelled shows that this was noticed
    with pytest.raises(grpc.aio.AioRpcError):
        await stub.Submit(OTHER)
    await controller.finish("r1", second=b"y")
    assert (await stays).outputs[0].content == b"y"
    assert controller.said == []


@pytest.mark.parametrize(
    "other",
    [
        OTHER,
        public.SubmitRequest(application="other", payload=b"a picture", request_id="r1"),
        public.SubmitRequest(
            application=KNOWN, payload=b"a picture", request_id="r1", slo_us=1_000_000
        ),
    ],
    ids=["payload", "application", "slo"],
)
async def test_an_id_with_other_content_is_refused_and_the_first_goes_on(
    other: public.SubmitRequest, stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    first = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    await controller.store.wait("r1", "", 60)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Submit(other)
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert "choose a new id" in (caught.value.details() or "")
    assert await controller.store.get("r1", "") == b"a picture"
    await controller.finish("r1", second=b"y")
    assert (await first).outputs[0].content == b"y"


async def test_through_another_gateway_other_content_leaves_the_payload_alone(
    gateways: Gateways, controller: ScriptedController
) -> None:
    one, two = await gateways.start(), await gateways.start()
    async with channel(one) as to_one, channel(two) as to_two:
        first = public_grpc.PipelinesStub(to_one).Submit(ASKED)
        await controller.hears("submission")
        controller.accept("r1")
        await controller.store.wait("r1", "", 60)
        second = public_grpc.PipelinesStub(to_two).Submit(OTHER)
        submission = await controller.hears("submission")
        assert submission.request_id == "r1"
        controller.refuse("r1", AlreadyExists("request id r1 was used for another request"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await second
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        assert await controller.store.get("r1", "") == b"a picture"
        first.cancel()


async def test_a_repeat_through_another_gateway_may_go_away(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start()
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        call = stub.Submit(ASKED)
        await controller.hears("submission")
        controller.accept("r1", repeated=True)
        await controller.store.wait("r1", "", 60)
        call.cancel()
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Submit(OTHER)
        assert controller.said == []  # above all, no cancellation


async def test_an_id_that_was_refused_may_be_used_again(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.refuse("r1", Rejected("no"))
    with pytest.raises(grpc.aio.AioRpcError):
        await call
    again = stub.Submit(OTHER)
    await controller.hears("submission")
    controller.accept("r1")
    await controller.finish("r1", second=b"y")
    assert (await again).outputs[0].content == b"y"


async def test_a_payload_that_could_not_be_stored_comes_with_the_repeat(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    redis_server: RedisServer,
) -> None:
    redis_server.kill()
    try:
        call = stub.Submit(ASKED)
        await controller.hears("submission")
        controller.accept("r1")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        redis_server.start()
    again = stub.Submit(ASKED)
    assert await controller.store.wait("r1", "", 60) == b"a picture"
    assert controller.said == []  # the request was not given up meanwhile
    controller.end("r1", model.OUTCOME_FAILED)
    await again
