"""What functions were measured on: for the provenance of every profile."""

import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from esg.runtime.rpc.channels import channel
from esg.runtime.slice_setting import WORDS
from esg.version import __version__

UNKNOWN = "unknown"
METADATA_TIMEOUT_S = 10.0


async def triton_version(addresses: Sequence[str]) -> str:
    """What the first of these Triton servers says; nothing, if there is none."""
    for address in addresses:
        async with channel(address) as to_server:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(to_server)
            with suppress(grpc.aio.AioRpcError):
                request = service_pb2.ServerMetadataRequest()
                return str((await stub.ServerMetadata(request, timeout=METADATA_TIMEOUT_S)).version)
    return ""


def provenance(slices: str, triton: str) -> dict[str, str]:
    """Device, driver, date and versions."""
    gpus, driver = _gpus() if slices in WORDS else ([], "")
    return {
        "kind": "measured",
        "slices": slices,
        "device": ", ".join(gpus) or processor(),
        "driver": driver or "none: no GPU was used",
        "host": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "triton": triton or "none: the slices were emulated",
        "esg": __version__,
        "python": platform.python_version(),
    }


def processor() -> str:
    """What this machine computes with."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
                break
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


def _gpus() -> tuple[list[str], str]:
    """The GPUs of this host, and their driver."""
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return [], UNKNOWN
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(n) for n in range(nvml.nvmlDeviceGetCount())]
        names = [str(nvml.nvmlDeviceGetName(handle)) for handle in handles]
        return names, str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return [], UNKNOWN
    finally:
        nvml.nvmlShutdown()
