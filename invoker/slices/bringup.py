"""The slices of a node, brought up as its settings say."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import USUAL, layout_text
from esg.core.catalog.unplanned import real_name
from esg.errors import Rejected
from esg.invoker.emulated.cpu_parts import EmulatedCpuParts
from esg.invoker.emulated.in_process import InProcessChannel
from esg.invoker.emulated.service import EmulatedSlice
from esg.invoker.emulated.slices import emulated_durations, emulated_slices
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.directory import SliceDirectory, slice_directory
from esg.invoker.slices.gpus import Device, find_devices, out_of_reach, why_no_driver
from esg.invoker.slices.kinds import cpu_kinds, kinds_of_servers, memory_mb
from esg.invoker.slices.processes import EmulatedSlices, SliceProcess
from esg.invoker.slices.shm.transfer import SharedMemory
from esg.invoker.triton.install import find_triton
from esg.invoker.triton.model_repository import assemble, link
from esg.invoker.triton.server import MODELS, TritonServer, link_backends
from esg.runtime.logs import about
from esg.runtime.security.plain import check_calling, is_local
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.runtime.slice_setting import Addresses, Auto, Cpu, Emulated, Gpu, Mig, parse_slices

log = logging.getLogger(__name__)

READY_LIMIT_S = 60.0
MB = 2**20
THREADS = "OMP_NUM_THREADS"
"""A slice without a GPU is a share of the machine, not all of it. OpenMP, BLAS and PyTorch go by
this variable, and so do the networks of our own functions."""
NO_SPINNING = {"OMP_WAIT_POLICY": "passive"}
"""Threads of a slice that wait for each other leave their cores to others: spinning on a machine
that is busy, two of them would take many times as long as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSet:
    """Slices, each with its memory and kind, and the processes that have them, if they are ours.

    `handlers` names the CPU parts to be called, and `lacking` says why some functions cannot run.
    `refresh` looks again whether the model of one can be loaded, and if not, says why.
    With emulated slices no handler is called, and `emulated` has the CPU parts of tasks in phases.
    Slices that are in this process (`here`) end with it, and not before.
    """

    slices: list[SliceClient]
    memories_mb: tuple[int, ...]
    kinds: tuple[str, ...]
    """As configs have them: a usual slice has no name."""
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
    node = next(cluster.each())
    layout = layout_text(node.slices, catalog.kinds)
    log.warning(
        "slices are emulated: they take the profiled times, and answer with digests",
        extra=about(slices=layout, reason=why),
    )
    return replace(own, slices=str(Emulated(layout)), vcpus=own.vcpus or node.vcpus)


