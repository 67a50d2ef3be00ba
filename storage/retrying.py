"""Waiting for a store that is away."""

import asyncio
from collections.abc import Awaitable, Callable

from esg.errors import Fault
from esg.storage.errors import Missing, StorageRefused

PATIENCE_S = 10.0
FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5


async def patiently(attempt: Callable[[], Awaitable[None]], patience_s: float = PATIENCE_S) -> None:
    """Do something, again and again while the store cannot be reached; then its `Fault`.

    What the store refuses, or has not got, is not a matter of patience.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            await attempt()
            return
        except (Missing, StorageRefused):
            raise
        except Fault:
            if loop.time() + pause_s > deadline:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
