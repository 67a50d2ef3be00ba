"""Several things at the same time, as one: all succeed, or nothing of them goes on."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def together(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """What they give, in order. If one fails, the others have been stopped when that is known.

    `asyncio.gather` would leave them running, on resources that count as free by then.
    """
    if len(works) == 1:
        return [await works[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
