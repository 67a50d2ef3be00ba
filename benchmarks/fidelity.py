"""Is the emulator honest? The same requests through a live mesh and through the emulator.

    .venv/bin/python -m benchmarks.fidelity [--setting NAME] [--policy NAME] [--tasks phased]
        [--seconds S]
    .venv/bin/python -m benchmarks.fidelity --slices cpu:2 [--catalog measured/catalog.toml] \\
        --payload photo.jpg --rate 10/min --slo-scale 2 --seconds 300 [--cores 1]
    .venv/bin/python -m benchmarks.fidelity --slices emulated:4g.40gb+3g.40gb

The live mesh is real: processes, gRPC, Redis, files; only the slices are emulated, and take the
profiled times with the noise that the emulator draws for the same requests. Payloads are scaled
down so that two cores carry sixteen nodes. The emulator cannot know how fast a machine is, so it is
told what was measured live: the corrections of profiles that the mesh made, and what a stage takes
beyond those (its median).

With real slices (--slices, and a catalog that esg profile measured on them; for those without a GPU
the shipped one, cpu, if none is named) models and handlers really run. Models are loaded before the
load begins, by requests that do not count. With --cores plans know only configs with as many vCPUs:
so the times of each can be compared by themselves.

Printed side by side: hit rate and cost (aims: within 5 points and 10 %), latency, transfers,
batches; then what the live mesh took: CPU per request by process, queues over time, and how much
later than profiled a stage was done.
"""

import argparse
import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import uvloop
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.live import Usage, usages
from esg.client import AsyncClient, MeshStatus, PipelineStage, Result
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog, Function
from esg.core.catalog.phases import TaskMode, task_mode
from esg.core.catalog.shipped import CPU, DEFAULT, SHIPPED, catalog_path
from esg.core.messages.events import Correction, ProfilesCorrected
from esg.core.metrics import Served, percentiles, percentiles_ms
from esg.emulator.history import replay_strictly, scenario_of
from esg.emulator.run import emulate, requests
from esg.emulator.scenario import SETTINGS, Scenario
from esg.errors import Rejected
from esg.loadgen.send import LoadSpec, SentRequest, send
from esg.local.options import VGPUS
from esg.local.supervisor import Mesh, MeshOptions
from esg.runtime.settings import DEFAULT_POLICY
from esg.runtime.slice_setting import Cpu, Emulated, parse_slices
from esg.units import PPM, seconds, to_ms, to_pusd
from esg.workload.arrivals import Arrival, until
from esg.workload.mix import Mix
from esg.workload.rates import steady

