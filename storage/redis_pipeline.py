"""Commands to Redis from many coroutines, in as few round trips as there can be.

A command costs its caller about ten microseconds, a round trip about a hundred. So what is sent
while the loop is busy leaves together, as one batch, and while a batch is under way the next one
gathers. Nothing waits for company: a lonely command leaves at once. redis-py connects (TLS,
passwords, `redis://`, `rediss://` and `unix://` URLs); then the transport is ours, and hiredis
reads the replies. What redis-py does around every command took half of a gateway's CPU.

Commands are carried out in the order in which they were given, also when their callers have given
up waiting: whoever deletes what it has just written can rely on it. Nothing is tried twice. When
the connection breaks, whoever waits gets a `Fault`; the next command connects anew.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

from redis.asyncio.connection import UnixDomainSocketConnection
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
from esg.storage.redis_connection import RedisConnection

REPLY_TIMEOUT_S = 10.0
TIMEOUT_PER_COMMAND_S = 0.05
"""A server that takes longer for a batch is given up."""
PASSING = (OutOfMemoryError, ReadOnlyError, TryAgainError, ClusterDownError)
"""Replies of a server that is full, or not the primary, for a while. Those that are about the
connection, or about a server that still reads its data, are no `ResponseError`; all others stay."""
CONNECT_S = 5.0
BATCH_BYTES = 16 * 2**20
COPIED_BYTES = 64 * 1024
"""Smaller pieces are joined before they are sent, larger ones are not copied."""

Argument = bytes | memoryview
Reply = asyncio.Future[Any]
Sent = tuple[list[Argument], Reply]


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
        self._waiting: list[Sent] = []
        self._under_way: deque[Reply] = deque()
        """The replies that are due, in order."""
        self._sent, self._sent_s = 0, 0.0  # commands of this batch, and when they were
        self._too_late: asyncio.TimerHandle | None = None
        self._connection: RedisConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def send(self, *command: Argument) -> Reply:
        """Have a command carried out; its reply, or a `Fault`, comes with the future."""
        loop = asyncio.get_running_loop()
        reply: Reply = loop.create_future()
        self._waiting.append((_packed(command), reply))
        if self._idle.is_set():
            self._idle.clear()
            loop.call_soon(self._go_on)
        return reply

    async def close(self) -> None:
        """Finish what was begun, and disconnect."""
        await self._idle.wait()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _go_on(self) -> None:
        """When nothing is under way: send what waits."""
        if not self._waiting:
            self._idle.set()
        elif self._connection is None or self._connection.lost:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
        else:
            batch = self._next_batch()
            self._under_way.extend(reply for _, reply in batch)
            self._sent, self._sent_s = len(batch), perf_counter()
            self._set_limit(len(batch))
            self._connection.send(_joined(piece for command, _ in batch for piece in command))

    async def _connect(self) -> None:
        limit_s = REPLY_TIMEOUT_S
        try:
            async with asyncio.timeout(limit_s):
                self._connection = await RedisConnection.made(
                    self._pool.make_connection(), self._hear, self._broke
                )
        except Exception as error:  # redis-py's, the socket's, TLS's: nobody may wait for ever
            waiting, self._waiting = self._waiting, []
            self._fail([reply for _, reply in waiting], str(error) or _none_within(limit_s))
        self._go_on()

    def _next_batch(self) -> list[Sent]:
        taken = size = 0
        while taken < len(self._waiting) and size < BATCH_BYTES:
            size += sum(map(len, self._waiting[taken][0]))
            taken += 1
        batch, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return batch

    def _set_limit(self, commands: int) -> None:
        limit_s = REPLY_TIMEOUT_S + TIMEOUT_PER_COMMAND_S * commands
        assert self._connection is not None
        self._too_late = asyncio.get_running_loop().call_later(
            limit_s, self._connection.give_up, _none_within(limit_s)
        )

    def _hear(self, answer: Any) -> None:
        """One reply; they come in the order of the commands."""
        reply = self._under_way.popleft()
        if not reply.done():
            if isinstance(answer, RedisError):
                self._metrics.refused()
            if not isinstance(answer, RedisError):
                reply.set_result(answer)
            elif isinstance(answer, ResponseError) and not isinstance(answer, PASSING):
                reply.set_exception(StorageRefused(f"Redis at {self.where} refuses: {answer}"))
            else:
                reply.set_exception(StoreUnavailable(f"Redis at {self.where} refuses: {answer}"))
        if not self._under_way:
            self._metrics.answered(self._sent, perf_counter() - self._sent_s)
            self._batch_is_over()

    def _broke(self, reason: str) -> None:
        """The connection is gone; also while nothing is under way."""
        self._connection = None
        if self._under_way:
            replies = list(self._under_way)
            self._under_way.clear()
            self._fail(replies, reason)
            self._batch_is_over()

    def _batch_is_over(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None
        # Not at once: whoever got a reply may have more to ask
        asyncio.get_running_loop().call_soon(self._go_on)

    def _fail(self, replies: Iterable[Reply], reason: str) -> None:
        self._metrics.unreachable()
        for reply in replies:
            if not reply.done():
                reply.set_exception(
                    StoreUnavailable(
                        f"Redis at {self.where}: {reason.rstrip('.')}; is it running, and is "
                        "redis_url right?"
                    )
                )


def _none_within(limit_s: float) -> str:
    return f"no answer within {limit_s:g} s"


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
    if sum(map(len, command)) < COPIED_BYTES:
        return [b"".join(pieces)]
    return _joined(pieces)


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
