"""Memory goes back to the system, and nobody looks for it in vain all the time."""

import asyncio
import gc

import pytest

from esg.runtime import memory
from esg.runtime.memory import SPARE_BYTES, THRESHOLDS, return_memory, settle_collector

MB = 2**20
START = 50 * MB


class Process:
    """One whose clock is its sleeping: what it holds, and what of that is in use."""

    def __init__(self, in_use: list[int]) -> None:
        self._in_use = iter(in_use)
        self.used = START
        self.held = START
        self.trimmed_at_s: list[float] = []
        self.now_s = 0.0

    async def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s
        try:
            self.used = next(self._in_use)
        except StopIteration:
            raise asyncio.CancelledError from None
        self.held = max(self.held, self.used)

    def trim(self) -> None:
        self.trimmed_at_s.append(self.now_s)
        self.held = self.used

    async def lives(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory.asyncio, "sleep", self.sleep)
        with pytest.raises(asyncio.CancelledError):
            await return_memory(self.trim, lambda: self.held)


async def test_what_a_flood_took_goes_back_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process([START, 400 * MB, 400 * MB, START, START])
    await process.lives(monkeypatch)
    assert process.held == START


async def test_a_process_that_needs_its_memory_is_trimmed_more_and_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process([400 * MB] * 8)
    await process.lives(monkeypatch)
    assert process.trimmed_at_s == [5, 15, 35, 75, 135, 195, 255, 315]


async def test_a_process_that_has_hardly_grown_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process([START + SPARE_BYTES] * 5)
    await process.lives(monkeypatch)
    assert process.trimmed_at_s == []


def test_the_real_heap_can_be_trimmed_and_measured() -> None:
    trim = memory._malloc_trim()
    assert trim is not None
    trim()
    assert memory._resident_bytes() > MB


async def test_what_is_there_when_a_process_has_settled_is_not_collected_any_more() -> None:
    before = gc.get_threshold()
    there = [[]]
    try:
        await settle_collector(after_s=0)
        assert not any(one is there for one in gc.get_objects())
        assert gc.get_threshold() == THRESHOLDS
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
