"""Worker processes: one that does not come back is ended, and nobody else notices."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
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
