"""`esg compare`: two saved results side by side."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from esg.cli.evaluation.comparison import margin_text
from esg.cli.evaluation.saved_results import SavedFigures, SavedResult, SavedRun, read_result
from esg.console.conditions import Html, all_different
from esg.console.formatting import cost_text, joined, latency_text, rate_text
from esg.console.options import AsJson
from esg.console.terminal import open_table, print_json, print_line, terminal
from esg.core.metrics import CAPTION
from esg.emulator.sweep import Estimate
from esg.errors import Rejected
from esg.files import written
from esg.reporting.provenance import Provenance

LEGEND = (
    f"{CAPTION} difference: the second against the first; hit rates in points, the others "
    "relative. ±: 95 % confidence interval, paired by seed."
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by which runs are compared: as points, or relative."""

    name: str
    of: Callable[[SavedFigures], float | None]
    text: Callable[[float | None], str]
    relative: bool = True

    def change(self, first: float, second: float) -> float | None:
        if not self.relative:
            return second - first
        return second / first - 1 if first else None


FIGURES = (
    Figure("hit rate", lambda one: one.hit_rate, rate_text, relative=False),
    Figure("USD per 1k", lambda one: one.cost_usd_per_1k, cost_text),
    Figure("p50, ms", lambda one: one.latency_ms.p50, latency_text),
    Figure("p90, ms", lambda one: one.latency_ms.p90, latency_text),
    Figure("p99, ms", lambda one: one.latency_ms.p99, latency_text),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of one part of both runs; with the margin of the difference, if it has one."""

    part: str
    figure: Figure
    first: float | None
    second: float | None
    change: float | None
    margin: float | None

    def texts(self) -> tuple[str, str, str]:
        """Both values and the difference."""
        return self.figure.text(self.first), self.figure.text(self.second), self._change_text()

    def _change_text(self) -> str:
        if self.change is None:
            return "-"
        unit = "%" if self.figure.relative else ""
        return f"{100 * self.change:+.1f}{unit}" + margin_text(" ", self.margin, 100, decimals=1)

    def document(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "figure": self.figure.name,
            "first": self.first,
            "second": self.second,
            "relative" if self.figure.relative else "difference": self.change,
            "margin": self.margin,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A run of each file."""

    first: SavedRun
    second: SavedRun
    lines: list[Line]

    @property
    def names(self) -> tuple[str, str]:
        return self.first.policy, self.second.policy


def compare(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="A saved result (JSON).")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Another one.")],
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Compare two saved results, side by side.

    Results are what esg emulate --json and loadgen --json print. The policies that both files have
    are compared; if each has only one, these two. If both have the same seeds, differences are
    paired by seed and have a margin.

    \b
    Examples:
      esg emulate --seeds 5 --nodes 8 --json > 8.json
      esg emulate --seeds 5 --nodes 16 --json > 16.json
      esg compare 8.json 16.json --html compared.html
    """
    all_different({"FIRST": first, "--html": html})
    all_different({"SECOND": second, "--html": html})
    both = read_result(first), read_result(second)
    found = compared(*both)
    if html is not None:
        from esg.cli.evaluation.pages import compared as page  # plotly takes half a second

        with written(html) as file:
            file.write(page.page(both, found, Provenance.of_now("esg")))
    if as_json:
        print_json({"first": str(first), "second": str(second), "runs": [*map(_document, found)]})
        return
    screen = terminal()
    for name, values in different_facts(both):
        print_line(screen, f"{name}: {values[0]} | {values[1]}")
    for one in found:
        screen.print()
        screen.print(_table(both, one))
    screen.print(f"\n{LEGEND}")


def compared(first: SavedResult, second: SavedResult) -> list[Compared]:
    """The runs that can be compared: of the same policy; or the only ones, whatever theirs are."""
    common = [name for name in first.runs if name in second.runs]
    if not common and len(first.runs) == len(second.runs) == 1:
        return [_pair(*first.runs.values(), *second.runs.values())]
    if not common:
        raise Rejected(
            f"the files have no policy in common: {first.file} has {joined(first.runs)}, "
            f"{second.file} has {joined(second.runs)}"
        )
    return [_pair(first.runs[name], second.runs[name]) for name in common]


def _pair(first: SavedRun, second: SavedRun) -> Compared:
    return Compared(first=first, second=second, lines=list(_lines(first, second)))


def _lines(first: SavedRun, second: SavedRun) -> Iterator[Line]:
    everything = next(iter(first.parts))
    seeds = list(first.by_seed) if list(first.by_seed) == list(second.by_seed) else []
    for part in (name for name in first.parts if name in second.parts):
        for figure in FIGURES:
            values = figure.of(first.parts[part]), figure.of(second.parts[part])
            pairs = [values]
            if part == everything and seeds:
                pairs = [(figure.of(first.by_seed[s]), figure.of(second.by_seed[s])) for s in seeds]
            changes = [figure.change(a, b) for a, b in pairs if a is not None and b is not None]
            found = Estimate.of([change for change in changes if change is not None])
            yield Line(
                part=part,
                figure=figure,
                first=values[0],
                second=values[1],
                change=found.mean if changes else None,
                margin=found.margin if len(changes) > 1 else None,
            )


def different_facts(both: tuple[SavedResult, SavedResult]) -> Iterator[tuple[str, tuple[str, str]]]:
    """What tells the two results from each other."""
    first, second = (one.facts for one in both)
    for name in dict.fromkeys([*first, *second]):
        values = first.get(name, ""), second.get(name, "")
        if values[0] != values[1]:
            yield name, values


def headings(both: tuple[SavedResult, SavedResult], one: Compared) -> tuple[str, str]:
    """A heading for each side: its file, and its policy if theirs differ."""
    files = [result.file.name for result in both]
    if one.names[0] == one.names[1]:
        return files[0], files[1]
    return f"{files[0]}: {one.names[0]}", f"{files[1]}: {one.names[1]}"


def _table(both: tuple[SavedResult, SavedResult], one: Compared) -> Table:
    table = open_table()
    table.add_column(one.names[0] if one.names[0] == one.names[1] else "", overflow="fold")
    for heading in (*headings(both, one), "difference"):
        table.add_column(heading, justify="right", overflow="fold")
    part = ""
    for line in one.lines:
        if line.part != part:
            part = line.part
            table.add_row(part, style="bold")
        table.add_row(f"  {line.figure.name}", *line.texts())
    return table


def _document(one: Compared) -> dict[str, Any]:
    return {"policies": list(one.names), "lines": [line.document() for line in one.lines]}
