"""Clients that keep a mesh busy, and know what every answer must be."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from esg.client import AsyncClient, Outcome, Result
from esg.client.stream import RequestStream
from tests.support.mesh_expectations import photo, scene, tags

RETRY_TIMEOUT_S = 300.0
"""Longer than anything that is done to a mesh here."""
APPLICATIONS = {"photo": photo, "scene": scene, "tags": tags}


class Load:
    """Some dozen clients, each with one request under way at any time, until the end of the block.

    They submit over a stream, by calls, or without waiting for the result and fetch it later,
    through another gateway. Each uses the gateways in turn.
    """

    def __init__(self, addresses: Sequence[str], clients: int = 18) -> None:
        self._clients = clients
        self._gateways = [AsyncClient(at, patience_s=RETRY_TIMEOUT_S) for at in addresses]
        self._streams: list[RequestStream] = []
        self._stopping = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []
        self.wrong: list[str] = []
        self.begun: dict[str, float] = {}
        self.answered: dict[str, float] = {}
        """When each request was, whose result has the right bytes."""

    async def __aenter__(self) -> Self:
        self._streams = [await gateway.stream().__aenter__() for gateway in self._gateways]
        ways = (self._by_stream, self._by_call, self._later)
        self._running = [
            asyncio.create_task(self._keep_asking(number, ways[number % len(ways)]))
            for number in range(self._clients)
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        try:
            if kind is None:
                async with asyncio.timeout(RETRY_TIMEOUT_S):
                    await asyncio.gather(*self._running)
        finally:
            for task in self._running:
                task.cancel()
            for stream in self._streams:
                await stream.__aexit__(kind, error, trace)
            for gateway in self._gateways:
                await gateway.close()

    async def goes_on(self, count: int = 60) -> None:
        """Wait until so many requests were answered that begin from now on."""
        now = time.monotonic()

        def new() -> int:
            return sum(self.begun[request] > now for request in self.answered)

        async with asyncio.timeout(RETRY_TIMEOUT_S):
            while new() < count and not self.wrong:  # noqa: ASYNC110 - anything may come of it
                await asyncio.sleep(0.02)

    async def _keep_asking(
        self, number: int, way: Callable[[int, str, str, bytes], Awaitable[Result]]
    ) -> None:
        made = 0
        while not self._stopping.is_set():
            made += 1
            request = f"c{number}-{made}"
            application = tuple(APPLICATIONS)[(number + made) % len(APPLICATIONS)]
            payload = request.encode()
            self.begun[request] = time.monotonic()
            try:
                result = await way(number + made, application, request, payload)
            except Exception as error:
                self.wrong.append(f"{request}: {type(error).__name__}: {error}")
                return
            if result.outcome is not Outcome.DONE:
                self.wrong.append(f"{request}: {result.outcome}: {result.reason}")
            elif result.outputs != APPLICATIONS[application](payload):
                self.wrong.append(f"{request}: other bytes than there should be")
            else:
                self.answered[request] = time.monotonic()

    async def _by_stream(self, turn: int, application: str, request: str, payload: bytes) -> Result:
        stream = self._streams[turn % len(self._streams)]
        return await stream.submit(application, payload, request_id=request)

    async def _by_call(self, turn: int, application: str, request: str, payload: bytes) -> Result:
        return await self._gateway(turn).submit(application, payload, request_id=request)

    async def _later(self, turn: int, application: str, request: str, payload: bytes) -> Result:
        await self._gateway(turn).submit_async(application, payload, request_id=request)
        return await self._gateway(turn + 1).fetch(request)

    def _gateway(self, turn: int) -> AsyncClient:
        return self._gateways[turn % len(self._gateways)]
