"""What Prometheus learns of Redis."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from esg.storage.errors import StorageRefused, StoreUnavailable
from esg.storage.redis_store import RedisStore
from tests.support.redis_server import RedisServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    made = RedisServer(tmp_path / "redis")
    made.start()
    yield made
    made.kill()


def count(store: RedisStore, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(store.metrics)
    return registry.get_sample_value(f"esg_redis_{name}", labels)


async def test_redis_has_zeros_before_the_first_round_trip(redis_url: str) -> None:
    store = RedisStore(redis_url, prefix="test", ttl_s=600)
    for connection in ("data", "durable"):
        assert count(store, "round_trip_seconds_count", connection=connection) == 0
        assert count(store, "commands_total", connection=connection) == 0
        for kind in ("unreachable", "refused"):
            assert count(store, "failures_total", connection=connection, kind=kind) == 0
    await store.close()


async def test_commands_that_leave_together_are_one_round_trip(redis_url: str) -> None:
    store = RedisStore(redis_url, prefix="test", ttl_s=600)
    await asyncio.gather(*(store.put(f"r{i}", "a", b"x") for i in range(50)))
    assert count(store, "commands_total", connection="data") == 50
    trips = count(store, "round_trip_seconds_count", connection="data")
    assert trips is not None
    assert 1 <= trips <= 10
    total_s = count(store, "round_trip_seconds_sum", connection="data")
    assert total_s is not None
    assert total_s > 0
    assert count(store, "commands_total", connection="durable") == 0
    await store.close()


async def test_a_refusal_and_a_server_that_is_gone_are_failures_of_two_kinds(
    server: RedisServer,
) -> None:
    store = RedisStore(server.url, prefix="test", ttl_s=600)
    with pytest.raises(StorageRefused):
        await store._redis.send(b"NO-SUCH-COMMAND")
    assert count(store, "failures_total", connection="data", kind="refused") == 1
    server.kill()
    with pytest.raises(StoreUnavailable):
        await store.ping()
    assert count(store, "failures_total", connection="data", kind="unreachable") == 1
    assert count(store, "round_trip_seconds_count", connection="data") == 1
    await store.close()
