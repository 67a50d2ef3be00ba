"""Function folders whose models do nothing, for real Triton servers.

    echo     gives back its input, without a handler
    handled  the same with an array of bytes, and with a handler
    clock    says when it was called, in ns of the machine's monotonic clock

All run on CPU slices.
"""

from pathlib import Path

CONFIG = """
backend: "python"
max_batch_size: 8
input [ {{ name: "{given}" data_type: {kind} dims: [ -1 ] }} ]
output [ {{ name: "{made}" data_type: {kind} dims: [ -1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
MODEL = """
import time
import numpy as np
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        called_ns = time.monotonic_ns()
        given = [triton.get_input_tensor_by_name(one, "{given}").as_numpy() for one in requests]
        {change}
        return [triton.InferenceResponse([triton.Tensor("{made}", one)]) for one in given]
"""
CLOCK = "given = [np.array([[str(called_ns).encode()]], dtype=np.object_)]"
HANDLER = """
import numpy as np

class Handler:
    def prepare(self, inputs):
        return {"X": np.frombuffer(inputs[0], np.uint8)}

    def finish(self, outputs, inputs):
        return outputs["Y"].tobytes()
"""


def write_functions(folder: Path) -> Path:
    """A catalog of them; the file's path."""
    text = "[cluster]\nnodes = 1\nvcpus = 1\nvgpus = 1\nslice_memory_mb = 1000\n"
    for name in ("echo", "handled", "clock"):
        bytes_ = {"given": "INPUT", "made": "OUTPUT", "kind": "TYPE_STRING"}
        tensors = {"given": "X", "made": "Y", "kind": "TYPE_UINT8"} if name == "handled" else bytes_
        version = folder / name / "models" / "cpu" / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(CONFIG.format(**tensors))
        change = CLOCK if name == "clock" else ""
        (version / "model.py").write_text(MODEL.format(change=change, **tensors))
        (folder / name / "handler.py").write_text(HANDLER)
        (folder / name / "function.toml").write_text(
            'profile = "profile.toml"\ncold_start_ms = 100\nmemory_mb = 100\ninput_mb = 0.1\n'
            + ('handler = "handler.py:Handler"\n' if name == "handled" else "")
        )
        (folder / name / "profile.toml").write_text(
            f'function = "{name}"\n[provenance]\nkind = "made up: it takes no time"\n'
            '[measured]\ntable = "profile.csv"\n'
        )
        (folder / name / "profile.csv").write_text("batch,vcpus,vgpus,time_ms\n1,1,1,1\n")
        text += f'[functions.{name}]\nfolder = "{name}"\n'
    text += '[applications.echo]\nchain = ["echo"]\n'
    catalog = folder / "catalog.toml"
    catalog.write_text(text)
    return catalog
