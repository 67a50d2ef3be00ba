"""Watching over slices: what is lost is told, and brought back."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from esg.invoker.slices.bringup import SliceSet
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.health import watch
from esg.invoker.slices.processes import EmulatedSlices
from tests.support.emulated_process import emulated, write_catalog
from tests.support.live_node import emulated_server
from tests.support.waiting import until


class Told:
    """Hears what a node would."""

    def __init__(self, slices: int) -> None:
        self.lost = [asyncio.Event() for _ in range(slices)]
        self.usable = [True] * slices
        self.story: list[str] = []

    def slice_lost(self, index: int, reason: str) -> None:
        self.lost[index].set()
        self.usable[index] = False
        self.story.append(f"{index} lost: {reason}")

    def slice_back(self, index: int, resident: list[str]) -> None:
        self.lost[index].clear()
        self.usable[index] = True
        self.story.append(f"{index} back with {resident}")


@asynccontextmanager
async def watched(found: SliceSet, silent_s: float) -> AsyncIterator[Told]:
    told = Told(len(found.slices))
    watching = asyncio.create_task(watch(found, told, silent_s))  # type: ignore[arg-type]
    try:
        yield told
        assert not watching.done()
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        for part in found.slices:
            await part.close()


def own(process: EmulatedSlices) -> SliceSet:
    slices = [SliceClient(address) for address in process.addresses]
    indexes = tuple(range(len(slices)))
    return SliceSet(
        slices=slices,
        memories_mb=(1000,) * len(slices),
        kinds=("",) * len(slices),
        processes={process: indexes},
    )


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """One of its own, for a test takes it away."""
    return write_catalog(tmp_path)


def move(file: Path, to: Path) -> None:
    file.rename(to)


async def test_memory_shared_with_slices_is_looked_at_while_they_are_watched() -> None:
    # attack: B3
    looks = 0

    class Noting(SliceClient):
        async def give_back(self) -> None:
            nonlocal looks
            looks += 1

    async with emulated_server(0) as server:
        found = SliceSet(slices=[Noting(server.address)], memories_mb=(1000,), kinds=("",))
        async with watched(found, 0.1):
            await until(lambda: looks > 2)


async def test_somebody_elses_server_is_waited_for_and_says_what_it_has() -> None:
    async with emulated_server(0) as first, emulated_server(1) as second:
        slices = [SliceClient(first.address), SliceClient(second.address)]
        async with watched(
            SliceSet(slices=slices, memories_mb=(1000, 1000), kinds=("", "")), 0.4
        ) as told:
            await first.stop()
            await until(lambda: told.usable == [False, True])
            port = int(first.address.rpartition(":")[2])
            async with emulated_server(0, port) as again:
                await again.repository.load("quick")
                await until(lambda: told.usable == [True, True])
                assert "0 back with ['quick']" in told.story
                await slices[0].load("other")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_process_of_our_own_that_ends_or_hangs_is_started_again(
    catalog: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with emulated(2, catalog) as process:
        monkeypatch.setenv("ESG_CATALOG", str(catalog))
        async with watched(own(process), 1.0) as told:
            before = process.pid
            os.kill(before, number)
            await until(lambda: told.usable == [False, False])
            await until(lambda: told.usable == [True, True])
            assert process.pid != before
            assert told.story[2:] == ["0 back with []", "1 back with []"]


async def test_a_slice_that_was_taken_for_gone_and_answers_keeps_its_process(
    catalog: Path,
) -> None:
    async with emulated(1, catalog) as process:
        found = own(process)
        async with watched(found, 20.0) as told:
            await found.slices[0].load("quick")
            before = process.pid
            told.slice_lost(0, "a call found nobody there")
            await until(lambda: told.usable == [True])
            assert told.story[-1] == "0 back with ['quick']"
            assert process.pid == before


async def test_a_process_that_cannot_be_started_is_tried_until_it_can(
    catalog: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = catalog.with_suffix(".away")
    async with emulated(1, catalog) as process:
        monkeypatch.setenv("ESG_CATALOG", str(catalog))
        async with watched(own(process), 20.0) as told:
            move(catalog, away)
            os.kill(process.pid, signal.SIGKILL)
            await until(lambda: "slice is not back" in caplog.text)
            assert told.usable == [False]
            move(away, catalog)
            await until(lambda: told.usable == [True])
