"""Tasks in phases where slices are emulated: slice and CPU parts take together what the emulator
says, each its share."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tritonclient.grpc import service_pb2 as triton

from esg.core.catalog.config import Config
from esg.core.durations import Durations, DurationSettings
from esg.core.messages.task_order import TaskOrder
from esg.invoker.emulated.cpu_parts import EmulatedCpuParts
from esg.invoker.slices.bringup import SliceSet, slice_set
from esg.runtime.catalog import load
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.runtime.settings_file import environment
from tests.support.live_node import CATALOG, DURATIONS, job, start

SEED = 7
SETTINGS: dict[str, Any] = {"slices": "emulated:1", "seed": SEED, "noise": 2.0}


@pytest.fixture
def common(catalog: Path) -> CommonSettings:
    return CommonSettings(catalog=str(catalog), time_scale=0.1)


@pytest.fixture(params=["a process", "here"])
async def found(request: Any, common: CommonSettings) -> AsyncIterator[SliceSet]:
    """A slice that is brought up as any is, in a process of its own or in this one."""
    own = InvokerSettings(**SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        shared = {"catalog": common.catalog, "time_scale": common.time_scale}
        variables = environment("common", shared) | environment("invoker", SETTINGS)
        for name, value in variables.items():
            patch.setenv(name, value)
        alone = request.param == "a process"
        async with slice_set(own, common, load(common), "n1", alone=alone) as brought_up:
            await brought_up.slices[0].load("quick")
            yield brought_up


@pytest.fixture
def order() -> TaskOrder:
    """Of a whole batch, of which a slice gets a portion."""
    made = start("t1", "quick", *(job(f"r{number}") for number in range(4)))
    return replace(made, config=Config(4, 2, 2), slices=(0, 1), phased=True)


async def computed_us(found: SliceSet, order: TaskOrder, **more: int) -> float:
    """What a slice takes for two of the jobs, as it counts itself."""
    part = found.slices[0]
    before_ns = await _computed_ns(part)
    parameters = {f"esg_{name}": value for name, value in order.config._asdict().items()}
    key = {"esg_key": f"{order.jobs[0].request}/{order.stage}"}
    await part.infer_plain(
        "quick", [[b"x"], [b"y"]], parameters={**parameters, **key, **more}, timeout_s=60.0
    )
    return (await _computed_ns(part) - before_ns) / 1000


async def _computed_ns(part: Any) -> int:
    answer = await part._triton.ModelStatistics(triton.ModelStatisticsRequest(name="quick"))
    return int(answer.model_stats[0].inference_stats.compute_infer.ns)


async def test_the_parts_of_a_task_are_those_of_the_emulator(
    found: SliceSet, order: TaskOrder, common: CommonSettings
) -> None:
    known = load(common)
    durations = Durations(known, SEED, DurationSettings(noise=SETTINGS["noise"]))
    profiled = known.functions["quick"].profile.phases_of(order.config)
    working_us = durations.work_us("quick", "r0/stage", profiled.total_us)
    expected = durations.phases(order, working_us)
    assert working_us != profiled.total_us
    assert found.emulated is not None
    assert found.emulated.phases(order) == expected
    assert await computed_us(found, order, esg_phased=1) == expected.slices_us
    assert await computed_us(found, order) == expected.total_us
    assert await computed_us(found, order, esg_phased=0) == expected.total_us


@pytest.fixture
async def parts() -> AsyncIterator[EmulatedCpuParts]:
    made = EmulatedCpuParts(CATALOG, DURATIONS)
    yield made
    made.close()


async def _taken_us(parts: EmulatedCpuParts, duration_us: int) -> int:
    began_ns = time.monotonic_ns()
    await parts.take(duration_us)
    return (time.monotonic_ns() - began_ns) // 1000


async def test_parts_that_are_taken_at_the_same_time_each_take_theirs(
    parts: EmulatedCpuParts,
) -> None:
    wanted_us = [3000, 1000, 2000]
    for _ in range(2):  # the second time with what the first has left
        async with asyncio.timeout(60):
            taken_us = await asyncio.gather(*(_taken_us(parts, each) for each in wanted_us))
        assert all(took >= each for took, each in zip(taken_us, wanted_us, strict=True))
    assert len(parts._alarms) == len(wanted_us)


async def test_a_part_that_takes_nothing_is_over_at_once(parts: EmulatedCpuParts) -> None:
    work = parts.take(0)
    with pytest.raises(StopIteration):
        work.send(None)  # without a turn of the loop
    assert parts._alarms == []


async def test_a_part_that_is_given_up_does_not_disturb_the_next(parts: EmulatedCpuParts) -> None:
    first = asyncio.create_task(parts.take(3_600_000_000))
    await asyncio.sleep(0)
    first.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await _taken_us(parts, 2000) >= 2000
    assert len(parts._alarms) == 1
