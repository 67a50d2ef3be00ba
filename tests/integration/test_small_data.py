"""Small payloads travel with messages: Redis does not hear of them, and a restart loses none."""

import asyncio
from typing import Any

from redis.asyncio import Redis

from esg.local.supervisor import Mesh
from tests.integration.conftest import Launch
from tests.support.mesh_expectations import nothing_is_left, photo, status_of
from tests.support.waiting import until

SMALL, LARGE = b"a picture", bytes(20_000)


async def written(mesh: Mesh) -> int:
    """How many values were written to Redis so far."""
    async with Redis.from_url(mesh.redis_url) as redis:
        stats = await redis.info("commandstats")
    return int(stats.get("cmdstat_set", {}).get("calls", 0))


HOSTS_APART: dict[str, Any] = {"nodes": 1, "more": {"common": {"shared_data": ""}}}
"""What is large goes through Redis."""


async def test_a_small_payload_is_not_written_to_redis_and_a_larger_one_is(launch: Launch) -> None:
    async with launch(**HOSTS_APART) as (mesh, client):
        writes = []
        for payload in (SMALL, LARGE):
            before = await written(mesh)
            assert (await client.submit("photo", payload)).outputs == photo(payload)
            writes.append(await written(mesh) - before)
        assert writes == [1, 2]  # the result, and the larger payload
        await nothing_is_left(mesh, client)


async def test_a_controller_that_dies_loses_no_small_payload(launch: Launch) -> None:
    async with launch(**HOSTS_APART) as (mesh, client):
        await mesh.kill("node0")
        answer = asyncio.create_task(client.submit("photo", SMALL, request_id="r1"))

        async def it_waits() -> bool:
            return sum(queue.waiting for queue in (await status_of(client)).queues) == 1

        await until(it_waits)
        before = await written(mesh)
        await mesh.kill("controller")
        await mesh.restart("controller")
        await mesh.restart("node0")
        assert (await answer).outputs == photo(SMALL)
        assert await written(mesh) - before == 2  # the result, and the payload after all
        await nothing_is_left(mesh, client)
