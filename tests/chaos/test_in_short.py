"""The same as in `test_each`, with one mesh that has to bear it all, one after the other."""

from tests.chaos.conftest import Chaos
from tests.chaos.faults import dies, disk_is_full, is_cut, slices_die, stands_still
from tests.support.cable import CabledMesh


async def test_requests_are_not_lost_whatever_dies_stands_still_is_cut_or_full(
    chaos: Chaos,
) -> None:
    async with chaos(CabledMesh) as scene:
        for name in ("controller", "node0", "redis", "gateway", "controller"):
            await dies(scene, name)
            await scene.load.goes_on(10)
        slices_die(scene, "node1")
        await scene.load.goes_on(10)
        await stands_still(scene, "node2", 1.5)
        await scene.load.goes_on(10)
        await is_cut(scene)
        await disk_is_full(scene, "node0")
