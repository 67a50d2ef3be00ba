"""Functions in folders whose inputs and outputs are more than a blob, for real Triton servers.

    add      no handler: A and B become SUM and DIFFERENCE, tensors of one length each
    scale    no handler: the same two, times ten, as LARGE and SMALL
    words    no handler, nothing declared: byte strings, turned round
    measure  a handler: a file of bytes becomes its bytes as numbers, and a note about it, as JSON
    draw     a handler: the file, and what `measure` gave, put together

The applications `sums` (add, scale) and `words` are ensembles of a plain Triton, too.
"""

from pathlib import Path

CONFIG = """
backend: "python"
max_batch_size: 8
input [ {inputs} ]
output [ {outputs} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
MODEL = """
import numpy as np
import triton_python_backend_utils as triton

class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        given = [triton.get_input_tensor_by_name(request, n).as_numpy() for n in {names}]
        made = {made}
        return triton.InferenceResponse([triton.Tensor(n, v) for n, v in made.items()])
"""
MEASURE = """
import json
import numpy as np

class Handler:
    def prepare(self, inputs):
        return {"X": np.frombuffer(inputs[0], np.uint8).astype(np.float32)}

    def finish(self, outputs, inputs):
        return {"shades": outputs["Y"], "note": json.dumps({"bytes": len(inputs[0])}).encode()}
"""
DRAW = """
import numpy as np

class Handler:
    def prepare(self, inputs):
        return {"X": inputs["shades"]}

    def finish(self, outputs, inputs):
        return inputs["file"] + inputs["note"] + str(float(outputs["Y"].sum())).encode()
"""


def _tensors(kind: str, dims: str, *names: str) -> str:
    return ", ".join(f'{{ name: "{n}" data_type: {kind} dims: [ {dims} ] }}' for n in names)


def _config(kind: str, taken: tuple[str, ...], given: tuple[str, ...], out: str = "-1") -> str:
    return CONFIG.format(inputs=_tensors(kind, "-1", *taken), outputs=_tensors(kind, out, *given))


NUMBERS = "TYPE_FP32"
MODELS = {
    "add": (
        _config(NUMBERS, ("A", "B"), ("SUM", "DIFFERENCE")),
        MODEL.format(
            names=["A", "B"], made="{'SUM': given[0] + given[1], 'DIFFERENCE': given[0] - given[1]}"
        ),
    ),
    "scale": (
        _config(NUMBERS, ("SUM", "DIFFERENCE"), ("LARGE", "SMALL")),
        MODEL.format(
            names=["SUM", "DIFFERENCE"], made="{'LARGE': 10 * given[0], 'SMALL': 10 * given[1]}"
        ),
    ),
    "words": (
        _config("TYPE_STRING", ("INPUT",), ("OUTPUT",), "1"),
        MODEL.format(
            names=["INPUT"],
            made="{'OUTPUT': np.array([[r[0][::-1]] for r in given[0]], np.object_)}",
        ),
    ),
    "measure": (
        _config(NUMBERS, ("X",), ("Y",)),
        MODEL.format(names=["X"], made="{'Y': given[0] / 2}"),
    ),
    "draw": (
        _config(NUMBERS, ("X",), ("Y",)),
        MODEL.format(names=["X"], made="{'Y': given[0]}"),
    ),
}
HANDLERS = {"measure": MEASURE, "draw": DRAW}


def _tensor(direction: str, name: str) -> str:
    return f'[{direction}.{name}]\ndatatype = "FP32"\nshape = [-1]\n'


def _bytes(direction: str, name: str, media_type: str = "application/octet-stream") -> str:
    return f'[{direction}.{name}]\nmedia_type = "{media_type}"\n'


PORTS = {
    "add": "".join(
        [_tensor("inputs", n) for n in "AB"]
        + [_tensor("outputs", n) for n in ("SUM", "DIFFERENCE")]
    ),
    "scale": "".join(
        [_tensor("inputs", n) for n in ("SUM", "DIFFERENCE")]
        + [_tensor("outputs", n) for n in ("LARGE", "SMALL")]
    ),
    "words": _bytes("inputs", "INPUT") + _bytes("outputs", "OUTPUT"),
    "measure": _bytes("inputs", "file")
    + _tensor("outputs", "shades")
    + _bytes("outputs", "note", "application/json"),
    "draw": _bytes("inputs", "file")
    + _tensor("inputs", "shades")
    + _bytes("inputs", "note", "application/json"),
}
CATALOG = """
[cluster]
nodes = 1
vcpus = 2
vgpus = 2
slice_memory_mb = 1000
"""
APPLICATIONS = """
[applications.sums]
chain = ["add", "scale"]
slo_ms = 60000

