"""Large payloads and results of requests that are waited for go by files, and leave none."""

import asyncio
import shutil
from pathlib import Path

import grpc
import pytest

from esg.names import payload_stage
from esg.protos import controller_v1_pb2 as wire
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import Exhausted, NotFound
from esg.storage.redis_store import RedisStore
from esg.storage.shared_store import SharedStore
from tests.component.gateway.conftest import Keys
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, PREFIX, ScriptedController
from tests.support.waiting import until

LARGE = bytes(range(256)) * 2000
"""More than is stored in Redis before its request is accepted."""
PIECE = 2**20
ASKED = public.SubmitRequest(application=KNOWN, payload=LARGE, request_id="r1")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def node(address: str, directory: Path) -> SharedStore:
    """What a node on this machine sees."""
    return SharedStore(directory, 2**30)


@pytest.fixture
async def address(gateways: Gateways, directory: Path) -> str:
    return await gateways.start(shared_data=directory, durable_payloads=False)


def files(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def stage_of(submission: wire.Submission) -> str:
    return payload_stage(submission.content_hash)


async def test_a_large_payload_is_a_file_before_its_request_is_accepted_and_gone_at_its_end(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    node: SharedStore,
    directory: Path,
    keys: Keys,
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    assert not submission.awaits_acceptance
    assert node.get("r1", stage_of(submission)) == LARGE
    assert keys() == []
    controller.accept("r1")
    await controller.finish("r1", second=b"y")
    await call
    await until(lambda: files(directory) == [])


async def test_a_result_in_a_file_is_delivered_and_removed(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    node: SharedStore,
    directory: Path,
    keys: Keys,
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    node.put("r1", "second", LARGE[::-1])
    controller.end("r1", model.OUTCOME_DONE, output_stages=["second"])
    assert [output.content for output in (await call).outputs] == [LARGE[::-1]]
    await until(lambda: files(directory) == [])
    assert keys() == []


async def test_a_result_that_comes_in_pieces_is_read_from_its_file(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, node: SharedStore
) -> None:
    large = LARGE * 9
    first = public.SubmitRequest(application=KNOWN, request_id="r1")
    parts = [large[start : start + PIECE] for start in range(0, len(large), PIECE)]
    chunks = [public.SubmitChunk(payload=part) for part in parts]
    call = stub.SubmitChunked(iter([public.SubmitChunk(request=first), *chunks]))
    replies = asyncio.create_task(_all(call))
    submission = await controller.hears("submission")
    assert submission.awaits_acceptance  # it takes a while to write so much
    controller.accept("r1")
    await until(lambda: node.get("r1", stage_of(submission)) == large)
    node.put("r1", "second", large[::-1])
    controller.end("r1", model.OUTCOME_DONE, output_stages=["second"])
    assert b"".join(reply.output.content for reply in await replies) == large[::-1]


async def _all(call: "grpc.aio.StreamStreamCall[object, public.ResultChunk]") -> list[object]:
    return [reply async for reply in call]


async def test_a_request_that_is_refused_leaves_no_file(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, directory: Path, keys: Keys
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    assert len(files(directory)) == 1
    controller.refuse("r1", Exhausted("too many"))
    with pytest.raises(grpc.aio.AioRpcError, match="too many"):
        await call
    assert (files(directory), keys()) == ([], [])


async def test_whoever_asked_too_early_is_refused_and_the_payload_stays(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, node: SharedStore
) -> None:
    early = stub.Get(public.GetRequest(request_id="r1"))
    await controller.hears("follow")
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    controller.refuse("r1", NotFound("no such request"))
    with pytest.raises(grpc.aio.AioRpcError, match="no such request"):
        await early
    assert node.get("r1", stage_of(submission)) == LARGE
    controller.accept("r1")
    await controller.finish("r1", second=b"y")
    assert [output.content for output in (await call).outputs] == [b"y"]


async def test_what_nobody_waits_for_goes_to_redis(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, directory: Path, keys: Keys
) -> None:
    call = stub.SubmitAsync(ASKED)
    submission = await controller.hears("submission")
    controller.accept("r1")
    await call
    assert keys() == [f"{PREFIX}/r1/{stage_of(submission)}"]
    assert files(directory) == []


async def test_if_others_will_fetch_it_the_payload_moves_to_redis_and_so_does_the_result(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    node: SharedStore,
    directory: Path,
    keys: Keys,
) -> None:
    waiting = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    later = stub.SubmitAsync(ASKED)
    submission = await controller.hears("submission")
    controller.accept("r1", repeated=True)
    await later
    assert keys() == [f"{PREFIX}/r1/{stage_of(submission)}"]
    assert files(directory) == []
    node.put("r1", "second", LARGE[::-1])  # its order was sent before
    controller.end("r1", model.OUTCOME_DONE, output_stages=["second"])
    assert [output.content for output in (await waiting).outputs] == [LARGE[::-1]]
    await until(lambda: keys() == [f"{PREFIX}/r1/second"])
    assert files(directory) == []


async def test_a_payload_that_a_node_does_not_see_is_stored_in_redis_after_all(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    store: RedisStore,
    directory: Path,
    keys: Keys,
) -> None:
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    controller.accept("r1")
    controller.lose_payload("r1")
    assert await store.wait("r1", stage_of(submission), 60) == LARGE
    await until(lambda: files(directory) == [])
    await controller.finish("r1", second=b"y")
    await call
    await until(lambda: keys() == [])


async def test_a_payload_that_is_gone_is_sent_again_by_its_client(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, directory: Path
) -> None:
    call = stub.Submit(ASKED)
    await controller.hears("submission")
    controller.accept("r1")
    shutil.rmtree(directory)
    controller.lose_payload("r1")
    with pytest.raises(grpc.aio.AioRpcError, match="submit it again") as failed:
        await call
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_without_its_directory_a_gateway_goes_on_with_redis(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    store: RedisStore,
    directory: Path,
) -> None:
    shutil.rmtree(directory)
    call = stub.Submit(ASKED)
    submission = await controller.hears("submission")
    controller.accept("r1")
    assert await store.wait("r1", stage_of(submission), 60) == LARGE
    await controller.finish("r1", second=b"y")
    assert [output.content for output in (await call).outputs] == [b"y"]
