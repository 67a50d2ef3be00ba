"""A mesh whose emulated slices are of two kinds, as layouts say: 4g.40gb+3g.40gb."""

import asyncio
from pathlib import Path

import pytest

from esg.client import AsyncClient, Result
from esg.core.catalog.file import load_catalog
from esg.emulator.history import replay_strictly
from esg.local.supervisor import Mesh, MeshOptions
from tests.support.kinds_catalog import INPUT_BYTES, write_catalog
from tests.support.mesh_expectations import made, nothing_is_left, status_of

OTHER = "3g.40gb"


def kinds_of(result: Result) -> list[str]:
    assert (result.outcome, result.reason) == ("done", "")
    return [stage.config.kind for stage in result.stages]


@pytest.mark.parametrize("per_process", [1, 3], ids=["apart", "in one process"])
@pytest.mark.parametrize("tasks", ["joint", "phased"])
async def test_emulated_slices_are_of_the_kinds_that_their_layout_says(
    tasks: str, per_process: int, tmp_path: Path
) -> None:
    catalog = write_catalog(tmp_path, "4g.40gb", OTHER)
    mesh_options = MeshOptions(
        nodes=3,
        nodes_per_process=per_process,
        vcpus=4,
        slices="emulated:4g.40gb+3g.40gb,2",
        catalog=catalog,
        tasks=tasks,
        log_level="warning",
        warm_start=True,
    )
    async with Mesh(mesh_options, tmp_path / "m") as mesh, AsyncClient(mesh.gateway) as client:
        status = await status_of(client)
        layouts = {node.node: [part.kind for part in node.slices] for node in status.nodes}
        assert layouts == {"node0": ["", OTHER], "node1": ["", ""], "node2": ["", OTHER]}
        payloads = [b"%d" % number for number in range(6)]
        chains = await asyncio.gather(*(client.submit("both", p) for p in payloads))
        for payload, result in zip(payloads, chains, strict=True):
            assert kinds_of(result) == ["", OTHER]
            small = made("narrow", payload, size=INPUT_BYTES)
            assert result.outputs == {"wide": made("wide", small, size=INPUT_BYTES)}
        hurried = await client.submit("either", b"now", slo_ms=900)
        assert kinds_of(hurried) == [OTHER]
        await nothing_is_left(mesh, client)
        journal = mesh.journal
    assert journal is not None
    replay_strictly(journal, load_catalog(catalog))
