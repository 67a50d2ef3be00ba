"""Connections to other processes, with TLS or without.

A channel of gRPC keeps the certificates it was made with, also for connections it makes much later.
One of ours takes those that are in the files now: when they have changed, the next call goes over a
new channel, and the old one is closed when its last call has ended.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc

from esg.backoff import Backoff
from esg.runtime.rpc.addresses import check_address
from esg.runtime.security.plain import FOR_SERVICES, check_calling
from esg.runtime.security.tls import ON_THIS_MACHINE, ClientTls, Security

ANY_SIZE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
"""For links over which payloads go; elsewhere, as at the public door, sizes are limited."""
AMONG_OURSELVES = [
    ("grpc.max_receive_message_length", 64 * 2**20),
    ("grpc.max_send_message_length", -1),
]
"""For the controller: what it is told is small, even all of it at once after a link broke."""
BACKOFF_MS = Backoff(50, 1000)
STAY_CONNECTED = [
    ("grpc.initial_reconnect_backoff_ms", BACKOFF_MS.first),
    ("grpc.max_reconnect_backoff_ms", BACKOFF_MS.longest),
]
KEEPALIVE_MS = 5000
KEEPALIVE = [
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]
"""HTTP/2 pings when nothing has been heard for a while: a connection to a process that was stopped,
or to a machine that is gone, breaks after twice that time instead of standing for ever. A peer's
own threads answer, not its event loop: one that hangs is found by whoever asks for its health."""
NO_PROXY = ("grpc.enable_http_proxy", 0)
"""Nothing goes through a proxy that the environment names, wherever it goes."""
TO_ANYBODY: list[tuple[str, Any]] = [*ANY_SIZE, *STAY_CONNECTED, NO_PROXY]
OPTIONS = [*TO_ANYBODY, *KEEPALIVE]


def channel(
    address: str, security: Security = ON_THIS_MACHINE, *, advice: str = FOR_SERVICES
) -> grpc.aio.Channel:
    """To another process of the mesh; refused if it would be plain text that others can read, or
    cannot be called at all."""
    check_address(address)
    if security.client is not None:
        return RenewedChannel(address, security.client)
    check_calling(address, insecure=security.insecure, advice=advice)
    return plain_channel(address, OPTIONS)


def plain_channel(address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    """Without TLS, wherever that is; for addresses that have been checked."""
    return grpc.aio.insecure_channel(address, options=options)


class _Made:
    """A channel of gRPC, and how many calls go over it."""

    def __init__(self, address: str, tls: ClientTls, credentials: grpc.ChannelCredentials) -> None:
        named = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name else []
        self.credentials = credentials
        self.channel = grpc.aio.secure_channel(address, credentials, options=[*OPTIONS, *named])
        self.calls = 0


class RenewedChannel(grpc.aio.Channel):
    """A channel whose certificates are those that are in the files when a call begins."""

    def __init__(self, address: str, tls: ClientTls) -> None:
        self._address = address
        self._tls = tls
        self._current = _Made(address, tls, tls.credentials())
        self._former: list[_Made] = []
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "RenewedChannel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        made = [self._current, *self._former]
        await asyncio.gather(*(one.channel.close(grace) for one in made), *self._closing)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._fresh().channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._fresh().channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._fresh().channel.channel_ready()

    def unary_unary(self, *how: Any, **more: Any) -> Any:
        return self._method("unary_unary", how, more)

    def unary_stream(self, *how: Any, **more: Any) -> Any:
        return self._method("unary_stream", how, more)

    def stream_unary(self, *how: Any, **more: Any) -> Any:
        return self._method("stream_unary", how, more)

    def stream_stream(self, *how: Any, **more: Any) -> Any:
        return self._method("stream_stream", how, more)

    def _method(self, kind: str, how: Sequence[Any], more: dict[str, Any]) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            made = self._fresh()
            begun = getattr(made.channel, kind)(*how, **more)(*arguments, **options)
            made.calls += 1
            begun.add_done_callback(lambda _: self._ended(made))
            return begun

        return call

    def _fresh(self) -> _Made:
        credentials = self._tls.credentials()
        if credentials is not self._current.credentials:
            self._former.append(self._current)
            self._current = _Made(self._address, self._tls, credentials)
            self._close_unused()
        return self._current

    def _ended(self, made: _Made) -> None:
        made.calls -= 1
        self._close_unused()

    def _close_unused(self) -> None:
        for made in [former for former in self._former if not former.calls]:
            self._former.remove(made)
            closing = asyncio.get_running_loop().create_task(made.channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
