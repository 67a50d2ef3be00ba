"""`esg demo --real`: a photo through real models, on Triton servers that run on CPUs.

The photo, its origin included, is that of the package `functions`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from esg.cli.demo.run import while_up
from esg.cli.requests.outputs import Folder
from esg.client import AsyncClient, Outcome, Result
from esg.core.catalog.file import DEFAULT
from esg.local.supervisor import Mesh, MeshOptions

if TYPE_CHECKING:
    from esg.cli.demo.real_view import RealDemoView

PHOTO = Path(__file__).parents[2] / "functions" / "photo.jpg"
APPLICATION = "image-classification"
ENLARGED, MASKED, LABELLED = "super-resolution", "segmentation", "classification"
SLICES = 2
SLO_MS = 120_000
"""The application's own SLO is meant for GPUs."""


@dataclass(slots=True)
class RealDemoFindings:
    """Everything that there is to tell."""

    up_s: float = 0.0
    results: list[Result] = field(default_factory=list)
    """The first finds no model loaded, the second all of them."""
    files: dict[str, Path] = field(default_factory=dict)
    whole_s: float = 0.0

    @property
    def all_right(self) -> bool:
        return bool(self.results) and all(r.outcome is Outcome.DONE for r in self.results)

    @property
    def outputs(self) -> dict[str, bytes]:
        return self.results[-1].outputs

    @property
    def label(self) -> dict[str, Any]:
        """What the last stage said."""
        said: dict[str, Any] = json.loads(self.outputs[LABELLED])
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class RealDemonstration:
    """A photo, and the folder for what is made of it."""

    photo: Path
    out: Path

    async def run(self, view: RealDemoView) -> RealDemoFindings:
        """From nothing to nothing. Whatever ends it takes the mesh down."""
        photo, folder = self.photo.read_bytes(), Folder(self.out, [self.photo])
        seen, began = RealDemoFindings(), perf_counter()
        view.begin(self, photo)
        mesh = Mesh(MeshOptions(nodes=1, slices=f"cpu:{SLICES}", catalog=DEFAULT))
        with view.waiting("starting the mesh and its Triton servers"):
            await mesh.start()
        try:
            seen.up_s = perf_counter() - began
            view.up(seen)
            await while_up(mesh, self._work(mesh, photo, seen, view))
        finally:
            with view.waiting("taking everything down"):
                await mesh.stop()
        if seen.all_right:
            seen.files = folder.write(self.photo, seen.outputs)
            view.pictures(photo, seen)
        seen.whole_s = perf_counter() - began
        view.end(seen)
        return seen

    async def _work(
        self, mesh: Mesh, photo: bytes, seen: RealDemoFindings, view: RealDemoView
    ) -> None:
        async with AsyncClient(mesh.gateway) as client:
            for what in ("loading the models, and running them", "running them again"):
                with view.waiting(what):
                    result = await client.submit(APPLICATION, photo, slo_ms=SLO_MS, all_stages=True)
                seen.results.append(result)
            view.ran(seen)


def size_of(content: bytes) -> tuple[int, int]:
    """The width and height of a picture."""
    from PIL import Image

    return Image.open(BytesIO(content)).size


def document(seen: RealDemoFindings) -> dict[str, Any]:
    """The same as JSON."""
    from esg.cli.requests.view import result_document

    return {
        "up_s": round(seen.up_s, 3),
        "requests": [result_document(result) for result in seen.results],
        "outputs": {stage: str(path) for stage, path in seen.files.items()},
        "answer": seen.label if seen.all_right else None,
        "whole_s": round(seen.whole_s, 3),
    }
