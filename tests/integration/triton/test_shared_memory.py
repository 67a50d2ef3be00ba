"""Tensors that go to a real Triton through shared memory, and those that do not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import grpc
import numpy as np
import pytest
import pytest_asyncio
from tritonclient.grpc import service_pb2, service_pb2_grpc

from esg.core.catalog.file import load_catalog
from esg.files import MEMORY
from esg.invoker.slices import directory
from esg.invoker.slices.bringup import slice_set
from esg.invoker.slices.client import NoAnswer, SliceClient
from esg.invoker.slices.shm import region
from esg.invoker.slices.shm.region import PREFIX, SMALLEST
from esg.invoker.slices.shm.transfer import MOST_RETIRED, SharedMemory
from esg.invoker.tensors.arrays import Array
from esg.runtime.settings import CommonSettings, InvokerSettings
from tests.support.triton_folders import write_functions
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE = 100_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A real slice with `repeat` and `invert`."""
    file = write_functions(tmp_path_factory.mktemp("functions"))
    own, common = InvokerSettings(slices="cpu:1"), CommonSettings(catalog=str(file))
    async with slice_set(own, common, load_catalog(file), "node") as found:
        for function in ("repeat", "invert"):
            await found.slices[0].load(function)
        yield found.slices[0].address


def numbers(first: int, size: int) -> Array:
    found = np.arange(size, dtype=np.uint8)
    found[0] = first
    return found


class Shared:
    """A slice with shared memory of its own."""

    def __init__(self, address: str, limit_bytes: int = 16 * SMALLEST) -> None:
        self.name = f"{PREFIX}test-{token_hex(6)}"
        self.part = SliceClient(address, SharedMemory(self.name, limit_bytes))

    async def call(self, first: int, size: int = SIZE, function: str = "repeat") -> Array:
        jobs = [{"X": numbers(first, size)}]
        limit_s = 0.2 if first == 255 else LIMIT_S
        (made,) = await self.part.infer(function, jobs, parameters={}, timeout_s=limit_s)
        return made["Y"]

    def regions(self) -> list[str]:
        return sorted(file.name.removeprefix(self.name) for file in MEMORY.glob(f"{self.name}*"))


@pytest_asyncio.fixture(loop_scope="module")
async def shared(address: str) -> AsyncIterator[Shared]:
    found = Shared(address)
    yield found
    await found.part.close()
    assert found.regions() == []


async def test_shared_region_serves_all_calls_that_fit_and_grows_with_them(shared: Shared) -> None:
    for _ in range(3):
        assert len(await shared.call(1)) == SIZE
    assert shared.regions() == ["-1"]
    assert len(await shared.call(1, 3 * SMALLEST)) == 3 * SMALLEST
    assert shared.regions() == ["-2"]
    assert len(await shared.call(1)) == SIZE
    assert shared.regions() == ["-2"]


async def test_region_much_larger_than_calls_need_is_given_back_after_some_looks(
    shared: Shared,
) -> None:
    # attack: B3
    await shared.call(1, 6 * SMALLEST)
    looks = 0
    while shared.regions() == ["-1"]:
        await shared.call(1)
        await shared.part.give_back()
        looks += 1
    assert (shared.regions(), 2 < looks < 10) == ([], True)
    known = await shared.part._triton.SystemSharedMemoryStatus(
        service_pb2.SystemSharedMemoryStatusRequest()
    )
    assert [name for name in known.regions if name.startswith(shared.name)] == []
    for _ in range(4):
        assert len(await shared.call(1)) == SIZE
        await shared.part.give_back()
        assert shared.regions() == ["-2"]


async def test_small_calls_go_over_the_wire(shared: Shared) -> None:
    assert len(await shared.call(1, 1000)) == 1000
    assert shared.regions() == []


async def test_outputs_of_other_sizes_than_foreseen_come_whole(shared: Shared) -> None:
    """More, less and as much as the last time that there were such inputs."""
    for times in (1, 3, 2, 1, 5):
        made = await shared.call(times)
        assert made.tolist() == np.tile(numbers(times, SIZE), times).tolist()


async def test_tensor_larger_than_the_limit_goes_over_the_wire(address: str) -> None:
    small = Shared(address, limit_bytes=SMALLEST)
    assert len(await small.call(1, 2 * SMALLEST)) == 2 * SMALLEST
    assert small.regions() == []
    await small.part.close()


async def test_calls_at_the_same_time_do_not_share_a_region(shared: Shared) -> None:
    made = await asyncio.gather(*(shared.call(first, function="invert") for first in range(5)))
    for first, array in enumerate(made):
        assert array.tolist() == (255 - numbers(first, SIZE)).tolist()
    assert shared.regions() == ["-1"]


async def test_a_region_whose_call_was_given_up_is_not_used_again(shared: Shared) -> None:
    for _ in range(MOST_RETIRED + 1):
        with pytest.raises(NoAnswer):
            await shared.call(255)
        assert shared.regions() == []
    assert len(await shared.call(2)) == 2 * SIZE


async def test_regions_that_a_crashed_node_left_with_the_server_are_given_back(
    address: str,
) -> None:
    crashed, next_one = Shared(address), Shared(address)
    await crashed.call(1)
    for name in crashed.regions():
        (MEMORY / f"{crashed.name}{name}").unlink()  # as the next node does when it starts
    assert await registered(address, crashed.name) == [f"{crashed.name}-1"]
    await next_one.call(1)
    assert await registered(address, crashed.name) == []
    assert next_one.regions() == ["-1"]
    await next_one.part.close()
    await crashed.part.close()


async def test_a_server_that_cannot_see_our_memory_is_asked_once(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(region, "MEMORY", tmp_path)
    elsewhere = Shared(address)
    for _ in range(3):
        assert len(await elsewhere.call(1)) == SIZE
    assert [record.message for record in caplog.records] == ["no shared memory"]
    assert elsewhere.regions() == []
    await elsewhere.part.close()


async def test_servers_of_others_on_the_loopback_share_memory_too(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = f"{PREFIX}{token_hex(6)}-"  # other tests have nodes at the same time
    monkeypatch.setattr(directory, "PREFIX", ours)
    catalog = load_catalog(write_functions(tmp_path))
    own = InvokerSettings(slices=address)
    async with slice_set(own, CommonSettings(), catalog, "other") as found:
        jobs = [{"X": numbers(1, SIZE)}]
        await found.slices[0].infer("repeat", jobs, parameters={}, timeout_s=LIMIT_S)
        assert len([file for file in MEMORY.glob(f"{ours}*") if file.is_file()]) == 1
    assert not list(MEMORY.glob(f"{ours}*"))


async def registered(address: str, beginning: str) -> list[str]:
    """The regions that a server knows."""
    async with grpc.aio.insecure_channel(address) as channel:
        server: Any = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        known = await server.SystemSharedMemoryStatus(service_pb2.SystemSharedMemoryStatusRequest())
        return [name for name in known.regions if name.startswith(beginning)]
