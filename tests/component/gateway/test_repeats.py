"""The same request id again: it finds the first request, here or through another gateway."""

import signal

import grpc
import pytest

from esg.errors import Rejected
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import AlreadyExists, Unavailable
from tests.component.gateway.conftest import Keys
from tests.support.redis_server import RedisServer
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.waiting import until

ASKED = public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id="r1")
OTHER = public.SubmitRequest(application=KNOWN, payload=b"another one", request_id="r1")


async def test_two_calls_for_one_id_wait_for_one_request(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    calls = [stub.Submit(ASKED), stub.Submit(ASKED)]
    await controller.takes_in("r1")
    await controller.finish("r1", second=b"y")
    assert [(await call).outputs[0].content for call in calls] == [b"y", b"y"]
    assert controller.said == []
    await until(lambda: keys() == [])


async def test_call_for_a_request_survives_another_that_goes_away(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    stays, goes = stub.Submit(ASKED), stub.Submit(ASKED)
    await controller.takes_in("r1")
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
    other: public.SubmitRequest,
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    keys: Keys,
) -> None:
    first = stub.Submit(ASKED)
    await controller.takes_in("r1")
    stored = keys()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Submit(other)
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    assert "choose a new id" in (caught.value.details() or "")
    assert keys() == stored
    await controller.finish("r1", second=b"y")
    assert (await first).outputs[0].content == b"y"
    await until(lambda: keys() == [])


async def test_through_another_gateway_other_content_leaves_the_payload_alone(
    gateways: Gateways, controller: ScriptedController, keys: Keys
) -> None:
    one, two = await gateways.start(), await gateways.start()
    async with channel(one) as to_one, channel(two) as to_two:
        first = public_grpc.PipelinesStub(to_one).Submit(ASKED)
        await controller.takes_in("r1")
        stored = keys()
        second = public_grpc.PipelinesStub(to_two).Submit(OTHER)
        submission = await controller.hears("submission")
        assert await controller.payload(submission) == b"another one"
        controller.refuse("r1", AlreadyExists("request id r1 was used for another request"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await second
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        await until(lambda: keys() == stored)
        await controller.finish("r1", second=b"y")
        assert (await first).outputs[0].content == b"y"
    await until(lambda: keys() == [])


async def test_a_repeat_through_another_gateway_gets_the_answer(
    gateways: Gateways, controller: ScriptedController, keys: Keys
) -> None:
    one, two = await gateways.start(), await gateways.start()
    async with channel(one) as to_one, channel(two) as to_two:
        first = public_grpc.PipelinesStub(to_one).SubmitAsync(ASKED)
        await controller.takes_in("r1")
        await first
        stored = keys()
        again = public_grpc.PipelinesStub(to_two).Submit(ASKED)
        assert await controller.takes_in("r1", repeated=True) == b"a picture"
        assert keys() == stored
        await controller.finish("r1", second=b"y")
        assert (await again).outputs[0].content == b"y"
    await until(lambda: keys() == [])


async def test_an_id_that_is_watched_here_and_used_for_something_else_may_be_repeated(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    """What was stored for the submission that was refused does not stand for the other one's."""
    watch = stub.Watch(public.WatchRequest(request_id="r1"))
    replies = aiter(watch)
    await controller.hears("follow")
    controller.accept("r1")
    other = stub.Submit(OTHER)
    await controller.payload(await controller.hears("submission"))
    controller.refuse("r1", AlreadyExists("used for another request"))
    with pytest.raises(grpc.aio.AioRpcError):
        await other
    again = stub.Submit(ASKED)
    assert await controller.takes_in("r1", repeated=True) == b"a picture"
    await controller.finish("r1", second=b"y")
    assert (await again).outputs[0].content == b"y"
    assert [reply async for reply in replies][-1].HasField("result")
    await until(lambda: keys() == [])


async def test_a_repeat_through_another_gateway_may_go_away(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start()
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        call = stub.Submit(ASKED)
        await controller.takes_in("r1", repeated=True)
        call.cancel()
        assert await controller.hears("leave") == "r1"
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
    await controller.takes_in("r1")
    await controller.finish("r1", second=b"y")
    assert (await again).outputs[0].content == b"y"


async def test_a_refusal_at_one_gateway_leaves_the_payload_that_another_was_accepted_with(
    gateways: Gateways, controller: ScriptedController
) -> None:
    # attack: F1
    address, other_address = [await gateways.start() for _ in range(2)]
    async with channel(address) as link, channel(other_address) as other_link:
        refused = public_grpc.PipelinesStub(link).Submit(ASKED)
        submission = await controller.hears("submission")
        await controller.payload(submission)
        accepted = public_grpc.PipelinesStub(other_link).Submit(ASKED)
        await controller.hears("submission")
        controller.refuse("r1", Unavailable("the controller is going away; try again"))
        with pytest.raises(grpc.aio.AioRpcError):
            await refused
        controller.accept("r1")
        kept = public_grpc.PipelinesStub(link).SubmitAsync(  # all asked of Redis before is done
            public.SubmitRequest(application=KNOWN, payload=b"x", request_id="r2")
        )
        await controller.takes_in("r2")
        await kept
        assert await controller.payload(submission) == b"a picture"
        for request in ("r1", "r2"):
            controller.end(request, model.OUTCOME_FAILED)
        await accepted


async def test_what_was_stored_for_a_refused_request_is_soon_gone(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.payload(await controller.hears("submission"))
    controller.refuse("r1", Rejected("no"))
    with pytest.raises(grpc.aio.AioRpcError):
        await call
    await until(lambda: keys() == [])


async def test_a_request_that_is_accepted_late_has_its_payload(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    await controller.payload(submission)
    await until(lambda: keys() == [])  # what was offered has expired
    controller.accept("r1")
    assert await controller.payload(submission) == b"a picture"
    controller.end("r1", model.OUTCOME_FAILED)
    await call


async def test_a_request_that_was_refused_for_now_keeps_the_payload_of_its_repeat(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, redis_server: RedisServer
) -> None:
    """However slow the store is."""
    another = public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id="r2")
    calls = {"r2": stub.Submit(another), "r1": stub.Submit(ASKED)}
    for _ in calls:
        await controller.payload(await controller.hears("submission"))
    redis_server.signal(signal.SIGSTOP)
    try:
        for request, call in calls.items():
            controller.refuse(request, Unavailable("the controller is going away; try again"))
            with pytest.raises(grpc.aio.AioRpcError):
                await call
        again = stub.Submit(ASKED)
        submission = await controller.hears("submission")
    finally:
        redis_server.signal(signal.SIGCONT)
    controller.accept("r1")
    # What is stored afterwards shows that all that was asked of Redis before is done
    kept = stub.SubmitAsync(another)
    await controller.takes_in("r2")
    await kept
    assert await controller.payload(submission) == b"a picture"
    for request in calls:
        controller.end(request, model.OUTCOME_FAILED)
    await again


async def test_a_payload_that_could_not_be_stored_comes_with_the_repeat(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    redis_server: RedisServer,
    keys: Keys,
) -> None:
    redis_server.kill()
    try:
        calls = [stub.Submit(ASKED), stub.Submit(ASKED)]
        submission = await controller.hears("submission")
        controller.accept("r1")
        for call in calls:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "the store between stages did not answer" in (caught.value.details() or "")
    finally:
        redis_server.start()
    again = stub.Submit(ASKED)
    assert await controller.payload(submission) == b"a picture"
    assert controller.said == []  # the request was not given up meanwhile
    await controller.finish("r1", second=b"y")
    assert (await again).outputs[0].content == b"y"
    await until(lambda: keys() == [])
