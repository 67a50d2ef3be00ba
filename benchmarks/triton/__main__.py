"""What an invoker adds to a real Triton server on CPU, and what shared memory saves.

    .venv/bin/python -m benchmarks.triton [--seconds S] [--json]

One Triton server, one model that gives back what it gets and one that tells when it was called. The
reference, in the same run, is a direct call with `tritonclient`. Between an order and its report,
the invoker fetches the input from its local store, calls the slice and stores the output.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import tritonclient.grpc.aio as triton
import uvloop
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.triton.functions import write_functions
from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.messages.events import InvokerNews, TaskFailed, TaskFinished
from esg.core.messages.task_order import JobOrder, Output, TaskOrder
from esg.core.metrics import percentiles
from esg.core.pool.pool import Pool
from esg.invoker.handlers.handler import CpuParts
from esg.invoker.node import Node
from esg.invoker.slices.bringup import SliceSet, slice_set
from esg.invoker.slices.client import SliceClient
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.storage.local_store import LocalStore
from esg.storage.node_store import NodeStore
from esg.storage.redis_store import RedisStore

SMALL = 100
LARGE = 2_700_000
AIMS = {"invoker above a direct call": "< 1.5 ms"}
REFERENCES = {
    "2.7 MB in and out, over the wire": "12.8 ms",
    "2.7 MB in and out, shared memory": "2.5 ms",
}
"""As measured before there was any of this, by a client that does nothing else."""

Times = NDArray[np.float64]
Call = Callable[[], Awaitable[float | None]]


async def timed(call: Call, seconds: float) -> Times:
    """In ms: how long each of as many calls as fit took, unless the call itself says."""
    took: list[float] = []
    until = perf_counter() + seconds
    while perf_counter() < until or len(took) < 20:
        began = perf_counter()
        said = await call()
        took.append(1000 * (perf_counter() - began) if said is None else said)
    return np.array(took)


@dataclass
class Bench:
    """A node without a controller, and its only slice."""

    node: Node
    store: NodeStore
    found: SliceSet
    ended: asyncio.Queue[InvokerNews]
    tasks: int = 0
    took_ms: float = 0.0
    """By the latest task, from its order to the report."""

    async def task(self, function: str, payload: bytes) -> bytes:
        """From order to report, as a controller would have it; the output."""
        self.tasks += 1
        request = f"r{self.tasks}"
        self.store.local.put(request, "before", payload)
        began = perf_counter()
        self.node.order(
            TaskOrder(
                task=f"t{self.tasks}",
                invoker="i0",
                stage="stage",
                function=function,
                config=Config(1, 1, 1),
                slices=(0,),
                jobs=(JobOrder(request=request, inputs=(Output(stage="before", invoker="i0"),)),),
                keep=True,
                predicted_us=1000,
            )
        )
        while not isinstance(news := await self.ended.get(), TaskFinished):
            if isinstance(news, TaskFailed):
                raise RuntimeError(news.reason)
        if news.failed:
            raise RuntimeError(news.failed[0].reason)
        self.took_ms = 1000 * (perf_counter() - began)
        output = bytes(self.store.local.get(request, "stage"))
        await self.store.discard(request, results=True)
        return output


@asynccontextmanager
async def bench(folder: Path, **settings: int) -> AsyncIterator[Bench]:
    catalog_file = write_functions(folder)
    own = InvokerSettings(slices="cpu:1", **settings)  # type: ignore[arg-type]
    catalog = load_catalog(catalog_file)
    remote = RedisStore("redis://127.0.0.1:1/0", prefix="none", ttl_s=1)  # never called
    store = NodeStore(LocalStore(folder / "store"), remote, "i0")
    cpu = CpuParts(1, own.handler_timeout_s)
    common = CommonSettings(catalog=str(catalog_file))
    async with slice_set(own, common, catalog, "i0") as found:
        ended: asyncio.Queue[InvokerNews] = asyncio.Queue()
        node = Node(
            Pool(catalog, "i0", vcpus=1, memories_mb=found.memories_mb, kinds=found.kinds),
            found.slices,
            store,
            cpu,
            own,
            clock_us=lambda: time.monotonic_ns() // 1000,
            report=lambda news, brought: ended.put_nowait(news),
            handlers=found.handlers,
        )
        try:
            yield Bench(node, store, found, ended)
        finally:
            await node.close()
            cpu.close()
            await remote.close()


async def measure(seconds: float) -> dict[str, Times]:
    rows: dict[str, Times] = {}
    with TemporaryDirectory(dir="/dev/shm") as folder:
        async with bench(Path(folder)) as node:
            address = node.found.slices[0].address
            for function in ("echo", "handled", "clock"):
                await node.task(function, b"x" * SMALL)

            async def measured(what: str, call: Call) -> None:
                await timed(call, 0.2)
                rows[what] = await timed(call, seconds)

            await measured("direct call, tritonclient", _direct(address, SMALL))
            await measured("direct call, our stream", _over(SliceClient(address), SMALL))
            await measured("order to report, no handler", _ordered(node, "echo", SMALL))
            await measured("order to report, handler", _ordered(node, "handled", SMALL))
            await measured("order to first byte at the slice", _until_called(node))
            await measured("2.7 MB in and out, tritonclient", _direct(address, LARGE))
            await measured("2.7 MB in and out, over the wire", _over(SliceClient(address), LARGE))
            await measured("2.7 MB in and out, shared memory", _over(node.found.slices[0], LARGE))
            await measured("2.7 MB order to report, handler", _ordered(node, "handled", LARGE))
    return rows


def _direct(address: str, size: int) -> Call:
    """With NVIDIA's client."""
    client = triton.InferenceServerClient(address)
    tensor = triton.InferInput("X", [1, size], "UINT8")
    tensor.set_data_from_numpy(np.zeros((1, size), np.uint8))

    async def call() -> None:
        await client.infer("handled", [tensor])

    return call


