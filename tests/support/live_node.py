"""A node with everything real but its controller: Redis, files, and emulated slices.

The slices are servers in this very process. Their models:

    quick    1 ms for a batch, whatever its config
    wrapped  the same, with a CPU part
    failing  the same, with one that does what it is told
    gated    the same, with one that goes on when it is let
    parted   4 ms for a batch, of which 2 are a CPU part before, and 1 is one after
    other    the same
    large    more than a slice has, though the node believes otherwise
    endless  a job takes half an hour
    heavy    takes half an hour to load
    absent   has no model here
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace
from redis import Redis

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog, Function
from esg.core.catalog.phases import Phases
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import all_alike
from esg.core.durations import Durations, DurationSettings
from esg.core.emulated_output import emulated_output, output_size
from esg.core.messages.events import InvokerNews
from esg.core.messages.task_order import Input, JobOrder, Payload, TaskOrder
from esg.core.pool.pool import Pool
from esg.core.sessions.brought import Brought
from esg.invoker.emulated.cpu_parts import EmulatedCpuParts
from esg.invoker.emulated.repository import Repository
from esg.invoker.emulated.service import EmulatedSlice
from esg.invoker.handlers.handler import CpuParts
from esg.invoker.node import Node
from esg.invoker.slices.client import SliceClient
from esg.runtime.rpc.server import Server
from esg.runtime.settings import InvokerSettings
from esg.storage.local_store import LocalStore
from esg.storage.node_store import NodeStore
from esg.storage.redis_store import RedisStore
from esg.storage.retrying import RETRY_TIMEOUT_S
from esg.units import ms, seconds
from tests.support.waiting import LIMIT_S, until

T = TypeVar("T")

NODE = "i0"
VCPUS = 4
LONG_US = seconds(1800)
CONFIGS = [Config(1, 1, 1), Config(2, 1, 1), Config(2, 1, 2), Config(3, 1, 1)]
CONFIGS += [Config(4, 1, 2), Config(5, 2, 2)]


def _function(
    name: str,
    *,
    job_us: int | Phases = 1_000,
    load_us: int = 0,
    memory_mb: int = 300,
    handler: str = "",
) -> Function:
    return Function(
        name=name,
        profile=Profile.of(name, dict.fromkeys(CONFIGS, job_us), Prices()),
        cold_start_us=load_us,
        input_bytes=1000,
        memory_mb=memory_mb,
        handler=handler,
    )


FUNCTIONS = (
    _function("quick"),
    _function("wrapped", job_us=Phases(250, 500, 250), handler="tests.support.handlers:Wrap"),
    _function("failing", handler="tests.support.handlers:Failing"),
    _function("gated", handler="tests.support.handlers:Gated"),
    _function("parted", job_us=Phases(ms(2), ms(1), ms(1))),
    _function("other"),
    _function("large", memory_mb=1001),
    _function("endless", job_us=LONG_US),
    _function("heavy", load_us=LONG_US),
    _function("absent"),
)
CATALOG = Catalog(
    functions={function.name: function for function in FUNCTIONS},
    applications={},
    cluster=Cluster.alike(nodes=1, vcpus=VCPUS, vgpus=2),
    kinds=all_alike(1000),
    prices=Prices(),
)
BELIEVED_MB = 1100
DURATIONS = Durations(CATALOG, 0, DurationSettings(noise=0, unload_us=ms(5)))
LACKING = {"absent": "absent has no folder"}


def output_of(function: str, *inputs: bytes) -> bytes:
    size = output_size(CATALOG.functions[function].input_bytes, 1.0)
    return emulated_output(function, inputs, size)


def start(
    task: str,
    function: str,
    *jobs: JobOrder,
    slices: Sequence[int] = (0,),
    stage: str = "stage",
    vcpus: int = 1,
    publish: bool = False,
) -> TaskOrder:
    """With `publish` it is one of a last stage."""
    return TaskOrder(
        task=task,
        invoker=NODE,
        stage=stage,
        function=function,
        config=Config(len(jobs), vcpus, len(slices)),
        slices=tuple(slices),
        jobs=tuple(replace(job, publish=publish) for job in jobs),
        keep=not publish,
        predicted_us=ms(1),
    )


def job(request: str, *inputs: Input) -> JobOrder:
    """One that reads the request's payload, unless it is told otherwise."""
    return JobOrder(request=request, inputs=inputs or (Payload(),))


