"""GPUs and their MIG instances as NVML tells of them, on recorded shapes: no GPU is needed here.

The stand-in answers as the real binding does for the calls that are made, errors included.
"""

import logging
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.catalog.slice_kinds import USUAL, SliceKind, all_alike
from esg.errors import Rejected
from esg.invoker.slices import bringup
from esg.invoker.slices.gpus import Device, find_devices, out_of_reach, why_no_driver
from esg.invoker.slices.kinds import kinds_of_servers, say_kinds
from esg.runtime.settings import InvokerSettings
from esg.runtime.slice_setting import Addresses, Auto, Gpu, Mig, parse_slices

MB = 2**20
AUTO, MIG, GPU = Auto(), Mig(), Gpu()
SIZES = {"1g.5gb": 4864, "2g.10gb": 9856, "3g.20gb": 19968, "4g.20gb": 19968}


@dataclass
class Card:
    """`mode` is current and pending; None where MIG is unknown. Instances by their place."""

    name: str = "NVIDIA A100-SXM4-40GB"
    mode: tuple[int, int] | None = (1, 1)
    places: int = 7
    uuid: str = "GPU-9f8e7d6c"
    memory_mb: int | None = 40960
    instances: dict[int, tuple[str, str, int]] = field(default_factory=dict)


class Nvml:
    """The binding, for a machine with these GPUs."""

    NVML_DEVICE_MIG_ENABLE = pynvml.NVML_DEVICE_MIG_ENABLE

    def __init__(self, *gpus: Card, start: type[Exception] | None = None) -> None:
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

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802
        return self._gpus[index]

    def nvmlDeviceGetMigMode(self, gpu: Card) -> list[int]:  # noqa: N802
        if gpu.mode is None:
            raise pynvml.NVMLError_NotSupported
        return list(gpu.mode)

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: Card) -> int:  # noqa: N802
        return gpu.places

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: Card, place: int) -> Any:  # noqa: N802
        if place not in gpu.instances:
            raise pynvml.NVMLError_NotFound
        return gpu.instances[place]

    def nvmlDeviceGetName(self, device: Any) -> str:  # noqa: N802
        return device.name if isinstance(device, Card) else str(device[1])

    def nvmlDeviceGetUUID(self, device: Any) -> bytes:  # noqa: N802
        uuid = device.uuid if isinstance(device, Card) else str(device[0])
        return uuid.encode()  # as older bindings do

    def nvmlDeviceGetMemoryInfo(self, device: Any) -> Any:  # noqa: N802
        if not isinstance(device, Card):
            return SimpleNamespace(total=device[2])
        if device.memory_mb is None:
            raise pynvml.NVMLError_NotSupported
        return SimpleNamespace(total=device.memory_mb * MB)


def instance(number: int, profile: str, memory_mb: int) -> tuple[str, str, int]:
    return f"MIG-{number:08x}", f"NVIDIA A100-SXM4-40GB MIG {profile}", memory_mb * MB + 77


def refusal(nvml: Nvml, kind: Mig | Gpu | Auto = MIG) -> str:
    with pytest.raises(Rejected) as caught:
        find_devices(kind, nvml)
    assert nvml.open == 0
    return str(caught.value)


def cut(*profiles: str, first: int = 0) -> Card:
    """A GPU in MIG mode with these instances, as they are placed."""
    made = [instance(first + n, name, SIZES[name]) for n, name in enumerate(profiles)]
    return Card(uuid=f"GPU-{first}", instances=dict(enumerate(made)))


@dataclass
class Shape:
    """A host, and the slices that each setting finds on it, by name and memory; a text is part of
    what the refusal says."""

    gpus: tuple[Card, ...]
    auto: list[tuple[str, int]] | str
    mig: list[tuple[str, int]] | str
    gpu: list[tuple[str, int]] | str


