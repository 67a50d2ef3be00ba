"""A Redis that keeps no log, and dies: the payload of a request that waits is brought again."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from esg.client import Progress
from tests.integration.conftest import Launch
from tests.support.mesh_expectations import nothing_is_left, photo, status_of
from tests.support.redis_server import RedisServer
from tests.support.waiting import until

PICTURE = bytes(20_000)
"""More than travels with a message."""
FETCH_S = 5.0
"""How long a task waits for its payload; its client has as long to bring it again, and more."""


class ForgetfulServer(RedisServer):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._log = directory / "appendonlydir"

    def die_and_come_back(self) -> None:
        """As if it had kept no log."""
        self.kill()
        shutil.rmtree(self._log)
        self.start()


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForgetfulServer]:
    server = ForgetfulServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


async def test_a_payload_that_redis_lost_is_brought_again(
    redis: ForgetfulServer, launch: Launch
) -> None:
    mesh_of_one_slice = launch(
        nodes=1,
        vgpus=1,
        redis_url=redis.url,
        more={"invoker": {"fetch_timeout_s": FETCH_S}, "common": {"shared_data": ""}},
    )
    async with mesh_of_one_slice as (mesh, client):
        busy = await client.submit_async("night", b"for ever")
        async for news in client.watch(busy):
            if isinstance(news, Progress) and news.stage == "slow":
                break
        answer = asyncio.create_task(client.submit("photo", PICTURE, request_id="r1"))

        async def it_waits() -> bool:
            with redis.client() as inside:
                stored = [key for key in inside.keys("*") if b"/r1/" in key]
            waiting = sum(queue.waiting for queue in (await status_of(client)).queues)
            return bool(stored) and waiting == 1

        await until(it_waits)
        redis.die_and_come_back()
        await client.cancel(busy)
        assert (await answer).outputs == photo(PICTURE)
        await nothing_is_left(mesh, client)
