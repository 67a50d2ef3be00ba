"""Runs side by side: as a document, and as tables of at most 80 columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from esg.console.formatting import (
    COST_HEADING,
    at_hyphens,
    cost_text,
    counted,
    latency_text,
    rate_text,
)
from esg.console.terminal import fits, open_table
from esg.core.messages.codec import digest
from esg.core.metrics import CAPTION
from esg.emulator.optimum import OptimumBounds
from esg.emulator.sweep import Estimate

Result = dict[str, Any]
"""A run's summary (see `esg.emulator.run.Emulation`), or the mean of several."""

HIT_RATE, COST = "slo_hit_rate", "cost_usd_per_1k_requests"

LEGEND = (
    f"{CAPTION} to first: cost against the first row, paired by seed. remote: inputs that came "
    "from another node. misses: tasks whose earlier plan could not be followed. decide: time "
    "charged per task for scheduling. L: time alone at the minimum config."
)
LIMITS_LEGEND = (
    "limits: the most that could be in time with unlimited warm resources, and the least it costs "
    "to be in time, with every batch full; a policy that misses deadlines can cost less."
)
POSSIBLE_LEGEND = "in full batches and without waiting, by the profiles and what the nodes have"
"""What is meant by possible at this load."""

COLD_LEGEND = " cold starts: tasks that were sent out before their model was loaded, and waited."

MARGINS_LEGEND = " ±: 95 % confidence interval of the mean over seeds."


def over_seeds(runs: Sequence[Result], seeds: Sequence[int]) -> Result:
    """The mean of several runs, each of which is kept, with margins of the two main figures."""
    if len(runs) == 1:
        return dict(runs[0])
    result: Result = mean_of([{**run, "digest": None} for run in runs])
    result["digest"] = digest("".join(run["digest"] for run in runs))
    for name in (HIT_RATE, COST):
        there = [run[name] for run in runs if run[name] is not None]
        result[f"{name}_margin"] = Estimate.of(there).margin
    named = zip(seeds, runs, strict=True)
    return result | {"runs": [{"seed": seed, **run} for seed, run in named]}


def to_first(result: Result, first: Result) -> dict[str, float | None]:
    """How a result differs from the first: its cost, relative, and its hit rate.

    With several seeds the runs are paired, seed by seed, since both met the same requests and the
    same noise: the margins of a difference are narrower than those of the figures.
    """
    pairs = list(zip(_runs(result), _runs(first), strict=True))
    costs = [(own[COST], base[COST]) for own, base in pairs]
    rates = [(own[HIT_RATE], base[HIT_RATE]) for own, base in pairs]
    return {
        **_difference("cost_relative", [own / base - 1 for own, base in costs if base and own]),
        **_difference(
            "slo_hit_rate", [own - base for own, base in rates if None not in (own, base)]
        ),
    }