@asynccontextmanager
async def slice_set(
    own: InvokerSettings,
    common: CommonSettings,
    catalog: Catalog,
    node: str,
    *,
    alone: bool = True,
    number: int = 0,
) -> AsyncIterator[SliceSet]:
    """All slices, live; the processes that were started for them end afterwards. Those of a node
    that is not `alone` in this process are emulated here, too: a process for each node would cost
    more than all that they do. `number` says which of the nodes it is: they may have other slices
    in turn."""
    match parse_slices(own.slices):
        case Emulated() as wanted:
            kinds = wanted.kinds(catalog.kinds, number)
            if alone:
                made = _emulated(wanted.of(number), kinds, own, common, catalog)
            else:
                made = _emulated_here(kinds, own, common, catalog, node)
        case _ if not alone:
            raise Rejected(
                f"invoker.slices: {own.slices}: nodes that share a process have emulated slices; "
                "start a process for each, or say emulated:N"
            )
        case Addresses() as servers:
            made = _remote(servers, own, common, catalog)
        case Cpu() as wanted:
            threads = wanted.threads(number)
            found = [
                _Place({THREADS: str(count), **NO_SPINNING}, kind)
                for count, kind in zip(threads, cpu_kinds(threads, catalog), strict=True)
            ]
            made = _tritons(found, "cpu", own, catalog, node)
        case Mig() | Gpu() | Auto() as wanted:
            devices = find_devices(wanted)
            log.info("slices were found", extra=about(slices=[one.name for one in devices]))
            _tell_apart(devices, catalog)
            found = [
                _Place(
                    {"CUDA_VISIBLE_DEVICES": device.uuid},
                    catalog.kind_of(device.kinds),
                    device.memory_mb,
                )
                for device in devices
            ]
            made = _tritons(found, "gpu", own, catalog, node)
    async with made as brought_up:
        try:
            await asyncio.gather(*(part.ready(READY_LIMIT_S) for part in brought_up.slices))
            yield brought_up
        finally:
            for part in brought_up.slices:
                await part.close()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a Triton server of our own runs: the variables that confine it, and what is known of
    the slice that it is."""

    environ: dict[str, str]
    kind: str
    memory_mb: int = 0


def _tell_apart(devices: Sequence[Device], catalog: Catalog) -> None:
    """Say which slices of different devices are taken for the same."""
    for kind in dict.fromkeys(catalog.kind_of(device.kinds) for device in devices):
        names = {one.kinds[0] for one in devices if catalog.kind_of(one.kinds) == kind}
        if len(names) > 1 and catalog.kinds[USUAL].name:
            log.warning(
                "slices of different devices are taken for one kind, with the same times; to have "
                "them apart, measure with a catalog whose [kinds] have these names",
                extra=about(kind=real_name(catalog, kind), names=sorted(names)),
            )


@asynccontextmanager
async def _emulated(
    wanted: Emulated,
    kinds: tuple[str, ...],
    own: InvokerSettings,
    common: CommonSettings,
    catalog: Catalog,
) -> AsyncIterator[SliceSet]:
    """Their profiled time is that of the whole function, so no CPU part is called."""
    with slice_directory() as directory, _cpu_parts(own, common, catalog) as emulated:
        process = EmulatedSlices(wanted, directory)
        async with _running([process]):
            yield SliceSet(
                slices=[
                    SliceClient(address, _shared_memory(directory, index, own))
                    for index, address in enumerate(process.addresses)
                ],
                memories_mb=tuple(memory_mb(kind, own, catalog) for kind in kinds),
                kinds=kinds,
                processes={process: tuple(range(len(kinds)))},
                emulated=emulated,
            )


@asynccontextmanager
async def _emulated_here(
    kinds: tuple[str, ...],
    own: InvokerSettings,
    common: CommonSettings,
    catalog: Catalog,
    node: str,
) -> AsyncIterator[SliceSet]:
    made = emulated_slices(node, kinds, own, common, catalog)
    try:
        with _cpu_parts(own, common, catalog) as emulated:
            yield SliceSet(
                slices=[
                    SliceClient(f"{node}/{index}", dial=_dialling(part))
                    for index, part in enumerate(made)
                ],
                memories_mb=tuple(memory_mb(kind, own, catalog) for kind in kinds),
                kinds=kinds,
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
    servers: Addresses, own: InvokerSettings, common: CommonSettings, catalog: Catalog
) -> AsyncIterator[SliceSet]:
    """Those on this machine may share our memory, as containers of one pod do; if one does not,
    it says so when it is first asked to."""
    kinds = kinds_of_servers(servers, catalog)
    for address in servers.addresses:
        check_calling(address, insecure=common.insecure)  # Triton speaks without TLS
    with slice_directory() as directory:
        yield SliceSet(
            slices=[
                SliceClient(
                    address,
                    _shared_memory(directory, index, own) if is_local(address) else None,
                )
                for index, address in enumerate(servers.addresses)
            ],
            memories_mb=tuple(memory_mb(kind, own, catalog) for kind in kinds),
            kinds=kinds,
            handlers=_handlers(catalog),
        )


@asynccontextmanager
async def _tritons(
    places: list[_Place], variant: str, own: InvokerSettings, catalog: Catalog, node: str
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
            TritonServer(index, triton, directory, logs / f"{node}-slice{index}.log", place.environ)
            for index, place in enumerate(places)
        ]
        async with _running(servers):
            yield SliceSet(
                slices=[
                    SliceClient(server.addresses[0], _shared_memory(directory, index, own))
                    for index, server in enumerate(servers)
                ],
                memories_mb=tuple(
                    memory_mb(place.kind, own, catalog, place.memory_mb) for place in places
                ),
                kinds=tuple(place.kind for place in places),
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


def _handlers(catalog: Catalog) -> dict[str, str]:
    return {f.name: f.handler for f in catalog.functions.values() if f.handler}