WHOLE = ("NVIDIA A100-SXM4-40GB", 40960)
ONE, TWO, THREE, FOUR = (
    (f"NVIDIA A100-SXM4-40GB MIG {name}", size) for name, size in SIZES.items()
)
RTX = Card(name="NVIDIA GeForce RTX 3090", mode=None, uuid="GPU-rtx", memory_mb=24576)
SHAPES = {
    "7 x 1g": Shape((cut(*["1g.5gb"] * 7),), [ONE] * 7, [ONE] * 7, "is in MIG mode, so it is not"),
    "4g + 3g": Shape((cut("4g.20gb", "3g.20gb"),), [FOUR, THREE], [FOUR, THREE], "-mig 0"),
    "3g + 2g + 1g + 1g": Shape(
        (cut("3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"),),
        [THREE, TWO, ONE, ONE],
        [THREE, TWO, ONE, ONE],
        "is in MIG mode, so it is not whole",
    ),
    "two different GPUs": Shape(
        (Card(mode=(0, 0)), RTX),
        [WHOLE, (RTX.name, 24576)],
        "GPU 1 (NVIDIA GeForce RTX 3090) does not support MIG",
        [WHOLE, (RTX.name, 24576)],
    ),
    "MIG off": Shape((Card(mode=(0, 0)),), [WHOLE], "-mig 1), make instances on it", [WHOLE]),
    "MIG after a reset": Shape((Card(mode=(0, 1)),), [WHOLE], "after a reset", [WHOLE]),
    "no MIG support": Shape(
        (RTX,), [(RTX.name, 24576)], "use gpu (a Triton server on the whole", [(RTX.name, 24576)]
    ),
    "memory that NVML does not know": Shape(
        (Card(mode=None, memory_mb=None),), [(WHOLE[0], 0)], "does not support", [(WHOLE[0], 0)]
    ),
    "a GPU in MIG mode beside one that is not": Shape(
        (cut("1g.5gb", "1g.5gb"), Card(mode=(0, 0))), [ONE, ONE, WHOLE], [ONE, ONE], [WHOLE]
    ),
    "MIG mode without instances": Shape(
        (Card(),),
        *["-cgi 1g.5gb,1g.5gb -C, or switch the mode off (sudo nvidia-smi -i 0 -mig 0"] * 2,
        "is in MIG mode, so it is not whole",
    ),
    "no GPU": Shape((), *["the driver sees no GPU; nvidia-smi -L should list one"] * 3),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", [AUTO, MIG, GPU], ids=str)
def test_every_shape_of_a_host_gives_its_slices_or_says_what_to_do(
    shape: Shape, kind: Mig | Gpu | Auto
) -> None:
    nvml, wanted = Nvml(*shape.gpus), getattr(shape, str(kind))
    if isinstance(wanted, str):
        words = refusal(nvml, kind)
        assert words.startswith(f"slices {kind}: ")
        assert wanted in words
    else:
        found = find_devices(kind, nvml)
        assert [(one.name, one.memory_mb) for one in found] == wanted
    assert nvml.open == 0


def test_a_device_is_known_by_its_uuid() -> None:
    found = find_devices(AUTO, Nvml(cut("1g.5gb"), Card(mode=(0, 0))))
    assert found == [
        Device("MIG-00000000", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864),
        Device("GPU-9f8e7d6c", "NVIDIA A100-SXM4-40GB", 40960),
    ]


@pytest.mark.parametrize("kind", [AUTO, MIG, GPU], ids=str)
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (pynvml.NVMLError_LibraryNotFound, "there is no NVIDIA driver; install one"),
        (pynvml.NVMLError_DriverNotLoaded, "there is no NVIDIA driver; install one"),
        (pynvml.NVMLError_NoPermission, "look at the permissions of /dev/nvidia*"),
        (pynvml.NVMLError_Unknown, "nvidia-smi should say why"),
    ],
)
def test_without_a_driver_that_answers_the_refusal_has_advice(
    error: type[Exception], words: str, kind: Mig | Gpu | Auto
) -> None:
    assert words in refusal(Nvml(start=error), kind)


def test_an_error_on_the_way_is_told_and_nvml_closed() -> None:
    nvml = Nvml(Card(places=1))

    def lost(gpu: Card, place: int) -> None:
        raise pynvml.NVMLError_GpuIsLost

    nvml.nvmlDeviceGetMigDeviceHandleByIndex = lost  # type: ignore[method-assign,assignment]
    assert "GPU is lost" in refusal(nvml)


