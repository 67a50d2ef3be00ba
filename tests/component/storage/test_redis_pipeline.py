"""Commands to Redis: together when they can be, in order, and what happens when it is not there."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from redis import Redis

from esg.errors import Fault, Rejected
from esg.storage import redis_pipeline as pipeline
from esg.storage.errors import StorageRefused, StoreUnavailable
from esg.storage.redis_pipeline import RedisPipeline
from esg.storage.redis_store import RedisStore
from tests.support.redis_server import RedisServer


@pytest.fixture
async def line(redis_url: str) -> AsyncIterator[RedisPipeline]:
    made = RedisPipeline(redis_url)
    yield made
    await made.close()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server to be mistreated."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.kill()


def reads(inside: Redis) -> int:
    """How often Redis has read from a socket; a large batch takes a few."""
    stats: Any = inside.info("stats")
    return int(stats["total_reads_processed"])


async def test_redis_pipeline_gives_each_command_its_own_answer(line: RedisPipeline) -> None:
    answers = await asyncio.gather(*(line.send(b"ECHO", b"%d" % i) for i in range(2000)))
    assert answers == [b"%d" % i for i in range(2000)]


async def test_commands_sent_in_one_turn_leave_together(line: RedisPipeline, inside: Redis) -> None:
    await line.send(b"PING")
    before = reads(inside)
    await asyncio.gather(*(line.send(b"SET", b"k%d" % i, b"x") for i in range(500)))
    assert reads(inside) - before < 20


async def test_commands_that_come_while_a_batch_is_under_way_leave_together(
    line: RedisPipeline, inside: Redis
) -> None:
    async def talk(name: int) -> None:
        for i in range(20):
            await line.send(b"SET", b"k%d" % name, b"%d" % i)

    await line.send(b"PING")
    before = reads(inside)
    await asyncio.gather(*(talk(name) for name in range(50)))
    assert reads(inside) - before < 200  # of 1000 commands


async def test_commands_beyond_a_batch_go_in_several(line: RedisPipeline) -> None:
    large = bytes(pipeline.BATCH_BYTES // 3)
    sent = [line.send(b"SET", b"k%d" % i, large) for i in range(10)]
    assert await asyncio.gather(*sent) == [b"OK"] * 10


async def test_an_error_reply_goes_to_its_own_waiter(line: RedisPipeline) -> None:
    answers = await asyncio.gather(
        line.send(b"SET", b"k", b"text"),
        line.send(b"INCR", b"k"),
        line.send(b"NONSENSE"),
        line.send(b"GET", b"k"),
        return_exceptions=True,
    )
    assert [answers[0], answers[3]] == [b"OK", b"text"]
    assert [type(answer) for answer in answers[1:3]] == [StorageRefused, StorageRefused]
    assert "not an integer" in str(answers[1])


async def test_a_server_that_is_full_may_have_room_later(
    line: RedisPipeline, inside: Redis
) -> None:
    inside.config_set("maxmemory", "1")
    try:
        with pytest.raises(Fault, match=r"refuses: .*maxmemory") as full:
            await line.send(b"SET", b"k", b"text")
    finally:
        inside.config_set("maxmemory", "0")
    assert not isinstance(full.value, StorageRefused)
    assert await line.send(b"SET", b"k", b"text") == b"OK"


async def test_a_command_is_carried_out_although_its_caller_gave_up(line: RedisPipeline) -> None:
    line.send(b"SET", b"k", b"1").cancel()
    assert await line.send(b"GET", b"k") == b"1"


def test_redis_pipeline_works_on_the_loop_that_services_use(redis_url: str) -> None:
    async def there_and_back() -> list[bytes]:
        line = RedisPipeline(redis_url)
        sizes = [1, pipeline.COPIED_BYTES - 1, pipeline.COPIED_BYTES, 2**20]
        sent = [line.send(b"ECHO", memoryview(bytes([i]) * n)) for i, n in enumerate(sizes)]
        try:
            return list(await asyncio.gather(*sent))
        finally:
            await line.close()

    answers = uvloop.run(there_and_back())
    assert [(answer[0], answer[-1], len(answer)) for answer in answers] == [
        (0, 0, 1),
        (1, 1, pipeline.COPIED_BYTES - 1),
        (2, 2, pipeline.COPIED_BYTES),
        (3, 3, 2**20),
    ]


async def test_closing_finishes_what_was_begun(redis_url: str, inside: Redis) -> None:
    line = RedisPipeline(redis_url)
    sent = line.send(b"SET", b"k", b"1")
    await line.close()
    assert sent.result() == b"OK"
    assert inside.get("k") == b"1"
    await line.close()


async def test_the_database_in_the_url_is_used(redis_url: str, line: RedisPipeline) -> None:
    other = RedisPipeline(f"{redis_url}?db=3")
    await other.send(b"SET", b"k", b"1")
    assert await line.send(b"GET", b"k") is None
    assert await other.send(b"GET", b"k") == b"1"
    await other.close()


# When Redis is not there.


async def test_a_redis_that_is_not_there_is_a_fault_that_says_where() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        store = RedisStore(f"redis://me:hunter2@127.0.0.1:{port}/0", prefix="t", ttl_s=1)
        with pytest.raises(Fault, match=f"Redis at 127.0.0.1:{port}: .*is it running") as e:
            await store.ping()
        await store.close()
    assert "hunter2" not in str(e.value)


async def test_a_wrong_password_is_a_fault_that_does_not_show_it(own_server: RedisServer) -> None:
    with own_server.client() as client:
        client.config_set("requirepass", "swordfish")
        store = RedisStore(
            own_server.url.replace("unix://", "unix://:hunter2@"), prefix="t", ttl_s=1
        )
        with pytest.raises(Fault, match=r"Redis at .*/redis\.sock") as e:
            await store.put("r1", "a", b"x")
        await store.close()
        assert "hunter2" not in str(e.value)
        right = RedisStore(
            own_server.url.replace("unix://", "unix://:swordfish@"), prefix="t", ttl_s=1
        )
        await right.put("r1", "a", b"x")
        await right.close()


async def test_a_redis_that_dies_is_a_fault_until_it_is_back(own_server: RedisServer) -> None:
    store = RedisStore(own_server.url, prefix="t", ttl_s=60)
    await store.put("r1", "a", b"before")
    own_server.kill()
    results = await asyncio.gather(
        *(store.put(f"r{i}", "a", b"x") for i in range(20)), return_exceptions=True
    )
    assert {type(result) for result in results} == {StoreUnavailable}
    with pytest.raises(Fault):
        await store.get("r1", "a")
    own_server.start()
    await store.put("r1", "a", b"after")
    assert await store.get("r1", "a") == b"after"
    await store.close()


async def test_an_idle_connection_that_broke_is_not_noticed_by_the_caller(
    own_server: RedisServer,
) -> None:
    store = RedisStore(own_server.url, prefix="t", ttl_s=60)
    await store.put("r1", "a", b"before")
    own_server.kill()
    own_server.start()
    await asyncio.sleep(0)  # the loop hears of it in its own time, as in any process
    await store.put("r1", "a", b"after")
    assert await store.get("r1", "a") == b"after"
    await store.close()


async def test_a_redis_that_hangs_is_a_fault_and_is_used_again_when_it_wakes(
    own_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RedisStore(own_server.url, prefix="t", ttl_s=60)
    await store.ping()
    own_server.signal(signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "REPLY_TIMEOUT_S", 0.05)
        with pytest.raises(Fault, match=r"no answer within 0\.1 s"):
            await store.ping()
    own_server.signal(signal.SIGCONT)
    await store.put("r1", "a", b"x")
    assert await store.get("r1", "a") == b"x"
    await store.close()


async def test_server_that_is_no_redis_is_a_fault() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = RedisStore(f"redis://127.0.0.1:{port}", prefix="t", ttl_s=1)
        with pytest.raises(Fault, match=f"Redis at 127.0.0.1:{port}"):
            await store.ping()
        await store.close()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis://me:hunter2:3@host:port/0",
        "unix://",
        "redis://me:hunter2@host?no_such_option=1",
        "redis://me:hunter2@host?socket_timeout=long",
    ],
)
def test_a_url_that_is_none_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(Rejected, match=r"redis_url: .* it must look like redis://") as e:
        RedisPipeline(url)
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("redis://", "localhost:6379"),
        ("redis://me:hunter2@db.example:7000/2", "db.example:7000"),
        ("rediss://db.example", "db.example:6379"),
        ("unix:///run/my%20redis.sock?db=1", "/run/my redis.sock"),
    ],
)
def test_a_server_is_called_by_its_address(url: str, where: str) -> None:
    assert RedisPipeline(url).where == where
