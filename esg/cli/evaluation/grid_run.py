"""The points of a grid, run and shown together: a row for each point and policy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.table import Table

from esg.cli.evaluation.comparison import (
    MARGINS_LEGEND,
    Result,
    change_text,
    margin_text,
    to_first,
)
from esg.cli.evaluation.emulated import Emulated
from esg.cli.evaluation.grid import GridPoint
from esg.cli.evaluation.study import (
    StudyFindings,
    carry_out_all,
    end_if_interrupted,
)
from esg.console.catalog import read_catalog
from esg.console.conditions import print_notes
from esg.console.formatting import at_hyphens, cost_text, counted, latency_text, rate_text
from esg.console.terminal import fits, open_table, print_json, print_line, terminal
from esg.core.catalog.model import Catalog
from esg.core.metrics import CAPTION
from esg.errors import Rejected

LEGEND = (
    f"{CAPTION} to first: against the first policy at the same point, paired by seed: hit rate in "
    "points, cost relative."
)


def run_grid(
    file: Path,
    points: Sequence[GridPoint],
    *,
    workers: int | None,
    csv: Path | None,
    as_json: bool,
) -> None:
    """Run all points of a grid and show what came of them."""
    read = cache(read_catalog)
    asked = [_emulated(file, point, read) for point in points]
    studies = [one.study for one in asked]
    everywhere = [note for note in asked[0].notes if all(note in one.notes for one in asked)]
    print_notes(everywhere)
    found = carry_out_all(studies, workers=workers, shown=not as_json, csv=csv)
    if as_json:
        shown = [
            {
                "point": dict(points[number].varied),
                "setting": asked[number].document(),
                "seeds": one.seeds,
                "limits": asdict(one.limits),
                "results": list(one.results.values()),
            }
            for number, one in found.items()
        ]
        print_json({"grid": str(file), "seeds": studies[0].seeds, "points": shown})
    else:
        screen = terminal()
        print_line(screen, f"{file}: {_size_text(points, asked[0])}.\n")
        _print_table(screen, [(points[number].varied, one) for number, one in found.items()])
    end_if_interrupted(studies, found)


def _emulated(file: Path, point: GridPoint, read: Callable[[Path | None], Catalog]) -> Emulated:
    try:
        asked = Emulated.of(point.options, point.arrivals, point.catalog, read)
        asked.study.check()
    except Rejected as error:
        where = f"at {point.text}: " if point.varied else ""
        raise Rejected(f"{file}: {where}{error}") from None
    return replace(asked, study=replace(asked.study, point=_columns(point.varied)))


def _columns(varied: Mapping[str, object]) -> dict[str, object]:
    """What varies as columns of a CSV file, which has a column `nodes` already.

    >>> _columns({"nodes": 8, "slo-scale": 1.2})
    {'grid_nodes': 8, 'grid_slo_scale': 1.2}
    """
    return {"grid_" + key.replace("-", "_"): value for key, value in varied.items()}


def _size_text(points: Sequence[GridPoint], first: Emulated) -> str:
    seeds, policies = len(first.study.seeds), len(first.study.policies)
    counts = [counted(len(points), "point"), counted(seeds, "seed")]
    if policies > 1:
        counts.insert(1, f"{policies} policies")
    return " x ".join(counts)


Row = tuple[Mapping[str, object], StudyFindings]


def _print_table(screen: Console, rows: Sequence[Row]) -> None:
    table = _table(rows, gap=" ")
    if not fits(table, screen):
        table = _table(rows, gap="\n")
    if not fits(table, screen):
        table.padding = 0
    screen.print(table)
    several = any("runs" in result for _, one in rows for result in one.results.values())
    screen.print(f"\n{LEGEND}{MARGINS_LEGEND if several else ''}")


COMPARED = ("hit rate\nto first", "cost\nto first")


def _table(rows: Sequence[Row], gap: str) -> Table:
    compared = COMPARED if len(rows[0][1].results) > 1 else ()
    table = open_table()
    for key in rows[0][0]:
        table.add_column(at_hyphens(key, 8), justify="right", overflow="fold")
    table.add_column("policy", overflow="fold")
    for heading in ("hit\nrate", "cost", *compared, "p50\nms", "p99\nms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for varied, one in rows:
        first = next(iter(one.results.values()))
        for policy, result in one.results.items():
            table.add_row(
                *map(str, varied.values()),
                policy,
                *_figures(result, gap),
                *(_to_first(result, first, gap) if compared else ()),
                *(latency_text(result["latency_ms"][name]) for name in ("p50", "p99")),
            )
    return table


def _figures(result: Result, gap: str) -> tuple[str, str]:
    return (
        rate_text(result["slo_hit_rate"])
        + margin_text(gap, result.get("slo_hit_rate_margin"), 100, decimals=1),
        cost_text(result["cost_usd_per_1k_requests"])
        + margin_text(gap, result.get("cost_usd_per_1k_requests_margin"), 1, decimals=4),
    )


def _to_first(result: Result, first: Result, gap: str) -> tuple[str, str]:
    if result is first:
        return "", ""
    difference = to_first(result, first)
    hits, margin = difference["slo_hit_rate"], difference["slo_hit_rate_margin"]
    points = "-" if hits is None else f"{100 * hits:+.1f}"
    return points + margin_text(gap, margin, 100, decimals=1), change_text(difference, gap)
