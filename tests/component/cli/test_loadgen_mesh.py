"""`loadgen` against a real mesh: real processes, a real Redis."""

import asyncio
import json
import sys
from pathlib import Path

from esg.local.supervisor import Mesh, MeshOptions
from tests.support.integration_catalog import write_catalog
from tests.support.waiting import LIMIT_S

LOADGEN = Path(sys.executable).with_name("loadgen")


async def test_a_mesh_serves_a_load_and_the_emulator_agrees_on_what_it_was(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path)
    options = MeshOptions(
        catalog=catalog, nodes=2, vcpus=4, vgpus=2, warm_start=True, log_level="warning"
    )
    async with Mesh(options, tmp_path / "m") as mesh:
        process = await asyncio.create_subprocess_exec(
            *map(str, (LOADGEN, "--gateway", mesh.gateway, "--catalog", catalog)),
            *("--rate", "20/s", "--requests", "40", "--mix", "photo=2,scene=1"),
            *("--workers", "2", "--payload-scale", "0.1", "--emulate", "--json"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    live = json.loads(out)
    emulated = live["emulated"]
    assert (live["requests"], live["failed"], live["errors"]) == (40, 0, {})
    assert (emulated["requests"], emulated["failed"]) == (40, 0)
    for name in ("photo", "scene"):
        count = live["applications"][name]["requests"]
        assert count == emulated["applications"][name]["requests"] > 0
    assert live["cost_usd"] > 0
    assert live["latency_ms"]["p50"] >= 30  # three stages of 5, 20 and 5 ms
