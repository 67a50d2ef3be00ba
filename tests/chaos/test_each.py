"""One thing goes wrong, under load: nobody loses anything. All that, one fault at a time."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.conftest import Chaos
from tests.chaos.faults import (
    dies,
    disk_is_full,
    hangs,
    is_cut,
    mesh_disk_is_full,
    redis_is_full,
    slices_die,
    snapshot_is_damaged,
    stands_still,
)
from tests.chaos.hostile import hostile_clients
from tests.support.cable import CabledMesh

pytestmark = pytest.mark.slow

PATIENT = {
    "controller": {"lost_after_ms": 20_000, "segment_work_s": 60.0},
    "invoker": {"fetch_timeout_s": 60.0},
}
"""For what is not to be done twice, and segments that are counted, however busy the machine is."""


async def test_the_controller_dies_and_goes_on_from_its_journal(chaos: Chaos) -> None:
    async with chaos(more=PATIENT) as scene:
        for _ in range(3):
            await dies(scene, "controller")
            await scene.load.goes_on(20)
    assert scene.history.segments == 5  # one for each start, and the last for a good end
    assert set(scene.history.done.values()) == {1}


async def test_the_controller_dies_and_its_snapshot_is_damaged(chaos: Chaos) -> None:
    async with chaos(more=PATIENT) as scene:
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


@pytest.mark.parametrize("names", [("controller", "gateway"), ("redis", "node1")])
async def test_two_processes_die_at_once(chaos: Chaos, names: tuple[str, str]) -> None:
    async with chaos(more=PATIENT) as scene:
        await asyncio.gather(*(dies(scene, name) for name in names))


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


# attack: D1
async def test_redis_is_full_for_a_while(chaos: Chaos) -> None:
    async with chaos() as scene:
        await redis_is_full(scene, 10.0)


# attack: I1
@pytest.mark.parametrize("name", ["controller", "gateway", "redis", "node1"])
async def test_a_process_hangs_and_is_replaced(chaos: Chaos, name: str) -> None:
    async with chaos(more={"controller": {"lost_after_ms": 5000}}) as scene:
        await hangs(scene, name)


@pytest.fixture
def _small_disk(tmp_path: Path) -> Iterator[None]:
    """Where the mesh's directory is going to be."""
    folder = tmp_path / "m"
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=48m,mode=700", "esg-chaos", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


# attack: D1
@pytest.mark.usefixtures("_small_disk")
async def test_the_mesh_s_disk_is_full_for_two_minutes(chaos: Chaos) -> None:
    async with chaos() as scene:
        await mesh_disk_is_full(scene, 120.0)


async def test_hostile_clients_cost_nobody_anything(chaos: Chaos) -> None:
    async with chaos() as scene:
        before = dict(scene.mesh.processes)
        await hostile_clients(scene)
        assert scene.mesh.processes == before
