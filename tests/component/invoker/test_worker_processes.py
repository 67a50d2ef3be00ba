"""Worker processes: one that does not come back is ended, and nobody else notices."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from esg.invoker.handlers.worker_processes import OutOfTime, WorkerDied, Workers
from tests.support.waiting import LIMIT_S

FOR_EVER_S = 10**6


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    two = Workers(2)
    yield two
    two.close()


def wait_for(file: Path) -> str:
    while not file.exists():
        time.sleep(0.001)
    return file.name


async def test_a_call_out_of_time_makes_room_for_the_next_one() -> None:
    alone = Workers(1)
    try:
        with pytest.raises(OutOfTime):
            await alone.call(0.01, time.sleep, FOR_EVER_S)
        assert alone.ended == {"died": 0, "timeout": 1, "cancelled": 0}
        async with asyncio.timeout(LIMIT_S):
            assert await alone.call(LIMIT_S, os.getpid) != os.getpid()
    finally:
        alone.close()


async def test_calls_of_other_workers_go_on_when_a_worker_is_ended(
    workers: Workers, tmp_path: Path
) -> None:
    other = asyncio.create_task(workers.call(LIMIT_S, wait_for, tmp_path / "go"))
    with pytest.raises(OutOfTime):
        await workers.call(0.01, time.sleep, FOR_EVER_S)
    with pytest.raises(WorkerDied):
        await workers.call(LIMIT_S, os._exit, 3)
    (tmp_path / "go").touch()
    assert await other == "go"


async def test_a_worker_that_did_its_call_is_used_again(workers: Workers) -> None:
    assert len({await workers.call(LIMIT_S, os.getpid) for _ in range(3)}) == 1
    with pytest.raises(ZeroDivisionError):
        await workers.call(LIMIT_S, divmod, 1, 0)
    assert len({await workers.call(LIMIT_S, os.getpid) for _ in range(3)}) == 1


async def test_closed_workers_start_nothing(workers: Workers) -> None:
    workers.close()
    with pytest.raises(WorkerDied):
        await workers.call(LIMIT_S, os.getpid)


def set_word(word: str) -> None:
    os.environ["WORD"] = word


def word() -> str:
    return os.environ["WORD"]


async def test_new_workers_take_the_place_of_all_others(tmp_path: Path) -> None:
    two = Workers(2, partial(set_word, "old"))
    try:
        old = asyncio.create_task(two.call(LIMIT_S, wait_for, tmp_path / "go"))
        assert await two.call(LIMIT_S, word) == "old"
        async with two.renewed(partial(set_word, "new"), LIMIT_S, word) as take_over:
            assert await two.call(LIMIT_S, word) == "old"  # so far
            take_over()
        (tmp_path / "go").touch()
        assert await old == "go"  # in an old worker, which ends then
        assert [await two.call(LIMIT_S, word) for _ in range(3)] == ["new"] * 3
    finally:
        two.close()


async def test_workers_stay_if_a_new_one_is_no_good(workers: Workers) -> None:
    before = await workers.call(LIMIT_S, os.getpid)
    with pytest.raises(ZeroDivisionError):
        async with workers.renewed(int, LIMIT_S, divmod, 1, 0):
            raise AssertionError("it was no good")
    with pytest.raises(WorkerDied):
        async with workers.renewed(int, LIMIT_S, os._exit, 3):
            raise AssertionError("it is not there")
    async with workers.renewed(int, LIMIT_S, int):
        pass  # nobody wants it after all
    assert await workers.call(LIMIT_S, os.getpid) == before
