"""Commands to Redis from many coroutines, in as few round trips as there can be.

A command costs its caller about ten microseconds, a round trip about a hundred. So what is sent
while the loop is busy leaves together, as one batch, and while a batch is under way the next one
gathers. Nothing waits for company: a lonely command leaves at once. redis-py connects (TLS,
passwords, `redis://`, `rediss://` and `unix://` URLs) and reads the replies with hiredis.

Commands are carried out in the order in which they were given, also when their callers have given
up waiting: whoever deletes what it has just written can rely on it. Nothing is tried twice. When
the connection breaks, whoever waits gets a `Fault`; the next command connects anew.
"""

import asyncio
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

from redis.asyncio.connection import AbstractConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    ClusterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from esg.errors import Rejected
from esg.runtime.security.redis_tls import redis_pool
from esg.storage.errors import StorageRefused, StoreUnavailable
from esg.storage.metrics import ConnectionMetrics, RedisMetrics

REPLY_TIMEOUT_S = 10.0
TIMEOUT_PER_COMMAND_S = 0.05
"""A server that takes longer for a batch is given up."""
PASSING = (OutOfMemoryError, ReadOnlyError, TryAgainError, ClusterDownError)
"""Replies of a server that is full, or not the primary, for a while; all other errors stay."""
CONNECT_S = 5.0
BATCH_BYTES = 16 * 2**20
COPIED_BYTES = 64 * 1024
"""Smaller pieces are joined before they are sent, larger ones are not copied."""

Argument = bytes | memoryview
Reply = asyncio.Future[Any]


class RedisPipeline:
    def __init__(self, url: str, metrics: ConnectionMetrics | None = None) -> None:
        self._metrics = metrics or RedisMetrics().connection("data")
        try:
            pool: Any = redis_pool(
                url,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_connect_timeout=CONNECT_S,
                socket_timeout=None,  # a batch has a limit as a whole, which costs less
            )
            pool.make_connection()  # to see whether its options make sense
            self._pool = pool
            self.where = _where(pool)
        except (ValueError, TypeError):
            # The error may quote a part of the URL, and that may be a password
            raise Rejected(
                "redis_url: not a URL of a Redis server; it must look like redis://HOST:PORT/0, "
                "rediss://USER:PASSWORD@HOST:PORT/0 or unix:///PATH/TO/SOCKET "
                "(special characters in a password as %XX)"
            ) from None
        self._waiting: list[tuple[list[Argument], Reply]] = []
        self._runner: asyncio.Task[None] | None = None

    def send(self, *command: Argument) -> Reply:
        """Have a command carried out; its reply, or a `Fault`, comes with the future."""
        reply: Reply = asyncio.get_running_loop().create_future()
        self._waiting.append((_packed(command), reply))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        return reply

    async def close(self) -> None:
        """Finish what was begun, and disconnect."""
        if self._runner is not None:
            await asyncio.wait({self._runner})
        await self._pool.disconnect()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._round_trip(self._next_batch())
                await asyncio.sleep(0)  # whoever got a reply may have more to ask
        finally:
            self._runner = None

    def _next_batch(self) -> list[tuple[list[Argument], Reply]]:
        taken = size = 0
        while taken < len(self._waiting) and size < BATCH_BYTES:
            size += sum(map(len, self._waiting[taken][0]))
            taken += 1
        batch, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return batch

    async def _round_trip(self, batch: list[tuple[list[Argument], Reply]]) -> None:
        limit_s = REPLY_TIMEOUT_S + TIMEOUT_PER_COMMAND_S * len(batch)
        began = perf_counter()
        try:
            async with asyncio.timeout(limit_s):
                connection = await self._pool.get_connection()
                try:
                    pieces = _joined(piece for command, _ in batch for piece in command)
                    await connection.send_packed_command(pieces, check_health=False)
                    for _, reply in batch:
                        await self._read(connection, reply)
                finally:
                    await self._pool.release(connection)
            self._metrics.answered(len(batch), perf_counter() - began)
        except (RedisError, OSError, RuntimeError) as error:
            # A TimeoutError is an OSError; uvloop raises a RuntimeError for a closed transport
            self._metrics.unreachable()
            reason = str(error).rstrip(".") or f"no answer within {limit_s:g} s"
            for _, reply in batch:
                if not reply.done():
                    reply.set_exception(
                        StoreUnavailable(
                            f"Redis at {self.where}: {reason}; is it running, and is redis_url "
                            "right?"
                        )
                    )

    async def _read(self, connection: AbstractConnection, reply: Reply) -> None:
        try:
            answer = await connection.read_response(disable_decoding=True)
        except ResponseError as error:  # about this command alone
            self._metrics.refused()
            if not reply.done():
                kind = StoreUnavailable if isinstance(error, PASSING) else StorageRefused
                reply.set_exception(kind(f"Redis at {self.where} refuses: {error}"))
        else:
            if not reply.done():
                reply.set_result(answer)


def _where(pool: Any) -> str:
    """The address, without the password."""
    options = pool.connection_kwargs
    if issubclass(pool.connection_class, UnixDomainSocketConnection):
        if not options.get("path"):
            raise ValueError("a socket must have a path")
        return str(options["path"])
    return f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"


def _packed(command: Sequence[Argument]) -> list[Argument]:
    """A command as Redis wants it: the number of its arguments, then each with its length."""
    pieces: list[Argument] = [b"*%d\r\n" % len(command)]
    for part in command:
        pieces += (b"$%d\r\n" % len(part), part, b"\r\n")
    return pieces


def _joined(pieces: Iterable[Argument]) -> list[Argument]:
    """The bytes of many pieces in fewer."""
    joined: list[Argument] = []
    small: list[Argument] = []
    for piece in pieces:
        if len(piece) < COPIED_BYTES:
            small.append(piece)
        else:
            joined += [b"".join(small), piece]
            small = []
    if small:
        joined.append(b"".join(small))
    return joined
