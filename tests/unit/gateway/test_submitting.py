"""A request from the door to its answer, and what is left of it afterwards: nothing."""

import asyncio

import grpc
import pytest

from esg.errors import Rejected
from mesh.problems import NotFound
from protos import gateway_v1_pb2 as public
from protos import gateway_v1_pb2_grpc as public_grpc
from protos import model_v1_pb2 as model
from tests.unit.gateway.conftest import Keys
from tests.unit.gateway.scripted import KNOWN, ScriptedController, until

ASKED = public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id="r1")


async def answered(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, request_id: str
) -> None:
    call = stub.Submit(public.SubmitRequest(application=KNOWN, payload=b"x", request_id=request_id))
    await controller.hears("submission")
    controller.accept(request_id)
    await controller.finish(request_id, second=b"y")
    await call


async def test_a_request_is_answered_and_nothing_is_left(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    assert (submission.request_id, submission.application) == ("r1", KNOWN)
    assert not submission.HasField("slo_us")
    assert not submission.HasField("deadline_us")
    assert keys() == []  # nothing is stored for what may be refused
    controller.accept("r1")
    assert await controller.store.wait("r1", "", 60) == b"a picture"
    await controller.finish("r1", mask=b"a mask", depth=b"a depth")
    reply = await call
    assert [(o.stage, o.content) for o in reply.outputs] == [
        ("mask", b"a mask"),
        ("depth", b"a depth"),
    ]
    assert reply.result.slo_met
    assert [stage.stage for stage in reply.result.stages] == ["first", "second"]
    await until(lambda: keys() == [])


async def test_without_an_id_the_gateway_chooses_one(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    asked = public.SubmitRequest(application=KNOWN, payload=b"x")
    calls = [stub.Submit(asked), stub.Submit(asked)]
    ids = {(await controller.hears("submission")).request_id for _ in calls}
    assert len(ids) == 2
    for request in ids:
        controller.accept(request)
        await controller.finish(request, second=b"y")
    assert {(await call).result.request_id for call in calls} == ids


async def test_a_refusal_comes_with_the_controllers_words(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    for error, code in {
        NotFound("unknown application 'x'; known: y"): grpc.StatusCode.NOT_FOUND,
        Rejected("slo: too short; at least 200 ms"): grpc.StatusCode.INVALID_ARGUMENT,
    }.items():
        call = stub.Submit(ASKED)
        await controller.hears("submission")
        controller.refuse("r1", error)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert (caught.value.code(), caught.value.details()) == (code, str(error))
    assert keys() == []


async def test_a_request_that_failed_says_why(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    await controller.store.wait("r1", "", 60)
    controller.end("r1", model.OUTCOME_FAILED, reason="every invoker is lost")
    reply = await call
    assert reply.result.outcome == model.OUTCOME_FAILED
    assert reply.result.reason == "every invoker is lost"
    assert list(reply.outputs) == []
    await until(lambda: keys() == [])


async def test_the_deadline_of_the_call_is_passed_on(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    asked = public.SubmitRequest(application=KNOWN, payload=b"x", slo_us=700_000)
    call = stub.Submit(asked, timeout=50.0)
    submission = await controller.hears("submission")
    assert submission.slo_us == 700_000
    assert 0 < submission.deadline_us <= 50_000_000
    call.cancel()


async def test_a_call_whose_time_is_over_cancels_its_request(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.Submit(ASKED, timeout=0.2)
    await controller.hears("submission")
    controller.accept("r1")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await controller.hears("cancel") == "r1"


async def test_a_client_that_goes_away_cancels_its_request_and_nothing_is_left(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    await controller.store.wait("r1", "", 60)
    call.cancel()
    assert await controller.hears("cancel") == "r1"
    controller.end("r1", model.OUTCOME_CANCELLED)
    await until(lambda: keys() == [])


async def test_a_client_that_goes_away_before_the_controller_has_answered_cancels_too(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    call.cancel()
    assert await controller.hears("cancel") == "r1"
    controller.accept("r1")
    controller.end("r1", model.OUTCOME_CANCELLED)
    await answered(stub, controller, "r2")  # what was said before has been heard by then
    state = stub.Get(public.GetRequest(request_id="r1"))
    assert await controller.hears("follow") == "r1"  # this gateway has forgotten it
    controller.refuse("r1", NotFound("unknown request"))
    with pytest.raises(grpc.aio.AioRpcError):
        await state
    await until(lambda: keys() == [])


async def test_outputs_that_nobody_took_wait_for_a_repeat(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    await controller.store.wait("r1", "", 60)
    call.cancel()
    await controller.hears("cancel")
    await controller.finish("r1", second=b"too late")  # it was done by then
    await until(lambda: keys() == ["test/r1/second"])
    again = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1", repeated=True)
    await controller.finish("r1", second=b"too late")
    assert (await again).outputs[0].content == b"too late"
    await until(lambda: keys() == [])


async def test_not_waiting_leaves_the_request_running(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, keys: Keys
) -> None:
    call = stub.SubmitAsync(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    assert (await call).request_id == "r1"
    assert keys() == ["test/r1/"]
    await controller.finish("r1", second=b"an answer")
    await until(lambda: keys() == ["test/r1/second"])
    fetch = stub.Fetch(public.FetchRequest(request_id="r1"))
    assert await controller.hears("follow") == "r1"
    controller.accept("r1")
    await controller.finish("r1", second=b"an answer")
    chunks = [chunk async for chunk in fetch]
    assert chunks[0].result.request_id == "r1"
    assert [chunk.output.content for chunk in chunks[1:]] == [b"an answer"]
    await until(lambda: keys() == [])


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
