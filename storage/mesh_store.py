"""Data between the processes of a mesh: in Redis, and where they share a directory, in files.

What somebody waits for, and is large, goes by file if it can: it is of no use to anybody when the
machine, or all processes, are gone. Whatever is to outlive them is Redis' (payloads that have to be
durable, outputs that will be fetched later), and so is what there is no room for, and what goes
from node to node. A reader looks at the files first, which costs it some microseconds. A value has
one place: it is removed from the other when it moves.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path

from esg.runtime.settings import CommonSettings
from esg.storage.redis_store import PART_BYTES, RedisStore
from esg.storage.shared_store import LARGE_BYTES, SharedStore

SWEEPS = 4
"""How often the old is looked for, in the time after which it is old."""


class MeshStore(RedisStore):
    def __init__(
        self,
        url: str,
        shared: SharedStore | None,
        *,
        prefix: str,
        ttl_s: int,
        part_bytes: int = PART_BYTES,
    ) -> None:
        super().__init__(url, prefix=prefix, ttl_s=ttl_s, part_bytes=part_bytes)
        self._shared = shared
        self._old_s = ttl_s

    def has_room(self, size: int) -> bool:
        return self._shared is not None and size > LARGE_BYTES and self._shared.has_room(size)

    def share(self, request: str, stage: str, content: bytes | memoryview) -> bool:
        if self._shared is None or len(content) <= LARGE_BYTES:
            return False
        return self._shared.put(request, stage, content)

    def unshare(self, request: str, stage: str) -> None:
        if self._shared is not None:
            self._shared.remove(request, stage)

    def here(self, request: str, stage: str) -> memoryview | None:
        return None if self._shared is None else self._shared.get(request, stage)

    async def put(
        self, request: str, stage: str, content: bytes | memoryview, *, durably: bool = False
    ) -> None:
        await super().put(request, stage, content, durably=durably)
        if self._shared is not None:
            self._shared.remove(request, stage)

    async def get(self, request: str, stage: str) -> bytes | memoryview:
        found = self.here(request, stage)
        return await super().get(request, stage) if found is None else found

    async def expire(
        self, request: str, stages: Iterable[str], left_s: float
    ) -> dict[str, int | None]:
        """What is to be fetched later, but was made for somebody who waited, becomes Redis'."""
        stages = list(stages)
        for stage in stages:
            content = self.here(request, stage)
            if content is not None:
                await self.put(request, stage, content)
        return await super().expire(request, stages, left_s)

    def discarding(self, values: Sequence[tuple[str, str]]) -> Awaitable[None]:
        shared = self._shared
        if shared is not None:
            values = [value for value in values if not shared.remove(*value)]
        return super().discarding(values) if values else _nothing()

    async def sweep(self) -> None:
        """Remove what crashes have left in files; runs as long as the process does."""
        while self._shared is not None:
            self._shared.sweep(self._old_s)
            await asyncio.sleep(self._old_s / SWEEPS)


def mesh_store(common: CommonSettings) -> MeshStore:
    """The store that the settings name."""
    shared = None
    if common.shared_data:
        shared = SharedStore(Path(common.shared_data), common.shared_data_mb * 2**20)
    return MeshStore(common.redis_url, shared, prefix=common.key_prefix, ttl_s=common.data_ttl_s)


async def _nothing() -> None:
    """There is nothing left to do."""
