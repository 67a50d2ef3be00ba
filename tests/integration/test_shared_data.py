"""Large data on one machine: by files in memory, not through Redis, and nothing of it stays."""

import asyncio
import shutil
from pathlib import Path

import pytest

from esg.client import Progress
from esg.local.supervisor import Mesh
from tests.integration.conftest import Launch
from tests.integration.test_small_data import written
from tests.support.mesh_expectations import nothing_is_left, photo, scene
from tests.support.waiting import until

PICTURE = bytes(range(250)) * 4000
"""A payload of 1 MB; results have 100 kB."""
FORGOTTEN_S = 10
"""How long data stays that a process which died should have removed."""


def shared(mesh: Mesh) -> Path:
    directory = mesh.directory.shared
    assert directory is not None
    return directory


def files(mesh: Mesh) -> list[Path]:
    return list(shared(mesh).iterdir())


async def test_a_large_request_that_is_waited_for_writes_nothing_to_redis_and_leaves_no_file(
    launch: Launch,
) -> None:
    async with launch(nodes=1) as (mesh, client):  # what goes from node to node is in Redis
        assert (await client.submit("photo", PICTURE)).outputs == photo(PICTURE)
        assert await written(mesh) == 0
        large = PICTURE * 9
        async with client.stream() as stream:
            answers = [stream.submit("photo", payload) for payload in (PICTURE, large)]
            for answer, payload in zip(answers, (PICTURE, large), strict=True):
                assert (await answer).outputs == photo(payload)
        assert await written(mesh) == 0
        await nothing_is_left(mesh, client)
        assert files(mesh) == []


async def test_what_is_fetched_later_is_in_redis_alone(launch: Launch) -> None:
    async with launch() as (mesh, client):
        request = await client.submit_async("photo", PICTURE)
        assert (await client.fetch(request)).outputs == photo(PICTURE)
        assert await written(mesh) == 2  # the payload and the result
        assert files(mesh) == []


async def test_a_directory_that_is_full_or_gone_stops_nothing(launch: Launch) -> None:
    async with launch(more={"common": {"shared_data_mb": 1}}) as (mesh, client):
        (shared(mesh) / "full").write_bytes(bytes(2**20))

        async def goes_through_redis() -> bool:
            """Once everybody has looked."""
            before = await written(mesh)
            assert (await client.submit("photo", PICTURE)).outputs == photo(PICTURE)
            return await written(mesh) - before == 2  # the payload and the result

        await until(goes_through_redis)
        await until(lambda: [path.name for path in files(mesh)] == ["full"])
        (shared(mesh) / "full").unlink()
        await nothing_is_left(mesh, client)
        shutil.rmtree(shared(mesh))
        assert (await client.submit("scene", PICTURE[1:])).outputs == scene(PICTURE[1:])
        await nothing_is_left(mesh, client)


@pytest.mark.parametrize("dies", ["node0", "gateway", "controller"])
async def test_a_process_that_is_killed_under_large_requests_leaves_nothing_for_long(
    launch: Launch, dies: str
) -> None:
    async with launch(nodes=1, vgpus=1, more={"common": {"data_ttl_s": FORGOTTEN_S}}) as (
        mesh,
        client,
    ):
        payloads = [PICTURE[n:] for n in range(8)]
        answers = [
            asyncio.create_task(client.submit("photo", payload, request_id=f"r{n}"))
            for n, payload in enumerate(payloads)
        ]
        await until(lambda: files(mesh))
        await mesh.kill(dies)
        await mesh.restart(dies)
        for answer, payload in zip(answers, payloads, strict=True):
            assert (await answer).outputs == photo(payload)
        await nothing_is_left(mesh, client)
        assert files(mesh) == []


async def test_a_request_goes_on_while_its_gateway_starts_again(launch: Launch) -> None:
    """The file of its payload is the machine's, not the gateway's."""
    async with launch(nodes=1, vgpus=1) as (mesh, client):
        busy = await client.submit_async("night", b"for ever")
        async for news in client.watch(busy):
            if isinstance(news, Progress) and news.stage == "slow":
                break
        answer = asyncio.create_task(client.submit("photo", PICTURE, request_id="r1"))
        await until(lambda: files(mesh))
        await mesh.kill("gateway")
        await mesh.restart("gateway")
        await client.cancel(busy)
        assert (await answer).outputs == photo(PICTURE)
        assert await written(mesh) == 1  # the payload of the one that was cancelled
        await nothing_is_left(mesh, client, keys_may_expire=True)
