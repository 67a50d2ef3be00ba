"""The functions on real Triton servers, with their trained weights (make models), and the example
of docs/functions.md."""

import json
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from esg.client import AsyncClient, Outcome
from esg.core.catalog.shipped import SHIPPED
from esg.functions.pictures import decoded, notes_of
from esg.local.supervisor import Mesh, MeshOptions
from tests.support.examples import write_files
from tests.support.function_folders import PHOTO
from tests.support.paths import ROOT

DOCUMENT = ROOT / "docs" / "functions.md"
SLO_MS = 300_000
"""What is slow on a busy machine is not wrong."""
SMALL = (96, 112)
"""Large enough to tell a person, small enough to be quick."""
UNIFORMS = {"military uniform", "bulletproof vest", "suit", "Windsor tie", "bow tie"}


def small_photo() -> bytes:
    file = BytesIO()
    Image.open(PHOTO).resize(SMALL, Image.Resampling.LANCZOS).save(file, "PNG")
    return file.getvalue()


async def all_outputs(
    catalog: Path, applications: list[str], photo: bytes
) -> list[dict[str, bytes]]:
    """What every stage of some applications makes of a photo."""
    options = MeshOptions(nodes=1, slices="cpu:1", catalog=catalog, log_level="warning")
    found = []
    async with Mesh(options) as mesh, AsyncClient(mesh.gateway) as client:
        for name in applications:
            result = await client.submit(name, photo, slo_ms=SLO_MS, all_stages=True)
            assert (result.outcome, result.reason) == (Outcome.DONE, "")
            found.append(result.outputs)
    return found


def likeness(content: bytes, other: bytes) -> float:
    """How alike two pictures are, from -1 to 1, whatever their sizes."""
    first, second = (
        np.asarray(decoded(c).resize((48, 56)), float).ravel() for c in (content, other)
    )
    return float(np.corrcoef(first, second)[0, 1])


def assert_cut_out(content: bytes) -> None:
    """Whether the mask is on the person, and on nothing else."""
    mask = np.asarray(Image.open(BytesIO(content)).getchannel("A").resize((256, 300)))
    assert mask[250:290, 60:200].min() > 200, "the uniform is not part of it"
    assert mask[120:150, 110:150].min() > 200, "the face is not part of it"
    assert mask[5:100, 5:60].max() < 60, "the flag is part of it"
    assert mask[5:100, 210:250].max() < 60, "the sky is part of it"


async def test_every_function_does_what_its_name_says() -> None:
    photo = small_photo()
    expanded, near, cut = await all_outputs(
        SHIPPED["cpu"],
        ["expanded-image-classification", "depth-recognition", "background-elimination"],
        photo,
    )
    width, height = SMALL
    assert decoded(expanded["deblur"]).size == SMALL
    assert likeness(expanded["deblur"], photo) > 0.95
    assert decoded(expanded["super-resolution"]).size == (2 * width, 2 * height)
    assert likeness(expanded["super-resolution"], photo) > 0.95
    assert_cut_out(expanded["background-removal"])
    assert_cut_out(expanded["segmentation"])
    assert notes_of(expanded["segmentation"])["segmentation found"].startswith("person ")
    answer = json.loads(expanded["classification"])
    assert {answer["label"], *(other["label"] for other in answer["others"])} & UNIFORMS
    assert list(answer["weights"]) == [
        "deblur",
        "super-resolution",
        "background-removal",
        "segmentation",
        "classification",
    ]
    assert all(said.startswith("trained: ") for said in answer["weights"].values())
    depth = Image.open(BytesIO(near["depth"]))
    assert (depth.mode, depth.size) == ("L", (2 * width, 2 * height))
    assert notes_of(near["depth"])["depth weights"].startswith("untrained: ")
    assert_cut_out(cut["background-removal"])


async def test_the_example_of_the_documentation_works_as_it_stands(tmp_path: Path) -> None:
    assert len(write_files(DOCUMENT, tmp_path)) == 6
    square = Image.new("L", (64, 48))
    square.paste(255, (16, 12, 48, 36))
    file = BytesIO()
    square.save(file, "PNG")
    catalog, handler = tmp_path / "catalog.toml", tmp_path / "edges" / "handler.py"
    written = handler.read_text("utf-8")
    lines, dark_lines = 'outputs["edges"] * 255', '255 - outputs["edges"] * 255'
    assert dark_lines in DOCUMENT.read_text("utf-8")
    options = MeshOptions(nodes=1, slices="cpu:1", catalog=catalog, log_level="warning")
    async with Mesh(options) as mesh, AsyncClient(mesh.gateway) as client:

        async def drawn() -> np.ndarray:
            result = await client.submit("drawing", file.getvalue(), slo_ms=SLO_MS)
            outputs = result.raise_for_outcome().outputs
            return np.asarray(Image.open(BytesIO(outputs["edges"])))

        edges = await drawn()
        handler.write_text(written.replace(lines, dark_lines), "utf-8")
        assert await client.reload_function("edges") == {"node0": ""}
        changed = await drawn()
    assert edges.shape == (48, 64)
    assert edges[24, 16] == edges[12, 32] == 255
    assert edges[24, 32] == edges[2, 2] == 0
    assert np.abs(changed.astype(int) - (255 - edges.astype(int))).max() <= 1  # both are rounded
