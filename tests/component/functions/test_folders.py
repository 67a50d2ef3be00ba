"""What is in the function folders: manifests, Triton's configurations, export scripts."""

import subprocess
import sys
import tomllib
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from esg.core.catalog.file import load_catalog
from esg.functions.exporting import with_backend
from tests.support.function_folders import NAMES, PHOTO, ROOT, handler

VARIANTS = ("cpu", "gpu")


def config(name: str, variant: str) -> Any:
    text = (ROOT / name / "models" / variant / "config.pbtxt").read_text("utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_every_function_of_the_catalog_is_there() -> None:
    assert sorted(load_catalog().functions) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_manifest_says_what_the_function_is(name: str) -> None:
    manifest = tomllib.loads((ROOT / name / "function.toml").read_text("utf-8"))
    assert manifest.keys() == {"description", "network", "handler", "inputs", "outputs"}
    assert manifest["inputs"] == {"picture": {"media_type": "image/*"}}
    assert manifest["handler"] == "handler.py:Handler"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_model_takes_what_its_handler_gives(name: str, variant: str) -> None:
    given = handler(name).prepare([PHOTO.read_bytes()])
    inputs = {tensor.name: tensor for tensor in config(name, variant).input}
    assert inputs.keys() == given.keys()
    for tensor, array in given.items():
        assert inputs[tensor].data_type == model_config_pb2.TYPE_FP32
        dims = zip(inputs[tensor].dims, array.shape, strict=True)
        assert all(dim in (-1, side) for dim, side in dims)


@pytest.mark.parametrize("name", NAMES)
def test_both_variants_of_a_model_can_take_each_others_place(name: str) -> None:
    cpu, gpu = (config(name, variant) for variant in VARIANTS)
    assert (cpu.backend, gpu.backend) == ("python", "onnxruntime")
    assert (list(cpu.input), cpu.max_batch_size) == (list(gpu.input), gpu.max_batch_size)
    kinds = [[(tensor.name, tensor.data_type) for tensor in found.output] for found in (cpu, gpu)]
    assert kinds[0] == kinds[1]
    assert kinds[0][-1] == ("weights", model_config_pb2.TYPE_INT32)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_any_profiled_size_can_be_one_call(name: str) -> None:
    largest = load_catalog().functions[name].profile.max_batch
    assert config(name, "cpu").max_batch_size >= largest


@pytest.mark.parametrize("name", NAMES)
def test_an_export_script_tells_where_the_weights_come_from(name: str) -> None:
    said = run_export(name, "--help")
    assert (said.returncode, said.stderr) == (0, "")
    assert "python export.py" in said.stdout
    assert "weights" in said.stdout.partition("--tensorrt")[2]


@pytest.mark.parametrize("name", NAMES[:1])
def test_an_export_without_torch_says_what_to_install(name: str) -> None:
    said = run_export(name)
    assert said.returncode == 1
    assert "pip install torch torchvision onnx onnxruntime" in said.stderr
    assert "Traceback" not in said.stderr


def run_export(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Without torch, also where there is one."""
    script = ROOT / name / "export.py"
    code = f"import sys, runpy; sys.modules['torch'] = None; sys.argv = {[str(script), *arguments]}"
    code += f"; runpy.run_path({str(script)!r}, run_name='__main__')"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_configuration_can_be_given_another_backend() -> None:
    text = (ROOT / "depth" / "models" / "gpu" / "config.pbtxt").read_text("utf-8")
    planned = text_format.Parse(with_backend(text, "tensorrt"), model_config_pb2.ModelConfig())
    assert planned.backend == "tensorrt"
    planned.backend = "onnxruntime"
    assert planned == config("depth", "gpu")