@dataclass
class EmulatedServer:
    """One slice: the models it has, where it is, and how to end it."""

    part: EmulatedSlice
    repository: Repository
    address: str
    stop: Callable[[], Awaitable[None]]

    @property
    def busy(self) -> bool:
        """Whether a call is being run."""
        return self.part._turn.locked()

    def rows_of(self, function: str) -> list[int]:
        """The sizes of all portions that it has run."""
        return sorted(self.repository.models[function].statistics.compute)

    def given_up(self, function: str) -> int:
        """How many calls were broken off."""
        return self.repository.models[function].statistics.fail.count


@dataclass
class LiveNode:
    node: Node
    store: NodeStore
    servers: list[EmulatedServer]
    folder: Path
    redis: Redis
    news: list[InvokerNews] = field(default_factory=list)
    brought: dict[str, bytes] = field(default_factory=dict)
    """Results that came along with the news, by request."""

    @property
    def pool(self) -> Pool:
        return self.node.pool

    def told(self, kind: type[T]) -> list[T]:
        return [event for event in self.news if isinstance(event, kind)]

    async def tells(self, kind: type[T], count: int = 1) -> T:
        """Wait for news of a kind; the latest of them."""
        await until(lambda: len(self.told(kind)) >= count)
        return self.told(kind)[-1]

    async def payload(self, request: str, content: bytes) -> None:
        """Put it where the gateway would."""
        await self.store.remote.put(request, "", content)

    def keys(self) -> list[str]:
        """What is in Redis, apart from payloads."""
        found = sorted(key.decode() for key in self.redis.scan_iter("*"))
        return [key for key in found if not key.endswith("/")]

    def files(self) -> list[str]:
        """What is on disk."""
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if path.is_file()
        )

    @property
    def idle(self) -> bool:
        """Nothing runs, and everything is free."""
        return (
            not self.pool.running
            and self.pool.vcpus_free == VCPUS
            and not any(part.holder for part in self.pool.slices)
        )


@asynccontextmanager
async def emulated_server(index: int, port: int = 0) -> AsyncIterator[EmulatedServer]:
    repository = Repository(
        CATALOG.functions,
        memory_mb=CATALOG.slice_memory_mb,
        load_us=lambda function: DURATIONS.load_us(NODE, index, function),
        unload_us=DURATIONS.settings.unload_us,
    )
    part = EmulatedSlice(f"{NODE}/{index}", repository, DURATIONS, 1.0)
    server = Server()
    server.grpc.add_generic_rpc_handlers((part.handlers(),))
    port = await server.start("127.0.0.1", port, [])
    try:
        yield EmulatedServer(part, repository, f"127.0.0.1:{port}", lambda: server.stop(0))
    finally:
        await server.stop(0)
        part.close()


@asynccontextmanager
async def live_node(
    redis_url: str,
    folder: Path,
    make_remote: Callable[..., RedisStore] = RedisStore,
    report: Callable[[InvokerNews, Brought], object] = lambda news, brought: None,
    patience_s: float = RETRY_TIMEOUT_S,
    **settings: Any,
) -> AsyncIterator[LiveNode]:
    """Everything that the node tells is kept, and told to `report` as well."""
    own = InvokerSettings(**{"fetch_timeout_s": 20.0, **settings})
    remote = make_remote(redis_url, prefix="test", ttl_s=600)
    store = NodeStore(LocalStore(folder, 0), remote, NODE, patience_s=patience_s)
    cpu = CpuParts(VCPUS, own.handler_timeout_s)
    pool = Pool(
        CATALOG,
        NODE,
        vcpus=VCPUS,
        memories_mb=(BELIEVED_MB,) * 2,
        keep_alive_us=seconds(own.keep_alive_s),
    )
    emulated = EmulatedCpuParts(CATALOG, DURATIONS)
    async with emulated_server(0) as first, emulated_server(1) as second:
        servers = [first, second]
        slices = [SliceClient(server.address) for server in servers]
        with Redis.from_url(redis_url, socket_timeout=LIMIT_S) as redis:
            news: list[InvokerNews] = []

            brought: dict[str, bytes] = {}

            def tell(event: InvokerNews, along: Brought) -> None:
                news.append(event)
                brought.update(along)
                report(event, along)

            node = Node(
                pool,
                slices,
                store,
                cpu,
                own,
                clock_us=lambda: time.monotonic_ns() // 1000,
                report=tell,
                handlers={f.name: f.handler for f in FUNCTIONS if f.handler},
                lacking=LACKING,
                emulated=emulated,
            )
            try:
                yield LiveNode(node, store, servers, folder, redis, news, brought)
            finally:
                await node.close()
                cpu.close()
                emulated.close()
                for part in slices:
                    await part.close()
                await remote.close()
