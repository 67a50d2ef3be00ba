"""Deleting what nobody needs any more, behind the backs of those who wait for answers; and seeing
that outputs which are fetched later stay for exactly as long as they can be."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from esg.errors import Fault
from esg.names import is_payload
from esg.runtime.logs import about
from esg.storage.redis_store import RedisStore
from esg.storage.retrying import patiently

log = logging.getLogger(__name__)

LINGER_S = 2.0
"""Outputs that are on their way to a client stay for so long: should this process die before they
have left it, the client asks again, elsewhere."""


class PayloadCollector:
    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._finishing = asyncio.Event()
        self._sweeping: set[asyncio.Task[None]] = set()

    def discard(self, request: str, stages: Sequence[str]) -> None:
        """Delete what is stored of a request under these names. A payload never waits for its turn:
        a request that is repeated soon stores its payload again, and that must stay. Only a store
        that is away is waited for, but less long than answers are remembered."""
        outputs = [stage for stage in stages if not is_payload(stage)]
        self._begin(self._discard(request, [stage for stage in stages if is_payload(stage)]))
        if outputs:
            self._begin(self._discard_later(request, outputs))

    def keep(self, request: str, stages: Sequence[str], left_s: float) -> None:
        """Have the outputs of a request expire when its result is forgotten. They were written with
        an expiry before the request ended, and some of them long before."""
        self._begin(self._keep(request, stages, left_s))

    def _begin(self, sweep: Coroutine[Any, Any, None]) -> None:
        sweeping = asyncio.create_task(sweep)
        self._sweeping.add(sweeping)
        sweeping.add_done_callback(self._sweeping.discard)

    async def finish(self) -> None:
        """Until all is deleted: those who were served here have what they came for."""
        self._finishing.set()
        while self._sweeping:
            await asyncio.wait(self._sweeping)

    async def _discard_later(self, request: str, outputs: Sequence[str]) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._finishing.wait(), LINGER_S)
        await self._discard(request, outputs)

    async def _keep(self, request: str, stages: Sequence[str], left_s: float) -> None:
        try:
            await patiently(lambda: self._store.expire(request, stages, left_s))
        except Fault as fault:
            log.warning("may expire early", extra=about(request=request, reason=str(fault)))

    async def _discard(self, request: str, stages: Sequence[str]) -> None:
        try:
            await patiently(lambda: self._store.discard(request, stages))
        except Fault as fault:
            # Every key has an expiry: this is for room, not for rightness
            log.warning("not deleted", extra=about(request=request, reason=str(fault)))
