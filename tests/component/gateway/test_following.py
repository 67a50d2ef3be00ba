"""Looking at requests that were submitted before: get, watch, cancel."""

import asyncio
from collections.abc import Iterable

import grpc
import pytest

from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import AlreadyExists
from tests.support.scripted_controller import KNOWN, ScriptedController

ASKED = public.SubmitRequest(application=KNOWN, payload=b"abc", request_id="r1")
WATCH = public.WatchRequest(request_id="r1")
GET = public.GetRequest(request_id="r1")


async def submitted(stub: public_grpc.PipelinesStub, controller: ScriptedController) -> None:
    call = stub.SubmitAsync(ASKED)
    await controller.takes_in("r1")
    await call


def steps(progress: Iterable[model.StageProgress]) -> list[tuple[str, bool]]:
    return [(step.stage, step.finished) for step in progress]


async def test_a_watcher_sees_the_past_and_what_comes(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    await submitted(stub, controller)
    controller.progress("r1", "first", finished=False)
    watch = stub.Watch(WATCH)
    replies = aiter(watch)
    assert await controller.hears("follow") == "r1"
    controller.accept("r1")
    assert (await anext(replies)).progress.stage == "first"
    controller.progress("r1", "first", finished=True, at_us=40_000)
    told = (await anext(replies)).progress
    assert (told.finished, told.at_us, told.node, told.config.vcpus) == (True, 40_000, "i0", 2)
    controller.progress("r1", "second", finished=False)
    controller.progress("r1", "second", finished=True)
    await controller.finish("r1", second=b"y")
    rest = [reply async for reply in replies]
    assert [reply.WhichOneof("part") for reply in rest] == ["progress", "progress", "result"]
    assert rest[-1].result.outcome == model.OUTCOME_DONE


async def test_a_request_that_has_ended_is_watched_by_its_result(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    watch = stub.Watch(WATCH)
    replies = aiter(watch)
    await controller.hears("follow")
    controller.accept("r1")
    await controller.finish("r1", second=b"y")
    told = [reply async for reply in replies]
    assert [(r.progress.stage, r.progress.finished, r.progress.at_us) for r in told[:-1]] == [
        ("first", False, 10_000),
        ("first", True, 40_000),
        ("second", False, 45_000),
        ("second", True, 70_000),
    ]
    assert told[-1].result.request_id == "r1"


async def test_watchers_of_one_request_see_the_same(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    await submitted(stub, controller)
    controller.progress("r1", "first", finished=False)
    watchers = [aiter(stub.Watch(WATCH)) for _ in range(3)]
    await controller.hears("follow")
    controller.accept("r1")
    for watcher in watchers:
        assert (await anext(watcher)).progress.stage == "first"
    controller.progress("r1", "first", finished=True)
    controller.end("r1", model.OUTCOME_FAILED)
    for watcher in watchers:
        parts = [reply.WhichOneof("part") async for reply in watcher]
        assert parts == ["progress", "result"]


async def test_a_watcher_that_goes_away_changes_nothing(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    watch = stub.Watch(WATCH)
    replies = aiter(watch)
    await controller.hears("follow")
    controller.accept("r1")
    controller.progress("r1", "first", finished=False)
    await anext(replies)
    watch.cancel()
    assert await controller.hears("leave") == "r1"
    state = stub.Get(GET)
    await controller.hears("follow")  # it was forgotten here, and not cancelled
    assert controller.said == []
    controller.accept("r1")
    await state


async def test_get_tells_what_is_known_now(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    await submitted(stub, controller)
    controller.progress("r1", "first", finished=False)
    calls = [stub.Get(GET) for _ in range(3)]
    await controller.hears("follow")
    controller.accept("r1")
    for call in calls:
        state = await call
        assert state.application == KNOWN
        assert steps(state.progress) == [("first", False)]
        assert not state.HasField("result")
    controller.progress("r1", "first", finished=True)

    async def told() -> bool:
        return len((await stub.Get(GET)).progress) == 2

    async with asyncio.timeout(60):
        while not await told():
            pass
    assert controller.said == []


async def test_get_tells_every_stage_of_what_has_ended(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    state = stub.Get(GET)
    await controller.hears("follow")
    await controller.finish("r1", second=b"y")
    controller.accept("r1")
    told = await state
    assert steps(told.progress) == [(s, end) for s in ("first", "second") for end in (False, True)]
    assert told.result.outcome == model.OUTCOME_DONE


async def test_a_request_can_be_cancelled(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    waiting = stub.Submit(ASKED)
    await controller.takes_in("r1")
    cancel = stub.Cancel(public.CancelRequest(request_id="r1"))
    assert await controller.hears("cancel") == "r1"
    controller.end("r1", model.OUTCOME_CANCELLED, reason="cancelled")
    assert (await cancel).cancelled
    assert (await waiting).result.outcome == model.OUTCOME_CANCELLED


async def test_a_request_that_has_ended_cannot_be_cancelled(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    cancel = stub.Cancel(public.CancelRequest(request_id="r1"))
    await controller.hears("follow")
    controller.accept("r1")
    controller.end("r1", model.OUTCOME_FAILED)
    assert not (await cancel).cancelled
    assert controller.said == []


async def test_a_request_that_is_only_watched_here_can_be_submitted_here(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    watch = stub.Watch(WATCH)
    replies = aiter(watch)
    await controller.hears("follow")
    controller.accept("r1")
    controller.progress("r1", "first", finished=False)
    await anext(replies)
    submit = stub.Submit(ASKED)
    await controller.takes_in("r1", repeated=True)
    await controller.finish("r1", second=b"y")
    assert (await submit).outputs[0].content == b"y"
    assert [reply async for reply in replies][-1].HasField("result")


async def test_a_submission_that_is_refused_leaves_the_watcher_alone(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    watch = stub.Watch(WATCH)
    replies = aiter(watch)
    await controller.hears("follow")
    controller.accept("r1")
    controller.progress("r1", "first", finished=False)
    await anext(replies)
    submit = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.refuse("r1", AlreadyExists("used for another request"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await submit
    assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
    controller.end("r1", model.OUTCOME_FAILED)
    assert [reply async for reply in replies][-1].result.outcome == model.OUTCOME_FAILED
