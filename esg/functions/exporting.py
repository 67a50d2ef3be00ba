"""Exporting a network for GPU hosts: what the functions' export scripts share.

A script says what its network is and how it is made with its original weights. Here it is written
as ONNX, with the inputs and outputs that the function's handler knows; checked against torch; and,
if asked for, built into a TensorRT plan for the GPU at hand. It needs torch, torchvision, onnx and
onnxruntime, which the mesh itself does not.
"""

import argparse
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

OPSET = 17
LARGEST_BATCH = 8
"""As in config.pbtxt."""
CLOSE = 1e-3
"""How far ONNX and torch may be apart, relative to the largest value: they sum in other orders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedNetwork:
    """One function's network. `sides` is the size of its pictures; if `any_size`, an example."""

    folder: Path
    name: str
    output: str
    sides: tuple[int, int]
    any_size: bool = False
    source: str
    """Where the code and the weights come from, and what to do to get them."""


@dataclass(frozen=True, slots=True)
class ExportArguments:
    """What the user gave: a checkout of the authors' code, and a file of weights."""

    torch: Any
    repository: Path | None
    weights: Path | None

    def module(self, name: str) -> Any:
        """A module of the authors' code."""
        if self.repository is None:
            raise SystemExit("error: --repository is missing; --help says where the code is")
        sys.path.insert(0, str(self.repository.resolve()))
        return _imported(name, f"is {self.repository} the repository that --help names?")

    def load_into(self, network: Any) -> Any:
        """The network with its weights; nothing but numbers is read from the file."""
        if self.weights is None:
            raise SystemExit("error: --weights is missing; --help says where they are")
        if not self.weights.is_file():
            raise SystemExit(f"error: {self.weights}: no such file")
        state = self.torch.load(self.weights, map_location="cpu", weights_only=True)
        try:
            network.load_state_dict(state)
        except RuntimeError as error:
            raise SystemExit(f"error: {self.weights} does not fit the network: {error}") from None
        return network


def export(network: ExportedNetwork, make: Callable[[ExportArguments], Any]) -> None:
    """The whole of an export script: `make` gives the network as a torch module."""
    options = _options(network)
    needs = "install it: pip install torch torchvision onnx onnxruntime"
    torch, runtime = _imported("torch", needs), _imported("onnxruntime", needs)
    module = make(ExportArguments(torch, options.repository, options.weights)).eval()
    source = options.weights.name if options.weights else "the weights of its library"
    said = f"trained: {network.name}, {source}"
    file = network.folder / "models" / "gpu" / "1" / "model.onnx"
    file.parent.mkdir(parents=True, exist_ok=True)
    example = torch.rand(2, 3, *network.sides)
    with torch.no_grad():
        wanted = module(example).numpy()
        _write(torch, network, _saying(torch, module, said), example, file)
    _check(runtime, network, example.numpy(), wanted, file)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB, gives what torch gives")
    if options.tensorrt:
        _build_plan(network, file)


def _options(network: ExportedNetwork) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=f"Export {network.name} to {network.folder.name}/models/gpu/1.",
        epilog=network.source,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--weights", type=Path, metavar="FILE", help="the original weights")
    parser.add_argument("--repository", type=Path, metavar="DIR", help="the authors' code")
    parser.add_argument(
        "--tensorrt",
        action="store_true",
        help="also build a TensorRT plan for the GPU at hand, with trtexec, and use that",
    )
    return parser.parse_args()


def _imported(name: str, otherwise: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SystemExit(f"error: {name} cannot be imported ({error}); {otherwise}") from None


def _saying(torch: Any, module: Any, text: str) -> Any:
    """The module with a second output: which weights it has, for every picture of the batch."""

    class Saying(torch.nn.Module):  # type: ignore[misc]  # torch is not here when types are checked
        def __init__(self) -> None:
            super().__init__()
            self.module = module
            self.register_buffer("said", torch.tensor([list(text.encode())], dtype=torch.int32))

        def forward(self, picture: Any) -> tuple[Any, Any]:
            return self.module(picture), self.said.expand(picture.shape[0], -1)

    return Saying().eval()


def _write(torch: Any, network: ExportedNetwork, module: Any, example: Any, file: Path) -> None:
    sides = {2: "height", 3: "width"} if network.any_size else {}
    larger = {2: "height_out", 3: "width_out"} if network.any_size else {}
    torch.onnx.export(
        module,
        (example,),
        str(file),
        input_names=["picture"],
        output_names=[network.output, "weights"],
        dynamic_axes={
            "picture": {0: "batch", **sides},
            network.output: {0: "batch", **larger},
            "weights": {0: "batch"},
        },
        opset_version=OPSET,
        dynamo=False,  # tracing, which copes with code that was not written for the new exporter
    )


def _check(
    runtime: Any, network: ExportedNetwork, example: np.ndarray, wanted: np.ndarray, file: Path
) -> None:
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (found,) = session.run([network.output], {"picture": example})
    apart = float(np.abs(found - wanted).max() / np.abs(wanted).max())
    if found.shape != wanted.shape or apart > CLOSE:
        raise SystemExit(
            f"error: {file} gives {found.shape} where torch gives {wanted.shape}, "
            f"and differs by {apart:.2%}; the export is wrong"
        )


def _build_plan(network: ExportedNetwork, file: Path) -> None:
    """A plan runs only on the kind of GPU that it was built on: on MIG, on the same profile."""
    height, width = network.sides
    shapes = {
        "min": f"1x3x{height}x{width}",
        "opt": f"{LARGEST_BATCH // 2}x3x{height}x{width}",
        "max": f"{LARGEST_BATCH}x3x{height}x{width}",
    }
    if network.any_size:
        shapes["min"], shapes["max"] = "1x3x64x64", f"{LARGEST_BATCH}x3x{2 * height}x{2 * width}"
    plan = file.with_name("model.plan")
    command = ["trtexec", f"--onnx={file}", f"--saveEngine={plan}", "--fp16"]
    command += [f"--{kind}Shapes=picture:{shape}" for kind, shape in shapes.items()]
    try:
        done = subprocess.run(command, check=False)
    except FileNotFoundError:
        raise SystemExit("error: there is no trtexec on the PATH; it comes with TensorRT") from None
    if done.returncode != 0:
        raise SystemExit(f"error: trtexec ended with {done.returncode}; the ONNX file is complete")
    config = network.folder / "models" / "gpu" / "config.pbtxt"
    config.write_text(with_backend(config.read_text("utf-8"), "tensorrt"), "utf-8")
    print(f"{plan}: built, and {config} uses it now")


def with_backend(config: str, backend: str) -> str:
    """A model's configuration, for another backend.

    >>> with_backend('backend: "onnxruntime"', "tensorrt")
    'backend: "tensorrt"'
    """
    return re.sub(r'^backend: ".*"$', f'backend: "{backend}"', config, count=1, flags=re.MULTILINE)
