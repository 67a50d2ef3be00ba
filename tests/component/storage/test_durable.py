"""What must not be lost is on the server's disk before anybody is told that it is safe."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from esg.core.messages.task_order import Payload
from esg.errors import Fault
from esg.storage.errors import StorageRefused
from esg.storage.node_store import NodeStore
from esg.storage.redis_store import RedisStore
from tests.support.redis_server import RedisServer


async def test_durable_value_is_there_when_the_server_says_so(
    remote: RedisStore, open_remote: Callable[[], RedisStore]
) -> None:
    await asyncio.gather(
        *(remote.put(f"r{n}", "@f", b"x" * size, durably=True) for n, size in enumerate((5, 5000)))
    )
    assert await open_remote().get("r0", "@f") == b"xxxxx"
    assert await open_remote().get("r1", "@f") == b"x" * 5000


async def test_durable_writes_share_syncs(remote: RedisStore, inside: Redis) -> None:
    inside.config_resetstat()
    await asyncio.gather(*(remote.put(f"r{n}", "@f", b"x", durably=True) for n in range(100)))
    stats = inside.info("commandstats")
    assert stats["cmdstat_set"]["calls"] == 100
    assert stats["cmdstat_waitaof"]["calls"] < 10


async def test_a_server_that_keeps_no_log_is_refused_with_what_to_do(
    remote: RedisStore, inside: Redis
) -> None:
    inside.config_set("appendonly", "no")
    try:
        with pytest.raises(StorageRefused, match=r"appendonly yes, or set durable_payloads"):
            await remote.put("r1", "@f", b"x", durably=True)
    finally:
        inside.config_set("appendonly", "yes")


@pytest.fixture
def server(tmp_path: Path) -> RedisServer:
    return RedisServer(tmp_path / "redis")


async def test_node_store_waits_for_a_redis_that_comes_back(
    server: RedisServer, node: NodeStore
) -> None:
    remote = RedisStore(server.url, prefix="test", ttl_s=600)
    away = NodeStore(node.local, remote, "i0", patience_s=60)
    putting = asyncio.create_task(away.keep("r1", "label", b"result", local=False, publish=True))
    fetching = asyncio.create_task(away.fetch("r1", Payload(key="label"), 60))
    await away.keep(
        "r1", "resize", b"small", local=True, publish=False
    )  # what stays here does not wait
    await asyncio.sleep(0.05)
    assert not putting.done()
    server.start()
    await putting
    assert await fetching == b"result"
    server.kill()
    await remote.close()


async def test_node_store_does_not_wait_for_redis_for_ever(
    server: RedisServer, node: NodeStore
) -> None:
    remote = RedisStore(server.url, prefix="test", ttl_s=600)
    away = NodeStore(node.local, remote, "i0", patience_s=0.05)
    with pytest.raises(Fault, match="is it running"):
        await away.keep("r1", "label", b"result", local=False, publish=True)
    with pytest.raises(Fault, match="is it running"):
        await away.fetch("r1", Payload(key="label"), 0.05)
    await remote.close()
