"""One thing goes wrong, under load: nobody loses anything. All that, one fault at a time."""

import pytest

from tests.chaos.conftest import Chaos
from tests.chaos.faults import (
    dies,
    disk_is_full,
    is_cut,
    slices_die,
    snapshot_is_damaged,
    stands_still,
)
from tests.support.cable import CabledMesh

pytestmark = pytest.mark.slow


async def test_the_controller_dies_and_goes_on_from_its_journal(chaos: Chaos) -> None:
    async with chaos(more={"controller": {"lost_after_ms": 20_000}}) as scene:
        for _ in range(3):
            await dies(scene, "controller")
            await scene.load.goes_on(20)
    assert scene.history.segments == 5  # one for each start, and the last for a good end
    assert set(scene.history.done.values()) == {1}


async def test_the_controller_dies_and_its_snapshot_is_damaged(chaos: Chaos) -> None:
    async with chaos(more={"controller": {"lost_after_ms": 20_000}}) as scene:
        await snapshot_is_damaged(scene)
    assert set(scene.history.done.values()) == {1}


async def test_a_node_dies(chaos: Chaos) -> None:
    async with chaos() as scene:
        await dies(scene, "node1")


async def test_the_gateway_dies(chaos: Chaos) -> None:
    async with chaos() as scene:
        await dies(scene, "gateway")


async def test_redis_dies(chaos: Chaos) -> None:
    async with chaos() as scene:
        await dies(scene, "redis")


async def test_a_node_s_slices_die(chaos: Chaos) -> None:
    async with chaos() as scene:
        slices_die(scene, "node2")


@pytest.mark.parametrize(("stopped_s", "lost_after_ms"), [(2.0, 1000), (10.0, 5000)])
async def test_a_node_stands_still_and_comes_back(
    chaos: Chaos, stopped_s: float, lost_after_ms: int
) -> None:
    async with chaos(more={"controller": {"lost_after_ms": lost_after_ms}}) as scene:
        await stands_still(scene, "node0", stopped_s)


async def test_streams_are_cut(chaos: Chaos) -> None:
    async with chaos(CabledMesh) as scene:
        for _ in range(3):
            await is_cut(scene)


async def test_a_node_s_disk_is_full(chaos: Chaos) -> None:
    async with chaos() as scene:
        await disk_is_full(scene, "node0")
