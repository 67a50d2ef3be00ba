"""`esg demo --real`: a photo through real models, on Triton servers that run on CPUs."""

from time import perf_counter
from typing import Any

from esg.cli.demo.real_findings import (
    APPLICATION,
    SLICES,
    SLO_MS,
    RealDemoFindings,
    RealDemonstration,
)
from esg.cli.demo.real_view import RealDemoView
from esg.cli.requests.outputs import Folder
from esg.cli.requests.view import result_document
from esg.client import AsyncClient
from esg.core.catalog.shipped import CPU, SHIPPED
from esg.local.supervisor import Mesh, MeshOptions


async def demonstrate_real(
    demonstration: RealDemonstration, view: RealDemoView
) -> RealDemoFindings:
    """Run the demonstration, mesh and all. Whatever ends it takes the mesh down."""
    photo = demonstration.photo.read_bytes()
    folder = Folder(demonstration.out, [demonstration.photo])
    seen, began = RealDemoFindings(), perf_counter()
    view.begin(demonstration, photo)
    mesh = Mesh(MeshOptions(nodes=1, slices=f"cpu:{SLICES}", catalog=SHIPPED[CPU]))
    with view.waiting("starting the mesh and its Triton servers"):
        await mesh.start()
    try:
        seen.up_s = perf_counter() - began
        view.up(seen)
        await _work(mesh, photo, seen, view)
    finally:
        with view.waiting("taking everything down"):
            await mesh.stop()
    if seen.all_right:
        seen.files = folder.write(demonstration.photo, seen.outputs)
        view.pictures(photo, seen)
    seen.whole_s = perf_counter() - began
    view.end(seen)
    return seen


async def _work(mesh: Mesh, photo: bytes, seen: RealDemoFindings, view: RealDemoView) -> None:
    async with AsyncClient(mesh.gateway) as client:
        for what in ("loading the models, and running them", "running them again"):
            with view.waiting(what):
                result = await client.submit(APPLICATION, photo, slo_ms=SLO_MS, all_stages=True)
            seen.results.append(result)
        view.ran(seen)


def real_demo_document(seen: RealDemoFindings) -> dict[str, Any]:
    """The findings as JSON."""
    return {
        "up_s": round(seen.up_s, 3),
        "requests": [result_document(result) for result in seen.results],
        "outputs": {stage: str(path) for stage, path in seen.files.items()},
        "answer": seen.label if seen.all_right else None,
        "whole_s": round(seen.whole_s, 3),
    }
