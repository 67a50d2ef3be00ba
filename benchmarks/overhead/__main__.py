"""What the mesh adds: pipelines of three stages that take no time, through real processes.

    python -m benchmarks.overhead [--rounds N] [--seconds S] [--slices N] [--against DIR] [--json]

Client, gateway, controller, invoker, slices and Redis are processes of their own, on loopback, and
the journal is written and synced as by default. The reference is what cannot be done without: three
calls to a slice, one after the other, by a client that does nothing else. It is measured in every
round again, because the machine's speed changes. DIR is another checkout, with a .venv of its own,
whose mesh runs beside this one, so that both are measured in the same rounds.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import uvloop
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.live import no_op_catalog
from benchmarks.overhead.figures import document
from benchmarks.overhead.rounds import BEFORE, OURS, Rounds, all_rows, measured
from esg.runtime.settings_file import environment

TITLES = {OURS: "", BEFORE: ", before"}


async def run(catalog: Path, arguments: argparse.Namespace) -> Rounds:
    async with all_rows(catalog, arguments.slices, arguments.against) as rows:
        return await measured(rows, arguments.rounds, arguments.seconds)


def show(found: dict[str, Any]) -> None:
    """In several tables, because one would be wider than a terminal."""
    screen = Console()
    calls = [row for row in found["rows"] if not row["mesh"]]
    meshes = {
        mesh: [row for row in found["rows"] if row["mesh"] == mesh]
        for mesh in TITLES
        if any(row["mesh"] == mesh for row in found["rows"])
    }
    for mesh, rows in meshes.items():
        before = TITLES[mesh]
        screen.print(_times(f"Three stages that take no time{before}", [*calls, *rows]))
        screen.print(_ratios(f"Times what the calls take in the same round{before}", rows))
        screen.print(_per_kind(f"CPU time per request, ms{before}", "cpu_ms", [*calls, *rows]))
        switches = f"Voluntary context switches per request{before}"
        screen.print(_per_kind(switches, "switches", [*calls, *rows]))
    if found["to_before"]:
        screen.print(_to_before(found["to_before"]))
    screen.print(_aims(found["aims"]))
    screen.print(
        f"{found['rounds']} rounds of {found['seconds']:g} s each. Ratios are medians of "
        "ratios within a round, \\[least-most].\nCPU and switches of the calls are those of "
        "both ends; of a mesh, all but the client's."
    )


def _times(title: str, rows: list[dict[str, Any]]) -> Table:
    table = _table(title, "p50 ms", "p99 ms", "per s", "CPU ms", "switches")
    for row in rows:
        times = (row["p50_ms"], row["p99_ms"], row["per_s"], row["cpu_ms_sum"], row["switches_sum"])
        table.add_row(row["what"], *map(_figure, times))
    return table


def _ratios(title: str, rows: list[dict[str, Any]]) -> Table:
    table = _table(title, "p50", "rate", "CPU")
    for row in rows:
        figures = ("p50_ms", "per_s", "cpu_ms")
        table.add_row(row["what"], *(_spread(row["to_calls"][figure]) for figure in figures))
    return table


def _per_kind(title: str, what: str, rows: list[dict[str, Any]]) -> Table:
    kinds = list(rows[-1][what])
    table = _table(title, *kinds)
    for row in rows:
        table.add_row(
            row["what"],
            *(_figure(row[what][kind]) if kind in row[what] else "" for kind in kinds),
        )
    return table


def _to_before(rows: list[dict[str, Any]]) -> Table:
    table = _table("Times what it was before", "p50", "rate", "CPU", "switches")
    for row in rows:
        figures = ("p50_ms", "per_s", "cpu_ms")
        switches = _figure(row["switches"]["median"])
        table.add_row(row["what"], *(_spread(row[figure]) for figure in figures), switches)
    return table


def _aims(rows: list[dict[str, Any]]) -> Table:
    table = _table("Aims, for two cores", "found", "aim", "reached")
    for row in rows:
        verdict = "yes" if row["reached"] else "NO"
        table.add_row(row["what"], _spread(row["found"]), row["aim"], verdict)
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("what", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _spread(found: dict[str, float]) -> str:
    middle, least, most = (_figure(found[which]) for which in ("median", "least", "most"))
    return f"{middle} \\[{least}-{most}]"


def _figure(value: float) -> str:
    """Three digits say all that a machine like this can."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.6, help="per row and round")
    parser.add_argument("--slices", type=int, default=2, help="the fewer, the larger the batches")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with no_op_catalog() as catalog:
        os.environ |= environment("common", {"catalog": catalog, "log_level": "warning"})
        rounds = uvloop.run(run(catalog, arguments))
    found = document(rounds, arguments.seconds)
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
