"""`esg journal check`: whether a journal is as it was written."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from esg.console.catalog import CatalogFile, read_catalog
from esg.console.conditions import JournalFile
from esg.console.exit_codes import NOT_WELL
from esg.console.options import AsJson
from esg.console.terminal import open_table, print_json, print_line, terminal
from esg.core.catalog.model import Catalog
from esg.core.journal.replay import Diverged
from esg.emulator.history import replay_strictly
from esg.errors import Bug, Rejected
from esg.runtime.journal_check import SegmentCheck, check_journal
from esg.units import US_PER_S

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def journal(context: typer.Context) -> None:
    """Inspect a journal, the write-ahead log of a mesh or of an emulated run."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def check(
    journal: JournalFile,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", help="Also replay it, and compare all orders, as esg replay does."
        ),
    ] = False,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Check a journal for damage.

    Every line has to be there, unchanged and in its place, and every segment has to follow the one
    before it. If not, the exit code is 1, and the first problem of each segment is reported with
    its line and offset. A torn end, as a crash leaves it, is no damage: nothing had been done
    because of it.

    \b
    Examples:
      esg journal check my-mesh/mesh.journal
      esg journal check run.journal --replay
    """
    known = read_catalog(catalog) if replay else None
    segments = check_journal(journal)
    whole = not any(segment.problem for segment in segments)
    difference = _difference(journal, known) if whole and known is not None else ""
    if as_json:
        document = {"journal": str(journal), "whole": whole}
        if replay:
            document["replayed"] = whole and not difference
        print_json(document | {"segments": [_document(s) for s in segments]})
    else:
        _print(segments, difference, replayed=whole and replay)
    if difference and as_json:
        typer.echo(f"error: {difference}", err=True)
    if difference or not whole:
        raise typer.Exit(NOT_WELL)


def _difference(journal: Path, catalog: Catalog) -> str:
    """What a replay that is not identical says."""
    try:
        replay_strictly(journal, catalog)
    except (Bug, Diverged, Rejected) as error:
        return f"the replay is not identical: {error}"
    return ""


def _print(segments: list[SegmentCheck], difference: str, *, replayed: bool) -> None:
    screen = terminal()
    table = open_table()
    table.add_column("segment", no_wrap=True)
    for heading in ("entries", "groups", "from (s)", "to (s)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for segment in segments:
        times = (_seconds(segment.from_us), _seconds(segment.to_us))
        counts = (str(segment.entries), str(segment.groups))
        table.add_row(segment.file.name, *counts, *times, _verdict(segment))
    screen.print(table)
    for segment in segments:
        if segment.problem:
            print_line(screen, f"{segment.file}: {segment.problem}")
    if replayed:
        print_line(screen, difference or "Replayed: the same orders.")


def _verdict(segment: SegmentCheck) -> str:
    if segment.problem:
        return "not whole"
    if segment.torn_bytes:
        return f"whole; torn end: {segment.torn_bytes} B"
    return "whole"


def _seconds(time_us: int | None) -> str:
    return "-" if time_us is None else f"{time_us / US_PER_S:.3f}"


def _document(segment: SegmentCheck) -> dict[str, Any]:
    return {**asdict(segment), "file": str(segment.file), "whole": not segment.problem}
