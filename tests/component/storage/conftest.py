"""Stores to test, and what is really in them."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from esg.storage.local_store import MEMORY_BYTES, LocalStore
from esg.storage.node_store import NodeStore
from esg.storage.redis_store import RedisStore
from tests.support.redis_server import RedisServer

PART_BYTES = 1000
"""Small, so that values of a few thousand bytes are in parts."""


@pytest.fixture(params=[0, MEMORY_BYTES], ids=["files", "memory"])
def local(tmp_path: Path, request: pytest.FixtureRequest) -> LocalStore:
    """With small outputs in files, too, and in memory."""
    return LocalStore(tmp_path / "node", request.param)


@pytest.fixture
def on_disk(tmp_path: Path) -> LocalStore:
    """One that has everything in files."""
    return LocalStore(tmp_path / "node", 0)


@pytest.fixture
async def open_remote(redis_url: str) -> AsyncIterator[Callable[[], RedisStore]]:
    """Stores with connections of their own, as different processes have them."""
    stores: list[RedisStore] = []

    def make() -> RedisStore:
        stores.append(RedisStore(redis_url, prefix="test", ttl_s=600, part_bytes=PART_BYTES))
        return stores[-1]

    yield make
    for store in stores:
        await store.close()


@pytest.fixture
def remote(open_remote: Callable[[], RedisStore]) -> RedisStore:
    return open_remote()


@pytest.fixture
def node(local: LocalStore, remote: RedisStore) -> NodeStore:
    return NodeStore(local, remote, "i0")


@pytest.fixture
def inside(redis_server: RedisServer, redis_url: str) -> Iterator[Redis]:
    """Redis, seen without our code."""
    with redis_server.client() as client:
        yield client


@pytest.fixture
def keys(inside: Redis) -> Callable[[], list[str]]:
    """The names of all keys there are."""
    return lambda: sorted(key.decode() for key in inside.scan_iter("*"))
