"""MIG instances as NVML tells of them, on recorded shapes: no GPU is needed here.

The stand-in answers as the real binding does for the calls that are made, errors included.
"""

import sys
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from esg.errors import Rejected
from esg.invoker.slices.mig import Instance, find_instances

MB = 2**20


@dataclass
class Gpu:
    """`mode` is current and pending; None where MIG is unknown. Instances by their place."""

    name: str = "NVIDIA A100-SXM4-40GB"
    mode: tuple[int, int] | None = (1, 1)
    places: int = 7
    instances: dict[int, tuple[str, str, int]] = field(default_factory=dict)


class Nvml:
    """The binding, for a machine with these GPUs."""

    NVML_DEVICE_MIG_ENABLE = pynvml.NVML_DEVICE_MIG_ENABLE

    def __init__(self, *gpus: Gpu, start: type[Exception] | None = None) -> None:
        self._gpus = gpus
        self._start = start
        self.open = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("NVMLError"):
            return getattr(pynvml, name)
        raise AttributeError(name)

    def nvmlInit(self) -> None:  # noqa: N802 - the binding's names
        if self._start is not None:
            raise self._start()
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        return self._gpus[index]

    def nvmlDeviceGetMigMode(self, gpu: Gpu) -> list[int]:  # noqa: N802
        if gpu.mode is None:
            raise pynvml.NVMLError_NotSupported
        return list(gpu.mode)

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Gpu) -> int:  # noqa: N802
        return gpu.places

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Gpu, place: int) -> Any:  # noqa: N802
        if place not in gpu.instances:
            raise pynvml.NVMLError_NotFound
        return gpu.instances[place]

    def nvmlDeviceGetName(self, device: Any) -> str:  # noqa: N802
        return device.name if isinstance(device, Gpu) else str(device[1])

    def nvmlDeviceGetUUID(self, device: tuple[str, str, int]) -> bytes:  # noqa: N802
        return device[0].encode()  # as older bindings do

    def nvmlDeviceGetMemoryInfo(self, device: tuple[str, str, int]) -> Any:  # noqa: N802
        return SimpleNamespace(total=device[2])


def instance(number: int, profile: str, memory_mb: int) -> tuple[str, str, int]:
    return f"MIG-{number:08x}", f"NVIDIA A100-SXM4-40GB MIG {profile}", memory_mb * MB + 77


def refusal(nvml: Nvml) -> str:
    with pytest.raises(Rejected) as caught:
        find_instances(nvml)
    assert nvml.open == 0
    return str(caught.value)


def test_seven_equal_instances_are_seven_slices() -> None:
    gpu = Gpu(instances={n: instance(n, "1g.5gb", 4864) for n in range(7)})
    nvml = Nvml(gpu)
    assert find_instances(nvml) == [
        Instance(f"MIG-{n:08x}", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864) for n in range(7)
    ]
    assert nvml.open == 0


def test_instances_of_several_sizes_have_memory_of_their_own() -> None:
    mixed = Gpu(instances={0: instance(1, "3g.20gb", 19968), 4: instance(2, "1g.5gb", 4864)})
    other = Gpu(instances={0: instance(3, "7g.40gb", 40192)})
    off = Gpu(mode=(0, 0))
    found = find_instances(Nvml(mixed, off, other))
    assert [(i.uuid, i.memory_mb) for i in found] == [
        ("MIG-00000001", 19968),
        ("MIG-00000002", 4864),
        ("MIG-00000003", 40192),
    ]


def test_a_gpu_that_knows_no_mig_is_named() -> None:
    words = refusal(Nvml(Gpu(name="NVIDIA GeForce RTX 3090", mode=None)))
    assert "GPU 0 (NVIDIA GeForce RTX 3090) does not support MIG" in words
    assert "use cpu:N or emulated:N" in words


def test_gpu_without_mig_mode_is_refused_with_the_commands_to_run() -> None:
    words = refusal(Nvml(Gpu(mode=(0, 0)), Gpu(mode=(0, 0))))
    for gpu in (0, 1):
        assert f"GPU {gpu} (NVIDIA A100-SXM4-40GB) is not in MIG mode" in words
        assert f"sudo nvidia-smi -i {gpu} -mig 1" in words
        assert f"sudo nvidia-smi mig -i {gpu} -cgi 1g.5gb,1g.5gb -C" in words


def test_a_mode_that_waits_for_a_reset_is_told() -> None:
    assert "after a reset (sudo nvidia-smi -i 0 -r)" in refusal(Nvml(Gpu(mode=(0, 1))))


def test_mig_mode_without_instances_says_how_to_make_some() -> None:
    words = refusal(Nvml(Gpu()))
    assert "is in MIG mode and has no instances" in words
    assert "sudo nvidia-smi mig -i 0 -cgi 1g.5gb,1g.5gb -C" in words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (pynvml.NVMLError_LibraryNotFound, "there is no NVIDIA driver; install one"),
        (pynvml.NVMLError_DriverNotLoaded, "there is no NVIDIA driver; install one"),
        (pynvml.NVMLError_NoPermission, "look at the permissions of /dev/nvidia*"),
        (pynvml.NVMLError_Unknown, "nvidia-smi should say why"),
    ],
)
def test_mig_without_a_driver_is_refused_with_advice(error: type[Exception], words: str) -> None:
    assert words in refusal(Nvml(start=error))


def test_a_driver_without_gpus_says_so() -> None:
    assert "the driver sees no GPU" in refusal(Nvml())


def test_an_error_on_the_way_is_told_and_nvml_closed() -> None:
    nvml = Nvml(Gpu(places=1))

    def lost(gpu: Gpu, place: int) -> None:
        raise pynvml.NVMLError_GpuIsLost

    nvml.nvmlDeviceGetMigDeviceHandleByIndex = lost  # type: ignore[method-assign,assignment]
    assert "GPU is lost" in refusal(nvml)


def test_the_real_library_finds_instances_or_says_what_to_do() -> None:
    """Whatever it finds here."""
    with suppress(Rejected):
        assert all(one.uuid.startswith("MIG-") for one in find_instances())


def test_mig_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Rejected, match=r"pip install 'esg-mesh\[triton\]'"):
        find_instances()
