"""A payload that Redis has lost while its client waits: the client brings it again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from esg.client import AsyncClient, Result
from esg.runtime.rpc.chunks import PIECE_BYTES
from esg.storage.redis_store import OFFERED_S
from tests.component.gateway.conftest import Keys
from tests.support.redis_server import RedisServer
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.waiting import until

OFFERED_AT_MOST_S = int(OFFERED_S)
Way = Callable[[bytes], Awaitable[Result]]


@pytest.fixture(params=["call", "stream"])
async def submit(request: pytest.FixtureRequest, mesh: AsyncClient) -> AsyncIterator[Way]:
    if request.param == "call":
        yield lambda payload: mesh.submit(KNOWN, payload, request_id="r1")
        return
    async with mesh.stream() as stream:
        yield lambda payload: stream.submit(KNOWN, payload, request_id="r1")


@pytest.mark.parametrize("payload", [b"abc", b"x" * (PIECE_BYTES + 1)], ids=["small", "large"])
async def test_lost_payload_is_submitted_again(
    submit: Way,
    payload: bytes,
    controller: ScriptedController,
    redis_server: RedisServer,
    keys: Keys,
) -> None:
    answer = asyncio.ensure_future(submit(payload))
    assert await controller.takes_in("r1") == payload
    with redis_server.client() as inside:
        # while it is being stored, nobody would ask the client for it
        await until(lambda: all(inside.ttl(key) > OFFERED_AT_MOST_S for key in keys()))
        inside.flushall()
    controller.lose_payload("r1")
    assert await controller.takes_in("r1", repeated=True) == payload
    await controller.finish("r1", second=b"y")
    assert (await answer).outputs == {"second": b"y"}
    assert controller.said == []
    await until(lambda: keys() == [])
