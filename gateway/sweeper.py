"""Deleting what nobody needs any more, behind the backs of those who wait for answers."""

import asyncio
import logging
from collections.abc import Sequence

from esg.errors import Fault
from mesh.logs import about
from mesh.outbox import Outbox
from storage.remote import RemoteStore

log = logging.getLogger(__name__)


class Sweeper:
    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._waste: Outbox[tuple[str, Sequence[str]]] = Outbox()

    def discard(self, request: str, stages: Sequence[str]) -> None:
        """Delete these outputs of a request ("" is its payload), soon."""
        self._waste.put((request, stages))

    def close(self) -> None:
        self._waste.close()

    async def run(self) -> None:
        """Until it is closed, and then until all is deleted."""
        async for group in self._waste.groups():
            try:
                await asyncio.gather(
                    *(self._store.discard(request, stages) for request, stages in group)
                )
            except Fault as fault:
                # Every key has an expiry: this is for room, not for rightness
                log.warning("not deleted", extra=about(requests=len(group), reason=str(fault)))
