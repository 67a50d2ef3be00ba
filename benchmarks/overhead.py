"""What the mesh adds: pipelines of three stages that take no time, through real processes.

    .venv/bin/python -m benchmarks.overhead [--seconds S] [--slices N] [--json]

Client, gateway, controller, invoker, slices and Redis are processes of their own, on loopback. The
reference, in the same run, is what cannot be done without: three calls to a slice, one after the
other, by a client that does nothing else.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.live import Usage, no_op_catalog, usages
from esg.client import AsyncClient
from esg.core.metrics import percentiles
from esg.invoker.slices.client import SliceClient
from esg.invoker.slices.directory import slice_directory
from esg.invoker.slices.processes import EmulatedSlices
from esg.invoker.tensors.arrays import plain_input
from esg.local.supervisor import Mesh, MeshOptions
from esg.runtime.settings_file import environment

STAGES = 3
CLIENTS = 32
MEGABYTE = 10**6
AIMS = {"alone": "4 ms", "32 clients": "1000/s", "1 MB alone": "6 ms"}


async def timed(call: Callable[[], Awaitable[object]], seconds: float) -> list[float]:
    """How long each of as many calls as fit took, one after the other."""
    took: list[float] = []
    until = perf_counter() + seconds
    while perf_counter() < until:
        began = perf_counter()
        await call()
        took.append(perf_counter() - began)
    return took


async def crowd(call: Callable[[], Awaitable[object]], seconds: float) -> list[float]:
    """The same by many clients at once."""
    runs = await asyncio.gather(*(timed(call, seconds) for _ in range(CLIENTS)))
    return [one for run in runs for one in run]


def row(what: str, took: list[float], seconds: float, **more: Any) -> dict[str, Any]:
    p50, p99 = (1000 * one for one in percentiles(took, 50, 99))
    return {
        "what": what,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "per_s": len(took) / seconds,
        "aim": AIMS.get(what, ""),
        **more,
    }


async def reference(seconds: float, size: int, what: str) -> dict[str, Any]:
    """Three calls to a slice, and nothing else."""
    names = [f"step{n}" for n in range(1, STAGES + 1)]
    payload = b"x" * size
    with slice_directory() as directory:
        process = EmulatedSlices(1, directory)
        part = SliceClient((await process.start())[0])
        try:
            await part.ready(10)
            for name in names:
                await part.load(name)

            async def three_calls() -> None:
                for name in names:
                    await part.infer(name, [plain_input([payload])], parameters={}, timeout_s=10)

            await timed(three_calls, 0.3)
            return row(what, await timed(three_calls, seconds), seconds)
        finally:
            await part.close()
            await process.stop()


async def measure(seconds: float, slices: int) -> list[dict[str, Any]]:
    rows = [
        await reference(seconds, 100, "three calls to a slice"),
        await reference(seconds, MEGABYTE, "three calls with 1 MB"),
    ]
    options = MeshOptions(nodes=1, vgpus=slices, warm_start=True, log_level="warning")
    async with (
        Mesh(options) as mesh,
        AsyncClient(mesh.gateway) as client,
        client.stream() as stream,
    ):
        small, large = b"x" * 100, b"x" * MEGABYTE

        async def alone() -> None:
            await client.submit("chain", small)

        async def streamed() -> None:
            await stream.submit("chain", small)

        async def alone_large() -> None:
            await client.submit("chain", large)

        async def measured(
            what: str,
            call: Callable[[], Awaitable[None]],
            how: Callable[[Callable[[], Awaitable[object]], float], Awaitable[list[float]]],
        ) -> None:
            await how(call, 0.5)
            before = usages(mesh.processes)
            took = await how(call, seconds)
            rows.append(
                row(what, took, seconds, cpu_ms=_cpu_ms(before, usages(mesh.processes), len(took)))
            )

        await measured("alone", alone, timed)
        await measured("alone, on a stream", streamed, timed)
        await measured("32 clients", streamed, crowd)
        await measured("32 clients, unary", alone, crowd)
        await measured("1 MB alone", alone_large, timed)
    return rows


def _cpu_ms(before: dict[str, Usage], after: dict[str, Usage], requests: int) -> dict[str, float]:
    return {kind: 1000 * (after[kind].cpu_s - before[kind].cpu_s) / requests for kind in after}


def show(rows: list[dict[str, Any]]) -> None:
    """In two tables, because one would be wider than a terminal."""
    screen = Console()
    floors = {False: rows[0]["p50_ms"], True: rows[1]["p50_ms"]}
    times = Table(title="Three stages that take no time")
    times.add_column("what", no_wrap=True)
    for heading in ("p50 ms", "p99 ms", "per s", "aim", "x the calls"):
        times.add_column(heading, justify="right", no_wrap=True)
    for r in rows:
        ratio = r["p50_ms"] / floors["1 MB" in r["what"]]
        figures = (f"{r['p50_ms']:.2f}", f"{r['p99_ms']:.2f}", f"{r['per_s']:.0f}")
        times.add_row(r["what"], *figures, r["aim"], f"{ratio:.1f}")
    screen.print(times)
    costs = {r["what"]: r["cpu_ms"] for r in rows if "cpu_ms" in r}
    cpu = Table(title="CPU time per request, ms")
    cpu.add_column("what", no_wrap=True)
    kinds = list(next(iter(costs.values())))
    for kind in kinds:
        cpu.add_column(kind, justify="right", no_wrap=True)
    for what, by_kind in costs.items():
        cpu.add_row(what, *(f"{by_kind[kind]:.2f}" for kind in kinds))
    screen.print(cpu)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=5, help="per row")
    parser.add_argument("--slices", type=int, default=2, help="the fewer, the larger the batches")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    arguments = parser.parse_args()
    with no_op_catalog() as catalog:
        os.environ |= environment("common", {"catalog": catalog, "log_level": "warning"})
        rows = uvloop.run(measure(arguments.seconds, arguments.slices))
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
