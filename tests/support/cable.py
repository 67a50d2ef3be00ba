"""A connection between two processes that a test can cut."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Self

from esg.local.process import Program
from esg.local.programs import service_of
from esg.local.supervisor import Mesh


class Cable:
    """Listens on a port of its own, and passes everything on to another one and back."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._streams: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.address = ""

    async def laid(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    @property
    def connected(self) -> bool:
        return bool(self._streams)

    def cut(self) -> None:
        """Everything that is connected through it is broken off; it may connect again."""
        for stream in self._streams:
            stream.transport.abort()

    def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        self._streams |= {writer, far_writer}
        try:
            ways = (self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._streams -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


class CabledMesh(Mesh):
    """A mesh whose gateways and nodes reach the controller by cables, one each."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cables: dict[str, Cable] = {}

    async def _start(self, programs: Iterable[Program]) -> None:
        await super()._start([await self._by_cable(program) for program in programs])

    async def _by_cable(self, program: Program) -> Program:
        setting = f"ESG_{service_of(program.name).upper()}_CONTROLLER"
        if program.name in self.cables or setting not in program.environ:
            return program
        cable = self.cables[program.name] = await Cable(program.environ[setting]).laid()
        return replace(program, environ={**program.environ, setting: cable.address})

    async def stop(self) -> None:
        await super().stop()
        for cable in self.cables.values():
            cable.close()
