"""Values in Redis: byte for byte, whole or not there, and never for ever."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from esg.errors import Fault, Rejected
from esg.storage.errors import Missing
from esg.storage.redis_store import PART_BYTES as DEFAULT_PART_BYTES
from esg.storage.redis_store import RedisStore
from tests.component.storage.conftest import PART_BYTES
from tests.support.redis_server import RedisServer
from tests.support.waiting import until

Keys = Callable[[], list[str]]
SIZES = [0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES, 3 * PART_BYTES + 7]
LARGE = os.urandom(3 * PART_BYTES + 7)


@pytest.mark.parametrize("size", SIZES)
async def test_redis_store_gives_back_what_was_put(remote: RedisStore, size: int) -> None:
    content = os.urandom(size)
    await remote.put("r1", "blur", content)
    assert await remote.get("r1", "blur") == content


async def test_megabytes_survive_in_the_default_parts(redis_url: str, keys: Keys) -> None:
    store = RedisStore(redis_url, prefix="test", ttl_s=600)
    content = os.urandom(2 * DEFAULT_PART_BYTES + 12_345)
    await store.put("r1", "", memoryview(content))
    assert await store.get("r1", "") == content
    assert len(keys()) == 4
    await store.close()


async def test_values_of_any_kind_go_out_of_many_coroutines_at_once(remote: RedisStore) -> None:
    contents = {f"r{i}": os.urandom(SIZES[i % len(SIZES)]) for i in range(300)}

    async def there_and_back(request: str, content: bytes) -> bytes:
        await remote.put(request, "a", content)
        return await remote.get(request, "a")

    got = await asyncio.gather(*(there_and_back(*item) for item in contents.items()))
    assert got == list(contents.values())


async def test_keys_of_the_redis_store_expire(
    remote: RedisStore, inside: Redis, keys: Keys
) -> None:
    for stage in ("", "small", "large"):
        await remote.put("r1", stage, b"small" if stage != "large" else LARGE)
        await remote.put("r1", stage, LARGE if stage != "large" else b"small")
    assert len(keys()) > 10
    # redis-py's annotations allow for an asynchronous client too
    ttls: list[Any] = [inside.ttl(key) for key in keys()]
    assert all(0 < ttl <= 600 for ttl in ttls)


async def test_names_do_not_run_into_each_other(remote: RedisStore) -> None:
    names = [("r", "a"), ("r", ""), ("r:a", ""), ("r", ":a"), ("r", "parts"), ("..", "ü" * 500)]
    for size in (10, 2 * PART_BYTES):
        contents = [os.urandom(size) for _ in names]
        await asyncio.gather(
            *(remote.put(*name, content) for name, content in zip(names, contents, strict=True))
        )
        assert await asyncio.gather(*(remote.get(*name) for name in names)) == contents


@pytest.mark.parametrize(("request_id", "stage"), [("a/b", "c"), ("a", "b/c"), ("", "c")])
async def test_a_name_that_could_be_mistaken_is_refused(
    remote: RedisStore, request_id: str, stage: str
) -> None:
    with pytest.raises(Rejected, match="have no slash"):
        await remote.put(request_id, stage, b"x")


async def test_output_that_is_not_in_redis_is_missing(remote: RedisStore) -> None:
    with pytest.raises(Missing, match="the output of stage 'a' of request 'r1' is not in Redis"):
        await remote.get("r1", "a")
    with pytest.raises(Missing, match="the payload of request 'r1'"):
        await remote.get("r1", "")


@pytest.mark.parametrize("contents", [[LARGE, b"s"], [b"s", LARGE], [LARGE, b"s", LARGE[:-1]]])
async def test_the_latest_content_wins_whatever_its_size(
    remote: RedisStore, keys: Keys, contents: list[bytes]
) -> None:
    for content in contents:
        await remote.put("r1", "a", content)
    assert await remote.get("r1", "a") == contents[-1]
    await remote.discard("r1", ["a"])
    assert keys() == []


async def test_replacing_a_large_value_leaves_none_of_its_parts(
    remote: RedisStore, keys: Keys
) -> None:
    await remote.put("r1", "a", LARGE)
    before = keys()
    await remote.put("r1", "a", LARGE)
    assert len(keys()) == len(before) == 5
    assert set(keys()) & set(before) == {"test/r1/a/parts"}


async def test_a_value_that_lost_a_part_is_missing(
    remote: RedisStore, inside: Redis, keys: Keys
) -> None:
    await remote.put("r1", "a", LARGE)
    inside.delete(next(key for key in keys() if key.endswith(".2")))
    with pytest.raises(Missing):
        await remote.get("r1", "a")


async def test_a_reader_never_finds_a_mixture(open_remote: Callable[[], RedisStore]) -> None:
    writer, reader = open_remote(), open_remote()
    versions = [bytes([n]) * (PART_BYTES * size) for n, size in enumerate((3, 5, 1, 4))]
    await writer.put("r1", "a", versions[0])
    done = asyncio.Event()

    async def write() -> None:
        number = 0
        while not done.is_set():
            number += 1
            await writer.put("r1", "a", versions[number % len(versions)])

    writing = asyncio.create_task(write())
    try:
        seen = {await reader.wait("r1", "a", 60) for _ in range(500)}
    finally:
        done.set()
        await writing
    assert seen <= set(versions)
    assert len(seen) > 1


async def test_discarding_takes_what_was_named_and_nothing_else(
    remote: RedisStore, keys: Keys
) -> None:
    for request in ("r1", "r2"):
        for stage in ("", "a", "b"):
            await remote.put(request, stage, LARGE if stage == "a" else b"x")
    await remote.discard("r1", ["", "a", "never"])
    assert keys()[0] == "test/r1/b"
    assert all(key.startswith("test/r2/") for key in keys()[1:])
    await remote.discard("r1", ["b"])
    await remote.discard("r2", iter(["", "a", "b"]))
    await remote.discard("r2", [])
    assert keys() == []


async def test_a_put_that_is_given_up_leaves_nothing_once_it_is_discarded(
    remote: RedisStore, keys: Keys
) -> None:
    for content in (b"small", LARGE):
        putting = asyncio.create_task(remote.put("r1", "a", content))
        await asyncio.sleep(0)
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        await remote.discard("r1", ["a"])
        assert keys() == []


async def test_a_large_put_that_is_given_up_takes_its_parts_back(
    remote: RedisStore, keys: Keys
) -> None:
    putting = asyncio.create_task(remote.put("r1", "a", LARGE))
    await asyncio.sleep(0)
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    await remote.ping()  # comes after whatever was sent before
    assert keys() == []


# Waiting for a value.


async def test_a_value_that_comes_later_is_waited_for(
    open_remote: Callable[[], RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, producer = open_remote(), open_remote()
    looks = 0
    looked_thrice = asyncio.Event()
    really_get = consumer.get

    async def get(request: str, stage: str) -> bytes:
        nonlocal looks
        looks += 1
        if looks == 3:
            looked_thrice.set()
        return await really_get(request, stage)

    monkeypatch.setattr(consumer, "get", get)
    waiting = asyncio.create_task(consumer.wait("r1", "a", 60))
    await looked_thrice.wait()
    assert not waiting.done()
    await producer.put("r1", "a", LARGE)
    assert await waiting == LARGE


async def test_waiting_ends(remote: RedisStore) -> None:
    async with asyncio.timeout(60):
        for limit_s in (0, 0.02):
            with pytest.raises(Missing):
                await remote.wait("r1", "a", limit_s)


# What Redis itself refuses.


async def test_a_refusal_concerns_its_own_command_alone(
    remote: RedisStore, inside: Redis, keys: Keys
) -> None:
    inside.rpush("test/r1/list", "not a string")
    inside.rpush("test/r1/list/parts", "not a string")
    good = [remote.put(f"r{i}", "a", b"x") for i in range(10)]
    bad = remote.put("r1", "list", LARGE)  # SET ... GET refuses to show what is no string
    *replies, refusal = await asyncio.gather(*good, bad, return_exceptions=True)
    assert replies == [None] * 10
    assert isinstance(refusal, Fault)
    assert "refuses: WRONGTYPE" in str(refusal)


async def test_a_full_redis_is_a_fault_and_keeps_no_part(
    remote: RedisStore, inside: Redis, keys: Keys
) -> None:
    inside.config_set("maxmemory", "1")
    try:
        for content in (b"small", LARGE):
            with pytest.raises(Fault, match="refuses: command not allowed when used memory"):
                await remote.put("r1", "a", content)
    finally:
        inside.config_set("maxmemory", "0")
    await remote.ping()
    assert keys() == []


async def test_values_expire_when_they_are_told_to_and_say_how_large_they_are(
    remote: RedisStore, redis_server: RedisServer
) -> None:
    await remote.put("r1", "small", b"abc")
    await remote.put("r1", "empty", b"")
    await remote.put("r1", "large", LARGE)
    stages = ["small", "empty", "large", "missing"]
    sizes = await remote.expire("r1", stages, 30.0)
    assert sizes == {"small": 3, "empty": 0, "large": len(LARGE), "missing": None}
    with redis_server.client() as inside:
        keys = sorted(inside.scan_iter("*"))
        assert len(keys) == 2 + 1 + 4  # the large one has a list of its parts
        assert all(0 < inside.pttl(key) <= 30_000 for key in keys)
    await remote.expire("r1", stages, 0.001)
    await until(lambda: _is_gone(remote, stages))


async def _is_gone(remote: RedisStore, stages: list[str]) -> bool:
    return not any((await remote.expire("r1", stages, 0.001)).values())


async def test_a_value_of_which_a_part_is_gone_is_not_there(
    remote: RedisStore, redis_server: RedisServer
) -> None:
    await remote.put("r1", "large", LARGE)
    with redis_server.client() as inside:
        part = next(key for key in inside.scan_iter("*") if key.endswith(b".1"))
        inside.delete(part)
    assert await remote.expire("r1", ["large"], 30.0) == {"large": None}
