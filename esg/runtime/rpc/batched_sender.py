"""Batched sending on a stream: whatever has become ready goes out as one message.

A message on a stream costs some hundred microseconds whatever is in it, so what is put here while
the loop is busy leaves together. A lonely note leaves at once, unless it is of the kind that can
wait for company.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
M = TypeVar("M")

LARGEST_GROUP = 256
"""How many notes leave together at most; whoever is sent them may count on it."""

FLUSH_AFTER_S = 0.02
"""How long a note that nobody waits for lingers (as with Nagle's algorithm, for company)."""


class BatchedSender(Generic[T]):
    """Notes on their way to one peer, in order."""

    def __init__(self) -> None:
        self._notes: list[T] = []
        self._ready = asyncio.Event()
        self._closed = False
        self._flush: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._notes)

    def put(self, note: T) -> None:
        self._notes.append(note)
        self._ready.set()

    def put_lazily(self, note: T) -> None:
        """Add a note that may linger: it leaves with the next one, or after a moment."""
        self._notes.append(note)
        if not self._ready.is_set() and self._flush is None:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_later(FLUSH_AFTER_S, self._ready.set)

    def close(self) -> None:
        """No more will come; what is here is still sent."""
        self._closed = True
        self._ready.set()

    @asynccontextmanager
    async def while_reading(self, reading: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Around sending: the other direction of the stream is read meanwhile. When that has ended,
        no more is sent; what was wrong there is the end of the stream."""
        reader = asyncio.get_running_loop().create_task(reading)
        reader.add_done_callback(lambda _: self.close())
        try:
            yield
            if reader.done() and not reader.cancelled():
                reader.result()
        finally:
            reader.cancel()

    async def messages(self, message: Callable[[list[T]], M]) -> AsyncIterator[M]:
        """Each group as a message of the stream."""
        async for group in self.groups():
            yield message(group)

    async def groups(self, limit: int = LARGEST_GROUP) -> AsyncIterator[list[T]]:
        """What is ready, again and again, until it is closed and empty."""
        while group := await self.group(limit):
            yield group

    async def group(self, limit: int = LARGEST_GROUP) -> list[T]:
        """What is ready, as soon as anything is; nothing once it is closed and empty."""
        while True:
            await self._ready.wait()
            # What is under way in this turn of the loop may have more to say
            await asyncio.sleep(0)
            group, self._notes = self._notes[:limit], self._notes[limit:]
            if not self._notes and not self._closed:
                self._ready.clear()
                if self._flush is not None:
                    self._flush.cancel()
                    self._flush = None
            if group or self._closed:
                return group
