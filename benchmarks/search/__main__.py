"""How long does a decision take? Both engines beside brute force and the paper's listing.

    .venv/bin/python -m benchmarks.search [--quick] [--json]

Every function of the default catalog has 256 configs. All engines answer the same seeded questions
(see `search_questions`), each once; references answer a few of them. Where two answer the same
question their costs must be equal, or the run fails with exit code 1.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.search import tables
from benchmarks.search.aims import FRONTIER, THREE, Cells, aims, paper_figures
from benchmarks.search.decisions import (
    FULL,
    PLAIN_LOOPS,
    QUICK,
    Scope,
    Subject,
    cell_count,
    decide,
    plain_loops,
    subjects,
)
from benchmarks.search.growth import Build, Growth, builds, growth, growth_steps
from benchmarks.search.measure import Cell, DisagreementError
from benchmarks.search.questions import SEED
from esg.core.catalog.file import load_catalog
from esg.core.catalog.on_kinds import on_its_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    scope: Scope
    subjects: list[Subject]
    cells: list[Cell]
    builds: list[Build]
    growth: list[Growth]
    compared: int
    took_s: float


def run(scope: Scope, progress: Progress) -> Results:
    start = perf_counter()
    catalog = on_its_cluster(load_catalog())
    asked = subjects(catalog, scope)
    bar = progress.add_task("", total=cell_count(asked, scope) + growth_steps())

    def advance(text: str) -> None:
        progress.update(bar, advance=1, description=text)

    cells, compared = plain_loops(catalog, scope, advance)
    for subject in asked:
        found, agreeing = decide(subject, scope, advance)
        cells += found
        compared += agreeing
    grown = growth(catalog, scope.growth_questions, scope.build_repeats, advance)
    return Results(
        scope=scope,
        subjects=asked,
        cells=cells,
        builds=builds(catalog, scope.build_repeats),
        growth=grown,
        compared=compared + sum(row.compared for row in grown),
        took_s=perf_counter() - start,
    )


def machine() -> dict[str, str | int | None]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def show(results: Results, console: Console) -> None:
    scope, cells = results.scope, Cells(results.cells)
    console.print(
        f"Per cell, engines answer {scope.questions} questions once each (seed {SEED}), after a "
        "warm-up with others; references answer a few of them, from the tightest to the loosest, "
        "and their p99 is the slowest."
    )
    for subject in results.subjects:
        contenders = [*subject.contenders, *([PLAIN_LOOPS] if subject.name == THREE else [])]
        console.print(tables.decisions_table(subject.name, contenders, cells))
    console.print(
        "* plans only to the end of its function group, with the group's part of the time: "
        "a smaller question.\nEffort counts partial plans: configs looked up (frontier), paths "
        "taken up (astar) or looked at (listing), combinations (brute force)."
    )
    console.print(tables.builds_table(results.builds))
    for axis, title in (
        ("stages", "Growth with the number of stages, 256 configs each"),
        ("configs", "Growth with the configs per function, five stages"),
    ):
        console.print(tables.growth_table(results.growth, axis, title))
    console.print(tables.aims_table(aims(cells)))
    console.print(tables.paper_table(paper_figures(cells)))
    console.print(
        f"Costs wherever two answered the same question: [green]equal[/green] "
        f"({results.compared} answers compared). Took {results.took_s:.0f} s; "
        + ", ".join(f"{key} {value}" for key, value in machine().items())
    )


def as_json(results: Results) -> str:
    cells = Cells(results.cells)
    return json.dumps(
        {
            "machine": machine(),
            "scope": asdict(results.scope),
            "seed": SEED,
            "cells": [_cell_numbers(cell, cells) for cell in results.cells],
            "builds": [asdict(build) for build in results.builds],
            "growth": [asdict(row) for row in results.growth],
            "aims": [asdict(aim) for aim in aims(cells)],
            "paper": [asdict(figure) for figure in paper_figures(cells)],
            "costs": "equal",
            "answers_compared": results.compared,
            "took_s": results.took_s,
        },
        indent=2,
    )


def _cell_numbers(cell: Cell, cells: Cells) -> dict[str, object]:
    frontier = cells(cell.subject, FRONTIER, cell.setting, cell.k)
    return {
        "subject": cell.subject,
        "contender": cell.contender,
        "setting": cell.setting,
        "k": cell.k,
        "decisions": len(cell.decisions),
        "p50_ns": cell.p50_ns,
        "p99_ns": cell.p99_ns,
        "mean_ns": cell.mean_ns,
        "max_ns": max(cell.ns),
        "mean_effort": cell.mean_effort,
        "feasible_share": cell.feasible_share,
        "gave_up": cell.gave_up,
        "p50_to_frontier": cell.p50_ns / frontier.p50_ns,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search",
        description="Time the search engines beside brute force and the paper's listing, "
        "and check that all give the same costs.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer questions: some 15 seconds")
    parser.add_argument("--json", action="store_true", help="print raw numbers instead of tables")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 100)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            results = run(QUICK if options.quick else FULL, progress)
    except DisagreementError as error:
        print(f"NOT equal: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(as_json(results))
    else:
        show(results, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
