"""Data that another process reads: payloads, published outputs and results, in Redis.

A value is one key, or if it is large several, so that no single command keeps everybody else
waiting. Its parts are written first and a list of them last, under names that were never used
before: a reader finds a whole value, old or new, or none. If both forms are there, the single key
is the newer one.

    PREFIX/REQUEST/STAGE              a value; for a payload, `payload_stage` is the stage
    PREFIX/REQUEST/STAGE/parts        "TOKEN NUMBER": a large value, in so many parts
    PREFIX/REQUEST/STAGE/TOKEN.0 ...  its parts

Neither requests nor stages have slashes in their names, so no two values share a key. Every key
expires: normally what was written is deleted by whoever has had it, but what is fetched later stays
for as long as it can be asked for, and what a crash left for `data_ttl_s`.

A value that must not be lost is written `durably`: that is done when the server has it on disk.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Iterable, Sequence

from esg.backoff import Backoff
from esg.errors import Fault, Rejected
from esg.names import BETWEEN
from esg.storage.durable import DurablePipeline
from esg.storage.errors import Missing
from esg.storage.metrics import RedisMetrics
from esg.storage.redis_pipeline import RedisPipeline

PART_BYTES = 4 * 2**20
POLL_BACKOFF_S = Backoff(0.001, 0.05)
OFFERED_S = b"2"
"""How long a value stays that was only offered: longer than a controller usually takes to agree."""


class RedisStore:
    def __init__(self, url: str, *, prefix: str, ttl_s: int, part_bytes: int = PART_BYTES) -> None:
        self.metrics = RedisMetrics()
        self._redis = RedisPipeline(url, self.metrics.connection("data"))
        self._durable = DurablePipeline(url, self.metrics.connection("durable"))
        self._prefix = prefix
        self._ttl_s = b"%d" % ttl_s
        self._part_bytes = part_bytes

    async def put(
        self, request: str, stage: str, content: bytes | memoryview, *, durably: bool = False
    ) -> None:
        """Write a value, in place of any that was there. It must not change until that is done."""
        key = self._key(request, stage)
        view = memoryview(content).cast("B")
        redis = self._durable if durably else self._redis
        if len(view) <= self._part_bytes:
            await redis.send(b"SET", key, view, b"EX", self._ttl_s)
        else:
            await self._put_in_parts(redis, key, view)
        if durably:
            await self._durable.synced()

    def has_room(self, size: int) -> bool:
        """Whether a value may be where its reader has it at once, on this machine (`share`)."""
        return False

    def share(self, request: str, stage: str, content: bytes | memoryview) -> bool:
        """Put a value there; whether that could be. If not, it is to be stored otherwise."""
        return False

    def unshare(self, request: str, stage: str) -> None:
        """Remove what is there, as nobody will come for it."""

    def here(self, request: str, stage: str) -> memoryview | None:
        """A value that is there."""
        return None

    async def offer(self, request: str, stage: str, content: bytes) -> None:
        """Write a small value that may be unwanted, unless it is there: it is gone soon, if nobody
        has it kept. Nobody needs to delete it, so nobody deletes what another has had kept."""
        key = self._key(request, stage)
        await self._redis.send(b"SET", key, content, b"NX", b"EX", OFFERED_S)

    async def keep(self, request: str, stage: str) -> bool:
        """Let what was offered stay; whether it was still there."""
        return bool(await self._redis.send(b"EXPIRE", self._key(request, stage), self._ttl_s))

    async def get(self, request: str, stage: str) -> bytes | memoryview:
        key = self._key(request, stage)
        looked_for = None
        while True:
            whole: bytes | None
            listed: bytes | None
            whole, listed = await self._redis.send(b"MGET", key, _list_of(key))
            if whole is not None:
                return whole
            if listed is None or listed == looked_for:
                raise Missing(request, stage, f"Redis at {self._redis.where}")
            names = _part_names(key, listed)
            parts = await asyncio.gather(*(self._redis.send(b"GET", name) for name in names))
            if None not in parts:
                return b"".join(parts)
            looked_for = listed  # it may have been replaced in the meantime

    async def wait(self, request: str, stage: str, timeout_s: float) -> bytes | memoryview:
        """A value that may still be on its way: its writer was told when its reader was. A server
        that is away may come back."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pauses_s = POLL_BACKOFF_S.pauses()
        while True:
            try:
                return await self.get(request, stage)
            except Fault:
                left_s = deadline - loop.time()
                if left_s <= 0:
                    raise
            await asyncio.sleep(min(next(pauses_s), left_s))

    async def expire(
        self, request: str, stages: Iterable[str], left_s: float
    ) -> dict[str, int | None]:
        """Have values expire so long from now; how many bytes each has, None if it is not there."""
        left_ms = b"%d" % max(1, round(left_s * 1000))
        stages = list(stages)
        sizes = await asyncio.gather(
            *(self._expire_value(self._key(request, stage), left_ms) for stage in stages)
        )
        return dict(zip(stages, sizes, strict=True))

    async def _expire_value(self, key: bytes, left_ms: bytes) -> int | None:
        whole = await self._expire_keys([key], left_ms)
        if whole is not None:
            return whole
        listed: bytes | None = await self._redis.send(b"GET", _list_of(key))
        if listed is None or await self._expire_keys([_list_of(key)], left_ms) is None:
            return None
        return await self._expire_keys(_part_names(key, listed), left_ms)

    async def _expire_keys(self, keys: Sequence[bytes], left_ms: bytes) -> int | None:
        """The bytes that they have together; None if one of them is not there."""
        send = self._redis.send
        there = [send(b"PEXPIRE", key, left_ms) for key in keys]
        sizes = [send(b"STRLEN", key) for key in keys]
        replies = await asyncio.gather(*there, *sizes)
        return sum(replies[len(keys) :]) if all(replies[: len(keys)]) else None

    async def discard(self, request: str, stages: Iterable[str]) -> None:
        """Delete the values of these stages, whether they are there or not."""
        values = [(request, stage) for stage in stages]
        if values:
            await self.discarding(values)

    def discarding(self, values: Sequence[tuple[str, str]]) -> Awaitable[None]:
        """Delete values, by request and stage, in two commands; to be awaited. They are given to
        the server before this returns: what is written later stays."""
        keys = [self._key(request, stage) for request, stage in values]
        lists = [_list_of(key) for key in keys]
        listed = self._redis.send(b"MGET", *lists)
        gone = self._redis.send(b"UNLINK", *keys, *lists)
        return asyncio.ensure_future(self._discard_parts(keys, listed, gone))

    async def _discard_parts(
        self,
        keys: Sequence[bytes],
        listed: asyncio.Future[list[bytes | None]],
        gone: asyncio.Future[int],
    ) -> None:
        found, _ = await asyncio.gather(listed, gone)
        names = [
            name
            for key, parts in zip(keys, found, strict=True)
            if parts is not None
            for name in _part_names(key, parts)
        ]
        if names:
            await self._redis.send(b"UNLINK", *names)

    async def ping(self) -> None:
        """Raises a `Fault` if Redis cannot be reached."""
        await self._redis.send(b"PING")

    async def close(self) -> None:
        await self._redis.close()
        await self._durable.close()

    async def _put_in_parts(self, redis: RedisPipeline, key: bytes, view: memoryview) -> None:
        starts = range(0, len(view), self._part_bytes)
        listed = b"%s %d" % (secrets.token_hex(8).encode(), len(starts))
        names = _part_names(key, listed)
        send = redis.send
        # All are given at once, and keep their order: a deletion that comes later finds them all
        commands = [
            send(b"SET", name, view[start : start + self._part_bytes], b"EX", self._ttl_s)
            for name, start in zip(names, starts, strict=True)
        ]
        commands.append(send(b"SET", _list_of(key), listed, b"EX", self._ttl_s, b"GET"))
        commands.append(send(b"UNLINK", key))
        try:
            *_, replaced, _ = await asyncio.gather(*commands)
        except BaseException:
            # Nobody waits for this one: if it fails too, the parts expire
            send(b"UNLINK", _list_of(key), *names).add_done_callback(_ignore)
            raise
        if replaced is not None:
            await send(b"UNLINK", *_part_names(key, replaced))

    def _key(self, request: str, stage: str) -> bytes:
        if not request or BETWEEN in request or BETWEEN in stage:
            raise Rejected(
                f"request {request!r}, stage {stage!r}: names of requests and stages have no "
                "slash, and a request's name is not empty"
            )
        return BETWEEN.join((self._prefix, request, stage)).encode()


def _list_of(key: bytes) -> bytes:
    return key + b"/parts"


def _part_names(key: bytes, listed: bytes) -> list[bytes]:
    token, number = listed.split()
    return [b"%s/%s.%d" % (key, token, i) for i in range(int(number))]


def _ignore(reply: asyncio.Future[object]) -> None:
    if not reply.cancelled():
        reply.exception()
