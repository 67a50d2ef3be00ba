"""Retries, with exponential back-off, while a store cannot be reached."""

import asyncio
from collections.abc import Awaitable, Callable

from esg.backoff import Backoff
from esg.errors import Fault
from esg.storage.errors import Missing, StorageRefused

RETRY_TIMEOUT_S = 10.0
BACKOFF_S = Backoff(0.02, 0.5)


async def patiently(
    attempt: Callable[[], Awaitable[object]], patience_s: float = RETRY_TIMEOUT_S
) -> None:
    """Do something, again and again while the store cannot be reached; then its `Fault`.

    What the store refuses, or has not got, is not a matter of patience.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    for pause_s in BACKOFF_S.pauses():
        try:
            await attempt()
            return
        except (Missing, StorageRefused):
            raise
        except Fault:
            if loop.time() + pause_s > deadline:
                raise
        await asyncio.sleep(pause_s)
