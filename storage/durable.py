"""Writing so that the server has it on disk.

A server that keeps a log (`appendonly yes`) says with WAITAOF when all that came over a connection
before is on disk. That can take a second, if the server syncs its log every second, and nothing
else moves on that connection meanwhile; so this one is used for nothing else, and whoever comes
while one WAITAOF is under way shares the next.
"""

import asyncio

from esg.errors import Fault
from esg.storage.errors import NotDurable, StorageRefused, StoreUnavailable
from esg.storage.metrics import ConnectionMetrics
from esg.storage.redis_pipeline import RedisPipeline

LIMIT_MS = 5000


class DurablePipeline(RedisPipeline):
    def __init__(self, url: str, metrics: ConnectionMetrics | None = None) -> None:
        super().__init__(url, metrics)
        self._unsynced: list[asyncio.Future[None]] = []
        self._syncer: asyncio.Task[None] | None = None

    async def synced(self) -> None:
        """Wait until all that was sent before is on disk; a `Fault` if it may not be."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unsynced.append(waiter)
        if self._syncer is None:
            self._syncer = asyncio.create_task(self._sync())
        await waiter

    async def _sync(self) -> None:
        try:
            while self._unsynced:
                waiters, self._unsynced = self._unsynced, []
                error = await self._tried()
                for waiter in waiters:
                    if waiter.done():
                        continue
                    if error is None:
                        waiter.set_result(None)
                    else:
                        waiter.set_exception(error)
        finally:
            self._syncer = None

    async def _tried(self) -> Fault | None:
        try:
            on_disk, _ = await self.send(b"WAITAOF", b"1", b"0", b"%d" % LIMIT_MS)
        except StorageRefused as error:
            return NotDurable(f"{error}: {NotDurable.public}")
        except Fault as error:
            return error
        if not on_disk:
            return StoreUnavailable(
                f"Redis at {self.where}: not on disk after {LIMIT_MS} ms; try again"
            )
        return None