def _over(part: SliceClient, size: int) -> Call:
    jobs = [{"X": np.zeros(size, np.uint8)}]

    async def call() -> None:
        await part.infer("handled", jobs, parameters={}, timeout_s=60)

    return call


def _ordered(node: Bench, function: str, size: int) -> Call:
    payload = b"x" * size

    async def call() -> float:
        await node.task(function, payload)
        return node.took_ms

    return call


def _until_called(node: Bench) -> Call:
    """The model tells the time at which it was called; both clocks are the machine's."""

    async def call() -> float:
        began_ns = time.monotonic_ns()
        called_ns = int(await node.task("clock", b"x"))
        return (called_ns - began_ns) / 1e6

    return call


def show(rows: dict[str, Times]) -> None:
    table = Table(title="an invoker and a real Triton server on CPU")
    for column in ("what", "p50 ms", "p99 ms", "calls", "reference or aim"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for what, took in rows.items():
        p50, p99 = percentiles(took.tolist(), 50, 99)
        table.add_row(what, f"{p50:.2f}", f"{p99:.2f}", str(len(took)), REFERENCES.get(what, ""))
    for what, over in above(rows).items():
        table.add_row(what, f"{over:.2f}", "", "", AIMS.get(what, ""))
    Console().print(table)


def above(rows: dict[str, Times]) -> dict[str, float]:
    """What the invoker adds, at the median."""
    median = {what: float(np.median(took)) for what, took in rows.items()}
    direct = median["direct call, tritonclient"]
    return {
        "invoker above a direct call": median["order to report, no handler"] - direct,
        "invoker with a handler above it": median["order to report, handler"] - direct,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.triton", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="per row")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    chosen = parser.parse_args()
    rows = uvloop.run(measure(chosen.seconds))
    if chosen.json:
        medians = {what: float(np.median(took)) for what, took in rows.items()}
        print(json.dumps({"p50_ms": medians, "above_ms": above(rows)}, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
