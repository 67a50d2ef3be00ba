"""Small payloads and small results travel with messages: Redis does not hear of them, and a restart
loses none."""

import asyncio
from typing import Any

from redis.asyncio import Redis

from esg.client import AsyncClient
from esg.local.supervisor import Mesh
from tests.integration.conftest import Launch
from tests.support.integration_catalog import INPUT_BYTES
from tests.support.mesh_expectations import nothing_is_left, photo, status_of
from tests.support.waiting import until

SMALL, LARGE = b"a picture", bytes(20_000)
LIMIT = 2**14
SMALL_RESULTS = {"payload_scale": LIMIT / INPUT_BYTES}
LARGER_RESULTS = {"payload_scale": (LIMIT + 1) / INPUT_BYTES}


async def commands(mesh: Mesh) -> dict[str, int]:
    """How many commands of each kind there were about values, so far."""
    async with Redis.from_url(mesh.redis_url) as redis:
        stats = await redis.info("commandstats")
    told = ((name.removeprefix("cmdstat_"), stat["calls"]) for name, stat in stats.items())
    return {name: calls for name, calls in told if name in ("set", "get", "unlink")}


async def written(mesh: Mesh) -> int:
    """How many values were written to Redis so far."""
    return (await commands(mesh)).get("set", 0)


HOSTS_APART: dict[str, Any] = {"more": {"common": {"shared_data": ""}}}
"""What is large goes through Redis."""


async def waiting(client: AsyncClient) -> None:
    """Until one job waits in a queue."""

    async def it_waits() -> bool:
        return sum(queue.waiting for queue in (await status_of(client)).queues) == 1

    await until(it_waits)


async def test_small_data_is_not_written_to_redis_and_larger_is(launch: Launch) -> None:
    async with launch(nodes=1, **LARGER_RESULTS, **HOSTS_APART) as (mesh, client):
        writes = []
        for payload in (SMALL, LARGE):
            before = await written(mesh)
            assert (await client.submit("photo", payload)).outputs == photo(payload, LIMIT + 1)
            writes.append(await written(mesh) - before)
        assert writes == [1, 2]  # the result, and the larger payload
        await nothing_is_left(mesh, client)


async def test_a_small_result_takes_nothing_of_redis_and_a_repeat_gets_the_same(
    launch: Launch,
) -> None:
    async with (
        launch(nodes=1, gateways=2, **SMALL_RESULTS) as (mesh, client),
        AsyncClient(mesh.gateways[1]) as other,
    ):
        before = await commands(mesh)
        first = await client.submit("photo", SMALL, request_id="r1")
        assert first.outputs == photo(SMALL, LIMIT)
        for gateway in (client, other):
            again = await gateway.submit("photo", SMALL, request_id="r1")
            assert (again.outputs, again.stages) == (first.outputs, first.stages)
        await nothing_is_left(mesh, client)
        assert await commands(mesh) == before


async def test_a_small_result_that_somebody_wants_later_can_be_fetched(launch: Launch) -> None:
    async with launch(nodes=1, **SMALL_RESULTS) as (mesh, client):
        await client.submit("photo", SMALL, request_id="r1")
        assert await client.submit_async("photo", SMALL, request_id="r1") == "r1"
        for _ in range(2):
            state = await client.get("r1")
            assert state.output_bytes == {"label": LIMIT}
            assert (await client.fetch("r1")).outputs == photo(SMALL, LIMIT)
        await nothing_is_left(mesh, client)


async def test_a_controller_that_dies_loses_no_small_payload(launch: Launch) -> None:
    async with launch(nodes=1, **LARGER_RESULTS, **HOSTS_APART) as (mesh, client):
        await mesh.kill("node0")
        answer = asyncio.create_task(client.submit("photo", SMALL, request_id="r1"))
        await waiting(client)
        before = await written(mesh)
        await mesh.kill("controller")
        await mesh.restart("controller")
        await mesh.restart("node0")
        assert (await answer).outputs == photo(SMALL, LIMIT + 1)
        assert await written(mesh) - before == 2  # the result, and the payload after all
        await nothing_is_left(mesh, client)


async def test_a_controller_that_dies_loses_no_small_result(launch: Launch) -> None:
    async with launch(nodes=1, **SMALL_RESULTS) as (mesh, client):
        names = [f"r{number}" for number in range(30)]
        calls = [
            asyncio.create_task(client.submit("photo", name.encode(), request_id=name))
            for name in names
        ]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        await mesh.kill("controller")
        await mesh.restart("controller")
        for name, call in zip(names, calls, strict=True):
            assert (await call).outputs == photo(name.encode(), LIMIT)
            again = await client.submit("photo", name.encode(), request_id=name)
            assert again.outputs == photo(name.encode(), LIMIT)
        await nothing_is_left(mesh, client)
