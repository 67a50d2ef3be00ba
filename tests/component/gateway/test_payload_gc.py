"""What nobody needs any more goes, in few commands, and nothing else does."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from esg.gateway import payload_gc
from esg.gateway.payload_gc import PayloadCollector
from esg.names import payload_stage
from esg.storage.redis_store import RedisStore
from tests.support.redis_server import RedisServer
from tests.support.waiting import until

PAYLOAD = payload_stage(b"1")
REQUESTS = [f"r{number}" for number in range(50)]


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    made = RedisStore(redis_url, prefix="test", ttl_s=600, part_bytes=1000)
    yield made
    await made.close()


@pytest.fixture
def inside(redis_server: RedisServer, redis_url: str) -> Iterator[Redis]:
    with redis_server.client() as client:
        yield client


def unlinks(inside: Redis) -> int:
    stats: Any = inside.info("commandstats")
    return int(stats.get("cmdstat_unlink", {}).get("calls", 0))


async def test_outputs_stay_a_while_and_then_go_together(
    store: RedisStore, inside: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_gc, "LINGER_S", 3600.0)
    collector = PayloadCollector(store)
    for request in REQUESTS:
        for stage in (PAYLOAD, "last"):
            await store.put(request, stage, b"x" * 1500)  # in parts
        collector.discard(request, [PAYLOAD, "last"])
    await until(lambda: not inside.keys(f"*/{PAYLOAD}*"))
    assert len(inside.keys("*/last/parts")) == len(REQUESTS)  # type: ignore[arg-type]
    before = unlinks(inside)
    await collector.finish()
    assert inside.keys("*") == []
    assert unlinks(inside) - before <= 2


async def test_a_payload_that_is_stored_again_at_once_stays(
    store: RedisStore, inside: Redis
) -> None:
    collector = PayloadCollector(store)
    await store.put("r1", PAYLOAD, b"x")
    collector.discard("r1", [PAYLOAD])
    await store.put("r1", PAYLOAD, b"x")
    await collector.finish()
    assert await store.get("r1", PAYLOAD) == b"x"


async def test_a_store_that_was_away_is_told_again(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    server.start()
    store = RedisStore(server.url, prefix="test", ttl_s=600)
    collector = PayloadCollector(store)
    try:
        await store.ping()
        server.kill()
        for request in REQUESTS:
            collector.discard(request, [PAYLOAD])
        server.start()
        await collector.finish()
        with server.client() as inside:
            stats: Any = inside.info("commandstats")
            assert stats["cmdstat_unlink"]["calls"] >= 1
    finally:
        await store.close()
        server.kill()
