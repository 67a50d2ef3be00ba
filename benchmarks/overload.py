"""Ten times as many requests as can be done: how fast are refusals, and what becomes of the rest?

    .venv/bin/python -m benchmarks.overload [--seconds S] [--json]

Two applications ask for the same function. One is flooded with ten times what the slices can do,
and drops late requests; the other asks for a tenth of it, as before the flood. First in emulation,
where every refusal is timed inside the scheduler, with and without fair sharing; then through a
mesh of real processes, where a refusal is timed by the client who gets it. The reference is the
same mesh while there is no flood. The last row is how many a mesh can refuse at most.
"""

import argparse
import asyncio
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from time import perf_counter, perf_counter_ns
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from esg.client import AsyncClient, Exhausted, Outcome, PipelineStage, RequestStream
from esg.core.catalog.file import load_catalog
from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.durations import Durations
from esg.core.messages.commands import AnswerRequest, Command, RefuseRequest
from esg.core.messages.events import Event, RequestArrived
from esg.core.metrics import percentiles
from esg.core.scheduler.scheduler import Scheduler, build_scheduler
from esg.emulator.run import build_pools
from esg.emulator.scenario import Scenario, applied
from esg.emulator.world import World
from esg.local.supervisor import Mesh, MeshOptions
from esg.runtime.settings import DEFAULT_POLICY, ControllerSettings
from esg.units import US_PER_S, ms

FUNCTION = "super-resolution"
FLOOD, QUIET = "flood", "quiet"
TIMES = 10
SLO_SCALE = 3.0
NODES, VGPUS = 1, 2
TICK_S = 0.002
CLIENTS = 64


def capacity_per_s(catalog: Catalog) -> float:
    """What the slices can do at most, at the config that takes least vGPU time per job."""
    profile = catalog.functions[FUNCTION].profile
    least_us = min(
        int(time_us) * config.vgpus / config.batch
        for config, time_us in zip(profile.configs, profile.time_us, strict=True)
        if config.vgpus <= VGPUS
    )
    return NODES * VGPUS * US_PER_S / least_us


@dataclass
class Side:
    """One application's requests."""

    refused_us: list[float] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    asked: int = 0

    def row(self, what: str, seconds: float) -> dict[str, Any]:
        refused = self.refused_us or [float("nan")]
        p50, p99 = percentiles(refused, 50, 99)
        return {
            "what": what,
            "asked_per_s": self.asked / seconds,
            "refused_per_s": len(self.refused_us) / seconds,
            "refusal_us_p50": float(p50),
            "refusal_us_p99": float(p99),
            "in_time_per_s": self.ends["in time"] / seconds,
            "late": self.ends["late"],
            "dropped": self.ends["dropped"],
            "in_time": self.ends["in time"] / max(1, self.asked - len(self.refused_us)),
        }


# ---- emulated


