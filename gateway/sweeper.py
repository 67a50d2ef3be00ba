"""Deleting what nobody needs any more, behind the backs of those who wait for answers."""

import asyncio
import logging
from collections.abc import Sequence

from esg.errors import Fault
from mesh.logs import about
from storage.patience import patiently
from storage.remote import RemoteStore

log = logging.getLogger(__name__)


class Sweeper:
    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._sweeping: set[asyncio.Task[None]] = set()

    def discard(self, request: str, stages: Sequence[str]) -> None:
        """Delete what is stored of a request under these names by now. It never waits for its
        turn: a request that is repeated soon stores its payload again, and that must stay. Only
        a store that is away is waited for, but less long than answers are remembered."""
        sweeping = asyncio.create_task(self._discard(request, stages))
        self._sweeping.add(sweeping)
        sweeping.add_done_callback(self._sweeping.discard)

    async def finish(self) -> None:
        """Until all is deleted."""
        while self._sweeping:
            await asyncio.wait(self._sweeping)

    async def _discard(self, request: str, stages: Sequence[str]) -> None:
        try:
            await patiently(lambda: self._store.discard(request, stages))
        except Fault as fault:
            # Every key has an expiry: this is for room, not for rightness
            log.warning("not deleted", extra=about(request=request, reason=str(fault)))
