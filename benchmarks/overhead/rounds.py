"""The rounds: direct calls and every row of every mesh in turn, there and back again.

The machine's speed may change by a factor of two from minute to minute. So rounds are short, what
is compared is measured within the same round, and every second round goes the other way.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
from rich.console import Console
from rich.progress import track
from tritonclient.grpc import service_pb2 as triton
from tritonclient.grpc import service_pb2_grpc

from benchmarks.closed_loop import Call, Pids, Round, by_kind, closed_loop
from benchmarks.live import LiveMesh, started_mesh
from esg.client import AsyncClient
from esg.errors import Bug
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.directory import slice_directory
from esg.invoker.slices.processes import EmulatedSlices
from esg.invoker.tensors.arrays import plain_input
from esg.runtime.slice_setting import Emulated
from esg.tensors import behind_lengths

STAGES = 3
CLIENTS = 32
SMALL, LARGE = b"x" * 100, b"x" * 10**6
CALLS, LARGE_CALLS = "three calls to a slice", "three calls with 1 MB"
"""The references: what cannot be done without, by a client that does nothing else."""
OURS, BEFORE = "mesh", "before"
"""The meshes: this checkout's, and the other's that it is compared with."""


@dataclass(frozen=True, slots=True)
class Row:
    """Something to measure. `mesh` is empty for the references."""

    mesh: str
    what: str
    call: Call
    pids: Pids
    clients: int = 1


Rounds = dict[tuple[str, str], list[Round]]
"""By mesh and row, in the order of the rounds."""


async def measured(rows: list[Row], rounds: int, seconds: float) -> Rounds:
    found: Rounds = {(row.mesh, row.what): [] for row in rows}
    for number in track(range(rounds), "rounds", console=Console(stderr=True), transient=True):
        for row in rows if number % 2 == 0 else reversed(rows):
            one = await closed_loop(row.call, clients=row.clients, seconds=seconds, pids=row.pids)
            found[row.mesh, row.what].append(one)
    return found


@asynccontextmanager
async def all_rows(catalog: Path, slices: int, against: Path | None) -> AsyncIterator[list[Row]]:
    """Everything is started at once, and waits for its turn: idle processes cost next to nothing.

    The meshes' rows of one name are next to each other, so that their pairs are close in time.
    """
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(direct_rows())
        meshes = {OURS: stack.enter_context(started_mesh(catalog, slices=slices))}
        if against is not None:
            program = against / ".venv" / "bin" / "esg"
            other = started_mesh(catalog, slices=slices, esg=program, checkout=against)
            meshes[BEFORE] = stack.enter_context(other)
        each = [
            await stack.enter_async_context(mesh_rows(name, mesh)) for name, mesh in meshes.items()
        ]
        await _compare(each)
        inference = await stack.enter_async_context(inference_rows(OURS, meshes[OURS]))
        yield [*direct, *(row for same in zip(*each, strict=True) for row in same), *inference]


@asynccontextmanager
async def direct_rows() -> AsyncIterator[list[Row]]:
    """Three calls to a slice, one after the other."""
    names = [f"step{n}" for n in range(1, STAGES + 1)]
    with slice_directory() as directory:
        process = EmulatedSlices(Emulated("1"), directory)
        part = SliceClient((await process.start())[0])
        pids = {"slices": [process.pid], "client": [os.getpid()]}

        def three_calls(payload: bytes) -> Call:
            async def call() -> None:
                for name in names:
                    await part.infer(name, [plain_input([payload])], parameters={}, timeout_s=10)

            return call

        try:
            await part.ready(10)
            for name in names:
                await part.load(name)
            yield [
                Row("", CALLS, three_calls(SMALL), pids),
                Row("", LARGE_CALLS, three_calls(LARGE), pids),
            ]
        finally:
            await part.close()
            await process.stop()


@asynccontextmanager
async def mesh_rows(name: str, mesh: LiveMesh) -> AsyncIterator[list[Row]]:
    """The first row is the one whose results are compared."""
    pids = by_kind(mesh.processes)
    async with AsyncClient(mesh.gateway) as client, client.stream() as stream:

        def alone(payload: bytes) -> Callable[[], Awaitable[dict[str, bytes]]]:
            async def call() -> dict[str, bytes]:
                return (await client.submit("chain", payload)).raise_for_outcome().outputs

            return call

        async def streamed() -> None:
            (await stream.submit("chain", SMALL)).raise_for_outcome()

        yield [
            Row(name, "alone", alone(SMALL), pids),
            Row(name, "alone, on a stream", streamed, pids),
            Row(name, "32 clients", streamed, pids, CLIENTS),
            Row(name, "32 clients, unary", alone(SMALL), pids, CLIENTS),
            Row(name, "1 MB alone", alone(LARGE), pids),
        ]


@asynccontextmanager
async def inference_rows(name: str, mesh: LiveMesh) -> AsyncIterator[list[Row]]:
    """The door of the Open Inference Protocol, with calls like the unary ones of our own."""
    pids = by_kind(mesh.processes)
    async with grpc.aio.insecure_channel(mesh.gateway) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = triton.ModelInferRequest(model_name="chain")
        request.inputs.add(name="input", datatype="BYTES", shape=[1, 1])
        request.raw_input_contents.append(b"".join(behind_lengths([SMALL])))

        async def call() -> None:
            await stub.ModelInfer(request)

        yield [
            Row(name, "alone, OIP", call, pids),
            Row(name, "32 clients, OIP", call, pids, CLIENTS),
        ]


async def _compare(meshes: list[list[Row]]) -> None:
    """A mesh that gives something else is not faster: it is another one."""
    results = [await rows[0].call() for rows in meshes]
    if any(result != results[0] for result in results):
        raise Bug(f"the meshes' results differ: {results}")
