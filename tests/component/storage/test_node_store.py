"""The choice by locality, and what is left behind by it: nothing."""

import asyncio
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from esg.core.messages.task_order import Input, Output, Payload
from esg.names import payload_stage
from esg.storage.errors import Missing
from esg.storage.local_store import LocalStore
from esg.storage.node_store import NodeStore
from esg.storage.redis_store import RedisStore
from tests.component.storage.conftest import PART_BYTES

Keys = Callable[[], list[str]]
HERE = Output(stage="a", invoker="i0")
LARGE = bytes(range(256)) * (PART_BYTES // 64)


@pytest.fixture
def other(open_remote: Callable[[], RedisStore], tmp_path: Path) -> NodeStore:
    """Another node of the same mesh."""
    return NodeStore(LocalStore(tmp_path / "other"), open_remote(), "i1")


async def test_a_consumer_on_the_same_node_reads_the_file(node: NodeStore, keys: Keys) -> None:
    await node.keep("r1", "a", b"12345", local=True, publish=False)
    assert await node.fetch("r1", HERE, 0) == b"12345"
    assert keys() == []


async def test_a_consumer_elsewhere_waits_for_the_copy(node: NodeStore, other: NodeStore) -> None:
    await node.keep("r1", "a", LARGE, local=True, publish=False)
    fetching = asyncio.create_task(other.fetch("r1", HERE, 60))
    await node.publish("r1", "a")
    assert await fetching == LARGE


async def test_a_copy_is_found_when_its_keeper_is_gone(node: NodeStore, other: NodeStore) -> None:
    await node.keep("r1", "a", b"x", local=True, publish=False)
    await node.publish("r1", "a")
    assert await other.fetch("r1", Output(stage="a", invoker=""), 60) == b"x"


async def test_the_payload_comes_from_redis_by_the_name_of_its_content(node: NodeStore) -> None:
    await node.remote.put("r1", payload_stage(b"1"), b"payload")
    await node.remote.put("r1", payload_stage(b"2"), b"of a request that was refused")
    assert await node.fetch("r1", Payload(key=payload_stage(b"1")), 60) == b"payload"


async def test_a_result_goes_to_redis_alone(node: NodeStore) -> None:
    await node.keep("r1", "last", b"result", local=False, publish=True)
    assert await node.remote.get("r1", "last") == b"result"
    assert node.local.usage() == (0, 0)


# A node whose disk is full.


TOO_LARGE = bytes(range(250)) * 20


@pytest.fixture
def full(on_disk: LocalStore, remote: RedisStore) -> Iterator[NodeStore]:
    """The kernel refuses it files of more than 4096 bytes."""
    node = NodeStore(on_disk, remote, "i0")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield node
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_an_output_that_there_is_no_room_for_is_kept_in_redis(
    full: NodeStore, keys: Keys
) -> None:
    await full.keep("r1", "small", b"x" * 4096, local=True, publish=False)
    assert keys() == []
    await full.keep("r1", "a", TOO_LARGE, local=True, publish=False)
    assert await full.fetch("r1", HERE, 60) == TOO_LARGE
    assert keys() != []
    await full.discard("r1")
    assert (keys(), full.local.usage(), full.kept) == ([], (0, 0), ())


async def test_and_a_consumer_elsewhere_finds_it_there(full: NodeStore, other: NodeStore) -> None:
    await full.keep("r1", "a", TOO_LARGE, local=True, publish=False)
    await full.publish("r1", "a")
    assert await other.fetch("r1", HERE, 60) == TOO_LARGE


async def test_and_if_it_is_a_result_as_well_it_stays_for_the_gateway(full: NodeStore) -> None:
    await full.keep("r1", "a", TOO_LARGE, local=True, publish=True)
    await full.discard("r1")
    assert await full.remote.get("r1", "a") == TOO_LARGE


async def test_and_nothing_is_left_of_it_if_its_task_fails_after_all(
    full: NodeStore, keys: Keys
) -> None:
    await full.keep("r1", "a", TOO_LARGE, local=True, publish=False)
    await full.withdraw("r1", "a")
    assert (keys(), full.kept) == ([], ())


@pytest.mark.parametrize(
    "source", [HERE, Output(stage="a", invoker="i1"), Payload(key=payload_stage(b"1"))]
)
async def test_input_that_is_nowhere_is_missing(node: NodeStore, source: Input) -> None:
    with pytest.raises(Missing):
        await node.fetch("r1", source, 0)


async def test_a_result_that_is_published_as_well_stays_for_the_gateway(node: NodeStore) -> None:
    await node.keep("r1", "a", b"x", local=True, publish=True)
    assert node.local.get("r1", "a") == b"x"
    await node.publish("r1", "a")
    await node.discard("r1")
    assert await node.remote.get("r1", "a") == b"x"


async def test_output_that_is_gone_cannot_be_published(node: NodeStore, keys: Keys) -> None:
    with pytest.raises(Missing):
        await node.publish("r1", "a")
    assert keys() == []


async def test_discarding_leaves_nothing_on_disk_or_in_redis_but_results(
    node: NodeStore, keys: Keys
) -> None:
    for request in ("r1", "r2"):
        for stage in ("a", "b"):
            await node.keep(request, stage, LARGE, local=True, publish=False)
            await node.publish(request, stage)
        await node.keep(request, "last", b"result", local=False, publish=True)
    await node.discard("r1")
    await node.discard("r2")
    await node.discard("never-heard-of")
    assert node.local.usage() == (0, 0)
    assert keys() == ["test/r1/last", "test/r2/last"]


async def test_the_results_of_a_stopped_task_can_be_discarded_too(
    node: NodeStore, keys: Keys
) -> None:
    await node.keep("r1", "last", LARGE, local=False, publish=True)
    await node.discard("r1", results=True)
    assert keys() == []


@pytest.mark.parametrize("content", [b"small", LARGE])
async def test_a_copy_under_way_when_its_request_ends_does_not_stay(
    node: NodeStore, keys: Keys, content: bytes
) -> None:
    await node.keep("r1", "a", content, local=True, publish=False)
    publishing = asyncio.create_task(node.publish("r1", "a"))
    await asyncio.sleep(0)  # it has begun
    await node.discard("r1")
    await publishing
    assert keys() == []


async def test_a_copy_that_is_cancelled_does_not_stay(node: NodeStore, keys: Keys) -> None:
    for content in (b"small", LARGE):
        await node.keep("r1", "a", content, local=True, publish=False)
        publishing = asyncio.create_task(node.publish("r1", "a"))
        await asyncio.sleep(0)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        await node.discard("r1")
        assert keys() == []


async def test_clearing_leaves_what_others_may_still_read(node: NodeStore, keys: Keys) -> None:
    await node.keep("r1", "a", b"x", local=True, publish=False)
    await node.publish("r1", "a")
    node.clear()
    await node.discard("r1")
    assert node.local.usage() == (0, 0)
    assert keys() == ["test/r1/a"]


async def test_node_store_keeps_nothing_of_many_requests_at_once(
    node: NodeStore, other: NodeStore, keys: Keys
) -> None:
    async def one(number: int) -> None:
        request = f"r{number}"
        content = request.encode() * (number % 7 * PART_BYTES // 5 + 1)
        name = payload_stage(request.encode())
        await node.remote.put(request, name, content)
        payload = await node.fetch(request, Payload(key=name), 60)
        await node.keep(request, "a", payload, local=True, publish=False)
        publishing = asyncio.create_task(node.publish(request, "a"))
        made = await other.fetch(request, HERE, 60)
        await publishing
        await other.keep(request, "last", made, local=False, publish=True)
        assert await node.remote.get(request, "last") == content
        await asyncio.gather(node.discard(request), other.discard(request))
        await node.remote.discard(request, [name, "last"])

    await asyncio.gather(*(one(number) for number in range(200)))
    assert keys() == []
    assert node.local.usage() == other.local.usage() == (0, 0)
