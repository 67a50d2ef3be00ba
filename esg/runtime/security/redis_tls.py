"""Connections to Redis that make sure whom they call.

All services of a mesh have certificates of one authority, so that a certificate is of that
authority says little. redis-py compares it with the host of the URL; ours can ask for another name,
as everywhere between services: `rediss://10.0.0.7:6379/0?ssl_ca_certs=ca.pem&ssl_server_name=redis.esg`.
"""

from collections.abc import Mapping
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import SSLConnection


class NamedSSLConnection(SSLConnection):
    """`ssl_server_name` is what the server's certificate is made out to; empty: its host."""

    def __init__(self, *, ssl_server_name: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._server_name = ssl_server_name

    def _connection_arguments(self) -> Mapping[str, Any]:
        arguments = dict(super()._connection_arguments())
        if self._server_name:
            arguments["server_hostname"] = self._server_name
        return arguments


def redis_pool(url: str, **options: Any) -> ConnectionPool:
    """The connections that a URL asks for."""
    pool: ConnectionPool = ConnectionPool.from_url(url, **options)
    if pool.connection_class is SSLConnection:
        pool.connection_class = NamedSSLConnection
    return pool
