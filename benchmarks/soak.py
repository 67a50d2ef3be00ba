"""Does anything grow? A mesh under the heavy rate for ten minutes; the memory of every process.

    .venv/bin/python -m benchmarks.soak [--minutes M] [--nodes N] [--rate RATE] [--json]

The first minute is for warming up: pools and caches fill. What counts is from then to the end, and
whether queues, files or keys in Redis are left when the last request has been answered.
"""

import argparse
import asyncio
import json
from time import monotonic
from typing import Any

import uvloop
from redis.asyncio import Redis
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.fidelity import PAYLOAD_SCALE, payloads_of
from benchmarks.live import Usage, usages
from esg.client import AsyncClient, MeshStatus
from esg.core.catalog.file import load_catalog
from esg.loadgen.outcome import LoadOutcome
from esg.loadgen.send import LoadSpec, SentRequest, send
from esg.local.supervisor import Mesh, MeshOptions
from esg.units import seconds
from esg.workload.arrivals import RATES_US, until
from esg.workload.mix import Mix
from esg.workload.rates import steady

SAMPLE_S = 15.0
WARM_UP_S = 60.0


async def soak(arguments: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    catalog = load_catalog()
    payloads = payloads_of(catalog)
    planned = steady(arguments.rate, Mix.uniform(list(catalog.applications)), seed=0)
    arrivals = list(until(planned, seconds(60 * arguments.minutes)))
    bar = progress.add_task(f"{arguments.nodes} nodes, {arguments.rate}", total=len(arrivals))
    outcome = LoadOutcome()

    def observe(answered: SentRequest) -> None:
        outcome.add(answered)
        progress.advance(bar)

    options = MeshOptions(
        nodes=arguments.nodes,
        warm_start=True,
        payload_scale=PAYLOAD_SCALE,
        log_level="warning",
        journal=False,  # a file that is meant to grow
    )
    samples: list[tuple[float, dict[str, Usage], int]] = []
    async with Mesh(options) as mesh, AsyncClient(mesh.gateway) as client:
        began = monotonic()

        async def sample() -> None:
            while True:
                status = await _status(client)
                waiting = sum(queue.waiting for queue in status.queues)
                samples.append((monotonic() - began, usages(mesh.processes), waiting))
                await asyncio.sleep(SAMPLE_S)

        sampling = asyncio.create_task(sample())
        async with client.stream() as stream:
            await send(stream, arrivals, LoadSpec(payload=payloads.__getitem__), observe)
        sampling.cancel()
        samples.append((monotonic() - began, usages(mesh.processes), 0))
        await asyncio.sleep(2)
        status = await _status(client)
        redis = Redis.from_url(mesh.redis_url)
        keys = len(await redis.keys("*"))
        await redis.aclose()
    warm = next(s for s in samples if s[0] >= min(WARM_UP_S, samples[-1][0]))
    last = samples[-1]
    return {
        "minutes": arguments.minutes,
        "nodes": arguments.nodes,
        **outcome.document(),
        "memory_mb": {
            kind: {"after_warm_up": warm[1][kind].memory_mb, "at_the_end": last[1][kind].memory_mb}
            for kind in last[1]
        },
        "cpu_ms_per_request": {
            kind: 1000 * (last[1][kind].cpu_s - samples[0][1][kind].cpu_s) / len(arrivals)
            for kind in last[1]
        },
        "jobs_waiting": [waiting for _, _, waiting in samples],
        "left": {"requests": status.under_way, "keys_in_redis": keys},
    }


async def _status(client: AsyncClient) -> MeshStatus:
    (status,) = [found async for found in client.watch_mesh(interval_ms=0)]
    return status


def show(found: dict[str, Any]) -> None:
    screen = Console()
    minutes, nodes = found["minutes"], found["nodes"]
    table = Table(title=f"Memory over {minutes:g} minutes, {nodes} nodes")
    table.add_column("process")
    for heading in ("after warm-up, MB", "at the end, MB", "growth", "CPU per request, ms"):
        table.add_column(heading, justify="right")
    for kind, memory in found["memory_mb"].items():
        start, end = memory["after_warm_up"], memory["at_the_end"]
        cpu_ms = found["cpu_ms_per_request"][kind]
        table.add_row(
            kind, f"{start:.1f}", f"{end:.1f}", f"{end / start - 1:+.1%}", f"{cpu_ms:.2f}"
        )
    screen.print(table)
    screen.print(
        f"{found['requests']} requests, {found['failed']} failed, "
        f"{found['slo_hit_rate']:.1%} in time; jobs waiting, every {SAMPLE_S:g} s: "
        f"{' '.join(map(str, found['jobs_waiting']))}; left: {found['left']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--rate", choices=RATES_US, default="heavy")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    arguments = parser.parse_args()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        found = uvloop.run(soak(arguments, progress))
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
