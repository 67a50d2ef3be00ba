"""Small results that come with the answer: Redis does not hear of them."""

import pytest

from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel
from tests.component.gateway.conftest import Keys
from tests.support.redis_server import RedisServer
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, REMEMBERED_US, ScriptedController

ASKED = public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id="r1")
OURS = ("info", "keys", "scan", "client", "hello", "ping")
"""What a test says to Redis, and what comes with every connection."""


@pytest.fixture
async def address(gateways: Gateways) -> str:
    return await gateways.start(durable_payloads=False)


def commands(redis_server: RedisServer) -> dict[str, int]:
    """How many commands of each kind there were."""
    with redis_server.client() as inside:
        stats = inside.info("commandstats")
    assert isinstance(stats, dict)
    told = {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}
    return {name: calls for name, calls in told.items() if not name.startswith(OURS)}


def contents(reply: public.SubmitReply) -> dict[str, bytes]:
    return {output.stage: output.content for output in reply.outputs}


async def test_an_answer_that_has_the_outputs_takes_nothing_of_redis(
    stub: public_grpc.PipelinesStub, controller: ScriptedController, redis_server: RedisServer
) -> None:
    before = commands(redis_server)
    call = stub.Submit(ASKED)
    await controller.takes_in("r1")
    controller.finish_with("r1", second=b"y")
    assert contents(await call) == {"second": b"y"}
    again = stub.Submit(ASKED)
    await controller.takes_in("r1", repeated=True)
    assert contents(await again) == {"second": b"y"}
    assert commands(redis_server) == before


async def test_some_outputs_come_with_the_answer_and_others_from_redis(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.Submit(ASKED)
    await controller.takes_in("r1")
    await controller.store.put("r1", "first", b"x")
    controller.finish_with("r1", first=None, second=b"y", third=b"")
    assert contents(await call) == {"first": b"x", "second": b"y", "third": b""}


async def test_an_empty_result_is_a_result(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.Submit(ASKED)
    await controller.takes_in("r1")
    controller.finish_with("r1", second=b"")
    assert contents(await call) == {"second": b""}


async def test_what_came_along_can_be_fetched_as_often_as_wanted(
    gateways: Gateways, controller: ScriptedController, keys: Keys
) -> None:
    async with channel(await gateways.start(durable_payloads=False)) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        call = stub.SubmitAsync(ASKED)
        await controller.takes_in("r1")
        await call
        controller.finish_with("r1", second=b"an answer")
        get = stub.Get(public.GetRequest(request_id="r1"))
        await controller.hears("follow")
        controller.accept("r1")
        state = await get
        assert {output.stage: output.bytes for output in state.outputs} == {"second": 9}
        assert 0 < state.fetch_within_us <= REMEMBERED_US
        for _ in range(2):
            fetch = stub.Fetch(public.FetchRequest(request_id="r1"))
            await controller.hears("follow")
            controller.accept("r1")
            _, chunk = [chunk async for chunk in fetch]
            assert (chunk.output.stage, chunk.output.content) == ("second", b"an answer")
            assert "test/r1/second" not in keys()
