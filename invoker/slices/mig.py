"""MIG instances of this host, found with NVML.

A GPU in MIG mode is cut into instances, each with memory and processors of its own. An instance is
a slice: a Triton server that is started with its UUID in CUDA_VISIBLE_DEVICES sees nothing else.
Sizes may differ; the memory of each is what NVML says.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from esg.errors import Rejected

MB = 2**20
_ADVICE = (
    "put the GPU into MIG mode (sudo nvidia-smi -i {gpu} -mig 1), make instances on it "
    "(sudo nvidia-smi mig -i {gpu} -cgi 1g.5gb,1g.5gb -C; nvidia-smi mig -i {gpu} -lgip lists the "
    "profiles)"
)


@dataclass(frozen=True, slots=True)
class Instance:
    """One MIG instance. Its memory is all that it has, in MB of 2**20 bytes."""

    uuid: str
    name: str
    memory_mb: int


def _nvml() -> Any:
    """NVIDIA's management library. Only nodes with a GPU have the extra that it comes with."""
    try:
        return import_module("pynvml")
    except ModuleNotFoundError:
        raise Rejected(
            "MIG instances are found with nvidia-ml-py, which is not installed: "
            "pip install 'esg-mesh[triton]'"
        ) from None


def find_instances(nvml: Any = None) -> list[Instance]:
    """All instances of this host, GPU by GPU. Without any, a refusal says what to do about it."""
    nvml = nvml or _nvml()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise _no_driver(nvml, error) from None
    try:
        gpus = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
        if not gpus:
            raise Rejected("slices mig: the driver sees no GPU; nvidia-smi -L should list one")
        found: list[Instance] = []
        reasons: list[str] = []
        for number, gpu in enumerate(gpus):
            instances, reason = _instances_of(nvml, number, gpu)
            found += instances
            reasons += [reason] if reason else []
    except nvml.NVMLError as error:
        raise Rejected(
            f"slices mig: NVML says {error}; if this is a container, give it the GPUs "
            "(docker run --gpus all), and look with nvidia-smi -L"
        ) from None
    finally:
        nvml.nvmlShutdown()
    if not found:
        raise Rejected(f"slices mig: no MIG instance: {'; '.join(reasons)}")
    return found


def _instances_of(nvml: Any, number: int, gpu: Any) -> tuple[list[Instance], str]:
    """Those of one GPU, or why it has none."""
    what = f"GPU {number} ({_text(nvml.nvmlDeviceGetName(gpu))})"
    try:
        current, pending = nvml.nvmlDeviceGetMigMode(gpu)
    except nvml.NVMLError_NotSupported:
        return (
            [],
            f"{what} does not support MIG; A100, A30, H100 and later do: use cpu:N or emulated:N",
        )
    if current != nvml.NVML_DEVICE_MIG_ENABLE:
        if pending == nvml.NVML_DEVICE_MIG_ENABLE:
            return [], f"{what} will be in MIG mode after a reset (sudo nvidia-smi -i {number} -r)"
        return [], f"{what} is not in MIG mode; " + _ADVICE.format(gpu=number)
    found = []
    for position in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, position)
        except nvml.NVMLError_NotFound:
            continue  # not every place is taken
        found.append(
            Instance(
                uuid=_text(nvml.nvmlDeviceGetUUID(instance)),
                name=_text(nvml.nvmlDeviceGetName(instance)),
                memory_mb=nvml.nvmlDeviceGetMemoryInfo(instance).total // MB,
            )
        )
    if not found:
        advice = f"sudo nvidia-smi mig -i {number} -cgi 1g.5gb,1g.5gb -C"
        return [], f"{what} is in MIG mode and has no instances; make some, as in: {advice}"
    return found, ""


def _no_driver(nvml: Any, error: Any) -> Rejected:
    if isinstance(error, nvml.NVMLError_LibraryNotFound | nvml.NVMLError_DriverNotLoaded):
        why = "there is no NVIDIA driver; install one, so that nvidia-smi works"
    elif isinstance(error, nvml.NVMLError_NoPermission):
        why = "this user may not use the GPUs; look at the permissions of /dev/nvidia*"
    else:
        why = f"NVML says {error}; nvidia-smi should say why"
    return Rejected(f"slices mig: {why} (or use cpu:N or emulated:N)")


def _text(value: str | bytes) -> str:
    """Older versions of the binding give bytes."""
    return value.decode() if isinstance(value, bytes) else value