def _difference(name: str, values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {name: None, f"{name}_margin": None}
    found = Estimate.of(values)
    return {name: found.mean, f"{name}_margin": found.margin if len(values) > 1 else None}


def _runs(result: Result) -> Sequence[Result]:
    runs: Sequence[Result] = result.get("runs", [result])
    return runs


def mean_of(values: Sequence[Any]) -> Any:
    """The mean of numbers, and of each entry of tables; of what is all the same, that. What is None
    does not count."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    if isinstance(there[0], dict):
        names = dict.fromkeys(name for value in there for name in value)
        return {name: mean_of([value.get(name) for value in there]) for name in names}
    same = all(value == there[0] for value in there)  # a count stays one
    return there[0] if same else fmean(there)


def print_comparison(screen: Console, rows: Mapping[str, Result], limits: OptimumBounds) -> None:
    """Print one table with everything, one with the applications, and what the columns mean."""
    any_cold = any(result["cold_starts"] for result in rows.values())
    columns = [*COLUMNS, COLD_STARTS] if any_cold else list(COLUMNS)
    below: list[_Column] = []
    table = _table(rows, limits, columns, margins_below=False)
    if not fits(table, screen):
        table = _table(rows, limits, columns, margins_below=True)
    if not fits(table, screen):
        table.padding = 0
    while not fits(table, screen) and columns:
        below.insert(0, columns.pop())
        table = _table(rows, limits, columns, margins_below=True)
        table.padding = 0
    screen.print(table)
    if below:
        screen.print()
    for column in below:
        screen.print(
            f"{column.name}: " + ", ".join(f"{n} {column.text(r)}" for n, r in rows.items())
        )
    if limits.possible_at_this_load is not None:
        screen.print(f"\n{possible_text(limits.possible_at_this_load)}")
    for name, result in rows.items():
        if result["done"] < result["requests"] - result["unanswered"]:
            screen.print(f"\n{_unserved(name, result)}")
    several = any("runs" in result for result in rows.values())
    screen.print(
        f"\n{LEGEND} {LIMITS_LEGEND}{COLD_LEGEND if any_cold else ''}"
        f"{MARGINS_LEGEND if several else ''}\n"
    )
    _print_applications(screen, rows)


def possible_text(share: float) -> str:
    return f"Possible at this load: {rate_text(share)} in time, {POSSIBLE_LEGEND}."


def print_summary(screen: Console, result: Result) -> None:
    """Print one run's main figures, in a few lines."""
    latency_ms = result["latency_ms"]
    screen.print(
        f"{counted(result['requests'], 'request')} in {result['virtual_s']:.1f} s: "
        f"{rate_text(result['slo_hit_rate'])} in time, "
        f"{cost_text(result['cost_usd_per_1k_requests'])} USD per 1k; "
        f"p50 {latency_text(latency_ms['p50'])} ms, p99 {latency_text(latency_ms['p99'])} ms; "
        f"mean batch {result['mean_batch']:.2f}; "
        f"vGPUs {rate_text(result['vgpu_utilisation'])} in use.\n\n{CAPTION}"
    )


def _unserved(name: str, result: Result) -> str:
    requests, overloaded = result["requests"], result["overloaded"]
    endings = {
        "refused as invalid (no config is fast enough, or there is no such application)": (
            result["refused"] - overloaded
        ),
        "refused for overload": overloaded,
        "failed": result["failed"],
        "dropped as too late": result["dropped"],
        "cancelled": result["cancelled"],
    }
    told = ", ".join(f"{_count(count)} {ending}" for ending, count in endings.items() if count)
    return f"{name}: of {_count(requests)} request{'s' * (_count(requests) != '1')}, {told}."


@dataclass(frozen=True, slots=True)
class _Column:
    """A figure of every run. On a narrow screen it is a line below the table."""

    heading: str
    text: Callable[[Result], str]

    @property
    def name(self) -> str:
        return self.heading.replace("\n", " ")


COLUMNS = (
    _Column("p50\nms", lambda result: latency_text(result["latency_ms"]["p50"])),
    _Column("p99\nms", lambda result: latency_text(result["latency_ms"]["p99"])),
    _Column("batch", lambda result: f"{result['mean_batch']:.2f}"),
    _Column("remote", lambda result: _remote(result)),
    _Column("plan\nmisses", lambda result: rate_text(result["plan_miss_rate"])),
    _Column("vGPU\nuse", lambda result: rate_text(result["vgpu_utilisation"])),
    _Column("decide\nms", lambda result: _decision(result["decision_ms"])),
)
"""The last ones are the first to leave a table that is too wide."""

COLD_STARTS = _Column("cold\nstarts", lambda result: _count(result["cold_starts"]))


def _table(
    rows: Mapping[str, Result],
    limits: OptimumBounds,
    columns: Sequence[_Column],
    *,
    margins_below: bool,
) -> Table:
    table = open_table()
    table.add_column("policy", no_wrap=True)
    headings = ("hit\nrate", COST_HEADING, "to\nfirst", *(column.heading for column in columns))
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    first = next(iter(rows.values()))
    gap = "\n" if margins_below else " "
    for name, result in rows.items():
        table.add_row(
            at_hyphens(name, 12),
            rate_text(result["slo_hit_rate"])
            + margin_text(gap, result.get("slo_hit_rate_margin"), 100, decimals=1),
            cost_text(result["cost_usd_per_1k_requests"])
            + margin_text(gap, result.get("cost_usd_per_1k_requests_margin"), 1, decimals=4),
            "" if result is first else change_text(to_first(result, first), gap),
            *(column.text(result) for column in columns),
        )
    table.add_section()
    table.add_row(
        "limits",
        rate_text(limits.slo_hit_rate),
        cost_text(limits.cost_usd_per_1k_requests),
        _percent(limits.cost_usd_per_1k_requests / first[COST] - 1) if first[COST] else "-",
        style="dim",
    )
    return table


def _print_applications(screen: Console, rows: Mapping[str, Result]) -> None:
    tables = [
        _applications_table(rows),
        _applications_table_turned(rows),
        _applications_table_turned(rows, widest=14),
    ]
    fitting = [table for table in tables if fits(table, screen)]
    if fitting or len(rows) == 1:
        screen.print(fitting[0] if fitting else tables[-1])
        return
    names = list(rows)
    half = len(names) // 2
    _print_applications(screen, {name: rows[name] for name in names[:half]})
    screen.print()
    _print_applications(screen, {name: rows[name] for name in names[half:]})


def _applications_table(rows: Mapping[str, Result]) -> Table:
    table = open_table()
    table.add_column("hit rate of", no_wrap=True)
    for application in _applications(rows):
        table.add_column(at_hyphens(application, 14), justify="right", no_wrap=True)
    for name, result in rows.items():
        table.add_row(name, *(_rate_in(result, name) for name in _applications(rows)))
    return table


def _applications_table_turned(rows: Mapping[str, Result], widest: int = 80) -> Table:
    """The table with a row per application, for many applications or few policies."""
    table = open_table()
    table.add_column("hit rate of")
    for name in rows:
        table.add_column(at_hyphens(name, 8), justify="right", no_wrap=True)
    for application in _applications(rows):
        rates = (_rate_in(result, application) for result in rows.values())
        table.add_row(at_hyphens(application, widest), *rates)
    return table


def _applications(rows: Mapping[str, Result]) -> list[str]:
    return sorted({name for result in rows.values() for name in result["hit_rate_by_application"]})


def _rate_in(result: Result, application: str) -> str:
    return rate_text(result["hit_rate_by_application"].get(application))


def _remote(result: Result) -> str:
    remote, local = result["remote_transfers"], result["local_transfers"]
    return rate_text(remote / (remote + local) if remote + local else None)


def _count(count: float) -> str:
    """A whole number, or the mean of some.

    >>> _count(1_000_000), _count(1 / 3), _count(2.0)
    ('1000000', '0.3', '2')
    """
    return f"{count:.1f}".removesuffix(".0")


def margin_text(gap: str, margin: float | None, scale: float, *, decimals: int) -> str:
    return "" if margin is None else f"{gap}±{scale * margin:.{decimals}f}"


def change_text(difference: Mapping[str, float | None], gap: str) -> str:
    change, margin = difference["cost_relative"], difference["cost_relative_margin"]
    if change is None:
        return "-"
    if margin is None:
        return _percent(change)
    return f"{100 * change:+.1f}%" + margin_text(gap, margin, 100, decimals=1)


def _percent(change: float) -> str:
    """
    >>> [_percent(change) for change in (-0.0005, 0.25, -0.5)]
    ['+0%', '+25%', '-50%']
    """
    return f"{round(100 * change):+d}%"


def _decision(time_ms: float | None) -> str:
    return "-" if time_ms is None else f"{time_ms:.3f}"
