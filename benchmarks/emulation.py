"""How fast is virtual time? The paper's relaxed-heavy setting on 16 nodes, esg with frontier.

    .venv/bin/python -m benchmarks.emulation [--quick] [--json] [--profile]
    .venv/bin/python -m benchmarks.emulation --trace FILE [--duration SECONDS]

One core, with everything that `esg emulate` does: brains, pools, durations, digest of all orders
and report. Time per request must not grow with their number. A trace is scaled to the heavy rate.

On a machine that does other things as well, the time of this process alone (cpu) says more than the
clock on the wall; the aims are for the clock.
"""

import argparse
import cProfile
import json
import os
import platform
import pstats
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from timeit import repeat
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from esg.core.catalog.file import load_catalog
from esg.core.messages.events import Event
from esg.emulator.run import Emulation, emulate
from esg.emulator.scenario import SETTINGS, Scenario, sized
from esg.emulator.sweep import Generated
from esg.workload.plan import Workload

SETTING = "relaxed-heavy"
NODES = 16
AIM_VIRTUAL_S_PER_S = 40
AIM_REQUESTS_PER_S = 3000
FLAT = 1.25
"""Time per request may be so much larger with most requests than with fewest."""

FULL = (1_000, 4_000, 16_000)
QUICK = (500, 2_000)
REPEATS = 5
"""Runs of each size, of which the best counts: the others tell what else the machine did."""
TOP = 15
CALLS = 100_000

