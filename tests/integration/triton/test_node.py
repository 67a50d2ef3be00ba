"""A node with two real slices and no controller: batches, models that come and go, memory."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_IMODE
from typing import TypeVar

import pytest
import pytest_asyncio

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.messages.commands import DropInstance
from esg.core.messages.events import InstanceReady, InvokerNews, TaskFinished
from esg.core.messages.task_order import JobOrder, Output, TaskOrder
from esg.core.pool.pool import Pool
from esg.files import MEMORY
from esg.invoker.handlers.handler import CpuParts
from esg.invoker.node import Node
from esg.invoker.slices.bringup import SliceSet, slice_set
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.storage.local_store import LocalStore
from esg.storage.node_store import NodeStore
from esg.storage.redis_store import RedisStore
from esg.units import ms
from tests.support.listening import tcp_ports
from tests.support.redis_server import RedisServer
from tests.support.triton_folders import inverted, write_functions
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

T = TypeVar("T")
LARGE = bytes(range(256)) * 4_000


@dataclass
class RealNode:
    node: Node
    found: SliceSet
    store: NodeStore
    news: list[InvokerNews] = field(default_factory=list)
    tasks: int = 0

    async def run(self, function: str, *payloads: bytes, slices: tuple[int, ...]) -> list[bytes]:
        """Run a task on these inputs; its outputs."""
        self.tasks += 1
        requests = [f"t{self.tasks}-r{number}" for number in range(len(payloads))]
        for request, payload in zip(requests, payloads, strict=True):
            await self.store.keep(request, "before", payload, local=True, publish=False)
        source = Output(stage="before", invoker="i0")
        self.node.order(
            TaskOrder(
                task=f"t{self.tasks}",
                invoker="i0",
                stage="stage",
                function=function,
                config=Config(len(payloads), 1, len(slices)),
                slices=slices,
                jobs=tuple(JobOrder(request=request, inputs=(source,)) for request in requests),
                keep=True,
                predicted_us=ms(100),
            )
        )
        finished = await self.tells(TaskFinished)
        assert finished.failed == ()
        return [bytes(self.store.local.get(request, "stage")) for request in requests]

    async def tells(self, kind: type[T]) -> T:
        """News of a kind, from now on."""
        known = len(self.news)
        await until(lambda: any(isinstance(event, kind) for event in self.news[known:]))
        return next(event for event in self.news[known:] if isinstance(event, kind))


@asynccontextmanager
async def real_node(catalog_file: Path, redis_url: str, folder: Path) -> AsyncIterator[RealNode]:
    own, common = InvokerSettings(slices="cpu:2"), CommonSettings(catalog=str(catalog_file))
    catalog = load_catalog(catalog_file)
    remote = RedisStore(redis_url, prefix="test", ttl_s=600)
    store = NodeStore(LocalStore(folder), remote, "i0")
    cpu = CpuParts(2, own.handler_timeout_s)
    async with slice_set(own, common, catalog, "i0") as found:
        pool = Pool(catalog, "i0", vcpus=2, memories_mb=found.memories_mb, kinds=found.kinds)
        news: list[InvokerNews] = []
        node = Node(
            pool,
            found.slices,
            store,
            cpu,
            own,
            clock_us=lambda: time.monotonic_ns() // 1000,
            report=lambda event, brought: news.append(event),
            handlers=found.handlers,
            lacking=found.lacking,
        )
        try:
            yield RealNode(node, found, store, news)
        finally:
            await node.close()
            cpu.close()
            await remote.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real(
    redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RealNode]:
    functions = write_functions(tmp_path_factory.mktemp("functions"))
    async with real_node(functions, redis_server.url, tmp_path_factory.mktemp("store")) as node:
        yield node


def regions() -> set[str]:
    """The shared memory of Triton servers that this user started."""
    return {file.name for file in MEMORY.glob("esg-slices-*")}


async def test_a_batch_over_two_slices_gives_the_same_bytes_as_over_one(real: RealNode) -> None:
    payloads = [bytes([number]) * 1000 + LARGE for number in range(4)]
    both = await real.run("invert", *payloads, slices=(0, 1))
    one = await real.run("invert", *payloads, slices=(0,))
    alone = [(await real.run("invert", payload, slices=(1,)))[0] for payload in payloads]
    assert both == one == alone == [inverted(payload) for payload in payloads]


async def test_jobs_of_different_sizes_are_one_task(real: RealNode) -> None:
    payloads = [b"short", b"a bit longer", b"small", LARGE]
    assert await real.run("invert", *payloads, slices=(0,)) == [inverted(p) for p in payloads]


async def test_a_model_that_was_unloaded_is_loaded_again_when_it_is_needed(real: RealNode) -> None:
    await real.run("join", b"x", slices=(1,))
    part = real.found.slices[1]
    assert "join" in await part.resident()
    real.node.order(DropInstance(invoker="i0", slice=1, function="join"))
    await until(lambda: "join" not in real.node.pool.slices[1].models)
    assert "join" not in await part.resident()
    known = len(real.news)
    assert await real.run("join", b"y", slices=(1,)) == [b"y"]
    (ready,) = [event for event in real.news[known:] if isinstance(event, InstanceReady)]
    assert (ready.slice, ready.function) == (1, "join")
    assert ready.loading_us > 0


async def test_node_leaves_nothing_in_shared_memory_when_it_ends(
    redis_url: str, functions: Path, tmp_path: Path
) -> None:
    async with real_node(functions, redis_url, tmp_path) as node:
        assert await node.run("invert", LARGE, slices=(0,)) == [inverted(LARGE)]
        name = await node.found.slices[0].name()
        token = name.rpartition("-")[0]
        assert {f"{token}", f"{name}-1"} <= regions()
        assert S_IMODE((MEMORY / token).stat().st_mode) == 0o700  # attack: G1
        assert [tcp_ports(process.pid) for process in node.found.processes] == [[], []]
    assert not any(left.startswith(token) for left in regions())
