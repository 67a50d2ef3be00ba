"""Waiting for a condition, for long enough on the slowest machine."""

import asyncio
from collections.abc import Awaitable, Callable

LIMIT_S = 60.0


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await holds():  # noqa: ASYNC110 - of other processes, which set no event here
            await asyncio.sleep(0.005)