Tell = Callable[[float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The best of several runs of the same load."""

    what: str
    requests: int
    virtual_s: float
    wall_s: float
    cpu_s: float
    slo_hit_rate: float
    peak_mb: float

    @property
    def us_per_request(self) -> float:
        return 1e6 * self.cpu_s / self.requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    text: str
    wanted: float
    by_wall: float
    by_cpu: float

    @property
    def reached(self) -> bool:
        return self.by_wall >= self.wanted


class Bench:
    def __init__(self) -> None:
        self._catalog = load_catalog()
        setting = SETTINGS[SETTING]
        cluster = self._catalog.cluster
        self._rate = setting.rate
        self._scenario = Scenario(
            slo_scale=setting.slo_scale, **sized(cluster.resized(nodes=NODES))
        )

    def heavy(self, requests: int) -> Row:
        return self._run("heavy", Generated(Workload(rate=self._rate, requests=requests)))

    def trace(self, path: Path, duration_s: float | None, tell: Tell) -> Row:
        return self._run(
            "trace", Generated(Workload(rate=self._rate, trace=path, duration_s=duration_s)), tell
        )

    def emulate(self, load: Generated, tell: Tell | None = None) -> Emulation:
        arrivals = load.arrivals(list(self._catalog.applications), self._scenario.seed)
        return emulate(
            self._catalog, self._scenario, arrivals if tell is None else _watched(arrivals, tell)
        )

    def _run(self, what: str, load: Generated, tell: Tell | None = None) -> Row:
        began, began_cpu = perf_counter(), process_time()
        summary = self.emulate(load, tell).summary()
        return Row(
            what=what,
            requests=summary["requests"],
            virtual_s=summary["virtual_s"],
            wall_s=perf_counter() - began,
            cpu_s=process_time() - began_cpu,
            slo_hit_rate=summary["slo_hit_rate"],
            peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )


def _watched(arrivals: Iterator[tuple[int, Event]], tell: Tell) -> Iterator[tuple[int, Event]]:
    """The same arrivals; `tell` hears of every virtual second."""
    next_us = 0
    for at_us, event in arrivals:
        if at_us >= next_us:
            tell(at_us / 1e6)
            next_us = at_us + 1_000_000
        yield at_us, event


def aims(row: Row) -> list[Aim]:
    return [
        Aim(
            text="virtual seconds per second",
            wanted=AIM_VIRTUAL_S_PER_S,
            by_wall=row.virtual_s / row.wall_s,
            by_cpu=row.virtual_s / row.cpu_s,
        ),
        Aim(
            text="requests per second",
            wanted=AIM_REQUESTS_PER_S,
            by_wall=row.requests / row.wall_s,
            by_cpu=row.requests / row.cpu_s,
        ),
    ]


def growth(rows: Sequence[Row]) -> float:
    """Time per request with most requests, as a multiple of that with fewest."""
    return rows[-1].us_per_request / rows[0].us_per_request


def profiled(bench: Bench, requests: int) -> list[dict[str, Any]]:
    """Where the time goes: functions by the time spent in themselves, while being watched."""
    profile = cProfile.Profile()
    profile.enable()
    bench.emulate(Generated(Workload(rate="heavy", requests=requests)))
    profile.disable()
    stats: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total_s = sum(own_s for _, _, own_s, _, _ in stats.values())
    rows = [
        {
            "function": f"{_short(file)}:{line} {name}" if line else name,
            "calls_per_request": calls / requests,
            "own_share": own_s / total_s,
            "with_callees_share": cumulative_s / total_s,
        }
        for (file, line, name), (_, calls, own_s, cumulative_s, _) in stats.items()
    ]
    return sorted(rows, key=lambda row: -row["own_share"])[:TOP]


def _short(file: str) -> str:
    path, here = Path(file), Path(__file__).parents[1]
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name


def machine() -> dict[str, str | int | float | None]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "ns per empty call": round(empty_call_ns()),
    }


def empty_call_ns() -> float:
    """A yardstick: what Python takes, here and now, to call a function that does nothing. Where
    that takes twice as long, so does everything else."""

    def nothing() -> None: ...

    return 1e9 * min(repeat(nothing, number=CALLS, repeat=9)) / CALLS


def show(console: Console, rows: Sequence[Row], heavy: Sequence[Row]) -> None:
    table = Table(title=f"{SETTING}, {NODES} nodes, esg with frontier, one core")
    table.add_column("load")
    for heading in ("requests", "virtual\ns", "wall\ns", "cpu\ns", "virtual\ns per s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("requests\nper s", "cpu us per\nrequest", "hit\nrate", "peak\nMB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.what,
            str(row.requests),
            f"{row.virtual_s:.0f}",
            f"{row.wall_s:.2f}",
            f"{row.cpu_s:.2f}",
            f"{row.virtual_s / row.wall_s:.1f}",
            f"{row.requests / row.wall_s:.0f}",
            f"{row.us_per_request:.0f}",
            f"{row.slo_hit_rate:.1%}",
            f"{row.peak_mb:.0f}",
        )
    console.print(table)
    for aim in aims(heavy[-1]):
        verdict = "reached" if aim.reached else "NOT reached"
        console.print(
            f"{aim.text}: {aim.by_wall:.0f} ({aim.by_cpu:.0f} by cpu), "
            f"the aim is {aim.wanted:.0f}: {verdict}"
        )
    verdict = "flat" if growth(heavy) <= FLAT else "NOT flat"
    console.print(
        f"time per request, {heavy[-1].requests} requests against {heavy[0].requests}: "
        f"{growth(heavy):.2f} times: {verdict}"
    )
    console.print(", ".join(f"{key} {value}" for key, value in machine().items()))


def show_profile(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    table = Table(title=f"The {TOP} functions with the most time of their own, under cProfile")
    table.add_column("function", no_wrap=True)
    for heading in ("calls per\nrequest", "own", "with\ncallees"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row["function"],
            f"{row['calls_per_request']:.1f}",
            f"{row['own_share']:.1%}",
            f"{row['with_callees_share']:.1%}",
        )
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.emulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer requests: some 10 seconds")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    parser.add_argument("--profile", action="store_true", help="also show where the time goes")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="also replay a trace")
    parser.add_argument(
        "--duration", type=float, metavar="SECONDS", help="only so much of the trace"
    )
    options = parser.parse_args(arguments)
    bench = Bench()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    sizes = QUICK if options.quick else FULL
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("heavy", total=REPEATS * sum(sizes))
        tries: dict[int, list[Row]] = {size: [] for size in sizes}
        for _ in range(REPEATS):  # in turn, so that a busy minute of the machine hits all alike
            for size in sizes:
                tries[size].append(bench.heavy(size))
                progress.advance(bar, size)
        heavy = [min(found, key=lambda row: row.cpu_s) for found in tries.values()]
        rows = list(heavy)
        if options.trace is not None:
            line = progress.add_task(options.trace.stem, total=options.duration)
            rows.append(
                bench.trace(
                    options.trace, options.duration, lambda at: progress.update(line, completed=at)
                )
            )
    top = profiled(bench, sizes[-1]) if options.profile else []
    if options.json:
        document = {
            "machine": machine(),
            "rows": [asdict(row) for row in rows],
            "aims": [asdict(aim) | {"reached": aim.reached} for aim in aims(heavy[-1])],
            "growth": growth(heavy),
            "profile": top,
        }
        print(json.dumps(document, indent=2))
        return 0
    console = Console(width=None if sys.stdout.isatty() else 100)
    show(console, rows, heavy)
    if top:
        show_profile(console, top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
