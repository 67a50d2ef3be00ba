"""What loading a model takes on a real Triton server: from disk, from the page cache, and again.

    .venv/bin/python -m benchmarks.model_loading [--mb N] [--rounds N]

A model reads its weights from a file when it is loaded, as in every framework, one that is
as large as asked for. In turn, round by round: its file dropped from the page cache before
(`posix_fadvise`), its file in the page cache, and a model without weights for comparison. If the
first two are far apart, a model that a node has had before is less than a cold start.
"""

import argparse
import os
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.triton.functions import CONFIG
from esg.core.catalog.file import load_catalog
from esg.invoker.slices.bringup import slice_set
from esg.invoker.slices.client import SliceClient
from esg.runtime.settings import CommonSettings, InvokerSettings

MB = 2**20
MODEL = """
import numpy as np
from pathlib import Path
import triton_python_backend_utils as triton

class TritonPythonModel:
    def initialize(self, args):
        weights = Path(__file__).resolve().parent / "weights"
        self.weights = np.fromfile(weights, np.uint8)

    def execute(self, requests):
        given = [triton.get_input_tensor_by_name(one, "X") for one in requests]
        return [triton.InferenceResponse([triton.Tensor("Y", one.as_numpy())]) for one in given]
"""
FUNCTION = 'profile = "profile.toml"\ncold_start_ms = 1000\nmemory_mb = 100\ninput_mb = 0.1\n'
WAYS = ("from disk", "from the page cache", "without weights")


def write_functions(folder: Path, weights_mb: int) -> Path:
    """Two functions, one with so much to load and one with nothing; the catalog's path."""
    text = "[cluster]\nnodes = 1\nvcpus = 1\nvgpus = 1\nslice_memory_mb = 1000\n"
    for name, size_mb in (("large", weights_mb), ("empty", 0)):
        version = folder / name / "models" / "cpu" / "1"
        version.mkdir(parents=True)
        tensors = {"given": "X", "made": "Y", "kind": "TYPE_UINT8"}
        (version.parent / "config.pbtxt").write_text(CONFIG.format(**tensors))
        (version / "model.py").write_text(MODEL)
        with (version / "weights").open("wb") as weights:
            for _ in range(size_mb):
                weights.write(os.urandom(MB))
            os.fsync(weights.fileno())
        (folder / name / "function.toml").write_text(FUNCTION)
        (folder / name / "profile.toml").write_text(
            f'function = "{name}"\n[provenance]\nkind = "made up"\n[measured]\ntable = "p.csv"\n'
        )
        (folder / name / "p.csv").write_text("batch,vcpus,vgpus,time_ms\n1,1,1,1\n")
        text += (
            f'[functions.{name}]\nfolder = "{name}"\n[applications.{name}]\nchain = ["{name}"]\n'
        )
    catalog = folder / "catalog.toml"
    catalog.write_text(text)
    return catalog


def forget(file: Path) -> None:
    """Drop a file from the page cache."""
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def remember(file: Path) -> None:
    file.read_bytes()


async def load_ms(part: SliceClient, function: str) -> float:
    began = perf_counter()
    await part.load(function)
    took_ms = 1000 * (perf_counter() - began)
    await part.unload(function)
    return took_ms


async def measure(folder: Path, weights_mb: int, rounds: int) -> dict[str, list[float]]:
    catalog_file = write_functions(folder, weights_mb)
    weights = folder / "large" / "models" / "cpu" / "1" / "weights"
    own, catalog = InvokerSettings(slices="cpu:1"), load_catalog(catalog_file)
    common = CommonSettings(catalog=str(catalog_file))
    took: dict[str, list[float]] = {way: [] for way in WAYS}
    async with slice_set(own, common, catalog, "i0") as found:
        part = found.slices[0]
        await load_ms(part, "empty")
        for _ in range(rounds):
            forget(weights)
            took["from disk"].append(await load_ms(part, "large"))
            remember(weights)
            took["from the page cache"].append(await load_ms(part, "large"))
            took["without weights"].append(await load_ms(part, "empty"))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.model_loading", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--mb", type=int, default=500, help="weights of the model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, help="on which disk; the working folder by default")
    chosen = parser.parse_args()
    with TemporaryDirectory(dir=chosen.dir or Path.cwd()) as folder:
        took = uvloop.run(measure(Path(folder), chosen.mb, chosen.rounds))
    table = Table(title=f"loading a model with {chosen.mb} MB of weights, Triton on CPU")
    for column in ("", "median ms", "least", "most", "over the page cache"):
        table.add_column(column, justify="right")
    reference = median(took["from the page cache"])
    for way, ms in took.items():
        over = f"{median(ms) / reference:.2f}"
        table.add_row(way, *(f"{x:.0f}" for x in (median(ms), min(ms), max(ms))), over)
    Console().print(table)


if __name__ == "__main__":
    main()
