"""One connection to Redis: bytes out, replies in.

redis-py makes it and introduces itself (TLS, password, database). Then its transport gets another
protocol, which parses with hiredis whatever comes and hands each reply on: no coroutine, no stream
and no lock stands between the socket and whoever waits.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self

import hiredis
from redis._parsers import BaseParser

_NOT_YET = object()
_ENDED = "Connection closed by server"


class RedisConnection(asyncio.Protocol):
    """`hear` gets every reply; errors are redis-py's exceptions. `broke` is told, once, why no more
    will come."""

    def __init__(
        self,
        writer: asyncio.StreamWriter,
        hear: Callable[[Any], None],
        broke: Callable[[str], None],
    ) -> None:
        self._writer = writer  # it would close the transport if it went
        self._transport = writer.transport
        self._hear = hear
        self._broke = broke
        self._reader = hiredis.Reader(
            notEnoughData=_NOT_YET,
            protocolError=hiredis.ProtocolError,
            replyError=BaseParser.parse_error,
        )
        self.lost = False

    @classmethod
    async def made(
        cls, link: Any, hear: Callable[[Any], None], broke: Callable[[str], None]
    ) -> Self:
        """Connect, as redis-py's `link` does, and take over."""
        await link.connect()
        connection = cls(link._writer, hear, broke)
        link._reader = link._writer = None
        connection._transport.set_protocol(connection)
        return connection

    def send(self, pieces: Sequence[bytes | memoryview]) -> None:
        try:
            self._transport.writelines(pieces)
        except RuntimeError as error:  # uvloop's, for a transport that is being closed
            self.give_up(str(error))

    def give_up(self, reason: str) -> None:
        """Expect no more of it."""
        if not self.lost:
            self.lost = True
            self._transport.abort()
            self._broke(reason)

    def close(self) -> None:
        """Nobody waits for anything any more."""
        self.lost = True
        self._transport.close()

    # ---- what the transport says

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not _NOT_YET:
                self._hear(reply)
        except hiredis.ProtocolError as error:
            self.give_up(str(error))

    def eof_received(self) -> bool:
        self.give_up(_ENDED)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.give_up(str(error or _ENDED))
