"""A request from the door to its answer, and what is left of it afterwards: nothing."""

import asyncio

import grpc
import pytest

from esg.errors import Rejected
from esg.names import payload_stage
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import AlreadyExists, NotFound
from esg.storage.redis_store import PART_BYTES, RedisStore
from tests.component.gateway.conftest import Keys
from tests.support.redis_server import RedisServer
from tests.support.scripted_controller import KNOWN, REMEMBERED_US, ScriptedController
from tests.support.waiting import until

ASKED = public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id="r1")


def _named(request_id: str) -> public.SubmitRequest:
    return public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id=request_id)


async def answered(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, request_id: str
) -> None:
    call = stub.Submit(public.SubmitRequest(application=KNOWN, payload=b"x", request_id=request_id))
    await controller.hears("submission")
    controller.accept(request_id)
    await controller.finish(request_id, second=b"y")
    await call


async def forgotten(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, request_id: str
) -> None:
    """Who asks a gateway about a request that it does not know makes it ask the controller."""
    state = stub.Get(public.GetRequest(request_id=request_id))
    assert await controller.hears("follow") == request_id
    controller.refuse(request_id, NotFound("unknown request"))
    with pytest.raises(grpc.aio.AioRpcError):
        await state


async def test_a_request_is_answered_and_nothing_is_left(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    assert (submission.request_id, submission.application) == ("r1", KNOWN)
    assert not submission.HasField("slo_us")
    assert not submission.HasField("deadline_us")
    assert not submission.fetched_later
    assert await controller.payload(submission) == b"a picture"  # while the controller decides
    controller.accept("r1")
    await controller.finish("r1", mask=b"a mask", depth=b"a depth")
    reply = await call
    assert [(o.stage, o.content) for o in reply.outputs] == [
        ("mask", b"a mask"),
        ("depth", b"a depth"),
    ]
    assert reply.result.slo_met
    assert [stage.stage for stage in reply.result.stages] == ["first", "second"]
    await until(lambda: keys() == [])


async def test_gateway_chooses_the_id_of_a_request_without_one(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    asked = public.SubmitRequest(application=KNOWN, payload=b"x")
    calls = [stub.Submit(asked), stub.Submit(asked)]
    submissions = [await controller.hears("submission") for _ in calls]
    ids = {submission.request_id for submission in submissions}
    assert len(ids) == 2
    for submission in submissions:
        controller.accept(submission.request_id)
        assert await controller.payload(submission) == b"x"
        await controller.finish(submission.request_id, second=b"y")
    assert {(await call).result.request_id for call in calls} == ids


async def test_a_refusal_comes_with_the_controllers_words_and_nothing_is_left(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    for error, code in {
        NotFound("unknown application 'x'; known: y"): grpc.StatusCode.NOT_FOUND,
        Rejected("slo: too short; at least 200 ms"): grpc.StatusCode.INVALID_ARGUMENT,
    }.items():
        call = stub.Submit(ASKED)
        await controller.payload(await controller.hears("submission"))
        controller.refuse("r1", error)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert (caught.value.code(), caught.value.details()) == (code, str(error))
        await until(lambda: keys() == [])


async def test_a_request_that_failed_says_why(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.takes_in("r1")
    controller.end("r1", model.OUTCOME_FAILED, reason="every invoker is lost")
    reply = await call
    assert reply.result.outcome == model.OUTCOME_FAILED
    assert reply.result.reason == "every invoker is lost"
    assert list(reply.outputs) == []
    await until(lambda: keys() == [])


# attack: H2
async def test_payload_that_a_function_can_do_nothing_with_is_the_callers_mistake(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    words = "detect: 7 bytes that are no picture; send a PNG, a JPEG or a WebP"
    whole = stub.Submit(ASKED)
    chunked = stub.SubmitChunked(iter([public.SubmitChunk(request=_named("r2"))]))
    many = stub.SubmitMany(iter([public.SubmitGroup(requests=[_named("r3")])]))
    replies = asyncio.create_task(anext(aiter(many)))
    refused = asyncio.create_task(anext(aiter(chunked)))
    for _ in range(3):
        request = (await controller.hears("submission")).request_id
        controller.accept(request)
        controller.end(request, model.OUTCOME_INVALID, reason=words)
    for call in (whole, refused):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        expected = (grpc.StatusCode.INVALID_ARGUMENT, words)
        assert (caught.value.code(), caught.value.details()) == expected
    (reply,) = (await replies).replies
    assert (reply.refusal.code, reply.refusal.message) == (3, words)
    asking = stub.Get(public.GetRequest(request_id="r1"))
    assert await controller.hears("follow") == "r1"
    controller.accept("r1")
    state = await asking
    assert (state.result.outcome, state.result.reason) == (model.OUTCOME_INVALID, words)
    await until(lambda: keys() == [])


async def test_the_deadline_of_the_call_is_passed_on(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    asked = public.SubmitRequest(application=KNOWN, payload=b"x", slo_us=700_000)
    call = stub.Submit(asked, timeout=50.0)
    submission = await controller.hears("submission")
    assert submission.slo_us == 700_000
    assert 0 < submission.deadline_us < 51_000_000  # gRPC rounds it up a little
    call.cancel()


async def test_a_call_whose_time_is_over_cancels_its_request(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.Submit(ASKED, timeout=10)  # long enough for it to come in
    await controller.takes_in("r1")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await controller.hears("leave") == "r1"


async def test_a_client_that_goes_away_cancels_its_request_and_nothing_is_left(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.takes_in("r1")
    call.cancel()
    assert await controller.hears("leave") == "r1"
    controller.end("r1", model.OUTCOME_CANCELLED)
    await until(lambda: keys() == [])


async def test_a_client_that_goes_away_before_the_controller_has_answered_cancels_too(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    await controller.payload(submission)
    call.cancel()
    await answered(stub, controller, "r2")  # by now the gateway knows that its client has gone
    assert controller.said == []  # it might be somebody else's
    controller.accept("r1")
    assert await controller.hears("leave") == "r1"
    controller.end("r1", model.OUTCOME_CANCELLED)
    await until(lambda: keys() == [])
    await forgotten(stub, controller, "r1")


async def test_a_client_that_goes_away_before_it_is_refused_leaves_nothing(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    await controller.payload(submission)
    call.cancel()
    await answered(stub, controller, "r2")
    controller.refuse("r1", AlreadyExists("used for another request"))
    await until(lambda: keys() == [])
    await forgotten(stub, controller, "r1")
    assert controller.said == []  # above all, no cancellation


async def test_outputs_that_nobody_took_wait_for_a_repeat(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.takes_in("r1")
    call.cancel()
    await controller.hears("leave")
    await controller.finish("r1", second=b"too late")  # it was done by then
    await until(lambda: keys() == ["test/r1/second"])
    again = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1", repeated=True)
    assert (await again).outputs[0].content == b"too late"
    await until(lambda: keys() == [])


async def test_request_goes_on_when_its_client_does_not_wait(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.SubmitAsync(ASKED)
    submission = await controller.hears("submission")
    assert submission.fetched_later
    controller.accept("r1")
    assert (await call).request_id == "r1"
    assert keys() == [f"test/r1/{payload_stage(submission.content_hash)}"]
    await controller.finish("r1", second=b"an answer")
    await until(lambda: keys() == ["test/r1/second"])
    for _ in range(2):  # as often as wanted
        fetch = stub.Fetch(public.FetchRequest(request_id="r1"))
        assert await controller.hears("follow") == "r1"
        controller.accept("r1")
        chunks = [chunk async for chunk in fetch]
        assert chunks[0].result.request_id == "r1"
        assert [chunk.output.content for chunk in chunks[1:]] == [b"an answer"]
    assert keys() == ["test/r1/second"]


async def test_what_waits_to_be_fetched_is_told_with_its_size_and_its_time_and_expires(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, redis_server: RedisServer
) -> None:
    """The outputs are written for longer than the result is remembered; one is in parts."""
    call = stub.SubmitAsync(ASKED)
    await controller.takes_in("r1")
    await call
    await controller.finish("r1", first=b"an answer", second=bytes(PART_BYTES + 1))
    get = stub.Get(public.GetRequest(request_id="r1"))
    await controller.hears("follow")
    controller.accept("r1")
    state = await get
    sizes = {output.stage: output.bytes for output in state.outputs}
    assert sizes == {"first": 9, "second": PART_BYTES + 1}
    assert 0 < state.fetch_within_us <= REMEMBERED_US
    with redis_server.client() as inside:
        left_ms = [inside.pttl(key) for key in inside.scan_iter("test/r1/*")]
    assert len(left_ms) == 4  # a value, and one in two parts with their list
    assert all(0 < left <= REMEMBERED_US // 1000 for left in left_ms)


async def test_nothing_is_told_to_wait_that_has_expired_or_was_waited_for(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, store: RedisStore
) -> None:
    call = stub.SubmitAsync(ASKED)
    await controller.takes_in("r1")
    await call
    await controller.finish("r1", first=b"1", second=b"2")
    await store.discard("r1", ["first", "second"])
    await answered(stub, controller, "r2")
    for request in ("r1", "r2"):
        get = stub.Get(public.GetRequest(request_id=request))
        await controller.hears("follow")
        controller.accept(request)
        state = await get
        assert (list(state.outputs), state.fetch_within_us) == ([], 0)


async def test_outputs_that_were_delivered_are_gone(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    fetch = stub.Fetch(public.FetchRequest(request_id="r1"))
    await controller.hears("follow")
    controller.accept("r1")
    controller.end("r1", model.OUTCOME_DONE, output_stages=["second"])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(anext(aiter(fetch)), 60)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert "delivered before" in (caught.value.details() or "")


async def test_a_request_that_nobody_waits_for_is_not_accepted_without_its_payload_on_disk(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, redis_server: RedisServer
) -> None:
    with redis_server.client() as inside:
        inside.config_set("appendonly", "no")
        try:
            call = stub.SubmitAsync(ASKED)
            await controller.takes_in("r1")  # it is in Redis, but only there
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION  # no retry cures it
            assert "appendonly yes, or set durable_payloads" in (caught.value.details() or "")
            await controller.hears("leave")
            await answered(stub, controller, "r2")  # whoever waits can bring it again
        finally:
            inside.config_set("appendonly", "yes")


async def test_nor_is_one_that_somebody_waits_for_as_well(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, redis_server: RedisServer
) -> None:
    """The one who waits has stored it before, but may go away."""
    with redis_server.client() as inside:
        inside.config_set("appendonly", "no")
        try:
            waits = stub.Submit(ASKED)
            await controller.takes_in("r1")
            later = stub.SubmitAsync(ASKED)
            await controller.takes_in("r1", repeated=True)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await later
            assert "appendonly yes, or set durable_payloads" in (caught.value.details() or "")
            assert await controller.hears("keep_not") == "r1"
        finally:
            inside.config_set("appendonly", "yes")
    later = stub.SubmitAsync(ASKED)
    await controller.takes_in("r1", repeated=True)
    assert (await later).request_id == "r1"
    await controller.finish("r1", second=b"y")
    assert (await waits).outputs[0].content == b"y"
