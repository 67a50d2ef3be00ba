"""What this host's GPUs give to slices, found with NVML.

A GPU in MIG mode is cut into instances, each with memory and processors of its own; any other GPU
is one device. A Triton server that is started with a device's UUID in CUDA_VISIBLE_DEVICES sees
nothing else. Sizes may differ; the memory of each is what NVML says.

A device goes by several names, the most specific one first, and its kind is the first of them that
the catalog knows:

    1g.10gb.me-H100-80GB-HBM3    what NVIDIA calls 1g.10gb+me, on this device (`+` joins layouts)
    1g.10gb.me                   on any device
    1g.10gb-H100-80GB-HBM3       without what else it has
    1g.10gb
    gpu-L4                       a whole GPU

Catalogs know 1g.10gb, say, which is enough where all GPUs are alike; one of several devices has
kinds for each of them.
"""

import logging
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from esg.errors import Rejected
from esg.runtime.logs import about
from esg.runtime.slice_setting import GPU_KIND, Auto, Gpu, Mig

log = logging.getLogger(__name__)

MB = 2**20
LONGEST_DEVICE = 60
_INSTANCE = re.compile(r"(?P<device>.*?) ?\bMIG (?P<profile>[0-9a-z.]+)(?P<more>(?:\+[a-z.]+)*)")
_BRANDS = re.compile(r"\b(?:NVIDIA|Tesla|GeForce|Quadro)\b", re.IGNORECASE)
OF_THE_KERNEL = Path("/proc/driver/nvidia/gpus")
"""What a host's driver has, readable in a container that was not given any of it."""
_ADVICE = (
    "put the GPU into MIG mode (sudo nvidia-smi -i {gpu} -mig 1), make instances on it "
    "(sudo nvidia-smi mig -i {gpu} -cgi 1g.5gb,1g.5gb -C; nvidia-smi mig -i {gpu} -lgip lists the "
    "profiles)"
)


@dataclass(frozen=True, slots=True)
class Device:
    """One MIG instance, or a whole GPU. Its memory is all that it has, in MB of 2**20 bytes; 0 if
    NVML cannot tell, as where it is the machine's own."""

    uuid: str
    name: str
    memory_mb: int

    @property
    def kinds(self) -> tuple[str, ...]:
        """What slices on it can be called, the most specific name first.

        >>> Device("", "NVIDIA A100-SXM4-80GB MIG 3g.40gb", 0).kinds
        ('3g.40gb-A100-SXM4-80GB', '3g.40gb')
        >>> Device("", "NVIDIA H100 MIG 1g.10gb+me", 0).kinds
        ('1g.10gb.me-H100', '1g.10gb.me', '1g.10gb-H100', '1g.10gb')
        >>> Device("", "NVIDIA GeForce RTX 3090", 0).kinds
        ('gpu-RTX-3090',)
        """
        found = _INSTANCE.fullmatch(self.name)
        if found is None:
            return (GPU_KIND + _device_name(self.name),)
        device, profile = _device_name(found["device"]), found["profile"]
        whole = profile + found["more"].replace("+", ".")
        names = (f"{whole}-{device}", whole, f"{profile}-{device}", profile)
        return tuple(dict.fromkeys(names))


def _device_name(name: str) -> str:
    """As a kind of slices can be called: without brands, and with dashes.

    >>> [_device_name(name) for name in ("NVIDIA L4", "Tesla T4", "NVIDIA A100 80GB PCIe", "?")]
    ['L4', 'T4', 'A100-80GB-PCIe', 'unknown']
    """
    words = re.findall(r"[A-Za-z0-9._-]+", _BRANDS.sub("", name))
    return "-".join(words)[:LONGEST_DEVICE] or "unknown"


class NoDriver(Rejected):
    """There is nothing here that could be asked about GPUs."""


def _nvml() -> Any:
    """NVIDIA's management library. Only nodes with a GPU have the extra that it comes with."""
    try:
        return import_module("pynvml")
    except ModuleNotFoundError:
        raise NoDriver(
            "GPUs are found with nvidia-ml-py, which is not installed: "
            "pip install 'esg-mesh[triton]'"
        ) from None


def find_devices(kind: Mig | Gpu | Auto, nvml: Any = None) -> list[Device]:
    """All devices of a kind on this host, GPU by GPU. Without any, a refusal says what to do about
    it; if some GPU has none and others have, the log does."""
    try:
        nvml = nvml or _nvml()
        nvml.nvmlInit()
    except Rejected as lacking:
        raise NoDriver(f"slices {kind}: {lacking}") from None
    except nvml.NVMLError as error:
        raise _no_driver(kind, nvml, error) from None
    try:
        gpus = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
        if not gpus:
            raise Rejected(f"slices {kind}: the driver sees no GPU; nvidia-smi -L should list one")
        found: list[Device] = []
        reasons: list[str] = []
        for number, gpu in enumerate(gpus):
            devices, reason = _devices_of(kind, nvml, number, gpu)
            found += devices
            reasons += [reason] if reason else []
    except nvml.NVMLError as error:
        raise _refused(kind, nvml, error) from None
    finally:
        nvml.nvmlShutdown()
    if not found:
        what = "MIG instance" if isinstance(kind, Mig) else "GPU to use"
        raise Rejected(f"slices {kind}: no {what}: {'; '.join(reasons)}")
    for reason in reasons:
        log.warning("a GPU is not used", extra=about(reason=reason))
    return found


