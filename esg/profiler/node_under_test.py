"""A node on the bench: a real one, with all its processes, that does one task at a time.

Redis and the invoker are the processes that `esg up` would start, with the slices it would have.
The controller is missing: in its place there is a door that lets the node in and gives it the
orders that somebody wants to see carried out. So what is measured is what a task really takes:
fetching its inputs, its CPU part, its portions on the slices, keeping its outputs.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from esg.core.catalog.config import Config
from esg.core.catalog.phases import Phases
from esg.core.messages.commands import DiscardData, DropInstance
from esg.core.messages.events import InvokerJoined, TaskFailed, TaskFinished
from esg.core.messages.task_order import JobOrder, Output, TaskOrder
from esg.errors import Fault
from esg.local.health import check_redis
from esg.local.options import Chosen, MeshOptions
from esg.local.process import Process, Program
from esg.local.procfs import ProcessInfo, in_session
from esg.local.programs import Programs
from esg.local.run_directory import RunDirectory
from esg.profiler.single_node_controller import Door
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.rpc.server import Server
from esg.storage.local_store import LocalStore

START_LIMIT_S = 300.0
STOP_LIMIT_S = 30.0
POLL_S = 0.02
HOST = "127.0.0.1"
SERVER = "tritonserver"
_GRPC_ADDRESS = re.compile(r"--grpc-address=([^\0]+)\0--grpc-port=([0-9]+)\0")

Inputs = Sequence[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Ran:
    """A task that went well: until its slices had the model, from then on, and what it made.

    `phases` are those of a task in phases, without what it waited for vCPUs and slices; all the
    time of one that says nothing of them counts as spent on the slices.
    """

    loading_us: int
    running_us: int
    phases: Phases
    outputs: list[bytes]

    @staticmethod
    def of(end: TaskFinished, outputs: list[bytes]) -> "Ran":
        phases = Phases(0, end.running_us, 0) if end.phases is None else end.phases
        return Ran(end.loading_us, end.running_us, phases, outputs)


class Failed(Fault):
    """A task that gave no results."""


class Bench:
    """The node is there from `__aenter__` to `__aexit__`; `inventory` is what it has.

    `interrupted` is called when somebody does not want to wait for the end of what is measured.
    """

    inventory: InvokerJoined

    def __init__(
        self, options: MeshOptions, directory: Path, interrupted: Callable[[], None] = lambda: None
    ) -> None:
        self._directory = RunDirectory(directory)
        self._chosen = Chosen(_for_profiling(options))
        self._interrupted = interrupted
        self._programs = Programs(self._chosen, self._directory)
        self.node = self._programs.nodes[0]
        self._server = Server()
        self._door = Door()
        self._processes: list[Process] = []
        self._ended = asyncio.Event()
        self._numbers = count(1)

    async def __aenter__(self) -> Self:
        self._directory.claim()
        try:
            await self._start_all()
        except BaseException as error:
            await self._stop_all(error)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop_all(error)

    @property
    def slices(self) -> int:
        return len(self.inventory.slices)

    @property
    def kinds(self) -> list[str]:
        """Of each slice."""
        return [part.kind for part in self.inventory.slices]

    async def run(
        self,
        function: str,
        config: Config,
        rows: Sequence[Inputs],
        slices: Sequence[int] = (),
        *,
        phased: bool = False,
    ) -> Ran:
        """One task, a row of inputs per job; if it gives no results, `Failed` says why.

        Inputs are where those of a later stage are: in the node's own store.
        """
        number = next(self._numbers)
        jobs = [self._job(f"profile-{number}-{n}", row) for n, row in enumerate(rows)]
        order = TaskOrder(
            task=f"t{number}",
            invoker=self.node,
            stage=function,
            function=function,
            config=config,
            slices=tuple(slices or self._of_kind(config)),
            jobs=tuple(jobs),
            keep=True,
            predicted_us=0,
            phased=phased,
        )
        try:
            end = await self._or_the_end_of_the_node(self._door.end_of(order))
            if isinstance(end, TaskFailed):
                raise Failed(end.reason)
            if end.failed:
                raise Failed(end.failed[0].reason)
            outputs = [bytes(self._store.get(job.request, function)) for job in jobs]
            return Ran.of(end, outputs)
        finally:
            for job in jobs:
                self._door.order(DiscardData(invoker=self.node, request=job.request))

    def _of_kind(self, config: Config) -> list[int]:
        found = [index for index, kind in enumerate(self.kinds) if kind == config.kind]
        return found[: config.vgpus]

    def drop(self, function: str) -> None:
        """Have a function's model unloaded everywhere."""
        for index in range(self.slices):
            self._door.order(DropInstance(invoker=self.node, slice=index, function=function))

    def memory_bytes(self, name: str) -> int:
        """What the node's processes of this name hold."""
        return sum(seen.memory_bytes for seen in self._processes_named(name))

    def own_tritons(self) -> list[str]:
        """The addresses of the Triton servers that the node has started."""
        found = []
        for seen in self._processes_named(SERVER):
            with suppress(OSError):
                said = Path(f"/proc/{seen.pid}/cmdline").read_text("utf-8", "replace")
                found += [f"{host}:{port}" for host, port in _GRPC_ADDRESS.findall(said)]
        return found

    def _processes_named(self, name: str) -> list[ProcessInfo]:
        session = self._processes[-1].pid
        return [seen for seen in in_session(session) if name in _program_of(seen.pid)]

    def _job(self, request: str, row: Inputs) -> JobOrder:
        inputs = []
        for number, content in enumerate(row):
            stage = f"input{number}"
            self._store.put(request, stage, content)
            inputs.append(Output(stage=stage, invoker=self.node))
        return JobOrder(request=request, inputs=tuple(inputs))

    async def _start_all(self) -> None:
        wire_grpc.add_ControllerServicer_to_server(self._door, self._server.grpc)
        port = await self._server.start(HOST, 0, [])
        try:
            async with asyncio.timeout(START_LIMIT_S):
                if self._programs.has_own_redis:
                    await self._start(self._programs.redis())
                else:
                    await check_redis(self._programs.redis_url)
                await self._start(self._programs.node(self.node, f"{HOST}:{port}"))
                self.inventory = await self._door.joined
        except TimeoutError:
            slow = self._processes[-1]
            raise Fault(
                f"{slow.name}: not ready after {START_LIMIT_S:g} s; the end of its log:\n"
                f"{slow.tail()}"
            ) from None
        self._store = LocalStore(self._directory.scratch / self.node, memory_bytes=0)

    async def _start(self, program: Program) -> None:
        process = Process(program, lambda _: self._ended.set())
        self._processes.append(process)
        while not await process.is_ready():  # noqa: ASYNC110 - it has to be asked
            await asyncio.sleep(POLL_S)

    async def _or_the_end_of_the_node(self, awaited: Any) -> Any:
        """A task's end, unless the process that should tell of it ends first."""
        doing = asyncio.ensure_future(awaited)
        ending = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            dead = next(process for process in self._processes if process.exit_code is not None)
            raise Fault(f"{dead.name} {dead.end_text()}; the end of its log:\n{dead.tail()}")
        finally:
            for task in (doing, ending):
                task.cancel()

    async def _stop_all(self, reason: BaseException | None) -> None:
        if isinstance(reason, asyncio.CancelledError):
            self._interrupted()
        for process in reversed(self._processes):
            with suppress(Fault):
                await process.stop(STOP_LIMIT_S)
        await self._server.stop(0)
        self._directory.release()


def _for_profiling(options: MeshOptions) -> MeshOptions:
    """All outputs are files, which are read here. And what a node has under way when it is told to
    stop, such as loading a model, is of no use to anybody any more."""
    common = {**options.more.get("common", {}), "drain_s": 0}
    invoker = {**options.more.get("invoker", {}), "store_memory_mb": 0}
    return replace(options, more={**options.more, "common": common, "invoker": invoker})


def _program_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    return ""
