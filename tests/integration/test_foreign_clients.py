"""Clients of the Open Inference Protocol that others publish, unchanged, against a mesh of real
processes. Those of `tritonclient` are in `triton/test_open_inference.py`, too."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from PIL import Image

from esg.client import AsyncClient
from esg.local.supervisor import Mesh, MeshOptions
from tests.support.foreign_clients import PerfAnalyzer, generated_client, kserve_python
from tests.support.mesh_expectations import nothing_is_left, photo
from tests.support.paths import ROOT

PHOTO = ROOT / "esg" / "functions" / "photo.jpg"
BRIEFLY = ("--stability-percentage=999", "--max-trials=6")

GENERATED = """
import grpc, sys
sys.path.insert(0, sys.argv[1])
import published_pb2 as wire, published_pb2_grpc as stubs

with grpc.insecure_channel(sys.argv[2]) as channel:
    stub = stubs.GRPCInferenceServiceStub(channel)
    assert stub.ServerLive(wire.ServerLiveRequest()).live
    assert stub.ServerReady(wire.ServerReadyRequest()).ready
    assert stub.ModelReady(wire.ModelReadyRequest(name="photo")).ready
    assert stub.ServerMetadata(wire.ServerMetadataRequest()).name == "esg"
    told = stub.ModelMetadata(wire.ModelMetadataRequest(name="photo"))
    assert [(t.name, t.datatype) for t in told.inputs] == [("input", "BYTES")]
    asked = wire.ModelInferRequest(model_name="photo", id="mine")
    given = asked.inputs.add(name="input", datatype="BYTES", shape=[1, 1])
    given.contents.bytes_contents.append(b"a picture")
    asked.parameters["esg_details"].bool_param = True
    answer = stub.ModelInfer(asked)
    assert answer.id == "mine"
    assert answer.parameters["esg_slo_met"].bool_param
    sys.stdout.buffer.write(answer.outputs[0].contents.bytes_contents[0])
"""
KSERVE = """
import asyncio, sys
from kserve import InferenceGRPCClient, InferInput, InferRequest

async def main():
    client = InferenceGRPCClient(url=sys.argv[1])
    assert await client.is_server_live() and await client.is_server_ready()
    assert await client.is_model_ready("photo")
    given = InferInput(name="input", shape=[1, 1], datatype="BYTES", data=[b"a picture"])
    answer = await client.infer(InferRequest(model_name="photo", infer_inputs=[given]))
    assert answer.model_name == "photo"
    sys.stdout.buffer.write(answer.outputs[0].data[0])
    await client.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def perf_analyzer() -> PerfAnalyzer:
    return PerfAnalyzer()


@pytest.mark.parametrize(
    "mode",
    [
        ("--concurrency-range=4",),
        ("--request-rate-range=20", "--measurement-interval=1000"),
        ("--concurrency-range=4", "--streaming", "--async"),
        ("--concurrency-range=1", "-b", "4"),
    ],
    ids=["concurrency", "rate", "streaming", "batch"],
)
async def test_perf_analyzer(
    perf_analyzer: PerfAnalyzer, mesh: Mesh, client: AsyncClient, mode: tuple[str, ...]
) -> None:
    counting = ("--measurement-mode=count_windows", "--measurement-request-count=20")
    windows = () if "--measurement-interval=1000" in mode else counting
    told = await asyncio.to_thread(
        perf_analyzer.run,
        "-m",
        "photo",
        "-u",
        mesh.gateway,
        "-i",
        "grpc",
        *BRIEFLY,
        *windows,
        *mode,
    )
    said = told.stdout + told.stderr
    assert told.returncode == 0, said
    assert re.search(r"Successful request count: [1-9]", said), said
    assert re.search(r"throughput: [1-9]", said), said
    await nothing_is_left(mesh, client)


def ran(python: Path | str, program: str, *arguments: object) -> bytes:
    done = subprocess.run(
        [str(python), "-c", program, *map(str, arguments)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_a_client_that_is_generated_from_kserves_definition(mesh: Mesh, tmp_path: Path) -> None:
    generated_client(tmp_path)
    made = ran(sys.executable, GENERATED, tmp_path, mesh.gateway)
    assert made == photo(b"a picture")["label"]


@pytest.mark.slow  # its environment has half a gigabyte
def test_the_client_of_the_package_kserve(mesh: Mesh) -> None:
    assert ran(kserve_python(), KSERVE, mesh.gateway) == photo(b"a picture")["label"]


# ---- the same picture, whichever way it comes


STAGES = ("super-resolution", "deblur", "background-removal")
CATALOG = """
[cluster]
nodes = 1
vcpus = 2
vgpus = 1
slice_memory_mb = 10000
[applications.background-elimination]
chain = ["super-resolution", "deblur", "background-removal"]
slo_ms = 600000
"""
FUNCTION = """
[functions.{name}]
folder = "{folder}"
profile = "{name}.toml"
cold_start_ms = 1000
input_mb = 1
memory_mb = 1000
"""


def write_paper_application(folder: Path) -> Path:
    """One of the paper's, with its functions as they come with ESG."""
    text = CATALOG
    for name in STAGES:
        (folder / f"{name}.csv").write_text("batch,vcpus,vgpus,time_ms\n1,1,1,1000\n")
        (folder / f"{name}.toml").write_text(
            f'function = "{name}"\n[provenance]\nkind = "made up"\n'
            f'[measured]\ntable = "{name}.csv"\n'
        )
        text += FUNCTION.format(name=name, folder=ROOT / "esg" / "functions" / name)
    file = folder / "catalog.toml"
    file.write_text(text)
    return file


@pytest.fixture
async def painting(tmp_path: Path) -> AsyncIterator[Mesh]:
    """Real models, as they are on CPU slices."""
    options = MeshOptions(
        nodes=1,
        vcpus=2,
        slices="cpu:1",
        catalog=write_paper_application(tmp_path),
        log_level="warning",
    )
    async with Mesh(options, tmp_path / "m") as mesh:
        yield mesh


def sent(mesh: Mesh, array: np.ndarray, datatype: str) -> bytes:
    given = triton.InferInput("picture", list(array.shape), datatype)
    given.set_data_from_numpy(array)
    with triton.InferenceServerClient(mesh.gateway) as client:
        parameters = {"esg_slo_ms": 600_000}
        answer = client.infer("background-elimination", [given], parameters=parameters)
    return bytes(answer.as_numpy("picture").ravel()[0])


async def test_a_picture_as_bytes_as_numbers_and_as_pixels_gives_what_esg_submit_gives(
    painting: Mesh, tmp_path: Path
) -> None:
    picture = Image.open(PHOTO).convert("RGB").resize((96, 64))
    file = tmp_path / "small.png"
    picture.save(file)
    content = file.read_bytes()
    submit = [sys.executable, "-m", "esg", "submit", "background-elimination", str(file)]
    more = ["--slo-ms", "600000", "--out", str(tmp_path / "out"), "--gateway", painting.gateway]
    done = await asyncio.to_thread(
        subprocess.run, [*submit, *more], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (tmp_path / "out").iterdir()
    ways = [
        (np.array([content], np.object_), "BYTES"),
        (np.frombuffer(content, np.uint8), "UINT8"),
        (np.asarray(picture, np.uint8), "UINT8"),
    ]
    for array, datatype in ways:
        found = await asyncio.to_thread(sent, painting, array, datatype)
        assert found == made.read_bytes()
