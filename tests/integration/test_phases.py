"""Tasks in phases, in a real mesh: the next one prepares while one is still on the only slice."""

import asyncio
from pathlib import Path

from esg.client import AsyncClient, Result, StageResult
from esg.core.catalog.file import load_catalog
from esg.core.messages.events import RequestArrived
from esg.emulator.history import replay_strictly
from esg.local.supervisor import Mesh
from esg.runtime.journal_files import read_journal
from tests.integration.conftest import options
from tests.support.mesh_expectations import made, nothing_is_left

CATALOG = """
[cluster]
nodes = 1
vcpus = 4
vgpus = 1
slice_memory_mb = 1000

[functions.resize]
profile = "resize.toml"
cold_start_ms = 10
input_mb = 0.1
memory_mb = 100

[applications.small]
chain = ["resize"]
slo_ms = 20000
"""
PROFILE = """
function = "resize"
[provenance]
kind = "made up"
[measured]
table = "resize.csv"
"""
TABLE = "batch,vcpus,vgpus,time_ms,slices_ms,after_ms\n1,2,1,400,200,50\n"


def catalog_in(folder: Path) -> Path:
    (folder / "resize.csv").write_text(TABLE, "utf-8")
    (folder / "resize.toml").write_text(PROFILE, "utf-8")
    file = folder / "catalog.toml"
    file.write_text(CATALOG, "utf-8")
    return file


def stage_of(result: Result) -> StageResult:
    (stage,) = result.raise_for_outcome().stages
    return stage


async def test_the_next_task_prepares_while_one_is_on_the_slice(tmp_path: Path) -> None:
    file = catalog_in(tmp_path)
    chosen = options(file, nodes=1, vgpus=1, tasks="phased", warm_start=True)
    async with Mesh(chosen, tmp_path / "m") as mesh, AsyncClient(mesh.gateway) as client:
        payloads = {"r1": b"first", "r2": b"second"}
        calls = [client.submit("small", p, request_id=name) for name, p in payloads.items()]
        results = {result.request_id: result for result in await asyncio.gather(*calls)}
        for name, payload in payloads.items():
            assert results[name].outputs == {"resize": made("resize", payload)}
        await nothing_is_left(mesh, client)
        assert mesh.journal is not None
        replay_strictly(mesh.journal, load_catalog(file))
        came_ms = {
            entry.event.request: entry.now_us / 1000
            for entry in read_journal(mesh.journal)
            if isinstance(entry.event, RequestArrived)
        }
    spans = []
    for name, result in results.items():
        stage = stage_of(result)
        assert stage.slices_from_ms is not None
        assert stage.slices_until_ms is not None
        assert stage.started_ms < stage.slices_from_ms < stage.slices_until_ms < stage.finished_ms
        times = (stage.started_ms, stage.slices_from_ms, stage.slices_until_ms)
        spans.append(tuple(came_ms[name] + time_ms for time_ms in times))
    (began, entered, left), (next_began, next_entered, _) = sorted(spans)
    assert began < entered < next_entered
    assert next_began < left
