"""A turn on slices: where a task in phases and the pool that gives slices away meet.

The task says when it is prepared, waits, and says when it needs its slices no longer. The pool may
have an answer ready before the task has begun to wait, or give up on it while it does.
"""

import asyncio
from collections.abc import Callable

from esg.core.messages.node import PoolEvent, TaskLeftSlices, TaskPrepared


class Turn:
    """The one of this task; `tell` is the node's: what its pool hears."""

    def __init__(self, task: str, tell: Callable[[PoolEvent], None]) -> None:
        self.slices: tuple[int, ...] = ()
        """Those that it has, or had; none before its turn."""
        self._task = task
        self._tell = tell
        # Made before the pool hears of anything: it may give slices while it is being told
        self._given: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()

    async def begin(self) -> tuple[int, ...]:
        """The CPU part is over: wait for slices. They need not be those of the order."""
        self._tell(TaskPrepared(task=self._task))
        self.slices = await self._given
        return self.slices

    def give(self, slices: tuple[int, ...]) -> None:
        """It has these from now on, unless it is given up and does not wait any more."""
        if not self._given.done():
            self._given.set_result(slices)

    def end(self) -> None:
        """Inference is over; the slices are somebody else's from now on."""
        self._tell(TaskLeftSlices(task=self._task))
