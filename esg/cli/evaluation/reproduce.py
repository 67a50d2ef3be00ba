"""`esg reproduce`: the paper's evaluation, claim by claim, on the terminal and as a page."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from esg.console.arrivals import MOST_REQUESTS
from esg.console.catalog import read_catalog
from esg.console.conditions import MOST_SEEDS, Workers
from esg.console.formatting import at_hyphens, counted
from esg.console.options import AsJson, at_least
from esg.console.progress import progress_bar
from esg.console.terminal import open_table, print_json, terminal
from esg.core.catalog.model import Catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.metrics import CAPTION, shown_percent
from esg.core.policies.settings import Trained
from esg.emulator.reproduce.claims.claim import Claim
from esg.emulator.reproduce.experiments import (
    COST,
    FULL,
    QUICK,
    SYSTEMS,
    Results,
    Size,
    Train,
    main,
)
from esg.emulator.reproduce.html import page
from esg.emulator.reproduce.standings import level_rule
from esg.emulator.reproduce.study import Study, StudyPlan, conduct, document, wins
from esg.emulator.scenario import SETTINGS
from esg.emulator.training.train import Budget, trained_configs
from esg.emulator.worker_processes import usable_cores
from esg.files import written

DEFAULT_FILE = Path("esg-reproduce.html")

FEWEST_REQUESTS = 20
"""With fewer, an application that never comes is likely, and no figure means anything."""


def reproduce(
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Fewer requests and seeds: about three minutes on two cores."),
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the report goes, as one HTML page.")
    ] = DEFAULT_FILE,
    requests: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(FEWEST_REQUESTS, at_most=MOST_REQUESTS),
            show_default="4000, or 500 with --quick",
            help="Requests per run.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_SEEDS),
            show_default="5, or 3 with --quick",
            help="Run everything with the seeds 0 to N - 1.",
        ),
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Repeat the paper's evaluation and report which of its claims hold.

    Five systems in three settings with the catalog shipped with ESG, then Orion's search time, the
    time of a decision, K, group size, and ESG without GPU sharing and without batching. What
    Aquatope learns offline is kept in a cache, so the first time takes longer.

    \b
    Examples:
      esg reproduce --quick
      esg reproduce --out report.html
      esg reproduce --quick --json > study.json
    """
    usual = QUICK if quick else FULL
    size = replace(usual, requests=requests or usual.requests, seeds=seeds or usual.seeds)
    command = _command(quick=quick, requests=requests, seeds=seeds)
    with written(out) as file:
        study = _study(size, command=command, workers=workers, shown=not as_json)
        file.write(page(study, ended=datetime.now().astimezone()))
    if as_json:
        print_json(document(study) | {"report": str(out)})
    else:
        print_study(terminal(), study)
        terminal().print(f"\nThe report with all figures: {out}", soft_wrap=True)


def _command(*, quick: bool, requests: int | None, seeds: int | None) -> str:
    words = ["esg reproduce"]
    words += ["--quick"] * quick
    words += [f"--requests {requests}"] * (requests is not None)
    words += [f"--seeds {seeds}"] * (seeds is not None)
    return " ".join(words)


def _study(size: Size, *, command: str, workers: int | None, shown: bool) -> Study:
    catalog = on_its_cluster(read_catalog(None))
    courses = len(SETTINGS) * len(catalog.applications)
    with progress_bar("training Aquatope", courses, shown=shown) as advance:
        plan = StudyPlan.of(catalog, size, _training(advance, workers or usable_cores()))
    done = 0.0

    def progress(steps: float) -> None:
        nonlocal done
        done = steps
        advance(steps)

    with progress_bar(counted(len(plan.runs), "run"), plan.steps, shown=shown) as advance:
        try:
            return conduct(
                plan,
                training=_training_text(),
                command=command,
                workers=workers,
                progress=progress,
            )
        except KeyboardInterrupt:
            typer.echo(
                f"interrupted: {done / plan.steps:.0%} was done; the report needs all of it, and "
                "fewer --requests or --seeds take less time",
                err=True,
            )
            raise


def _training(advance: Callable[[float], None], workers: int) -> Train:
    """Aquatope's training for one setting after the other, on one bar."""
    before = 0

    def train(catalog: Catalog) -> Trained:
        nonlocal before
        learnt = dict.fromkeys(catalog.applications, 0.0)

        def tell(application: str, done: int, total: int) -> None:
            learnt[application] = done / total
            advance(before + sum(learnt.values()))

        configs = trained_configs(catalog, seed=0, progress=tell, workers=workers)
        before += len(learnt)
        return configs

    return train


