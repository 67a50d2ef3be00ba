"""`esg profile compare`: where two catalogs differ."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from esg.console.catalog import read_catalog
from esg.console.formatting import counted, joined, ms_text
from esg.console.options import AsJson, at_least
from esg.console.terminal import open_table, print_json, terminal
from esg.core.catalog.config import CONFIG_LEGEND
from esg.profiler.compare import Comparison, Difference
from esg.profiler.compare import compare as compared
from esg.units import to_ms

SHOWN = 20


def compare(
    one: Annotated[Path, typer.Argument(metavar="A", help="A catalog file.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    function: Annotated[
        str | None, typer.Option(metavar="NAME", show_default="all", help="Only this function.")
    ] = None,
    rows: Annotated[
        int, typer.Option(metavar="N", callback=at_least(1), help="How many are shown.")
    ] = SHOWN,
    as_json: AsJson = False,
) -> None:
    """Show where the profiles of two catalogs differ, the largest differences first.

    \b
    Examples:
      esg profile compare measured/catalog.toml last-week/catalog.toml
      esg profile compare A.toml B.toml --function depth --json
    """
    catalogs = read_catalog(one), read_catalog(other)
    found = compared(*catalogs)
    if function is not None:
        for catalog in catalogs:
            catalog.function(function)
        chosen = [one for one in found.differences if one.function == function]
        found = Comparison(chosen, [], [])
    if as_json:
        print_json(_document(found))
        return
    screen = terminal()
    shown = found.differences[:rows]
    of_all = f", {len(shown)} of them below" if len(shown) < len(found.differences) else ""
    screen.print(f"A: {one}\nB: {other}\n", soft_wrap=True)
    screen.print(f"{counted(len(found.differences), 'config')} in both or one of them{of_all}.\n")
    screen.print(_table(shown))
    for name, only in (("A", found.only_one), ("B", found.only_other)):
        if only:
            screen.print(f"Only in {name}: {joined(only)}.", soft_wrap=True)


def _document(found: Comparison) -> dict[str, Any]:
    return {
        "differences": [
            {
                "function": one.function,
                **one.config._asdict(),
                "a_ms": None if one.one_us is None else to_ms(one.one_us),
                "b_ms": None if one.other_us is None else to_ms(one.other_us),
                "ratio": one.ratio,
            }
            for one in found.differences
        ],
        "only_in_a": found.only_one,
        "only_in_b": found.only_other,
    }


def _table(differences: list[Difference]) -> Table:
    table = open_table()
    table.add_column("function", overflow="fold")
    table.add_column(CONFIG_LEGEND, no_wrap=True)
    for heading in ("A ms", "B ms", "B / A"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in differences:
        table.add_row(
            one.function,
            str(one.config),
            "-" if one.one_us is None else ms_text(one.one_us),
            "-" if one.other_us is None else ms_text(one.other_us),
            "-" if one.ratio is None else f"{one.ratio:.2f}",
        )
    return table
