"""Looking at the world from a test, and waiting for it: as long as it takes, within reason."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

LIMIT_S = 180.0


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - about other processes, which set no event here
            await asyncio.sleep(0.01)


def wait_until(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}
