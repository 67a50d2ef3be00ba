"""Asking a process of the mesh whether it is well: gRPC's health service, or Redis' PING.

For a service that is being drained the answer is no, as for one that does not answer at all.
"""

import asyncio
from typing import Any
from urllib.parse import unquote, urlsplit

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from redis.asyncio import Redis
from redis.exceptions import RedisError

from esg.errors import Rejected
from esg.runtime.rpc.addresses import callable_address
from esg.runtime.rpc.channels import channel
from esg.runtime.security.redis_tls import redis_pool
from esg.runtime.security.tls import ON_THIS_MACHINE, Security

ANSWER_TIMEOUT_S = 5.0


async def is_serving(address: str, security: Security | None = None) -> bool:
    """A service's own opinion; False if it has none in time."""
    async with channel(callable_address(address), security or ON_THIS_MACHINE) as link:
        stub: Any = health_pb2_grpc.HealthStub(link)
        try:
            reply = await stub.Check(health_pb2.HealthCheckRequest(), timeout=ANSWER_TIMEOUT_S)
        except grpc.aio.AioRpcError:
            return False
        return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


async def redis_answers(url: str) -> bool:
    """Whether the embedded server (`unix://...`) takes commands already."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(unquote(urlsplit(url).path))
            try:
                writer.write(b"PING\r\n")
                return await reader.readline() == b"+PONG\r\n"
            finally:
                writer.close()
    except OSError:  # a TimeoutError is one
        return False


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
