"""Asking a process of the mesh whether it is well: gRPC's health service, or Redis' PING.

For a service that is being drained the answer is no, as for one that does not answer at all.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from redis.asyncio import Redis
from redis.exceptions import RedisError

from esg.errors import Rejected
from esg.local.process import Ask
from esg.runtime.rpc.addresses import callable_address
from esg.runtime.rpc.channels import channel
from esg.runtime.security.redis_tls import redis_pool
from esg.runtime.security.tls import ON_THIS_MACHINE, Security

ANSWER_TIMEOUT_S = 5.0


async def is_serving(address: str, security: Security | None = None) -> bool:
    """A process' own opinion; False if it has none in time."""
    return await _said(address, security) == health_pb2.HealthCheckResponse.SERVING


async def is_refusing(address: str, security: Security, service: str) -> bool:
    """Whether a process says of one of its services that it takes nothing now."""
    return await _said(address, security, service) == health_pb2.HealthCheckResponse.NOT_SERVING


async def _said(address: str, security: Security | None, service: str = "") -> int | None:
    async with channel(callable_address(address), security or ON_THIS_MACHINE) as link:
        stub: Any = health_pb2_grpc.HealthStub(link)
        question = health_pb2.HealthCheckRequest(service=service)
        try:
            reply = await stub.Check(question, timeout=ANSWER_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return None
        return int(reply.status)


@asynccontextmanager
async def service_line(address: str, security: Security) -> AsyncIterator[Ask]:
    """A connection to a service, to ask whether it answers at all."""
    async with channel(callable_address(address), security) as link:
        stub: Any = health_pb2_grpc.HealthStub(link)

        async def ask(timeout_s: float) -> bool | None:
            try:
                await stub.Check(health_pb2.HealthCheckRequest(), timeout=timeout_s)
            except grpc.aio.AioRpcError as error:
                return _answered(error)
            return True

        yield ask


def _answered(error: grpc.aio.AioRpcError) -> bool | None:
    """Whether a call that failed was answered. A connection that fails may be the fault of a
    certificate, ours or theirs, which a process does not mend by dying."""
    match error.code():
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return False
        case grpc.StatusCode.UNAVAILABLE:
            return False if "refused" in (error.details() or "") else None
        case _:
            return True


@asynccontextmanager
async def redis_line(url: str) -> AsyncIterator[Ask]:
    """The same for the embedded server: also one that still reads its log, or is busy, answers."""

    async def ask(timeout_s: float) -> bool:
        return bool(await _said_to_ping(url, timeout_s))

    yield ask


async def redis_answers(url: str) -> bool:
    """Whether the embedded server (`unix://...`) takes commands already."""
    return await _said_to_ping(url, ANSWER_TIMEOUT_S) == b"+PONG\r\n"


async def _said_to_ping(url: str, timeout_s: float) -> bytes:
    """What the embedded server says to PING; nothing if that is nothing in time."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_unix_connection(unquote(urlsplit(url).path))
            try:
                writer.write(b"PING\r\n")
                return await reader.readline()
            finally:
                writer.close()
    except OSError:  # a TimeoutError is one
        return b""


async def check_redis(url: str) -> None:
    """Refuse a server of the user's own that cannot be used."""
    try:
        pool = redis_pool(url, socket_connect_timeout=ANSWER_TIMEOUT_S)
        async with Redis.from_pool(pool) as server:
            await server.ping()
    except (RedisError, OSError, ValueError, TypeError) as error:
        raise Rejected(
            f"redis_url: {without_password(url)} does not answer: {error}; "
            "start that server, correct the URL, or leave it out to have one started"
        ) from None


def without_password(url: str) -> str:
    """
    >>> without_password("redis://esg:secret@cache:6379/0")
    'redis://esg:***@cache:6379/0'
    >>> without_password("unix:///run/redis.sock")
    'unix:///run/redis.sock'
    """
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@", 1)).geturl()
