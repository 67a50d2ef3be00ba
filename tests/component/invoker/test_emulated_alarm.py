"""Precise waiting. How precise is for a benchmark to say; here, that it is never early or lost."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import uvloop

from esg.invoker.emulated.alarm import Alarm
from tests.support.waiting import LIMIT_S

MS = 1_000_000


@pytest.fixture
async def alarm() -> AsyncIterator[Alarm]:
    made = Alarm()
    yield made
    made.close()


async def test_alarm_rings_at_the_moment_or_later(alarm: Alarm) -> None:
    for delay_ns in (1, 50_000, 3 * MS):
        moment_ns = time.monotonic_ns() + delay_ns
        await asyncio.wait_for(alarm.until(moment_ns), LIMIT_S)
        assert time.monotonic_ns() >= moment_ns


async def test_a_moment_that_is_past_is_not_waited_for(alarm: Alarm) -> None:
    await asyncio.wait_for(alarm.until(0), LIMIT_S)
    await asyncio.wait_for(alarm.until(time.monotonic_ns() - 1), LIMIT_S)


async def test_alarm_that_is_cancelled_does_not_disturb_the_next(alarm: Alarm) -> None:
    first = asyncio.create_task(alarm.until(time.monotonic_ns() + MS))
    await asyncio.sleep(0)
    first.cancel()
    moment_ns = time.monotonic_ns() + 20 * MS
    await asyncio.wait_for(alarm.until(moment_ns), LIMIT_S)
    assert time.monotonic_ns() >= moment_ns
    assert first.cancelled()


async def test_a_timer_that_rang_for_nobody_is_set_anew(alarm: Alarm) -> None:
    first = asyncio.create_task(alarm.until(time.monotonic_ns() + 1_000))
    await asyncio.sleep(0)
    first.cancel()
    time.sleep(0.002)  # noqa: ASYNC251 - so that it rings before the loop can hear it
    moment_ns = time.monotonic_ns() + 20 * MS
    await asyncio.wait_for(alarm.until(moment_ns), LIMIT_S)
    assert time.monotonic_ns() >= moment_ns


def test_alarm_works_in_the_loop_that_processes_of_the_mesh_use() -> None:
    async def story() -> bool:
        alarm = Alarm()
        moment_ns = time.monotonic_ns() + MS
        await asyncio.wait_for(alarm.until(moment_ns), LIMIT_S)
        alarm.close()
        return time.monotonic_ns() >= moment_ns

    assert uvloop.run(story())
