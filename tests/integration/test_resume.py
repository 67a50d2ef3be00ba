"""A mesh that is killed as a whole, and another one that goes on where it ended."""

from pathlib import Path

import pytest

from esg.client import AsyncClient, PipelineStage, Progress, Result
from esg.local.supervisor import Mesh
from tests.integration.conftest import options
from tests.support.mesh_expectations import made, nothing_is_left, status_of
from tests.support.waiting import until


@pytest.mark.parametrize("resume", [True, False], ids=["resumed", "new"])
async def test_the_next_mesh_goes_on_with_applications_requests_and_results(
    catalog: Path, tmp_path: Path, resume: bool
) -> None:
    """Whether the one before was to go on from another, too, or began anew."""
    mesh = Mesh(options(catalog, nodes=1, vgpus=1, resume=resume), tmp_path / "m")
    await mesh.start()
    try:
        async with AsyncClient(mesh.gateway) as client:
            await client.register_application("small", [PipelineStage("resize")], slo_ms=60_000)
            done = await client.submit_async("small", b"done")
            assert [news async for news in client.watch(done) if isinstance(news, Result)]
            busy = await client.submit_async("night", b"for ever")
            async for news in client.watch(busy):
                if isinstance(news, Progress) and news.stage == "slow":
                    break
            waiting = await client.submit_async("small", b"waiting")
    finally:
        mesh.stop_now()  # every process is killed outright
        await mesh.stop()
    following = Mesh(options(catalog, nodes=1, vgpus=1, resume=True), tmp_path / "m")
    async with following as mesh, AsyncClient(mesh.gateway) as client:
        assert (await client.fetch(done)).outputs == {"resize": made("resize", b"done")}

        async def runs_again() -> bool:
            return any(queue.running for queue in (await status_of(client)).queues)

        await until(runs_again)
        assert await client.cancel(busy)
        assert (await client.fetch(waiting)).outputs == {"resize": made("resize", b"waiting")}
        assert "small" in {known.name for known in await client.list_applications()}
        await nothing_is_left(mesh, client, keys_may_expire=True)