class Stopwatch:
    """A scheduler whose refusals are timed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.sides = {FLOOD: Side(), QUIET: Side()}

    def handle(self, now_us: int, event: Event) -> list[Command]:
        began = perf_counter_ns()
        commands = self._scheduler.handle(now_us, event)
        took_us = (perf_counter_ns() - began) / 1000
        if isinstance(event, RequestArrived):
            self.sides[event.application].asked += 1
        for command in commands:
            match command:
                case RefuseRequest():
                    self.sides[command.application].refused_us.append(took_us)
                case AnswerRequest(outcome="dropped"):
                    self.sides[command.application].ends["dropped"] += 1
                case AnswerRequest():
                    how = "in time" if command.slo_met else "late"
                    self.sides[command.application].ends[how] += 1
                case _:
                    pass
        return commands

    @property
    def next_wake(self) -> int | None:
        return self._scheduler.next_wake


def two_applications() -> Catalog:
    catalog = load_catalog()
    stages = [Stage(FUNCTION, catalog.functions[FUNCTION])]
    applications = {
        FLOOD: Application.of(FLOOD, stages, slo_scale=SLO_SCALE, late_requests=LateRequests.DROP),
        QUIET: Application.of(QUIET, stages, slo_scale=SLO_SCALE),
    }
    return replace(catalog, applications=applications)


def arrivals(per_s: dict[str, float], seconds: float) -> Iterator[tuple[int, Event]]:
    """Poisson, the same in every run."""
    chance = Random("overload")
    number, at_s, total = count(1), 0.0, sum(per_s.values())
    while (at_s := at_s + chance.expovariate(total)) < seconds:
        name = chance.choices(list(per_s), list(per_s.values()))[0]
        yield round(at_s * US_PER_S), RequestArrived(request=f"r{next(number)}", application=name)


def emulated(seconds: float, *, fair_quantum_ms: int) -> list[dict[str, Any]]:
    full = two_applications()
    scenario = Scenario(
        policy=DEFAULT_POLICY,
        nodes=NODES,
        vcpus=16,
        vgpus=VGPUS,
        fair_quantum_us=ms(fair_quantum_ms),
    )
    catalog = applied(full, scenario)
    scheduler = build_scheduler(catalog, scenario)
    watch = Stopwatch(scheduler)
    pools = build_pools(catalog, scenario)
    world = World(watch, pools, Durations(catalog, 0))
    for pool in pools.values():
        world.tell(0, pool.joined())
    most = capacity_per_s(catalog)
    world.run(arrivals({FLOOD: TIMES * most, QUIET: most / TIMES}, seconds))
    kind = "core, fair" if fair_quantum_ms else "core"
    return [side.row(f"{kind}: {name}", seconds) for name, side in watch.sides.items()]


# ---- live


async def live(seconds: float) -> list[dict[str, Any]]:
    options = MeshOptions(nodes=NODES, vgpus=VGPUS, warm_start=True, log_level="warning")
    rows: list[dict[str, Any]] = []
    async with Mesh(options) as mesh, AsyncClient(mesh.gateway) as client:
        stages = [PipelineStage(FUNCTION)]
        await client.register_application(FLOOD, stages, slo_scale=SLO_SCALE, late_requests="drop")
        await client.register_application(QUIET, stages, slo_scale=SLO_SCALE)
        most = capacity_per_s(on_its_cluster(load_catalog()))
        async with client.stream() as stream, client.stream() as other:
            calm = await asked(other, QUIET, most / TIMES, seconds)
            rows.append(calm.row("live: no flood", seconds))
            quiet, flood = await asyncio.gather(
                asked(other, QUIET, most / TIMES, seconds),
                asked(stream, FLOOD, TIMES * most, seconds),
            )
            rows.append(flood.row("live: flood", seconds))
            rows.append(quiet.row("live: quiet", seconds))
            all_they_can = await crowd(stream, seconds)
            rows.append(all_they_can.row(f"live: {CLIENTS} clients", seconds))
    return rows


async def crowd(stream: RequestStream, seconds: float) -> Side:
    """Clients who ask again as soon as they are refused or answered."""
    side, until = Side(), perf_counter() + seconds

    async def one() -> None:
        while perf_counter() < until:
            side.asked += 1
            await _one(stream, FLOOD, side)

    await asyncio.gather(*(one() for _ in range(CLIENTS)))
    return side


async def asked(stream: RequestStream, application: str, per_s: float, seconds: float) -> Side:
    """Requests at a steady rate, whatever becomes of them."""
    side, waiting = Side(), []
    began = perf_counter()
    while (now := perf_counter() - began) < seconds:
        while side.asked < per_s * now:
            side.asked += 1
            waiting.append(asyncio.ensure_future(_one(stream, application, side)))
        await asyncio.sleep(TICK_S)
    await asyncio.gather(*waiting)
    return side


async def _one(stream: RequestStream, application: str, side: Side) -> None:
    began = perf_counter()
    try:
        result = await stream.submit(application, b"x" * 100)
    except Exhausted:
        side.refused_us.append((perf_counter() - began) * 1e6)
        return
    if result.outcome is Outcome.DROPPED:
        side.ends["dropped"] += 1
    else:
        side.ends["in time" if result.slo_met else "late"] += 1


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"{TIMES} times as many requests as can be done")
    table.add_column("what")
    for heading in (
        "asked\n/s",
        "refused\n/s",
        "refusal\np50",
        "refusal\np99",
        "in time\n/s",
        "late",
        "dropped",
        "admitted,\nin time",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row["what"],
            f"{row['asked_per_s']:.0f}",
            f"{row['refused_per_s']:.0f}",
            _time(row["refusal_us_p50"]),
            _time(row["refusal_us_p99"]),
            f"{row['in_time_per_s']:.0f}",
            str(row["late"]),
            str(row["dropped"]),
            f"{row['in_time']:.1%}",
        )
    Console().print(table)


def _time(us: float) -> str:
    if math.isnan(us):
        return "-"
    return f"{us:.0f} us" if us < 1000 else f"{us / 1000:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overload", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=5, help="per run")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    arguments = parser.parse_args()
    rows = emulated(arguments.seconds, fair_quantum_ms=0)
    rows += emulated(arguments.seconds, fair_quantum_ms=ControllerSettings().fair_quantum_ms)
    rows += uvloop.run(live(arguments.seconds))
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
