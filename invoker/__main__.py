"""`python -m invoker`: one worker node as a process."""

import asyncio
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from esg.catalog import Catalog
from esg.errors import Fault, Rejected
from esg.pool import Pool
from esg.pool_messages import ModelLoaded
from esg.units import seconds
from invoker.cpu import CpuParts, check_handler
from invoker.link import ControllerLink
from invoker.node import Node
from invoker.slice_processes import Emulated, parse_slices, start_emulated
from invoker.slices import Slice
from mesh.catalog import functions_digest, load
from mesh.security import between_services
from mesh.security_plain import check_calling
from mesh.serving import Server, run_service, say_ready
from mesh.settings import CommonSettings, InvokerSettings, Settings
from storage.local import LocalStore
from storage.node import NodeStore
from storage.remote import RemoteStore

READY_LIMIT_S = 60.0
GOODBYE_LIMIT_S = 5.0


async def main(settings: Settings, common: CommonSettings, stop: asyncio.Event) -> None:
    own = settings.of(InvokerSettings)
    name = own.node or socket.gethostname()
    catalog = load(common)
    for function in catalog.functions.values():
        if function.handler:
            check_handler(function.handler)
    vcpus = own.vcpus or len(os.sched_getaffinity(0))
    security = between_services(common)
    link = ControllerLink(own.controller, name, functions_digest(catalog), security)
    async with _store(own, common, name) as store, _slices(own, common) as (slices, slices_ended):
        pool = _pool(catalog, own, name, vcpus, len(slices))
        cpu = CpuParts(vcpus)
        began_ns = time.monotonic_ns()
        node = Node(
            catalog,
            pool,
            slices,
            store,
            cpu,
            own,
            clock_us=lambda: (time.monotonic_ns() - began_ns) // 1000,
            report=link.report,
        )
        try:
            await _take_stock(node, slices, catalog)
            server = Server(security=security)
            await _serve(node, link, server, own, common, stop, slices_ended)
        finally:
            await node.close()
            cpu.close()


async def _serve(
    node: Node,
    link: ControllerLink,
    server: Server,
    own: InvokerSettings,
    common: CommonSettings,
    stop: asyncio.Event,
    slices_ended: asyncio.Future[int],
) -> None:
    """Work for the controller until told to stop; then finish, and leave."""
    port = await server.start(own.host, own.port, [])
    attached = asyncio.Event()
    attachment = asyncio.create_task(link.run(node, attached.set))
    stopping = asyncio.create_task(stop.wait())
    first = asyncio.create_task(attached.wait())
    ends: set[asyncio.Future[Any]] = {stopping, attachment, link.refused, slices_ended}
    try:
        await asyncio.wait({first, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if attached.is_set():
            say_ready(f"{own.host}:{port}")
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if link.refused.done():
            raise Rejected(link.refused.result())
        if attachment.done():
            attachment.result()
        if slices_ended.done():
            # Lost is better than useless: its tasks are then done elsewhere
            raise Fault(f"the emulated slices ended with code {slices_ended.result()}")
        await server.drain()
        link.say_leaving()
        with suppress(TimeoutError):
            await asyncio.wait_for(node.finish(), common.drain_s)
        link.leave()
        with suppress(TimeoutError):
            await asyncio.wait_for(attachment, GOODBYE_LIMIT_S)
    finally:
        for task in (attachment, stopping, first):
            task.cancel()
        await server.stop(0)


async def _take_stock(node: Node, slices: list[Slice], catalog: Catalog) -> None:
    """Models that are on the slices already, as when only the invoker was started again."""
    await asyncio.gather(*(part.ready(READY_LIMIT_S) for part in slices))
    for index, part in enumerate(slices):
        for function in await part.resident():
            if function in catalog.functions:
                node.found(ModelLoaded(slice=index, function=function))


def _pool(catalog: Catalog, own: InvokerSettings, name: str, vcpus: int, slices: int) -> Pool:
    memory_mb = own.slice_memory_mb or catalog.cluster.slice_memory_mb
    return Pool(
        catalog,
        name,
        vcpus=vcpus,
        memories_mb=(memory_mb,) * slices,
        keep_alive_us=seconds(own.keep_alive_s),
    )


@asynccontextmanager
async def _store(
    own: InvokerSettings, common: CommonSettings, name: str
) -> AsyncIterator[NodeStore]:
    """The node's data; nothing of it is left when the process has ended."""
    folder = Path(own.store) if own.store else _private_folder()
    local = LocalStore(folder)
    local.clear()  # what an earlier process left
    remote = RemoteStore(common.redis_url, prefix=common.key_prefix, ttl_s=common.data_ttl_s)
    try:
        yield NodeStore(local, remote, name)
    finally:
        await remote.close()
        local.clear()
        if not own.store:
            shutil.rmtree(folder, ignore_errors=True)


def _private_folder() -> Path:
    """In memory where that is possible."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="esg-node-", dir=parent))


@asynccontextmanager
async def _slices(
    own: InvokerSettings, common: CommonSettings
) -> AsyncIterator[tuple[list[Slice], asyncio.Future[int]]]:
    """Connections to the slices, and the end of the process behind those that this node starts."""
    wanted = parse_slices(own.slices)
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    process = None
    if isinstance(wanted, Emulated):
        process = await start_emulated(wanted.count)
        ended = asyncio.create_task(process.ended())
        addresses = process.addresses
    else:
        addresses = wanted.addresses
        for address in addresses:
            check_calling(address, insecure=common.insecure)  # Triton speaks without TLS
    slices = [Slice(address) for address in addresses]
    try:
        yield slices, ended
    finally:
        ended.cancel()
        for part in slices:
            await part.close()
        if process is not None:
            await process.stop()


if __name__ == "__main__":
    sys.exit(run_service("invoker", main))
