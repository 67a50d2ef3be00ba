"""What goes by file and what through Redis, and that each piece of data has one place."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from redis import Redis

from esg.core.messages.task_order import Payload
from esg.names import payload_stage
from esg.runtime.settings import CommonSettings
from esg.storage.errors import Missing
from esg.storage.local_store import LocalStore
from esg.storage.mesh_store import MeshStore, mesh_store
from esg.storage.node_store import NodeStore
from esg.storage.shared_store import LARGE_BYTES, SharedStore
from tests.support.waiting import until

Keys = Callable[[], list[str]]
LARGE = bytes(range(256)) * 400
PAYLOAD = payload_stage(b"1")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
async def stores(redis_url: str, directory: Path) -> AsyncIterator[list[MeshStore]]:
    """A gateway's, and a node's."""
    common = CommonSettings(
        redis_url=redis_url, key_prefix="test", shared_data=str(directory), shared_data_mb=1
    )
    made = [mesh_store(common), mesh_store(common)]
    yield made
    for store in made:
        await store.close()


@pytest.fixture
def gateway(stores: list[MeshStore]) -> MeshStore:
    return stores[0]


@pytest.fixture
def node(stores: list[MeshStore], tmp_path: Path) -> NodeStore:
    return NodeStore(LocalStore(tmp_path / "node"), stores[1], "i0")


def commands(redis: Redis) -> int:
    """How many were carried out so far, with this one."""
    return int(redis.info("stats")["total_commands_processed"])


def files(directory: Path) -> int:
    return len(list(directory.iterdir()))


async def test_a_large_payload_is_here_for_its_reader_and_redis_hears_nothing(
    gateway: MeshStore, node: NodeStore, inside: Redis, directory: Path
) -> None:
    before = commands(inside)
    assert gateway.has_room(len(LARGE))
    assert gateway.share("r1", PAYLOAD, LARGE)
    assert node.here("r1", Payload(key=PAYLOAD)) == LARGE
    await gateway.discard("r1", [PAYLOAD])
    assert files(directory) == 0
    assert commands(inside) - before == 1


async def test_a_result_that_is_waited_for_goes_back_the_same_way(
    gateway: MeshStore, node: NodeStore, keys: Keys, directory: Path
) -> None:
    assert node.keep_here("r1", "last", LARGE, local=False, publish=True, waited_for=True)
    assert await gateway.get("r1", "last") == LARGE
    assert keys() == []
    await node.discard("r1")  # the result is the gateway's
    assert await gateway.get("r1", "last") == LARGE
    await gateway.discard("r1", ["last"])
    assert files(directory) == 0


async def test_a_result_that_nobody_waits_for_is_redis(
    node: NodeStore, keys: Keys, directory: Path
) -> None:
    await node.keep("r1", "last", LARGE, local=False, publish=True)
    assert keys() == ["test/r1/last"]
    assert files(directory) == 0


async def test_the_result_of_a_task_that_was_stopped_goes(node: NodeStore, directory: Path) -> None:
    node.keep_here("r1", "last", LARGE, local=False, publish=True, waited_for=True)
    await node.discard("r1", results=True)
    assert files(directory) == 0


async def test_an_output_whose_task_failed_after_all_goes(node: NodeStore, directory: Path) -> None:
    node.keep_here("r1", "last", LARGE, local=False, publish=True, waited_for=True)
    await node.withdraw("r1", "last")
    assert files(directory) == 0
    assert node.kept == ()


def test_what_is_small_is_not_worth_a_file(gateway: MeshStore) -> None:
    assert not gateway.has_room(LARGE_BYTES)
    assert not gateway.share("r1", PAYLOAD, bytes(LARGE_BYTES))
    assert gateway.share("r1", PAYLOAD, bytes(LARGE_BYTES + 1))


async def test_what_there_is_no_room_for_is_stored_otherwise(
    gateway: MeshStore, node: NodeStore, keys: Keys
) -> None:
    large = bytes(2**20 + 1)
    assert not gateway.share("r1", PAYLOAD, large)
    assert not node.keep_here("r1", "last", large, local=False, publish=True, waited_for=True)
    await node.send("r1", "last", large)
    assert await gateway.get("r1", "last") == large
    assert keys() == ["test/r1/last"]


async def test_whoever_waits_for_a_value_finds_it_in_either_place(
    gateway: MeshStore, node: NodeStore
) -> None:
    waiting = [asyncio.create_task(node.remote.wait("r1", stage, 60)) for stage in ("a", "b")]
    await asyncio.sleep(0)
    gateway.share("r1", "a", LARGE)
    await gateway.put("r1", "b", LARGE)
    assert await asyncio.gather(*waiting) == [LARGE, LARGE]


async def test_what_must_be_durable_moves_to_redis(
    gateway: MeshStore, node: NodeStore, keys: Keys, directory: Path
) -> None:
    gateway.share("r1", PAYLOAD, LARGE)
    await gateway.put("r1", PAYLOAD, LARGE, durably=False)
    assert files(directory) == 0
    assert keys() == [f"test/r1/{PAYLOAD}"]
    assert await node.fetch("r1", Payload(key=PAYLOAD), 0) == LARGE


async def test_what_is_to_be_fetched_later_after_all_moves_to_redis_and_expires(
    gateway: MeshStore, node: NodeStore, inside: Redis, directory: Path
) -> None:
    node.keep_here("r1", "last", LARGE, local=False, publish=True, waited_for=True)
    assert await gateway.expire("r1", ["last", "gone"], 60) == {"last": len(LARGE), "gone": None}
    assert files(directory) == 0
    assert 0 < inside.pttl("test/r1/last") <= 60_000


async def test_without_a_directory_all_is_redis(redis_url: str) -> None:
    store = mesh_store(CommonSettings(redis_url=redis_url))
    assert not store.has_room(len(LARGE))
    assert not store.share("r1", PAYLOAD, LARGE)
    assert store.here("r1", PAYLOAD) is None
    with pytest.raises(Missing):
        await store.get("r1", PAYLOAD)
    await store.sweep()
    await store.close()


async def test_what_crashes_left_is_swept_while_a_gateway_runs(
    redis_url: str, directory: Path
) -> None:
    store = MeshStore(redis_url, SharedStore(directory, 2**20), prefix="test", ttl_s=0)
    store.share("r1", PAYLOAD, LARGE)
    sweeping = asyncio.create_task(store.sweep())
    await until(lambda: files(directory) == 0)
    sweeping.cancel()
