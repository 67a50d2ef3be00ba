"""Tasks in phases on a real Triton: one is prepared while another is on the only slice."""

import asyncio
from pathlib import Path

from esg.client import AsyncClient
from esg.local.supervisor import Mesh, MeshOptions
from tests.support.mesh_expectations import nothing_is_left
from tests.support.triton_folders import INVERT_CONFIG, inverted

HANDLER = """
from pathlib import Path
import numpy as np

class Handler:
    def prepare(self, inputs):
        folder, _, which = inputs[0].decode().rpartition(" ")
        Path(folder, f"prepared-{which}").touch()
        return {"X": np.frombuffer(inputs[0], np.uint8)}

    def finish(self, outputs, inputs):
        return outputs["Y"].tobytes()
"""
MODEL = """
import time
from pathlib import Path
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        return [self.invert(request) for request in requests]

    def invert(self, request):
        given = triton.get_input_tensor_by_name(request, "X").as_numpy()
        folder, _, which = given[0].tobytes().decode().rpartition(" ")
        if which == "first":
            until_s = time.monotonic() + 30
            while not Path(folder, "prepared-second").exists():
                if time.monotonic() > until_s:
                    Path(folder, "in-vain").touch()
                    raise ValueError("the second one was not prepared meanwhile")
                time.sleep(0.001)
        return triton.InferenceResponse([triton.Tensor("Y", 255 - given)])
"""
CATALOG = """
[cluster]
nodes = 1
vcpus = 2
vgpus = 1
slice_memory_mb = 1000
[functions.gated]
folder = "gated"
[applications.gated]
chain = ["gated"]
slo_ms = 60000
"""
MANIFEST = """
description = "waits for the next one to be prepared"
profile = "profile.toml"
handler = "handler.py:Handler"
cold_start_ms = 200
memory_mb = 400
input_mb = 0.001
"""
PROFILE = """
function = "gated"
[provenance]
kind = "made up"
[measured]
table = "profile.csv"
"""
TABLE = "batch,vcpus,vgpus,time_ms,slices_ms,after_ms\n1,1,1,100,60,10\n"


def catalog_in(folder: Path) -> Path:
    version = folder / "gated" / "models" / "cpu" / "1"
    version.mkdir(parents=True)
    files = {
        "handler.py": HANDLER,
        "function.toml": MANIFEST,
        "profile.toml": PROFILE,
        "profile.csv": TABLE,
        "models/cpu/config.pbtxt": INVERT_CONFIG,
        "models/cpu/1/model.py": MODEL,
    }
    for name, text in files.items():
        (folder / "gated" / name).write_text(text, "utf-8")
    catalog = folder / "catalog.toml"
    catalog.write_text(CATALOG, "utf-8")
    return catalog


async def test_the_next_task_prepares_while_a_model_runs(tmp_path: Path) -> None:
    """The model of the first one waits for just that."""
    options = MeshOptions(
        nodes=1,
        vcpus=2,
        slices="cpu:1",
        catalog=catalog_in(tmp_path),
        tasks="phased",
        warm_start=True,
        log_level="warning",
    )
    payloads = [f"{tmp_path} {which}".encode() for which in ("first", "second")]
    async with Mesh(options, tmp_path / "m") as mesh, AsyncClient(mesh.gateway) as client:
        first, second = await asyncio.gather(*(client.submit("gated", p) for p in payloads))
        assert (first.outcome, first.reason) == ("done", "")
        assert not (tmp_path / "in-vain").exists()
        assert first.outputs == {"gated": inverted(payloads[0])}
        assert second.outputs == {"gated": inverted(payloads[1])}
        for result in (first, second):
            (stage,) = result.stages
            assert stage.slices_from_ms is not None
            assert stage.started_ms < stage.slices_from_ms
        await nothing_is_left(mesh, client)
