"""Waiting for a condition from a test: as long as it takes, within reason."""

import asyncio
import time
from collections.abc import Callable
from inspect import isawaitable
from pathlib import Path

LIMIT_S = 180.0
"""Far more than anything takes on a machine that does something else too."""

COMMAND_LIMIT_S = 300.0
"""For a whole command that starts a mesh, uses it and stops it."""


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, which may be a coroutine function."""
    async with asyncio.timeout(LIMIT_S):
        while not (await found if isawaitable(found := condition()) else found):  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.005)


def wait_until(condition: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """The same as `until`, where no loop runs."""
    give_up = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.005)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}