[applications.words]
chain = ["words"]
slo_ms = 60000

[applications.measured]
chain = ["measure"]
slo_ms = 60000

[applications.drawing]
slo_ms = 60000
[applications.drawing.stages.words]
[applications.drawing.stages.measure]
after = ["words"]
[applications.drawing.stages.draw]
after = ["words", "measure"]
"""


def write_typed_functions(folder: Path) -> Path:
    """A catalog of them; the file's path."""
    text = CATALOG
    for name, (config, model) in MODELS.items():
        write_model(folder / name / "models" / "cpu", config, model)
        manifest = (
            f'description = "{name}"\nprofile = "profile.toml"\n'
            "cold_start_ms = 200\nmemory_mb = 100\ninput_mb = 0.001\n"
        )
        if name in HANDLERS:
            manifest += 'handler = "handler.py:Handler"\n'
            (folder / name / "handler.py").write_text(HANDLERS[name])
        (folder / name / "function.toml").write_text(manifest + PORTS[name])
        (folder / name / "profile.toml").write_text(
            f'function = "{name}"\n[provenance]\nkind = "made up"\n'
            '[measured]\ntable = "profile.csv"\n'
        )
        rows = ["batch,vcpus,vgpus,time_ms", "1,1,1,20", "2,1,1,22", "4,1,1,25"]
        (folder / name / "profile.csv").write_text("\n".join(rows))
        text += f'[functions.{name}]\nfolder = "{name}"\n'
    catalog = folder / "catalog.toml"
    catalog.write_text(text + APPLICATIONS)
    return catalog


def write_model(folder: Path, config: str, model: str) -> None:
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(model)
    (folder / "config.pbtxt").write_text(config)


ENSEMBLE = """
platform: "ensemble"
max_batch_size: 8
input [ {inputs} ]
output [ {outputs} ]
ensemble_scheduling {{ step [ {steps} ] }}
"""


def _step(name: str, taken: dict[str, str], given: dict[str, str]) -> str:
    maps = [f'input_map {{ key: "{k}" value: "{v}" }}' for k, v in taken.items()]
    maps += [f'output_map {{ key: "{k}" value: "{v}" }}' for k, v in given.items()]
    return f'{{ model_name: "{name}" model_version: -1 {" ".join(maps)} }}'


def write_ensembles(repository: Path) -> None:
    """The same stages in a repository of a plain Triton, and the applications as ensembles. One
    that has the name of its only stage is that stage's model."""
    for name in ("add", "scale"):
        write_model(repository / name, *MODELS[name])
    config, model = MODELS["words"]
    write_model(repository / "words", config.replace("dims: [ -1 ]", "dims: [ 1 ]"), model)
    between = ("SUM", "DIFFERENCE")
    steps = [
        _step("add", {n: n for n in "AB"}, {n: n.lower() for n in between}),
        _step("scale", {n: n.lower() for n in between}, {n: n for n in ("LARGE", "SMALL")}),
    ]
    text = ENSEMBLE.format(
        inputs=_tensors(NUMBERS, "-1", "A", "B"),
        outputs=_tensors(NUMBERS, "-1", "LARGE", "SMALL"),
        steps=", ".join(steps),
    )
    (repository / "sums" / "1").mkdir(parents=True)
    (repository / "sums" / "config.pbtxt").write_text(text)