def test_a_gpu_whose_device_may_not_be_opened_says_whose_permissions_to_look_at() -> None:
    nvml = Nvml(Card())

    def closed(index: int) -> Card:
        raise pynvml.NVMLError_NoPermission

    nvml.nvmlDeviceGetHandleByIndex = closed  # type: ignore[method-assign]
    assert "look at the permissions of /dev/nvidia*" in refusal(nvml, AUTO)


def test_the_log_says_which_gpu_is_not_used_and_why(caplog: pytest.LogCaptureFixture) -> None:
    find_devices(AUTO, Nvml(cut("1g.5gb"), Card()))
    (line,) = caplog.records
    assert line.message == "a GPU is not used"
    assert "GPU 1 (NVIDIA A100-SXM4-40GB) is in MIG mode and has no instances" in str(vars(line))


# Kinds


def known_kinds(*others: str) -> Catalog:
    """A catalog whose usual slices are 1g.5gb, and whose functions are profiled for those."""
    kinds = {name: SliceKind(name=name, memory_mb=1, usd_per_hour=1) for name in others}
    usual = SliceKind(name="1g.5gb", memory_mb=10_000, usd_per_hour=1)
    return replace(PLAIN, kinds={USUAL: usual, **kinds})


PLAIN = on_its_cluster(load_catalog())
KINDS = known_kinds("2g.10gb", "3g.20gb", "4g.20gb", "gpu-RTX-3090", "gpu-A100-SXM4-40GB")


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        ("7 x 1g", [USUAL] * 7),
        ("4g + 3g", ["4g.20gb", "3g.20gb"]),
        ("3g + 2g + 1g + 1g", ["3g.20gb", "2g.10gb", USUAL, USUAL]),
        ("two different GPUs", ["gpu-A100-SXM4-40GB", "gpu-RTX-3090"]),
        ("MIG off", ["gpu-A100-SXM4-40GB"]),
        ("no MIG support", ["gpu-RTX-3090"]),
        ("a GPU in MIG mode beside one that is not", [USUAL, USUAL, "gpu-A100-SXM4-40GB"]),
    ],
)
def test_every_slice_is_of_its_kind(shape: str, kinds: list[str]) -> None:
    found = find_devices(AUTO, Nvml(*SHAPES[shape].gpus))
    assert [KINDS.kind_of(device.kinds) for device in found] == kinds


def test_a_catalog_without_names_takes_all_slices_as_alike() -> None:
    alike = replace(PLAIN, kinds=all_alike(10_000))
    found = find_devices(AUTO, Nvml(cut("4g.20gb", "1g.5gb"), RTX))
    assert {alike.kind_of(device.kinds) for device in found} == {USUAL}


@pytest.mark.parametrize(
    ("name", "known", "kind"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb.me", "1g.10gb.me"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb", "1g.10gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "1g.10gb-H100-80GB-HBM3", "1g.10gb-H100-80GB-HBM3"),
        ("NVIDIA A30 MIG 2g.12gb", "1g.10gb", "2g.12gb-A30"),
        ("NVIDIA A100 MIG 1c.3g.20gb", "3g.20gb", "1c.3g.20gb-A100"),
        ("NVIDIA L4", "gpu-L4", "gpu-L4"),
        ("Tesla T4", "gpu-L4", "gpu-T4"),
    ],
)
def test_the_most_specific_name_that_is_known_counts(name: str, known: str, kind: str) -> None:
    """What no catalog knows keeps its most specific name; it is no other kind."""
    assert known_kinds(known).kind_of(Device("", name, 0).kinds) == kind


def test_slices_of_different_devices_that_pass_for_one_kind_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, other = (Device("", f"NVIDIA {gpu} MIG 1g.5gb", 0) for gpu in ("A100", "H100"))
    for devices, catalog in (
        ([one, one], KINDS),
        ([one, other], known_kinds("1g.5gb-H100")),
        ([one, other], replace(PLAIN, kinds=all_alike(1))),
    ):
        bringup._tell_apart(devices, catalog)
    assert not caplog.records
    bringup._tell_apart([one, other], KINDS)
    (line,) = caplog.records
    assert line.message.startswith("slices of different devices are taken for one kind")
    assert "['1g.5gb-A100', '1g.5gb-H100']" in str(vars(line))


