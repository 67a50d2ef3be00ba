"""The slices of a node, brought up as its settings say."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from esg.core.catalog.model import Catalog
from esg.errors import Rejected
from esg.invoker.emulated.cpu_parts import EmulatedCpuParts
from esg.invoker.emulated.in_process import InProcessChannel
from esg.invoker.emulated.service import EmulatedSlice
from esg.invoker.emulated.slices import emulated_durations, emulated_slices
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.directory import SliceDirectory, slice_directory
from esg.invoker.slices.gpus import find_devices, out_of_reach, why_no_driver
from esg.invoker.slices.processes import EmulatedSlices, SliceProcess
from esg.invoker.slices.shm.transfer import SharedMemory
from esg.invoker.triton.install import find_triton
from esg.invoker.triton.model_repository import assemble, link
from esg.invoker.triton.server import MODELS, TritonServer, link_backends
from esg.runtime.logs import about
from esg.runtime.security.plain import check_calling, is_local
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.runtime.slice_kinds import Addresses, Auto, Cpu, Emulated, Gpu, Mig, parse_slices

log = logging.getLogger(__name__)

READY_LIMIT_S = 60.0
MB = 2**20
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""A slice without a GPU is a share of the machine, not all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSet:
    """Slices, each with its memory, and the processes that have them, if they are ours.

    `handlers` names the CPU parts to be called, and `lacking` says why some functions cannot run.
    `refresh` looks again whether the model of one can be loaded, and if not, says why.
    With emulated slices no handler is called, and `emulated` has the CPU parts of tasks in phases.
    Slices that are in this process (`here`) end with it, and not before.
    """

    slices: list[SliceClient]
    memories_mb: tuple[int, ...]
    processes: Mapping[SliceProcess, tuple[int, ...]] = field(default_factory=dict)
    handlers: Mapping[str, str] = field(default_factory=dict)
    lacking: Mapping[str, str] = field(default_factory=dict)
    refresh: Callable[[str], str] = lambda _: ""
    emulated: EmulatedCpuParts | None = None
    here: bool = False


def settled(own: InvokerSettings, catalog: Catalog) -> InvokerSettings:
    """The settings, with emulated slices in place of "auto" on a host without a driver. A machine's
    own cores are no measure for those."""
    if not isinstance(parse_slices(own.slices), Auto) or not (why := why_no_driver()):
        return own
    cluster = catalog.cluster
    if gpus := out_of_reach():
        why = (
            f"this host has {', '.join(gpus)}, which this container was not given; give it the "
            "GPUs (COMPOSE_PROFILES=gpu docker compose up --build)"
        )
    log.warning(
        "slices are emulated: they take the profiled times, and answer with digests",
        extra=about(slices=cluster.vgpus, reason=why),
    )
    return replace(own, slices=str(Emulated(cluster.vgpus)), vcpus=own.vcpus or cluster.vcpus)


@asynccontextmanager
async def slice_set(
    own: InvokerSettings, common: CommonSettings, catalog: Catalog, node: str, *, alone: bool = True
) -> AsyncIterator[SliceSet]:
    """All slices, live; the processes that were started for them end afterwards. Those of a node
    that is not `alone` in this process are emulated here, too: a process for each node would cost
    more than all that they do."""
    match parse_slices(own.slices):
        case Emulated(count) if not alone:
            made = _emulated_here(count, own, common, catalog, node)
        case _ if not alone:
            raise Rejected(
                f"invoker.slices: {own.slices}: nodes that share a process have emulated slices; "
                "start a process for each, or say emulated:N"
            )
        case Emulated(count):
            made = _emulated(count, own, common, catalog)
        case Addresses(addresses):
            made = _remote(addresses, own, common, catalog)
        case Cpu(count):
            made = _tritons([ONE_THREAD] * count, [0] * count, "cpu", own, catalog, node)
        case Mig() | Gpu() | Auto() as kind:
            found = find_devices(kind)
            log.info("slices were found", extra=about(slices=[one.name for one in found]))
            environs = [{"CUDA_VISIBLE_DEVICES": device.uuid} for device in found]
            memories_mb = [device.memory_mb for device in found]
            made = _tritons(environs, memories_mb, "gpu", own, catalog, node)
    async with made as brought_up:
        try:
            await asyncio.gather(*(part.ready(READY_LIMIT_S) for part in brought_up.slices))
            yield brought_up
        finally:
            for part in brought_up.slices:
                await part.close()


@asynccontextmanager
async def _emulated(
    count: int, own: InvokerSettings, common: CommonSettings, catalog: Catalog
) -> AsyncIterator[SliceSet]:
    """Their profiled time is that of the whole function, so no CPU part is called."""
    with slice_directory() as directory, _cpu_parts(own, common, catalog) as emulated:
        process = EmulatedSlices(count, directory)
        async with _running([process]):
            yield SliceSet(
                slices=[
                    SliceClient(address, _shared_memory(directory, index, own))
                    for index, address in enumerate(process.addresses)
                ],
                memories_mb=_memories_mb([0] * count, own, catalog),
                processes={process: tuple(range(count))},
                emulated=emulated,
            )


@asynccontextmanager
async def _emulated_here(
    count: int, own: InvokerSettings, common: CommonSettings, catalog: Catalog, node: str
) -> AsyncIterator[SliceSet]:
    made = emulated_slices(node, count, own, common, catalog)
    try:
        with _cpu_parts(own, common, catalog) as emulated:
            yield SliceSet(
                slices=[
                    SliceClient(f"{node}/{index}", dial=_dialling(part))
                    for index, part in enumerate(made)
                ],
                memories_mb=_memories_mb([0] * count, own, catalog),
                emulated=emulated,
                here=True,
            )
    finally:
        for part in made:
            part.close()


def _cpu_parts(
    own: InvokerSettings, common: CommonSettings, catalog: Catalog
) -> closing[EmulatedCpuParts]:
    return closing(EmulatedCpuParts(catalog, emulated_durations(own, common, catalog)))


def _dialling(part: EmulatedSlice) -> Callable[[str], InProcessChannel]:
    return lambda address: InProcessChannel(part.handlers())


@asynccontextmanager
async def _remote(
    addresses: tuple[str, ...], own: InvokerSettings, common: CommonSettings, catalog: Catalog
) -> AsyncIterator[SliceSet]:
    """Those on this machine may share our memory, as containers of one pod do; if one does not,
    it says so when it is first asked to."""
    for address in addresses:
        check_calling(address, insecure=common.insecure)  # Triton speaks without TLS
    with slice_directory() as directory:
        yield SliceSet(
            slices=[
                SliceClient(
                    address,
                    _shared_memory(directory, index, own) if is_local(address) else None,
                )
                for index, address in enumerate(addresses)
            ],
            memories_mb=_memories_mb([0] * len(addresses), own, catalog),
            handlers=_handlers(catalog),
        )


@asynccontextmanager
async def _tritons(
    environs: list[dict[str, str]],
    memories_mb: list[int],
    variant: str,
    own: InvokerSettings,
    catalog: Catalog,
    node: str,
) -> AsyncIterator[SliceSet]:
    """A Triton server of our own for each slice."""
    triton = find_triton(own.triton)
    with slice_directory() as directory:
        lacking = assemble(directory.path / MODELS, catalog.functions.values(), variant)
        if len(lacking) == len(catalog.functions):
            raise Rejected(
                f"invoker.slices: nothing can run on them: {next(iter(lacking.values()))}"
            )
        for reason in lacking.values():
            log.warning("function cannot run here", extra=about(reason=reason))

        def refresh(function: str) -> str:
            if function not in catalog.functions:
                return f"{function} is not in the catalog of {node}"
            reason = link(directory.path / MODELS, catalog.functions[function], variant)
            if not reason:
                lacking.pop(function, None)
            return reason

        link_backends(triton, directory)
        logs = Path(own.slice_logs) if own.slice_logs else directory.path
        servers = [
            TritonServer(index, triton, directory, logs / f"{node}-slice{index}.log", environ)
            for index, environ in enumerate(environs)
        ]
        async with _running(servers):
            yield SliceSet(
                slices=[
                    SliceClient(server.addresses[0], _shared_memory(directory, index, own))
                    for index, server in enumerate(servers)
                ],
                memories_mb=_memories_mb(memories_mb, own, catalog),
                processes={server: (index,) for index, server in enumerate(servers)},
                handlers=_handlers(catalog),
                lacking=lacking,
                refresh=refresh,
            )


@asynccontextmanager
async def _running(processes: Sequence[SliceProcess]) -> AsyncIterator[None]:
    """Started at the same time, and all ended afterwards."""
    try:
        async with asyncio.TaskGroup() as group:
            for process in processes:
                group.create_task(process.start())
        yield
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    finally:
        await asyncio.gather(*(process.stop() for process in processes))


def _shared_memory(
    directory: SliceDirectory, index: int, own: InvokerSettings
) -> SharedMemory | None:
    if not directory.shared or not own.shared_memory_mb:
        return None
    return SharedMemory(directory.memory_name(index), own.shared_memory_mb * MB)


def _memories_mb(found: list[int], own: InvokerSettings, catalog: Catalog) -> tuple[int, ...]:
    """What the settings say, or what was found, or what the catalog says."""
    usual = catalog.slice_memory_mb
    return tuple(own.slice_memory_mb or memory_mb or usual for memory_mb in found)


def _handlers(catalog: Catalog) -> dict[str, str]:
    return {f.name: f.handler for f in catalog.functions.values() if f.handler}
