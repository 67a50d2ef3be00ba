"""A polite client beside a hostile one: are its deadlines kept, and does memory come back?

    .venv/bin/python -m benchmarks.hostile [--seconds S] [--settle S] [--only KIND] [--json]

Two clients with tokens and no quotas share a mesh of real processes. The polite one asks at a
steady rate, first alone, which is the reference, then while the other does its worst from a process
of its own; each kind of flood meets a mesh of its own. Aims: the hit rate is not lower, p99 is at
most twice as long, and no process has more than 1.3 times its memory when it is over.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.hostile.floods import APPLICATION, FLOODS
from benchmarks.live import usages
from esg.client import AsyncClient, ClientError
from esg.core.metrics import percentiles
from esg.local.supervisor import Mesh, MeshOptions
from esg.runtime.security.tokens import TokenEntry, digest_of, write_entries

POLITE, HOSTILE = "polite", "hostile"
PER_S = 4
SLO_MS = 1200
LOOK_S = 0.25


class Polite:
    """One client's requests: how many there were, which were in time, how long they took."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def ask(self, seconds: float) -> dict[str, float]:
        """Ask at a steady rate, whatever becomes of it."""
        took_ms: list[float] = []
        in_time = 0

        async def one() -> None:
            nonlocal in_time
            began = perf_counter()
            try:
                result = await self._client.submit(APPLICATION, b"x" * 100, slo_ms=SLO_MS)
                in_time += result.slo_met
            except ClientError:
                pass  # it was due, and is not in time
            took_ms.append(1000 * (perf_counter() - began))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(round(PER_S * seconds)):
                tasks.create_task(one())
                await asyncio.sleep(1 / PER_S)
        p50, p99 = percentiles(took_ms, 50, 99)
        return {"hit_rate": in_time / len(took_ms), "p50_ms": float(p50), "p99_ms": float(p99)}


def memory_mb(mesh: Mesh) -> dict[str, float]:
    return {kind: used.memory_mb for kind, used in usages(mesh.processes).items()}


class Watch:
    """The most memory that each process had while a block ran."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh
        self.most: dict[str, float] = {}

    async def during(self, work: Awaitable[Any]) -> Any:
        looking = asyncio.create_task(self._look())
        try:
            return await work
        finally:
            looking.cancel()

    async def _look(self) -> None:
        while True:
            for kind, mb in memory_mb(self._mesh).items():
                self.most[kind] = max(mb, self.most.get(kind, 0.0))
            await asyncio.sleep(LOOK_S)


async def flood(kind: str, address: str, seconds: float) -> dict[str, int]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.hostile.floods", kind, address, HOSTILE, str(seconds)),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    ends: dict[str, int] = json.loads(said or b'{"the flood itself failed": 1}')
    return ends


async def measure(kind: str, seconds: float, settle_s: float) -> dict[str, Any]:
    """One kind of flood, on a mesh of its own."""
    with TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens.toml"
        write_entries(
            tokens, {n: TokenEntry(name=n, digest=digest_of(n)) for n in (POLITE, HOSTILE)}
        )
        options = MeshOptions(
            nodes=1, warm_start=True, log_level="error", more={"gateway": {"tokens": str(tokens)}}
        )
        async with Mesh(options) as mesh, AsyncClient(mesh.gateway, token=POLITE) as client:
            polite = Polite(client)
            alone = await polite.ask(seconds)
            before, watch = memory_mb(mesh), Watch(mesh)
            beside, ends = await watch.during(
                asyncio.gather(polite.ask(seconds), flood(kind, mesh.gateway, seconds))
            )
            await asyncio.sleep(settle_s)
            return {
                "flood": kind,
                "alone": alone,
                "beside": beside,
                "flood_ended": ends,
                "memory_mb": {"before": before, "during": watch.most, "after": memory_mb(mesh)},
            }


def show(rows: list[dict[str, Any]], settle_s: float) -> None:
    screen = Console()
    polite = Table(title=f"{PER_S} requests/s of a polite client, SLO of {SLO_MS} ms")
    polite.add_column("flood", no_wrap=True)
    for heading in ("hit rate\nalone", "beside", "p99 ms\nalone", "beside", "ratio\n(2.0)"):
        polite.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        alone, beside = row["alone"], row["beside"]
        polite.add_row(
            row["flood"],
            *(f"{side['hit_rate']:.1%}" for side in (alone, beside)),
            *(f"{side['p99_ms']:.0f}" for side in (alone, beside)),
            f"{beside['p99_ms'] / alone['p99_ms']:.1f}",
        )
    screen.print(polite)
    for row in rows:
        ends = ", ".join(f"{count} {how}" for how, count in row["flood_ended"].items())
        screen.print(f"What the flood got, {row['flood']}: {ends}")
    memory = Table(title=f"Memory in MB: before, most during, {settle_s:g} s after")
    memory.add_column("flood", no_wrap=True)
    kinds = list(rows[0]["memory_mb"]["before"])
    for kind in kinds:
        memory.add_column(kind, justify="right", no_wrap=True)
    memory.add_column("ratio\n(1.3)", justify="right")
    for row in rows:
        before, during, after = (row["memory_mb"][when] for when in ("before", "during", "after"))
        cells = (f"{before[k]:.0f} {during.get(k, 0):.0f} {after[k]:.0f}" for k in kinds)
        memory.add_row(row["flood"], *cells, f"{max(after[k] / before[k] for k in kinds):.2f}")
    screen.print(memory)


async def measure_all(kinds: list[str], seconds: float, settle_s: float) -> list[dict[str, Any]]:
    return [await measure(kind, seconds, settle_s) for kind in kinds]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=15, help="alone, and beside each flood")
    parser.add_argument("--settle", type=float, default=60, help="before memory is looked at again")
    parser.add_argument("--only", choices=list(FLOODS), help="this flood alone")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    arguments = parser.parse_args()
    kinds = [arguments.only] if arguments.only else list(FLOODS)
    rows = uvloop.run(measure_all(kinds, arguments.seconds, arguments.settle))
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows, arguments.settle)


if __name__ == "__main__":
    main()
