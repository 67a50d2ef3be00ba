"""Is our own policy better than ESG? By how much, thanks to what, and where not?

    .venv/bin/python -m benchmarks.apex [--quick] [--results FILE] [--trace FILE ...] [--only TABLE]

Six tables: the paper's three settings (warm and cold) with every policy, beside how far any policy
could get (`benchmarks.apex.floors` explains the steps); tasks in phases; these and slices of other
kinds; apex without each of its features; conditions that the paper does not have; and how long a
decision takes. Every run has the requests and the noise of its seed, whatever the policy. ±: 95 %
confidence interval of a mean over seeds.

Figures are kept in the results file as they come: a run that was measured before is not repeated,
so a long measurement can be interrupted.
"""

import argparse
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from time import thread_time_ns
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.apex.cases import (
    RIVALS,
    Run,
    ablation_runs,
    beyond_runs,
    carry_out,
    kinds_runs,
    phases_runs,
    settings_runs,
)
from benchmarks.apex.floors import STEPS, floors
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.shipped import catalog_path
from esg.core.metrics import percentiles
from esg.core.policies.apex.features import Feature
from esg.core.policies.apex.policy import Apex, BatchPlansCache
from esg.core.policies.interface import Hold, Offer, Placement, QueueView
from esg.core.policies.settings import Trained
from esg.core.scheduler.scheduler import Scheduler
from esg.core.state.node_books import NodeBooks
from esg.emulator.run import build_durations, build_pools
from esg.emulator.scenario import SETTINGS, Scenario, applied
from esg.emulator.sweep import Estimate, Generated, SweepRun, run_limits
from esg.emulator.training.train import trained_configs
from esg.emulator.world import World
from esg.workload.plan import Workload

Results = dict[str, dict[str, Any]]
TABLES = ("warm start", "cold start", "phases", "kinds", "ablation", "beyond", "decisions")
AIM_US = 200
LEARNS = "aquatope"
FEWER = 5
"""Seeds for the tables that have many rows."""


def main() -> None:
    arguments = _arguments()
    catalog = load_catalog(catalog_path(arguments.catalog))
    count, requests = (2, 400) if arguments.quick else (arguments.seeds, arguments.requests)
    seeds = range(arguments.first_seed, arguments.first_seed + count)
    runs = [
        *settings_runs(arguments.policies.split(","), seeds, requests),
        *phases_runs(seeds, requests),
        *kinds_runs(seeds, requests),
        *ablation_runs(seeds[:FEWER], requests),
        *beyond_runs(seeds[:FEWER], requests, arguments.trace),
    ]
    wanted = [run for run in runs if arguments.only in ("", run.table)]
    results: Results = {}
    if arguments.results.exists():
        results = json.loads(arguments.results.read_text())
    measure(wanted, catalog, results, arguments.results, workers=arguments.workers)
    screen = Console()
    for table in TABLES[:2]:
        chosen = [run for run in wanted if run.table == table]
        if chosen:
            screen.print(settings_table(table, chosen, results, catalog))
    for table in ("phases", "kinds"):
        if arguments.only in ("", table):
            screen.print(phases_table(table, [r for r in wanted if r.table == table], results))
    if arguments.only in ("", "ablation"):
        screen.print(ablation_table([r for r in wanted if r.table == "ablation"], results))
    if arguments.only in ("", "beyond"):
        screen.print(beyond_table([r for r in wanted if r.table == "beyond"], results))
    if arguments.only in ("", "decisions"):
        print_decisions(screen, catalog)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.apex",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--catalog",
        default="default",
        help="a file, or a catalog of ESG's; with results of its own",
    )
    parser.add_argument("--quick", action="store_true", help="two seeds, few requests")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--first-seed", type=int, default=0, help="10: seeds that apex was not tuned with"
    )
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--results", type=Path, default=Path("apex-results.json"))
    parser.add_argument("--trace", action="append", default=[], help="a row of the third table")
    parser.add_argument("--only", default="", choices=("", *TABLES))
    parser.add_argument("--policies", default=",".join(("esg", "apex", *RIVALS)))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def measure(
    runs: Iterable[Run], catalog: Catalog, results: Results, file: Path, *, workers: int
) -> None:
    """Carry out what was not measured yet, with as many requests; what must be trained, last."""
    missing = [run for run in runs if results.get(run.name, {}).get("asked") != run.requests]
    for learns in (False, True):
        some = [run for run in missing if (run.policy == LEARNS) is learns]
        scales = sorted({run.slo_scale for run in some if learns})
        learnt = {slo_scale: _learnt(catalog, slo_scale) for slo_scale in scales}
        with ProcessPoolExecutor(workers, get_context("spawn")) as executor:
            futures = {
                executor.submit(carry_out, run, catalog, learnt.get(run.slo_scale, {})): run
                for run in some
            }
            for future in track(as_completed(futures), f"{len(some)} runs", total=len(some)):
                run = futures[future]
                results[run.name] = {"asked": run.requests} | future.result()
                _save(results, file)


