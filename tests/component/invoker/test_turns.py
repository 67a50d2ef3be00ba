"""Turns on slices, whichever of pool and task is first."""

import asyncio
from typing import Any

import pytest

from esg.core.messages.node import PoolEvent, TaskLeftSlices, TaskPrepared
from esg.invoker.turns import Turn


async def test_slices_that_are_given_while_the_pool_is_told_are_not_missed() -> None:
    told: list[PoolEvent] = []

    def tell(event: PoolEvent) -> None:
        told.append(event)
        if isinstance(event, TaskPrepared):
            turn.give((1, 0))

    turn = Turn("t1", tell)
    async with asyncio.timeout(60):
        assert await turn.begin() == (1, 0)
    assert told == [TaskPrepared(task="t1")]
    turn.end()
    assert told == [TaskPrepared(task="t1"), TaskLeftSlices(task="t1")]
    assert turn.slices == (1, 0)  # where to look if something went wrong there


async def test_slices_that_are_given_later_are_waited_for() -> None:
    turn = Turn("t1", lambda _: None)
    waiting = asyncio.create_task(turn.begin())
    await asyncio.sleep(0)
    assert not waiting.done()
    turn.give((2,))
    async with asyncio.timeout(60):
        assert await waiting == (2,)


async def test_slices_for_a_task_that_was_just_given_up_are_nobodys() -> None:
    turn = Turn("t1", lambda _: None)
    waiting = asyncio.create_task(turn.begin())
    await asyncio.sleep(0)
    waiting.cancel()
    turn.give((2,))
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert turn.slices == ()


async def test_a_task_can_be_given_up_by_what_it_says() -> None:
    waiting: asyncio.Task[Any]

    def tell(event: PoolEvent) -> None:
        waiting.cancel()

    turn = Turn("t1", tell)
    waiting = asyncio.create_task(turn.begin())
    with pytest.raises(asyncio.CancelledError):
        await waiting
