"""What a decision costs at any size: CPU per emulated request, by nodes and by applications.

    .venv/bin/python -m benchmarks.scale [--policies esg,apex] [--nodes 16,64,256] [--json]
    .venv/bin/python -m benchmarks.scale --policies apex --nodes 1024

The relaxed-heavy setting of the paper, with as many requests per node everywhere: 75 a second on
16 nodes, 4,800 on 1,024. Then the same 16 nodes with more applications, copies of the paper's. What
is built once (engines, nodes) is left out: a figure is the difference between a long run and a
short one. Beside it stands its ratio to 16 nodes with the paper's four applications, and what
Python takes for an empty call, since a machine's speed varies. It takes some two minutes of one
core, and tells each row as it is done.
"""

import argparse
import json
import resource
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from time import process_time
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.emulation import empty_call_ns
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Catalog
from esg.emulator.run import emulate
from esg.emulator.scenario import SETTINGS, Scenario, sized
from esg.emulator.sweep import Generated
from esg.workload.plan import Workload
from esg.workload.rates import parse_rate

SETTING = SETTINGS["relaxed-heavy"]
NODES = 16
"""What the ratios are to."""
AIM_RATIO = 1.5
AIM_MS = 0.5
SHORT, LONG = 1_000, 4_000
"""Requests of the two runs; on more nodes more, so that the short one takes a second, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One size, the best of several tries."""

    policy: str
    nodes: int
    applications: int
    requests: int
    ms_per_request: float
    slo_hit_rate: float
    empty_call_ns: float
    peak_mb: float


def with_applications(catalog: Catalog, count: int) -> Catalog:
    """So many applications: the paper's, and copies of them."""
    found = [*catalog.applications.values()]
    many: dict[str, Application] = {}
    for number in range(count):
        again, place = divmod(number, len(found))
        name = f"{found[place].name}-{again}" if again else found[place].name
        many[name] = replace(found[place], name=name)
    return replace(catalog, applications=many)


def measure(policy: str, nodes: int, applications: int, tries: int) -> Row:
    catalog = with_applications(load_catalog(), applications)
    scenario = Scenario(
        policy=policy,
        slo_scale=SETTING.slo_scale,
        **sized(catalog.cluster.resized(nodes=nodes)),
    )
    per_s = parse_rate(SETTING.rate).mean_per_s * nodes / NODES
    short = max(SHORT, round(per_s))
    sizes = (short, short + LONG - SHORT)

    def run(requests: int) -> tuple[float, float]:
        load = Generated(Workload(rate=f"{per_s:.1f}/s", requests=requests))
        arrivals = load.arrivals(list(catalog.applications), scenario.seed)
        began_s = process_time()
        done = emulate(catalog, scenario, arrivals)
        return process_time() - began_s, done.report.served.hit_rate or 0.0

    best = [min(run(size) for _ in range(tries)) for size in sizes]
    return Row(
        policy=policy,
        nodes=nodes,
        applications=applications,
        requests=sizes[1],
        ms_per_request=1000 * (best[1][0] - best[0][0]) / (sizes[1] - sizes[0]),
        slo_hit_rate=best[1][1],
        empty_call_ns=empty_call_ns(),
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def show(console: Console, rows: Sequence[Row]) -> None:
    table = Table(title="CPU per emulated request, relaxed-heavy per 16 nodes, one core")
    table.add_column("policy")
    for heading in ("nodes", "applications", "ms", "ratio", "hit rate", "ns per empty call", "MB"):
        table.add_column(heading, justify="right")
    for row in rows:
        first = next(other for other in rows if other.policy == row.policy)
        table.add_row(
            row.policy,
            str(row.nodes),
            str(row.applications),
            f"{row.ms_per_request:.3f}",
            f"{row.ms_per_request / first.ms_per_request:.2f}",
            f"{row.slo_hit_rate:.1%}",
            f"{row.empty_call_ns:.0f}",
            f"{row.peak_mb:.0f}",
        )
    console.print(table)
    for first in rows:
        if first.nodes == NODES and first.applications == min(r.applications for r in rows):
            verdict = "reached" if first.ms_per_request <= AIM_MS else "NOT reached"
            console.print(
                f"{first.policy}: {first.ms_per_request:.3f} ms on {NODES} nodes, the aim is at "
                f"most {AIM_MS} ms: {verdict}"
            )
            for row in rows:
                ratio = row.ms_per_request / first.ms_per_request
                if row.policy == first.policy and row.nodes == 256:
                    verdict = "reached" if ratio <= AIM_RATIO else "NOT reached"
                    console.print(
                        f"{row.policy}: {ratio:.2f} times that on {row.nodes} nodes, the aim is at "
                        f"most {AIM_RATIO} times: {verdict}"
                    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks/scale.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--policies", default="esg,apex", help="which, separated by commas")
    parser.add_argument("--nodes", default="16,64,256", help="how many, separated by commas")
    parser.add_argument("--applications", default="4,20,48", help="how many, on the fewest nodes")
    parser.add_argument("--tries", type=int, default=3, help="runs of each size; the best counts")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(arguments)
    nodes = [int(count) for count in options.nodes.split(",")]
    applications = [int(count) for count in options.applications.split(",")]
    sizes = [(count, applications[0]) for count in nodes]
    sizes += [(nodes[0], count) for count in applications[1:]]
    wanted = [(policy, *size) for policy in options.policies.split(",") for size in sizes]
    errors = Console(stderr=True)
    rows = []
    for number, one in enumerate(wanted, start=1):
        row = measure(*one, options.tries)
        rows.append(row)
        errors.print(
            f"{number}/{len(wanted)} {row.policy}, {row.nodes} nodes, {row.applications} "
            f"applications: {row.ms_per_request:.3f} ms"
        )
    if options.json:
        document: dict[str, Any] = {"rows": [asdict(row) for row in rows]}
        print(json.dumps(document, indent=2))
    else:
        show(Console(), rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