def _learnt(catalog: Catalog, slo_scale: float) -> Trained:
    usual = next(settings_runs(("esg",), [0], 1)).scenario(catalog)
    return trained_configs(applied(catalog, replace(usual, slo_scale=slo_scale)), seed=0)


def _save(results: Results, file: Path) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(results, indent=0, sort_keys=True))
    fresh.replace(file)


def estimate(runs: Sequence[Run], results: Results, figure: str) -> Estimate:
    return Estimate.of([results[run.name][figure] for run in runs])


def settings_table(title: str, runs: Sequence[Run], results: Results, catalog: Catalog) -> Table:
    """Policies by settings: hit rate, and cost against esg's on the same requests."""
    table = Table("policy", *SETTINGS, title=f"{title}: in time %, cost / esg")
    policies = list(dict.fromkeys(run.policy for run in runs))
    for policy in policies:
        cells = []
        for row in SETTINGS:
            own = [r for r in runs if r.policy == policy and r.row == row]
            base = [r for r in runs if r.policy == "esg" and r.row == row]
            hits = estimate(own, results, "slo_hit_rate")
            cells.append(f"{_percent(hits)}  {_ratio(own, base, results)}")
        table.add_row(policy, *cells)
    table.add_section()
    table.add_row("limits", *(_limits(row, runs, results, catalog) for row in SETTINGS))
    steps = [floors(on_its_cluster(catalog), row) for row in SETTINGS]
    for name in STEPS:
        table.add_row(f"cost: {name}", *(f"{found[name]:.3f}" for found in steps))
    return table


def _limits(row: str, runs: Sequence[Run], results: Results, catalog: Catalog) -> str:
    base = [r for r in runs if r.policy == "esg" and r.row == row]
    found = [
        run_limits(SweepRun("", catalog, run.scenario(catalog), run.load())).summary
        for run in base[:2]
    ]
    hits = Estimate.of([summary["slo_hit_rate"] for summary in found]).mean
    ratios = [
        summary["cost_usd_per_1k_requests"] / results[run.name]["cost_usd_per_1k_requests"]
        for run, summary in zip(base, found, strict=False)
    ]
    return f"{100 * hits:.2f}  {Estimate.of(ratios).mean:.3f}"


def _percent(share: Estimate) -> str:
    return f"{100 * share.mean:.2f} ±{100 * share.margin:.2f}"


def _ratio(own: Sequence[Run], base: Sequence[Run], results: Results) -> str:
    """Cost over esg's, seed by seed: both had the same requests."""
    figure = "cost_usd_per_1k_requests"
    pairs = zip(own, base, strict=True)
    ratio = Estimate.of([results[a.name][figure] / results[b.name][figure] for a, b in pairs])
    return f"{ratio.mean:.3f} ±{ratio.margin:.3f}"


def phases_table(title: str, runs: Sequence[Run], results: Results) -> Table:
    """Policies, modes of tasks and layouts by conditions: hit rate, and cost against esg with joint
    tasks on the paper's slices."""

    def way(run: Run) -> tuple[str, str, str]:
        return run.policy, run.tasks, run.layout

    ways = list(dict.fromkeys(map(way, runs)))
    table = Table("", *(" ".join(each) for each in ways))
    table.title = f"{title}: in time %, cost / esg joint"
    for row in dict.fromkeys(run.row for run in runs):
        of = {each: [r for r in runs if r.row == row and way(r) == each] for each in ways}
        base = of["esg", TaskMode.JOINT, ""]
        cells = [_beside(own, base, results) for own in of.values()]
        table.add_row(row, *cells)
    return table