AIM_POINTS = 5.0
AIM_COST = 0.10
PAYLOAD_SCALE = 0.01
WARM_UP = 4
LONG_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is compared. Without slices they are emulated, as many as the catalog says."""

    nodes: int
    policy: str
    tasks: TaskMode
    rate: str
    slo_scale: float
    slices: str | None = None
    catalog: Path | None = None
    payload: Path | None = None
    cores: int | None = None

    @property
    def real(self) -> bool:
        """Whether models really run."""
        slices = None if self.slices is None else parse_slices(self.slices)
        return not isinstance(slices, Emulated | None)


@dataclass(slots=True)
class Watched:
    """What was seen of a live mesh while the load went through it."""

    results: list[Result] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    before: dict[str, Usage] = field(default_factory=dict)
    after: dict[str, Usage] = field(default_factory=dict)
    late_ms: list[float] = field(default_factory=list)
    status: MeshStatus | None = None
    corrections: tuple[Correction, ...] = ()
    planned: Catalog | None = None
    scenario: Scenario | None = None

    def add(self, answered: SentRequest) -> None:
        self.late_ms.append(answered.late_us / 1000)
        if answered.result is None:
            self.errors.append(answered.error)
        else:
            self.results.append(answered.result)

    def summary(self, count: int) -> dict[str, Any]:
        """What the clients saw, in the words of a report; who got no answer was not in time."""
        served = Served(failed=count - len(self.results))
        for result in self.results:
            cost_pusd = to_pusd(result.cost_usd)
            served.count(result.outcome, in_time=result.slo_met, cost_pusd=cost_pusd)
        latencies_us = [round(1000 * result.latency_ms) for result in self.results]
        return {**served.document(), "latency_ms": percentiles_ms(latencies_us)}


async def live(
    trial: Trial,
    arrivals: list[Arrival],
    catalog: Catalog,
    tell: Callable[[], None],
) -> tuple[Watched, dict[str, Any]]:
    watched = Watched()

    def observe(answered: SentRequest) -> None:
        watched.add(answered)
        tell()

    with TemporaryDirectory() as folder:
        options = MeshOptions(
            nodes=trial.nodes,
            policy=trial.policy,
            slices=trial.slices,
            catalog=trial.catalog,
            warm_start=True,
            payload_scale=PAYLOAD_SCALE,
            log_level="warning",
            more={"controller": {"tasks": str(trial.tasks)}},
        )
        async with (
            Mesh(options, Path(folder) / "mesh") as mesh,
            AsyncClient(mesh.gateway) as client,
        ):
            await _set_slos(client, catalog, trial.slo_scale)
            payloads = payloads_of(catalog, trial.payload)
            await _warm_up(client, payloads, at_once=WARM_UP if trial.real else 1)
            watched.before = usages(mesh.processes)
            looking = asyncio.create_task(_look(client, watched))
            async with client.stream() as stream:
                load = LoadSpec(payload=payloads.__getitem__, prefix="r")
                await send(stream, arrivals, load, observe)
            watched.after = usages(mesh.processes)
            looking.cancel()
            journal = mesh.journal
            assert journal is not None
        replayed = replay_strictly(journal, catalog)
        watched.scenario = scenario_of(journal)
    watched.corrections = replayed.scheduler.state.corrections
    watched.planned = replayed.scheduler.planned
    return watched, replayed.report.summary() | watched.summary(len(arrivals))


async def _warm_up(client: AsyncClient, payloads: dict[str, bytes], at_once: int) -> None:
    """Have every model loaded, as far as as many requests at once can bring that about."""
    for application, payload in payloads.items():
        calls = [client.submit(application, payload, slo_ms=LONG_MS) for _ in range(at_once)]
        await asyncio.gather(*calls)


async def _set_slos(client: AsyncClient, catalog: Catalog, slo_scale: float) -> None:
    for application in catalog.applications.values():
        stages = [
            PipelineStage(name=stage.name, function=stage.function.name, after=stage.after)
            for stage in application.stages.values()
        ]
        await client.update_application(application.name, stages, slo_scale=slo_scale)


def payloads_of(catalog: Catalog, payload: Path | None = None) -> dict[str, bytes]:
    if payload is not None:
        return dict.fromkeys(catalog.applications, payload.read_bytes())
    return {
        name: b"p" * max(32, round(PAYLOAD_SCALE * _first(catalog, name).input_bytes))
        for name in catalog.applications
    }


def _first(catalog: Catalog, name: str) -> Function:
    application = catalog.applications[name]
    return application.stages[application.root].function


async def _look(client: AsyncClient, watched: Watched) -> None:
    async for status in client.watch_mesh(interval_ms=500):
        watched.waiting.append(sum(queue.waiting for queue in status.queues))
        watched.status = status


def added_ms(results: list[Result], catalog: Catalog, planned: Catalog) -> list[float]:
    """By how much each stage took longer, seen by the controller, than was planned with at last."""
    added = []
    for result in results:
        stages = catalog.applications[result.application].stages
        for stage in result.stages:
            profile = planned.functions[stages[stage.stage].function.name].profile
            if stage.config in profile:
                added.append(stage.run_ms - to_ms(profile.time_us_of(stage.config)))
    return added


def trial_of(arguments: argparse.Namespace) -> Trial:
    setting = SETTINGS[arguments.setting]
    slices = parse_slices(arguments.slices or f"emulated:{VGPUS}")
    catalog = arguments.catalog or (SHIPPED[CPU] if isinstance(slices, Cpu) else None)
    return Trial(
        policy=arguments.policy,
        tasks=task_mode(arguments.tasks),
        nodes=arguments.nodes or (16 if isinstance(slices, Emulated) else 1),
        rate=arguments.rate or setting.rate,
        slo_scale=arguments.slo_scale or setting.slo_scale,
        slices=arguments.slices,
        catalog=catalog,
        payload=arguments.payload,
        cores=arguments.cores,
    )


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    trial = trial_of(arguments)
    with TemporaryDirectory() as folder:
        if trial.cores is not None:
            file = _of_cores(trial.catalog or DEFAULT, trial.cores, Path(folder))
            trial = replace(trial, catalog=file)
        return _compare(trial, arguments)


def _of_cores(source: Path, cores: int, folder: Path) -> Path:
    """A copy of a catalog of measured tables, with the rows of that many vCPUs only."""
    text = source.read_text("utf-8").replace('"../../functions', f'"{source.parents[2]}/functions')
    catalog = folder / "catalog.toml"
    catalog.write_text(text, "utf-8")
    for file in source.parent.glob("*.*"):
        if file.suffix == ".csv":
            first, *rows = file.read_text("utf-8").splitlines()
            place = first.split(",").index("vcpus")
            kept = [row for row in rows if row.split(",")[place] == str(cores)]
            (folder / file.name).write_text("\n".join([first, *kept]), "utf-8")
        elif file.name != "catalog.toml":
            (folder / file.name).write_text(file.read_text("utf-8"), "utf-8")
    if not list(folder.glob("*.csv")):
        raise Rejected(f"--cores: {source} has no measured tables; name one with --catalog")
    return catalog


def _compare(trial: Trial, arguments: argparse.Namespace) -> dict[str, Any]:
    catalog = load_catalog(trial.catalog or DEFAULT)
    mix = Mix.uniform(list(catalog.applications))
    arrivals = list(until(steady(trial.rate, mix, arguments.seed), seconds(arguments.seconds)))
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"live, {trial.nodes} nodes", total=len(arrivals))
        watched, summary = uvloop.run(live(trial, arrivals, catalog, lambda: progress.advance(bar)))
    added = added_ms(watched.results, catalog, watched.planned or catalog)
    assert watched.scenario is not None
    scenario = replace(
        watched.scenario,  # how applications share the mesh, and whatever else its controller does
        slo_scale=trial.slo_scale,
        stage_delay_ms=max(0.0, percentiles(added, 50)[0]),
    )
    found = ProfilesCorrected(corrections=watched.corrections)
    emulated = emulate(catalog, scenario, chain([(0, found)], requests(arrivals))).summary()
    count = len(arrivals)
    halves = np.array_split(watched.waiting, 2)
    slices = trial.slices or "emulated slices"
    return {
        "setting": f"{trial.policy}, {trial.tasks} tasks, {trial.rate}, "
        f"SLO {trial.slo_scale:g} L, {slices}",
        "nodes": trial.nodes,
        "requests": count,
        "seconds": arguments.seconds,
        "live": summary,
        "emulated": emulated,
        "hit_rate_points": 100 * (summary["slo_hit_rate"] - emulated["slo_hit_rate"]),
        "cost_ratio": summary["cost_usd_per_1k_requests"] / emulated["cost_usd_per_1k_requests"],
        "corrections": {
            f"{one.function}, batch {one.batch}": one.pace_ppm / PPM for one in watched.corrections
        },
        "errors": sorted(set(watched.errors)),
        "sender_late_ms_p99": percentiles(watched.late_ms, 99)[0],
        "cpu_ms_per_request": {
            kind: 1000 * (watched.after[kind].cpu_s - watched.before[kind].cpu_s) / count
            for kind in watched.after
        },
        "jobs_waiting": {
            "first half": float(np.mean(halves[0])) if len(halves[0]) else 0.0,
            "second half": float(np.mean(halves[1])) if len(halves[1]) else 0.0,
            "most": max(watched.waiting, default=0),
        },
        "added_ms_per_stage": {
            "p50": percentiles(added, 50)[0],
            "p99": percentiles(added, 99)[0],
        },
    }


def show(found: dict[str, Any]) -> None:
    screen = Console()
    table = Table(title=f"{found['setting']}, {found['nodes']} nodes, {found['requests']} requests")
    for heading in ("", "live", "emulated", "difference", "aim"):
        table.add_column(heading, justify="left" if not heading else "right")
    one, other = found["live"], found["emulated"]
    hits = [f"{100 * side['slo_hit_rate']:.1f} %" for side in (one, other)]
    points = f"{found['hit_rate_points']:+.1f} points"
    table.add_row("hit rate", *hits, points, f"{AIM_POINTS:g} points")
    costs = [f"{side['cost_usd_per_1k_requests']:.4f}" for side in (one, other)]
    cost = f"{100 * (found['cost_ratio'] - 1):+.1f} %"
    table.add_row("cost, USD per 1k requests", *costs, cost, f"{100 * AIM_COST:.0f} %")
    for name in ("p50", "p99"):
        table.add_row(
            f"latency {name}, ms", *(f"{side['latency_ms'][name]:.0f}" for side in (one, other))
        )
    for name in ("mean_batch", "local_transfers", "remote_transfers", "cold_starts", "failed"):
        table.add_row(name.replace("_", " "), *(f"{side[name]:g}" for side in (one, other)))
    screen.print(table)
    cpu = ", ".join(f"{kind} {ms:.2f}" for kind, ms in found["cpu_ms_per_request"].items())
    waiting = ", ".join(f"{name} {jobs:.1f}" for name, jobs in found["jobs_waiting"].items())
    added = ", ".join(f"{name} {ms:.2f}" for name, ms in found["added_ms_per_stage"].items())
    screen.print(f"CPU per request, ms: {cpu}")
    screen.print(f"Jobs waiting, on average: {waiting}")
    screen.print(f"Stage above what it was planned with, ms: {added}")
    corrections = ", ".join(f"{what} {f:.2f}" for what, f in found["corrections"].items())
    screen.print(f"Corrections: {corrections or 'none'}")
    screen.print(f"Sender late, p99: {found['sender_late_ms_p99']:.1f} ms")
    for error in found["errors"]:
        screen.print(f"Error: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fidelity", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--setting", choices=SETTINGS, default="relaxed-heavy")
    parser.add_argument("--rate", help="instead of the setting's: heavy, 10/s, 30/min, ...")
    parser.add_argument("--slo-scale", type=float, help="instead of the setting's")
    parser.add_argument("--slices", help="cpu:N, mig, host:port,...; or emulated ones of kinds")
    parser.add_argument(
        "--catalog", type=catalog_path, help="what esg profile measured on them, or one by name"
    )
    parser.add_argument(
        "--cores",
        type=int,
        metavar="C",
        help="only configs with that many vCPUs, of a measured one",
    )
    parser.add_argument("--payload", type=Path, help="what every request carries")
    parser.add_argument("--policy", default=DEFAULT_POLICY)
    parser.add_argument("--tasks", default=str(TaskMode.JOINT), choices=[*map(str, TaskMode)])
    parser.add_argument("--nodes", type=int, help="16, or 1 with real slices")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the arrivals")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    arguments = parser.parse_args()
    found = compare(arguments)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