def why_no_driver(nvml: Any = None) -> str:
    """Why GPUs cannot be asked for here; empty if they can, whatever the answer."""
    try:
        nvml = nvml or _nvml()
        nvml.nvmlInit()
    except Rejected as lacking:
        return str(lacking)
    except nvml.NVMLError as error:
        return _DRIVER if _is_missing(nvml, error) else ""
    nvml.nvmlShutdown()
    return ""


def out_of_reach(gpus: Path = OF_THE_KERNEL) -> list[str]:
    """The GPUs that the host's driver has, by what they are called: where NVML finds no driver, the
    host did not give them to this container."""
    try:
        told = [(gpu / "information").read_text("utf-8") for gpu in sorted(gpus.iterdir())]
    except OSError:
        return []
    found = [re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE) for text in told]
    return [one[1] if one else "a GPU" for one in found]


def _devices_of(
    kind: Mig | Gpu | Auto, nvml: Any, number: int, gpu: Any
) -> tuple[list[Device], str]:
    """Those of one GPU, or why it has none."""
    what = f"GPU {number} ({_text(nvml.nvmlDeviceGetName(gpu))})"
    on = nvml.NVML_DEVICE_MIG_ENABLE
    try:
        current, pending = nvml.nvmlDeviceGetMigMode(gpu)
    except nvml.NVMLError_NotSupported:
        current = pending = None
    if current == on:
        if isinstance(kind, Gpu):
            return [], (
                f"{what} is in MIG mode, so it is not whole; use mig, or switch the mode off (sudo "
                f"nvidia-smi -i {number} -mig 0)"
            )
        return _instances_of(nvml, number, gpu, what)
    if not isinstance(kind, Mig):
        return [_device(nvml, gpu)], ""
    if current is None:
        return [], (
            f"{what} does not support MIG; A100, A30, H100 and later do: use gpu (a Triton server "
            "on the whole of it), cpu:N or emulated:N"
        )
    if pending == on:
        return [], f"{what} will be in MIG mode after a reset (sudo nvidia-smi -i {number} -r)"
    advice = _ADVICE.format(gpu=number)
    return [], f"{what} is not in MIG mode; {advice}, or use it whole: gpu"


def _instances_of(nvml: Any, number: int, gpu: Any, what: str) -> tuple[list[Device], str]:
    found = []
    for position in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, position)
        except nvml.NVMLError_NotFound:
            continue  # not every place is taken
        found.append(_device(nvml, instance))
    if not found:
        advice = f"sudo nvidia-smi mig -i {number} -cgi 1g.5gb,1g.5gb -C"
        return [], (
            f"{what} is in MIG mode and has no instances; make some, as in: {advice}, or switch "
            f"the mode off (sudo nvidia-smi -i {number} -mig 0)"
        )
    return found, ""


def _device(nvml: Any, handle: Any) -> Device:
    try:
        memory_mb = nvml.nvmlDeviceGetMemoryInfo(handle).total // MB
    except nvml.NVMLError_NotSupported:
        memory_mb = 0
    return Device(
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        memory_mb=memory_mb,
    )


_DRIVER = "there is no NVIDIA driver; install one, so that nvidia-smi works"


def _is_missing(nvml: Any, error: Any) -> bool:
    return isinstance(error, nvml.NVMLError_LibraryNotFound | nvml.NVMLError_DriverNotLoaded)


def _no_driver(kind: Mig | Gpu | Auto, nvml: Any, error: Any) -> Rejected:
    if _is_missing(nvml, error):
        return NoDriver(f"slices {kind}: {_DRIVER} (or use cpu:N or emulated:N)")
    return _refused(kind, nvml, error)


def _refused(kind: Mig | Gpu | Auto, nvml: Any, error: Any) -> Rejected:
    if isinstance(error, nvml.NVMLError_NoPermission):
        why = "this user may not use the GPUs; look at the permissions of /dev/nvidia*"
    else:
        why = (
            f"NVML says {error}; nvidia-smi should say why. If this is a container, give it the "
            "GPUs (docker run --gpus all)"
        )
    return Rejected(f"slices {kind}: {why} (or use cpu:N or emulated:N)")


def _text(value: str | bytes) -> str:
    """Older versions of the binding give bytes."""
    return value.decode() if isinstance(value, bytes) else value
