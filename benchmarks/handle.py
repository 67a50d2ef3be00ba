"""What one event costs: `Scheduler.handle` on the paper's heavy workload, search included.

    .venv/bin/python -m benchmarks.handle [--requests 3000] [--json]

The same arrivals go through the same emulated cluster with each engine, and every call of `handle`
is timed. Beside it stand the search alone, the pools' share, and a replay of the same events, which
is what recovery costs.
"""

import argparse
import gc
import json
from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from statistics import fmean
from time import perf_counter_ns
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.durations import Durations
from esg.core.messages.commands import Command
from esg.core.messages.events import Event
from esg.core.metrics import percentiles
from esg.core.policies.interface import Hold, Offer, Policy, QueueView
from esg.core.policies.table import policy
from esg.core.scheduler.scheduler import Scheduler
from esg.emulator.run import build_pools, requests
from esg.emulator.scenario import SETTINGS, Scenario, applied
from esg.emulator.world import World
from esg.workload.mix import Mix
from esg.workload.rates import steady

AIM_US = 200


class Stopwatch:
    """A scheduler that notes how long each event took."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.times_ns: dict[str, list[int]] = defaultdict(list)
        self.history: list[tuple[int, Event]] = []

    def handle(self, now_us: int, event: Event) -> list[Command]:
        began = perf_counter_ns()
        commands = self._scheduler.handle(now_us, event)
        self.times_ns[type(event).__name__].append(perf_counter_ns() - began)
        self.history.append((now_us, event))
        return commands

    @property
    def next_wake(self) -> int | None:
        return self._scheduler.next_wake


def timed_decisions(policy: Policy) -> list[int]:
    """Have a policy note how long each of its decisions takes."""
    times_ns: list[int] = []
    decide: Callable[[QueueView], Offer | Hold] = policy.decide

    def timed(view: QueueView) -> Offer | Hold:
        began = perf_counter_ns()
        decision = decide(view)
        times_ns.append(perf_counter_ns() - began)
        return decision

    policy.decide = timed  # type: ignore[method-assign]
    return times_ns


def measure(catalog: Catalog, engine: str, count: int) -> list[dict[str, Any]]:
    """One emulated run; a row per kind of event, and the rows beside them."""
    heavy = SETTINGS["relaxed-heavy"]
    scenario = Scenario(engine=engine, slo_scale=heavy.slo_scale, nodes=16, vcpus=16, vgpus=7)
    catalog = applied(catalog, scenario)
    chosen = policy(scenario.policy, catalog, scenario)
    decisions_ns = timed_decisions(chosen)
    watch = Stopwatch(Scheduler(catalog, chosen))
    pools = build_pools(catalog, scenario)
    world = World(watch, pools, Durations(catalog, seed=0))
    for pool in pools.values():
        world.tell(0, pool.joined())
    gc.disable()
    mix = Mix.uniform(list(catalog.applications))
    world.run(requests(islice(steady(heavy.rate, mix, seed=0), count)))
    gc.enable()
    rows = [_row(engine, f"handle {name}", times) for name, times in sorted(watch.times_ns.items())]
    everything = [ns for times in watch.times_ns.values() for ns in times]
    replayed_ns = _replayed(catalog, scenario, watch.history)
    return [
        _row(engine, "handle, all events", everything),
        *rows,
        _row(engine, "of that: the policy's decision", decisions_ns),
        _row(engine, "replay, all events", replayed_ns),
    ]


def _replayed(catalog: Catalog, scenario: Scenario, history: list[tuple[int, Event]]) -> list[int]:
    scheduler = Scheduler(catalog, policy(scenario.policy, catalog, scenario))
    times_ns = []
    for now_us, event in history:
        began = perf_counter_ns()
        scheduler.handle(now_us, event)
        times_ns.append(perf_counter_ns() - began)
    return times_ns


def _row(engine: str, what: str, times_ns: list[int]) -> dict[str, Any]:
    p50, p99 = (ns / 1000 for ns in percentiles(times_ns, 50, 99))
    return {
        "engine": engine,
        "what": what,
        "count": len(times_ns),
        "p50_us": round(float(p50), 1),
        "p99_us": round(float(p99), 1),
        "mean_us": round(fmean(times_ns) / 1000, 1),
        "per_second": round(1e9 / fmean(times_ns)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.handle",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--requests", type=int, default=3000, help="pipeline requests per engine")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    catalog = on_its_cluster(load_catalog())
    rows: list[dict[str, Any]] = []
    errors = Console(stderr=True)
    for engine in track(["frontier", "astar"], "running", console=errors, transient=True):
        rows += measure(catalog, engine, options.requests)
    if options.json:
        print(json.dumps({"requests": options.requests, "aim_us": AIM_US, "rows": rows}, indent=2))
        return
    table = Table(title=f"relaxed-heavy, 16 nodes, {options.requests} requests")
    for name in ("engine", "what", "count", "p50 us", "p99 us", "mean us", "per second"):
        table.add_column(name, justify="left" if name in ("engine", "what") else "right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()), end_section="replay" in row["what"])
    Console().print(table)
    for engine in ("frontier", "astar"):
        p50 = next(row["p50_us"] for row in rows if row["engine"] == engine)
        verdict = "reached" if p50 < AIM_US else "NOT reached"
        print(f"{engine}: handle at {p50} us p50, the aim is below {AIM_US} us: {verdict}")


if __name__ == "__main__":
    main()
