"""Functions in folders, for real Triton servers: small, and each with a habit.

    invert   turns bytes round (255 - x) in a batch, with a handler; cannot bear inputs that begin
             with "B", and its handler none that begin with "#"
    join     no handler: puts the inputs of a job one behind the other
    ponder   the same, after as many milliseconds as its first input says
    signed   puts a word of its model and one of its handler behind its input; `write_signed` has
             others
    counted  puts behind its input how many cores its handler was told of, before and after the
             model, and those that it might use: it does one job with all that were granted
    repeat   gives an array as often as its first byte says; it has no handler that could call it
    broken   its model cannot be made
    corrupt  has a config that nobody can read
    absent   has no folder

Every application is a chain of the function of its name; `twice` inverts and then joins.
"""

from pathlib import Path

INVERT_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "X" data_type: TYPE_UINT8 dims: [ -1 ] } ]
output [ { name: "Y" data_type: TYPE_UINT8 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
BYTES_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "INPUT" data_type: TYPE_STRING dims: [ -1 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
INVERT_MODEL = """
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        return [self.invert(request) for request in requests]

    def invert(self, request):
        given = triton.get_input_tensor_by_name(request, "X").as_numpy()
        if given.shape[1] and (given[:, 0] == ord("B")).any():
            raise ValueError("the model cannot bear it")
        return triton.InferenceResponse([triton.Tensor("Y", 255 - given)])
"""
JOIN_MODEL = """
import time
import numpy as np
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        return [self.join(request) for request in requests]

    def join(self, request):
        given = triton.get_input_tensor_by_name(request, "INPUT").as_numpy()
        if PONDER:
            time.sleep(max(int(row[0].split(b" ")[0]) for row in given) / 1000)
        joined = np.array([[b"".join(row)] for row in given], dtype=np.object_)
        return triton.InferenceResponse([triton.Tensor("OUTPUT", joined)])
"""
REPEAT_MODEL = """
import time
import numpy as np
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        return [self.repeat(request) for request in requests]

    def repeat(self, request):
        given = triton.get_input_tensor_by_name(request, "X").as_numpy()
        times = int(given[0, 0])
        if times == 255:
            time.sleep(0.5)
            times = 1
        return triton.InferenceResponse([triton.Tensor("Y", np.tile(given, times))])
"""
BROKEN_MODEL = """
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("no weights today")

    def execute(self, requests):
        return []
"""
HANDLER = """
import numpy as np

class Handler:
    def prepare(self, inputs):
        if inputs[0].startswith(b"#"):
            raise ValueError("not a picture")
        return {"X": np.frombuffer(inputs[0], np.uint8)}

    def finish(self, outputs, inputs):
        assert len(outputs["Y"]) == len(inputs[0])
        return outputs["Y"].tobytes()
"""
SIGNED_MODEL = """
import numpy as np
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        return [self.sign(request) for request in requests]

    def sign(self, request):
        given = triton.get_input_tensor_by_name(request, "X").as_numpy()
        word = np.tile(np.frombuffer(WORD, np.uint8), (len(given), 1))
        return triton.InferenceResponse([triton.Tensor("Y", np.hstack([given, word]))])
"""
SIGNED_HANDLER = """
import numpy as np

class Handler:
    def prepare(self, inputs):
        return {"X": np.frombuffer(inputs[0], np.uint8)}

    def finish(self, outputs, inputs):
        return outputs["Y"].tobytes() + WORD
"""
COUNTED_HANDLER = """
import os
import numpy as np

class Handler:
    def prepare(self, inputs, cores):
        return {"X": np.frombuffer(inputs[0] + f" {cores}".encode(), np.uint8)}

    def finish(self, outputs, inputs, cores):
        return (255 - outputs["Y"]).tobytes() + f" {cores} {len(os.sched_getaffinity(0))}".encode()
"""
MODELS = {
    "invert": (INVERT_CONFIG, INVERT_MODEL),
    "join": (BYTES_CONFIG, f"PONDER = False\n{JOIN_MODEL}"),
    "ponder": (BYTES_CONFIG, f"PONDER = True\n{JOIN_MODEL}"),
    "repeat": (INVERT_CONFIG, REPEAT_MODEL),
    "signed": (INVERT_CONFIG, ""),
    "counted": (INVERT_CONFIG, INVERT_MODEL),
    "broken": (BYTES_CONFIG, BROKEN_MODEL),
    "corrupt": ("this is { not a config", BROKEN_MODEL),
}
HANDLERS = {"invert": HANDLER, "signed": HANDLER, "counted": COUNTED_HANDLER}
CONFIGS = [(1, 1, 1), (2, 1, 1), (2, 1, 2), (4, 1, 2)]
CATALOG = """
[cluster]
nodes = 1
vcpus = 2
vgpus = 2
slice_memory_mb = 1000
"""


def inverted(content: bytes) -> bytes:
    return bytes(255 - byte for byte in content)


def write_functions(folder: Path) -> Path:
    """A catalog of them; the file's path."""
    text = CATALOG
    for name, (config, model) in MODELS.items():
        version = folder / name / "models" / "cpu" / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(model)
        (version.parent / "config.pbtxt").write_text(config)
        manifest = (
            f'description = "{name}"\nprofile = "profile.toml"\n'
            "cold_start_ms = 200\nmemory_mb = 400\ninput_mb = 0.001\n"
        )
        if name in HANDLERS:
            manifest += 'handler = "handler.py:Handler"\n'
            (folder / name / "handler.py").write_text(HANDLERS[name])
        if name == "counted":
            manifest += 'cpu = "within_job"\n'
        (folder / name / "function.toml").write_text(manifest)
        (folder / name / "profile.toml").write_text(
            f'function = "{name}"\n[provenance]\nkind = "made up"\n'
            '[measured]\ntable = "profile.csv"\n'
        )
        # Slower alone than together, so that batches and both slices are worth it
        configs = [(1, 2, 1)] if name == "counted" else CONFIGS
        rows = [f"{b},{c},{g},{100 if b > 1 else 90}" for b, c, g in configs]
        (folder / name / "profile.csv").write_text("\n".join(["batch,vcpus,vgpus,time_ms", *rows]))
        text += f'[functions.{name}]\nfolder = "{name}"\n'
        text += f'[applications.{name}]\nchain = ["{name}"]\nslo_ms = 60000\n'
    text += (
        '[functions.absent]\nprofile = "absent.toml"\n'
        "cold_start_ms = 200\nmemory_mb = 400\ninput_mb = 0.001\n"
        '[applications.absent]\nchain = ["absent"]\nslo_ms = 60000\n'
    )
    (folder / "absent.toml").write_text(
        'function = "absent"\n[provenance]\nkind = "made up"\n'
        '[measured]\ntable = "join/profile.csv"\n'
    )
    text += '[applications.twice]\nchain = ["invert", "join"]\nslo_ms = 60000\n'
    write_signed(folder, model=b" m1", handler=b" h1")
    catalog = folder / "catalog.toml"
    catalog.write_text(text)
    return catalog


def write_signed(folder: Path, *, model: bytes, handler: bytes) -> None:
    """Have the function `signed` sign with these words, once it is loaded again."""
    home = folder / "signed"
    (home / "models" / "cpu" / "1" / "model.py").write_text(f"WORD = {model!r}\n{SIGNED_MODEL}")
    (home / "handler.py").write_text(f"WORD = {handler!r}\n{SIGNED_HANDLER}")
