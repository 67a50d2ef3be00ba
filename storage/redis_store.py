"""Data that another process reads: payloads, published outputs and results, in Redis.

A value is one key, or if it is large several, so that no single command keeps everybody else
waiting. Its parts are written first and a list of them last, under names that were never used
before: a reader finds a whole value, old or new, or none. If both forms are there, the single key
is the newer one.

    PREFIX/REQUEST/STAGE              a value; for a payload, `payload_stage` is the stage
    PREFIX/REQUEST/STAGE/parts        "TOKEN NUMBER": a large value, in so many parts
    PREFIX/REQUEST/STAGE/TOKEN.0 ...  its parts

Neither requests nor stages have slashes in their names, so no two values share a key. Every key
expires: that is for crashes; normally what was written is deleted by whoever has had it.

A value that must not be lost is written `durably`: that is done when the server has it on disk.
"""

import asyncio
import secrets
from collections.abc import Iterable

from esg.backoff import Backoff
from esg.errors import Fault, Rejected
from esg.names import BETWEEN
from esg.storage.durable import DurablePipeline
from esg.storage.errors import Missing
from esg.storage.metrics import RedisMetrics
from esg.storage.redis_pipeline import RedisPipeline

PART_BYTES = 4 * 2**20
POLL_BACKOFF_S = Backoff(0.001, 0.05)


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

    async def get(self, request: str, stage: str) -> bytes:
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

    async def wait(self, request: str, stage: str, timeout_s: float) -> bytes:
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

    async def discard(self, request: str, stages: Iterable[str]) -> None:
        """Delete the values of these stages, whether they are there or not."""
        keys = [self._key(request, stage) for stage in stages]
        if not keys:
            return
        lists = [_list_of(key) for key in keys]
        listed, _ = await asyncio.gather(
            self._redis.send(b"MGET", *lists), self._redis.send(b"UNLINK", *keys, *lists)
        )
        names = [
            name
            for key, parts in zip(keys, listed, strict=True)
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
