"""A small catalog over two kinds of slices: a function for each of them, and one for both.

    narrow   on the usual kind only
    wide     on the other only
    either   on both, ten times as fast on the other one, which costs more than that

Where they have folders, their CPU models take as long as is profiled, and longer if their input
names a file, until that is there; they say behind it how many threads they were given.
"""

from pathlib import Path

from tests.support.triton_folders import INVERT_CONFIG

MS = {"narrow": (150, None), "wide": (None, 150), "either": (1000, 100)}
"""The time of a single job, on the usual kind and on the other one."""
INPUT_BYTES = 1000
TIMES = "kind,batch,vcpus,vgpus,time_ms,slices_ms,after_ms"
HANDLER = """
from pathlib import Path
import numpy as np

class Handler:
    def prepare(self, inputs):
        _, *folder = inputs[0].decode().split(" until ")
        if folder:
            Path(folder[0]).with_suffix(".prepared").touch()
        return {"X": np.frombuffer(inputs[0], np.uint8)}

    def finish(self, outputs, inputs):
        return outputs["Y"].tobytes()
"""
MODEL = """
import os
import time
from pathlib import Path
import numpy as np
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        return [self.said(request) for request in requests]

    def said(self, request):
        given = triton.get_input_tensor_by_name(request, "X").as_numpy()
        _, *awaited = given[0].tobytes().decode().split(" until ")
        time.sleep(SLICES_S[os.environ["OMP_NUM_THREADS"]])
        until_s = time.monotonic() + 30
        while awaited and not Path(awaited[0]).exists():
            if time.monotonic() > until_s:
                raise ValueError("the other one was not prepared meanwhile")
            time.sleep(0.001)
        threads = os.environ["OMP_NUM_THREADS"].encode().rjust(3)
        said = np.tile(np.frombuffer(threads, np.uint8), (len(given), 1))
        return triton.InferenceResponse([triton.Tensor("Y", np.hstack([given, said]))])
"""


def write_catalog(folder: Path, usual: str, other: str, *, models: bool = False) -> Path:
    parts = [
        "[prices]\nvcpu_usd_per_hour = 0.034\nvgpu_usd_per_hour = 0.5\n",
        f'[cluster]\nkind = "{usual}"\nslice_memory_mb = 1000\n'
        f'classes = [{{ count = 1, vcpus = 4, slices = "{usual}+{other}" }}]\n',
        f'[kinds]\n"{other}" = {{ memory_mb = 2000, usd_per_hour = 20 }}\n',
    ]
    for name, times_ms in MS.items():
        rows = [
            f"{kind},1,1,1,{ms},{ms / 2},{ms / 4}"
            for kind, ms in zip((usual, other), times_ms, strict=True)
            if ms is not None
        ]
        home = folder / name
        home.mkdir()
        (home / "profile.csv").write_text("\n".join([TIMES, *rows]), "utf-8")
        (home / "profile.toml").write_text(
            f'function = "{name}"\n[provenance]\nkind = "made up"\n'
            '[measured]\ntable = "profile.csv"\n',
            "utf-8",
        )
        manifest = (
            f'profile = "profile.toml"\ncold_start_ms = 200\nmemory_mb = 200\n'
            f"input_mb = {INPUT_BYTES / 1e6}\n"
        )
        if models:
            version = home / "models" / "cpu" / "1"
            version.mkdir(parents=True)
            slices_s = {str(n): ms / 2000 for n, ms in enumerate(times_ms, 1) if ms is not None}
            (version / "model.py").write_text(f"SLICES_S = {slices_s}\n{MODEL}", "utf-8")
            (version.parent / "config.pbtxt").write_text(INVERT_CONFIG, "utf-8")
            (home / "handler.py").write_text(HANDLER, "utf-8")
            manifest += 'handler = "handler.py:Handler"\n'
        (home / "function.toml").write_text(manifest, "utf-8")
        parts.append(f'[functions.{name}]\nfolder = "{name}"\n')
        parts.append(f'[applications.{name}]\nchain = ["{name}"]\nslo_ms = 60000\n')
    parts.append('[applications.both]\nchain = ["narrow", "wide"]\nslo_ms = 60000\n')
    file = folder / "catalog.toml"
    file.write_text("\n".join(parts), "utf-8")
    return file
