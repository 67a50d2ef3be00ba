"""`esg profile show`: what a function takes and costs, config by config."""

import re
from textwrap import fill
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from esg.console.catalog import CatalogFile, read_catalog
from esg.console.formatting import job_cost_text, ms_text
from esg.console.handled import handled_notes
from esg.console.options import AsJson, Tasks, at_least
from esg.console.terminal import open_table, print_json, terminal
from esg.core.catalog.model import Catalog, with_tasks
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.profile import Profile
from esg.core.catalog.slice_kinds import USUAL
from esg.core.catalog.unplanned import real_name
from esg.errors import Rejected
from esg.suggest import did_you_mean
from esg.units import to_ms, to_usd


def show(
    function: Annotated[
        str, typer.Argument(metavar="FUNCTION", help="The function (see esg apps).")
    ],
    batch: Annotated[
        int | None,
        typer.Option(metavar="N", callback=at_least(1), help="Only configs with this batch size."),
    ] = None,
    vcpus: Annotated[
        int | None,
        typer.Option(metavar="N", callback=at_least(1), help="Only configs with this many vCPUs."),
    ] = None,
    vgpus: Annotated[
        int | None,
        typer.Option(metavar="N", callback=at_least(1), help="Only configs with this many vGPUs."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Only configs on slices of this kind, as in 3g.40gb."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All configs, not only the Pareto-optimal ones.")
    ] = False,
    tasks: Tasks = TaskMode.JOINT,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Show time and cost of a function's configs.

    Shows the Pareto-optimal configs: no other is both as fast and as cheap per job. With --all, or
    as JSON, all of them. Of the time, what is not spent on the slices or after that is spent
    before.

    \b
    Examples:
      esg profile show segmentation
      esg profile show segmentation --all --batch 4 --vgpus 1 --kind 1g.10gb
      esg profile show depth --json | jq '.rows | length'
    """
    whole = with_tasks(read_catalog(catalog), tasks)
    known = whole.function(function)
    chosen = known.profile if kind is None else _on_kind(known.profile, kind, whole)
    wanted = {"batch": batch, "vcpus": vcpus, "vgpus": vgpus}
    rows = _matching(chosen, {name: n for name, n in wanted.items() if n is not None})
    if as_json:
        print_json(_document(chosen, rows))
        return
    screen = terminal()
    shown = rows if every else _unbeaten(chosen, rows)
    of_all = f" of {len(chosen.configs)}" if len(shown) < len(chosen.configs) else ""
    why = " (the Pareto-optimal ones; --all shows the rest)" if len(shown) < len(rows) else ""
    screen.print(f"{function}: {len(shown)}{of_all} configs{why}\n")
    screen.print(_table(chosen, shown, whole.kinds[USUAL].name))
    screen.print(f"\nA run's time varies by {chosen.relative_std:.1%} (standard deviation).")
    for note in handled_notes([known]):
        screen.print(note)
    screen.print("Provenance:")
    for line in re.split(r"; (?=[\w-]+: )", chosen.provenance):
        told = fill(line, screen.width, initial_indent="  ", subsequent_indent="    ")
        screen.print(told, soft_wrap=True)


def _on_kind(profile: Profile, kind: str, whole: Catalog) -> Profile:
    names = {real_name(whole, known): known for known in profile.kinds}
    if kind not in names:
        raise Rejected(f"--kind: {did_you_mean('kind of slices', kind, names)}")
    return profile.on_kinds([names[kind]])


def _matching(profile: Profile, wanted: dict[str, int]) -> list[int]:
    """Where in the profile the wanted configs are; there is at least one, or a reason why not."""
    for name, number in wanted.items():
        known = sorted({getattr(config, name) for config in profile.configs})
        if number not in known:
            raise Rejected(
                f"--{name} is {number}; {profile.function} is profiled with "
                f"{', '.join(map(str, known))}"
            )
    rows = [
        row
        for row, config in enumerate(profile.configs)
        if all(getattr(config, name) == number for name, number in wanted.items())
    ]
    if not rows:
        asked = " ".join(f"--{name} {number}" for name, number in wanted.items())
        raise Rejected(f"{profile.function} has no config with {asked}; leave out one of them")
    return rows


def _unbeaten(profile: Profile, rows: list[int]) -> list[int]:
    """From the fastest to the cheapest per job: each is cheaper than all that are as fast."""
    times, costs = profile.time_us.tolist(), profile.job_cost_pusd.tolist()
    found: list[int] = []
    for row in sorted(rows, key=lambda row: (times[row], costs[row])):
        if not found or costs[row] < costs[found[-1]]:
            found.append(row)
    return found


def _document(profile: Profile, rows: list[int]) -> dict[str, Any]:
    return {
        "function": profile.function,
        "provenance": profile.provenance,
        "relative_std": profile.relative_std,
        "modelled_cpu": profile.cpu,
        "rows": [
            {
                **profile.configs[row]._asdict(),
                "time_ms": to_ms(int(profile.time_us[row])),
                "slices_ms": to_ms(int(profile.slices_us[row])),
                "after_ms": to_ms(int(profile.after_us[row])),
                "cost_usd_per_task": to_usd(int(profile.task_cost_pusd[row])),
                "cost_usd_per_job": to_usd(int(profile.job_cost_pusd[row])),
            }
            for row in rows
        ],
    }


def _table(profile: Profile, rows: list[int], usual: str) -> Table:
    times_us, costs = profile.time_us.tolist(), profile.job_cost_pusd.tolist()
    fastest = min(rows, key=lambda row: (times_us[row], costs[row]))
    cheapest = min(rows, key=lambda row: (costs[row], times_us[row]))
    table = open_table()
    parts = {"on slices\nms": profile.slices_us.tolist(), "after\nms": profile.after_us.tolist()}
    if not any(parts["after\nms"]):
        del parts["after\nms"]  # a model says nothing of it
    headings = ("time\nms", *parts, "USD per\n1k tasks", "USD per\n1k jobs")
    several = any(profile.configs[row].kind for row in rows)
    kind = ("kind",) if several else ()
    for heading in ("batch", "vCPUs", "vGPUs", *kind, *headings):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        marks = ["fastest"] * (row == fastest) + ["cheapest per job"] * (row == cheapest)
        table.add_row(
            *map(str, profile.configs[row][:3]),
            *([profile.configs[row].kind or usual] if several else ()),
            ms_text(times_us[row]),
            *(ms_text(part_us[row]) for part_us in parts.values()),
            job_cost_text(int(profile.task_cost_pusd[row])),
            job_cost_text(costs[row]),
            Text(" and ".join(marks), style="bold green"),
            style="bold" if marks else "",
        )
    return table