def _training_text() -> str:
    budget = Budget()
    return (
        f"Aquatope learnt from {budget.trials} trial runs per application and setting "
        f"({budget.bootstrap} random ones, then {budget.rounds} rounds of {budget.per_round})."
    )


def print_study(screen: Console, study: Study) -> None:
    """Print a study: tables, wins and claims, everything but the figures."""
    size = study.results.size
    screen.print(
        f"The paper's evaluation, with {size.requests} requests per run and "
        f"{counted(size.seeds, 'seed')}. {study.training}\n"
    )
    screen.print(_main_table(study.results))
    screen.print(
        f"\n{CAPTION} hit: that rate in percent"
        + (", ±: 95 % confidence interval of the mean" if size.seeds > 1 else "")
        + ". cost: relative to ESG. Rivals are shown with the reading of their rule that does best "
        "here. limits: the most that could be in time with unlimited warm resources, and the least "
        "it costs to be in time, with every batch full.\n"
    )
    screen.print("All readings\n", style="bold")
    screen.print(_readings_table(study.results), "")
    _print_wins(screen, study.results)
    _print_claims(screen, study.claims)
    screen.print(f"\n{study.reproduced} of {len(study.claims)} claims reproduced", style="bold")


def _main_table(results: Results) -> Table:
    table = _settings_table("system")
    for system in SYSTEMS:
        policy = results.reading(system)
        name = system if policy == system.lower() else f"{system}\n  {policy}"
        table.add_row(name, *_cells(results, policy))
    table.add_section()
    table.add_row("limits", *_cells(results, "limits"), style="dim")
    return table


def _readings_table(results: Results) -> Table:
    table = _settings_table("reading")
    for readings in SYSTEMS.values():
        for policy in readings:
            table.add_row(policy, *_cells(results, policy))
    table.add_row("esg, with A*", *_cells(results, "esg-astar"))
    table.add_row("apex (ours)", *_cells(results, "apex"))
    return table


def _settings_table(what: str) -> Table:
    table = open_table()
    table.add_column(what, no_wrap=True)
    for setting in SETTINGS:
        table.add_column(f"{at_hyphens(setting, 9)}\nhit", justify="right", no_wrap=True)
        table.add_column("\n\ncost", justify="right", no_wrap=True)
    return table


def _cells(results: Results, policy: str) -> list[str]:
    cells = []
    for setting in SETTINGS:
        hits = results.estimate(main(setting, policy), "slo_hit_rate")
        cost = results.relative(main(setting, policy), main(setting, "esg"), COST)
        margin = f" ±{100 * hits.margin:.1f}" if results.size.seeds > 1 else ""
        cells += [f"{shown_percent(hits.mean):.1f}{margin}", f"{cost.mean:.2f}"]
    return cells


def _print_wins(screen: Console, results: Results) -> None:
    screen.print("Where each one wins\n", style="bold")
    table = open_table()
    for name in ("setting", "what", "who", "with"):
        table.add_column(name)
    for win in wins(results):
        table.add_row(win.setting, win.contest, ", ".join(win.systems), win.figure)
    screen.print(table)
    screen.print(f"\n{level_rule(results)}\n")


WIDTHS = {"claim": 24, "paper": 13, "ours": 30, "verdict": 11}
"""On 80 columns, with the gaps between them; all grow on a wider terminal."""

WIDEST = 120
"""Longer lines are hard to read."""


def _print_claims(screen: Console, claims: list[Claim]) -> None:
    """Print a table per claim, all as wide, so that an explanation can stand below its own."""
    screen.print(_claims_table(screen))
    section = ""
    for claim in claims:
        if claim.section != section:
            section = claim.section
            screen.print(f"{section}\n", style="bold")
        table = _claims_table(screen, head=False)
        colour = "green" if claim.reproduced else "red"
        table.add_row(claim.text, claim.paper, claim.ours, Text(claim.verdict, style=colour))
        screen.print(table)
        if claim.why and not claim.reproduced:
            screen.print(Padding(Text(f"why: {claim.why}", style="dim"), (0, 0, 0, 4)))
        screen.print()


def _claims_table(screen: Console, *, head: bool = True) -> Table:
    table = open_table()
    table.show_header = head
    table.width = min(screen.width, WIDEST)
    for name, width in WIDTHS.items():
        table.add_column(name, ratio=width, overflow="fold")
    return table
