"""A node as its process has it: a name, a pool, a store, slices and a link to the controller.

A process has one node, or several with emulated slices (`esg up`). Each of those is to the
controller what it would be alone: it joins by itself, its link breaks and comes back by itself, and
what it makes goes to another one through Redis.
"""

import asyncio
import os
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass
from pathlib import Path

from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import USUAL
from esg.core.catalog.unplanned import real_name
from esg.core.messages.events import InvokerNews
from esg.core.messages.node import ModelLoaded
from esg.core.pool.pool import Pool
from esg.core.sessions.brought import Brought
from esg.errors import Rejected
from esg.files import memory_folder
from esg.invoker.controller_link import ControllerLink
from esg.invoker.handlers.handler import CpuParts, check_handler
from esg.invoker.metrics import NodeMetrics
from esg.invoker.node import Node
from esg.invoker.slices.bringup import slice_set
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.health import watch
from esg.invoker.tensors.job_parts import parted_functions
from esg.names import BETWEEN
from esg.runtime.logs import NODE
from esg.runtime.metrics_page import metrics_page
from esg.runtime.security.tls import Security
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.storage.local_store import LocalStore
from esg.storage.node_store import NodeStore
from esg.storage.redis_store import RedisStore
from esg.units import seconds


@dataclass(frozen=True, slots=True)
class HostedNode:
    node: Node
    link: ControllerLink
    watching: asyncio.Task[None]
    """Over its slices; ends only with an error."""
    context: Context
    """What is done for it is done in this context, so that logs can tell nodes apart."""


def hosted_names(own: InvokerSettings) -> list[str]:
    """The nodes of this process.

    >>> hosted_names(InvokerSettings(node="gpu7")), hosted_names(InvokerSettings(node="a,b"))
    (['gpu7'], ['a', 'b'])
    """
    names = [name.strip() for name in (own.node or socket.gethostname()).split(",")]
    for name in names:
        if not name or names.count(name) > 1:
            raise Rejected(f"invoker.node: {own.node!r}: every node has a name of its own")
        if len(names) > 1 and (BETWEEN in name or name.startswith(".")):
            raise Rejected(f"invoker.node: {name!r} is no name for a folder of its data")
    return names


@dataclass(frozen=True, slots=True)
class NodeHost:
    """What the nodes of a process have in common."""

    own: InvokerSettings
    common: CommonSettings
    catalog: Catalog
    functions: str
    """The digest of the catalog's functions."""
    security: Security
    remote: RedisStore
    names: list[str]

    @asynccontextmanager
    async def hosted(self, name: str) -> AsyncIterator[HostedNode]:
        """One of the nodes, ready to be attached; nothing of it is left afterwards."""
        own, alone = self.own, len(self.names) == 1
        vcpus = own.vcpus or len(os.sched_getaffinity(0))
        link = ControllerLink(own.controller, name, self.functions, self.security)
        memory_bytes = own.store_memory_mb * 2**20 // len(self.names)
        with _local_store(own, None if alone else name, memory_bytes) as local:
            number = self.names.index(name)
            async with slice_set(
                own, self.common, self.catalog, name, alone=alone, number=number
            ) as found:
                functions = [self.catalog.functions[name] for name in found.handlers]
                for function in functions:
                    check_handler(function.handler, function.cpu)
                pool = Pool(
                    self.catalog,
                    name,
                    vcpus=vcpus,
                    memories_mb=found.memories_mb,
                    kinds=found.kinds,
                    keep_alive_us=seconds(own.keep_alive_s),
                )
                metrics = NodeMetrics(pool, real_name(self.catalog, USUAL))

                def report(news: InvokerNews, brought: Brought) -> None:
                    if link.report(news, brought):
                        metrics.reported(news)

                cpu = CpuParts(
                    vcpus,
                    own.handler_timeout_s,
                    found.handlers.values(),
                    [f.handler for f in functions if f.cpu is CpuUse.WITHIN_JOB],
                )
                cpu.metrics.begin(found.handlers)
                began_ns = time.monotonic_ns()
                node = Node(
                    pool,
                    found.slices,
                    NodeStore(local, self.remote, name),
                    cpu,
                    own,
                    clock_us=lambda: (time.monotonic_ns() - began_ns) // 1000,
                    report=report,
                    handlers=found.handlers,
                    lacking=found.lacking,
                    refresh=found.refresh,
                    emulated=found.emulated,
                    parts=parted_functions(self.catalog, emulated=found.emulated is not None),
                )
                context = copy_context()
                context.run(NODE.set, "" if alone else name)
                watching = asyncio.create_task(
                    watch(found, node, own.slice_silent_s), context=context
                )
                try:
                    await _take_stock(node, found.slices, self.catalog)
                    pages = (metrics, cpu.metrics, self.remote.metrics)
                    async with metrics_page(self.common, self._metrics_port(name), *pages):
                        yield HostedNode(node, link, watching, context)
                finally:
                    watching.cancel()
                    await asyncio.wait({watching})
                    await node.close()
                    cpu.close()

    def _metrics_port(self, name: str) -> int:
        """A page for each: the first node's port was chosen, and the others have the next ones."""
        first = self.own.metrics_port
        return first + self.names.index(name) if first else 0


async def _take_stock(node: Node, slices: list[SliceClient], catalog: Catalog) -> None:
    """Models that are on the slices already, as when only the invoker was started again."""
    for index, part in enumerate(slices):
        for function in await part.resident():
            if function in catalog.functions:
                node.found(ModelLoaded(slice=index, function=function))


@contextmanager
def _local_store(own: InvokerSettings, part: str | None, memory_bytes: int) -> Iterator[LocalStore]:
    """The node's data; nothing of it is left when the process has ended. Nodes that share a
    directory have a part of it each."""
    folder = Path(own.store) if own.store else _private_folder()
    local = LocalStore(folder if part is None else folder / part, memory_bytes)
    local.clear()  # what an earlier process left
    try:
        yield local
    finally:
        local.clear()
        if not own.store:
            shutil.rmtree(folder, ignore_errors=True)


def _private_folder() -> Path:
    """In memory where that is possible."""
    return Path(tempfile.mkdtemp(prefix="esg-node-", dir=memory_folder()))
