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

from esg.core.catalog.model import Catalog
from esg.core.journal.format import functions_digest
from esg.core.messages.events import InvokerNews
from esg.core.messages.node import ModelLoaded
from esg.core.pool.pool import Pool
from esg.errors import Rejected
from esg.files import memory_folder
from esg.invoker.controller_link import ControllerLink
from esg.invoker.handlers.handler import CpuParts, check_handler
from esg.invoker.metrics import NodeMetrics
from esg.invoker.node import Node
from esg.invoker.slices.bringup import slice_set
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.health import watch
from esg.runtime.catalog import load
from esg.runtime.metrics_page import metrics_page
from esg.runtime.rpc.server import Server, run_service, say_ready
from esg.runtime.security.policy import between_services
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.runtime.settings_file import Settings
from esg.storage.local_store import LocalStore
from esg.storage.node_store import NodeStore
from esg.storage.redis_store import RedisStore
from esg.units import seconds

GOODBYE_LIMIT_S = 5.0


async def main(settings: Settings, common: CommonSettings, stop: asyncio.Event) -> None:
    own = settings.of(InvokerSettings)
    name = own.node or socket.gethostname()
    catalog = load(common)
    vcpus = own.vcpus or len(os.sched_getaffinity(0))
    security = between_services(common)
    link = ControllerLink(own.controller, name, functions_digest(catalog), security)
    async with (
        _store(own, common, name) as store,
        slice_set(own, common, catalog, name) as found,
    ):
        for handler in found.handlers.values():
            check_handler(handler)
        pool = Pool(
            catalog,
            name,
            vcpus=vcpus,
            memories_mb=found.memories_mb,
            keep_alive_us=seconds(own.keep_alive_s),
        )
        metrics = NodeMetrics(pool)

        def report(news: InvokerNews) -> None:
            if link.report(news):
                metrics.reported(news)

        cpu = CpuParts(vcpus, own.handler_timeout_s)
        cpu.metrics.begin(found.handlers)
        began_ns = time.monotonic_ns()
        node = Node(
            pool,
            found.slices,
            store,
            cpu,
            own,
            clock_us=lambda: (time.monotonic_ns() - began_ns) // 1000,
            report=report,
            handlers=found.handlers,
            lacking=found.lacking,
        )
        watching = asyncio.create_task(watch(found, node, own.slice_silent_s))
        try:
            await _take_stock(node, found.slices, catalog)
            server = Server(security=security)
            pages = (metrics, cpu.metrics, store.remote.metrics)
            async with metrics_page(common, own.metrics_port, *pages):
                await _serve(node, link, server, own, common, stop, watching)
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            await node.close()
            cpu.close()


async def _serve(
    node: Node,
    link: ControllerLink,
    server: Server,
    own: InvokerSettings,
    common: CommonSettings,
    stop: asyncio.Event,
    watching: asyncio.Task[None],
) -> None:
    """Work for the controller until told to stop; then finish, and leave."""
    port = await server.start(own.host, own.port, [])
    attached = asyncio.Event()
    attachment = asyncio.create_task(link.run(node, attached.set))
    stopping = asyncio.create_task(stop.wait())
    first = asyncio.create_task(attached.wait())
    ends: set[asyncio.Future[Any]] = {stopping, attachment, link.refused, watching}
    try:
        await asyncio.wait({first, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if attached.is_set():
            say_ready(f"{own.host}:{port}")
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if link.refused.done():
            raise Rejected(link.refused.result())
        if attachment.done():
            attachment.result()
        if watching.done():
            watching.result()  # it ends only with an error
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


async def _take_stock(node: Node, slices: list[SliceClient], catalog: Catalog) -> None:
    """Models that are on the slices already, as when only the invoker was started again."""
    for index, part in enumerate(slices):
        for function in await part.resident():
            if function in catalog.functions:
                node.found(ModelLoaded(slice=index, function=function))


@asynccontextmanager
async def _store(
    own: InvokerSettings, common: CommonSettings, name: str
) -> AsyncIterator[NodeStore]:
    """The node's data; nothing of it is left when the process has ended."""
    folder = Path(own.store) if own.store else _private_folder()
    local = LocalStore(folder)
    local.clear()  # what an earlier process left
    remote = RedisStore(common.redis_url, prefix=common.key_prefix, ttl_s=common.data_ttl_s)
    try:
        yield NodeStore(local, remote, name)
    finally:
        await remote.close()
        local.clear()
        if not own.store:
            shutil.rmtree(folder, ignore_errors=True)


def _private_folder() -> Path:
    """In memory where that is possible."""
    return Path(tempfile.mkdtemp(prefix="esg-node-", dir=memory_folder()))


if __name__ == "__main__":
    sys.exit(run_service("invoker", main))