def test_the_log_says_which_slices_there_are_and_what_is_not_planned_on_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    say_kinds({"node0": (USUAL, USUAL, "3g.20gb"), "node1": ("gpu-A30",)}, KINDS)
    ready, other, *missing = caplog.records
    assert "2x1g.5gb+3g.20gb" in str(vars(ready))
    assert "gpu-A30" in str(vars(other))
    assert [line.message for line in missing] == [
        "nothing is planned on 3g.20gb: no profile; measure with: esg profile --slices mig",
        "nothing is planned on gpu-A30: no profile; measure with: esg profile --slices gpu",
    ]
    caplog.clear()
    say_kinds({"node0": (USUAL, USUAL)}, KINDS)
    assert len(caplog.records) == 1


def test_whoever_names_kinds_must_say_of_which_kind_running_servers_are() -> None:
    servers = parse_slices("3g.20gb@gpu0:8001, gpu0:8011")
    assert isinstance(servers, Addresses)
    with pytest.raises(Rejected, match=r"write it before the address, as in 1g.5gb@gpu0:8011 \("):
        kinds_of_servers(servers, KINDS)
    said = parse_slices("3g.20gb@gpu0:8001,1g.5gb@gpu0:8011,9g@gpu0:8021")
    assert isinstance(said, Addresses)
    assert kinds_of_servers(said, KINDS) == ("3g.20gb", USUAL, "9g")
    alike = replace(PLAIN, kinds=all_alike(10_000))
    assert kinds_of_servers(servers, alike) == (USUAL, USUAL)


def test_the_real_library_finds_devices_or_says_what_to_do() -> None:
    """Whatever it finds here."""
    with suppress(Rejected):
        assert all(one.uuid.startswith(("MIG-", "GPU-")) for one in find_devices(AUTO))


def test_gpus_without_the_extra_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Rejected, match=r"pip install 'esg-mesh\[triton\]'"):
        find_devices(MIG)
    assert "pip install" in why_no_driver()


def test_only_a_driver_that_is_not_there_lets_slices_be_emulated() -> None:
    """Who has GPUs that do not work wants to know, not to be given digests."""
    for error in (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        assert why_no_driver(Nvml(start=error)).startswith("there is no NVIDIA driver")
    for nvml in (Nvml(), Nvml(Card()), Nvml(start=pynvml.NVMLError_NoPermission)):
        assert why_no_driver(nvml) == ""
        assert nvml.open == 0


def test_gpus_that_a_container_was_not_given_are_known_from_the_kernel(tmp_path: Path) -> None:
    assert out_of_reach(tmp_path / "none") == []
    for bus, text in {
        "0000:07:00.0": "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 208\n",
        "0000:0f:00.0": "IRQ: 209\n",
    }.items():
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(text)
    assert out_of_reach(tmp_path) == ["NVIDIA A100-SXM4-40GB", "a GPU"]


@pytest.mark.parametrize(
    ("gpus", "words"),
    [([], "no driver here"), (["NVIDIA A100"], "COMPOSE_PROFILES=gpu docker compose up")],
    ids=["no GPU", "not given"],
)
def test_a_host_without_a_driver_has_emulated_slices_and_its_log_says_why(
    gpus: list[str],
    words: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bringup, "why_no_driver", lambda: "no driver here")
    monkeypatch.setattr(bringup, "out_of_reach", lambda: gpus)
    cluster = load_catalog().cluster
    found = bringup.settled(InvokerSettings(slices="auto"), load_catalog())
    assert (found.slices, found.vcpus) == (f"emulated:{cluster.vgpus}", cluster.vcpus)
    (line,) = caplog.records
    assert line.message.startswith("slices are emulated")
    assert words in str(vars(line))


def test_what_a_setting_names_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bringup, "why_no_driver", lambda: "no driver here")
    for slices in ("mig", "gpu", "cpu:2", "emulated:3", "gpu0:8001"):
        own = InvokerSettings(slices=slices, vcpus=3)
        assert bringup.settled(own, load_catalog()) == own
    given = InvokerSettings(slices="auto", vcpus=3)
    assert bringup.settled(given, load_catalog()).vcpus == 3
    monkeypatch.setattr(bringup, "why_no_driver", lambda: "")
    assert bringup.settled(given, load_catalog()) == given