def _beside(own: Sequence[Run], base: Sequence[Run], results: Results) -> str:
    """Hit rate and cost; in USD per 1000 requests where the base can do nothing at all."""
    if _impossible(own, results):
        return "impossible"
    hits = _percent(estimate(own, results, "slo_hit_rate"))
    if _impossible(base, results):
        return f"{hits}  {estimate(own, results, 'cost_usd_per_1k_requests').mean:.4f} USD"
    return f"{hits}  {_ratio(own, base, results)}"


def _impossible(runs: Sequence[Run], results: Results) -> bool:
    """Whether all requests were refused: no config is as fast as that."""
    return any(results[run.name]["slo_hit_rate"] is None for run in runs)


def ablation_table(runs: Sequence[Run], results: Results) -> Table:
    rows = list(dict.fromkeys(run.row for run in runs))
    table = Table("apex without", *rows, title="ablation: in time %, cost / whole apex")
    for without in ("", *(str(i) for i in Feature)):
        cells = []
        for row in rows:
            own = [r for r in runs if r.row == row and r.without == without]
            base = [r for r in runs if r.row == row and not r.without]
            hits = estimate(own, results, "slo_hit_rate")
            cells.append(f"{_percent(hits)}  {_ratio(own, base, results)}")
        table.add_row(without or "(nothing)", *cells)
    return table


def beyond_table(runs: Sequence[Run], results: Results) -> Table:
    title = "beyond the paper: in time %"
    table = Table("", "esg", "apex", "cost / esg", "batch", title=title)
    for row in dict.fromkeys(run.row for run in runs):
        base = [r for r in runs if r.row == row and r.policy == "esg"]
        own = [r for r in runs if r.row == row and r.policy == "apex"]
        table.add_row(
            row,
            _percent(estimate(base, results, "slo_hit_rate")),
            _percent(estimate(own, results, "slo_hit_rate")),
            _ratio(own, base, results),
            f"{estimate(own, results, 'mean_batch').mean:.2f}",
        )
    return table


class Timed(Apex):
    """Apex, with a watch."""

    times_us: list[float]
    effort: int

    def decide(self, view: QueueView) -> Offer | Hold:
        began = thread_time_ns()
        decision = super().decide(view)
        self.times_us.append((thread_time_ns() - began) / 1000)
        if isinstance(decision, Offer):
            self.effort += decision.effort
        return decision

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        began = thread_time_ns()
        effort = offer.effort
        placement = super().place(view, offer, nodes)
        self.times_us[-1] += (thread_time_ns() - began) / 1000
        self.effort += offer.effort - effort
        return placement


def print_decisions(screen: Console, catalog: Catalog) -> None:
    """How long it takes to decide and to place, in the relaxed-heavy setting."""
    setting = SETTINGS["relaxed-heavy"]
    scenario = Scenario(slo_scale=setting.slo_scale, nodes=16, vcpus=16, vgpus=7)
    seen = applied(catalog, scenario)
    timed = Timed(seen, BatchPlansCache(), without=frozenset())
    timed.times_us, timed.effort = [], 0
    pools = build_pools(seen, scenario)
    world = World(Scheduler(seen, timed), pools, build_durations(seen, scenario))
    for pool in pools.values():
        world.tell(0, pool.joined())
    world.run(
        Generated(Workload(rate=setting.rate, requests=600)).arrivals(list(seen.applications), 0)
    )
    p50, p99 = percentiles(timed.times_us, 50, 99)
    screen.print(
        f"{len(timed.times_us)} decisions: p50 {p50:.0f} us (aim: below {AIM_US}), p99 {p99:.0f} "
        f"us; {1000 * timed.effort / sum(timed.times_us):.0f} of effort take a millisecond"
    )


if __name__ == "__main__":
    main()
