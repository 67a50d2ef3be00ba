"""`esg profile drift`: how far what tasks take is from their profiles."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from esg.cli.evaluation.history import replayed_strictly
from esg.cli.requests.connection import run_live
from esg.client import AsyncClient, ProfileStatus
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.handled import handled_notes
from esg.console.options import AsJson, Gateway
from esg.console.terminal import open_table, print_json, terminal
from esg.core.estimation.drift import ENOUGH, drifts
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from esg.units import PPM, to_ms

FEW = (
    f"*: fewer than {ENOUGH} tasks. Their median says little yet, and plans do not follow it "
    "before."
)


def drift(
    gateway: Gateway = DEFAULT_GATEWAY,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="ask the mesh", help="Read a journal instead."),
    ] = None,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare measured task times with the profiles, and show what plans assume.

    Only warm tasks count, timed by the controller from dispatch to the report of their end. Whether
    plans follow is the setting controller.follow_profiles. Times are those of the smallest config.
    A note says, by the catalog here, whose handlers use vCPUs otherwise than was modelled.

    \b
    Examples:
      esg profile drift
      esg profile drift --journal mesh.journal --json
    """
    if journal is None:
        found = run_live(_asked(gateway))
    else:
        found = _replayed(journal, catalog)
    if as_json:
        print_json({"profiles": [_document(one) for one in found]})
    elif found:
        screen = terminal()
        screen.print(_table(found))
        if any(map(_few, found)):
            screen.print(f"\n{FEW}")
        for note in _notes(found, catalog):
            screen.print(f"\n{note}")
    else:
        terminal().print(
            "Nothing was measured yet: no warm task has ended, or profiles are not followed."
        )


async def _asked(gateway: str) -> Sequence[ProfileStatus]:
    async with AsyncClient(gateway) as mesh:
        async for status in mesh.watch_mesh(0):
            return status.profiles
    return ()


def _replayed(journal: Path, catalog: Path | None) -> Sequence[ProfileStatus]:
    replayed, _ = replayed_strictly(journal, read_catalog(catalog))
    scheduler = replayed.scheduler
    return [
        ProfileStatus(
            function=one.function,
            batch=one.batch,
            kind=one.kind,
            tasks=one.tasks,
            profiled_ms=to_ms(one.profiled_us),
            measured=one.measured_ppm / PPM,
            planned=one.planned_ppm / PPM,
        )
        for one in drifts(scheduler.state, scheduler.catalog)
    ]


def _notes(found: Sequence[ProfileStatus], catalog: Path | None) -> list[str]:
    """Why some tasks may not take what is profiled, by the catalog here: a mesh tells its times
    only."""
    functions = read_catalog(catalog).functions
    names = dict.fromkeys(one.function for one in found)
    return handled_notes(functions[name] for name in names if name in functions)


def _few(one: ProfileStatus) -> bool:
    return one.tasks < ENOUGH


def _document(one: ProfileStatus) -> dict[str, Any]:
    return {
        **asdict(one),
        "few_tasks": _few(one),
        "measured_ms": one.profiled_ms * one.measured,
        "planned_ms": one.profiled_ms * one.planned,
    }


def _table(found: Sequence[ProfileStatus]) -> Table:
    table = open_table()
    table.add_column("function", overflow="fold")
    kinds = any(one.kind for one in found)
    if kinds:
        table.add_column("slices", no_wrap=True)
    for heading in (
        "batch",
        "tasks",
        "profiled\nms",
        "measured\nms",
        "measured /\nprofiled",
        "planned /\nprofiled",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        table.add_row(
            one.function,
            *([one.kind or "usual"] if kinds else []),
            str(one.batch),
            f"{one.tasks}{'*' * _few(one)}",
            f"{one.profiled_ms:.1f}",
            f"{one.profiled_ms * one.measured:.1f}",
            f"{one.measured:.3f}",
            f"{one.planned:.3f}",
        )
    return table
