"""Runs side by side: as a document, and as tables of at most 80 columns."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from cli.served import latency_text
from cli.terminal import fits, open_table
from cli.words import at_hyphens, counted
from emulator.shares import shown_percent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from emulator.limits import Limits

Result = dict[str, Any]
"""A run's summary (see `emulator.run.Emulation`), or the mean of several."""

LEGEND = (
    "hit rate: requests answered in time, of all. cost: USD per 1000 requests, and against the "
    "first row. remote: inputs that came from another node. misses: tasks that an earlier plan did "
    "not fit. decide: time charged per task for scheduling. L: time alone at the minimum config."
)
LIMITS_LEGEND = (
    "limits: the most that could be in time with unlimited warm resources, and the least it costs "
    "to be in time, with every batch full; who is late may pay less."
)

MARGINS_LEGEND = " Behind ± is how far the mean over all seeds may be off (95 %)."


def over_seeds(runs: Sequence[Result], seeds: Sequence[int]) -> Result:
    """The mean of several runs, each of which is kept, with margins of the two main figures."""
    from emulator.sweep import Estimate
    from esg.codec import digest

    if len(runs) == 1:
        return dict(runs[0])
    result: Result = _mean([{**run, "digest": None} for run in runs])
    result["digest"] = digest("".join(run["digest"] for run in runs))
    for name in ("slo_hit_rate", "cost_usd_per_1k_requests"):
        result[f"{name}_margin"] = Estimate.of([run[name] for run in runs]).margin
    named = zip(seeds, runs, strict=True)
    return result | {"runs": [{"seed": seed, **run} for seed, run in named]}


def _mean(values: Sequence[Any]) -> Any:
    """Of numbers; of each entry; and of texts, which are all the same."""
    there = [value for value in values if value is not None]
    if not there:
        return None
    if isinstance(there[0], dict):
        names = dict.fromkeys(name for value in there for name in value)
        return {name: _mean([value.get(name) for value in there]) for name in names}
    return there[0] if isinstance(there[0], str) else fmean(there)


def print_comparison(screen: Console, rows: Mapping[str, Result], limits: Limits) -> None:
    """One table with everything, one with the applications, and what the columns mean."""
    table = _table(rows, limits, margins_below=False)
    if not fits(table, screen):
        table = _table(rows, limits, margins_below=True)
    if not fits(table, screen):
        table.padding = 0
    screen.print(table)
    for name, result in rows.items():
        if result["refused"] or result["failed"]:
            screen.print(f"\n{_unserved(name, result)}")
    several = any("runs" in result for result in rows.values())
    screen.print(f"\n{LEGEND} {LIMITS_LEGEND}{MARGINS_LEGEND if several else ''}\n")
    by_application = _applications_table(rows)
    if not fits(by_application, screen):
        by_application = _applications_table_turned(rows)
    screen.print(by_application)


def print_summary(screen: Console, result: Result) -> None:
    """One run's main figures, in a few lines."""
    latency_ms = result["latency_ms"]
    screen.print(
        f"{counted(result['requests'], 'request')} in {result['virtual_s']:.1f} s: "
        f"{_rate(result['slo_hit_rate'])} in time, {_cost(result['cost_usd_per_1k_requests'])} USD "
        f"per 1000; p50 {latency_text(latency_ms['p50'])} ms, "
        f"p99 {latency_text(latency_ms['p99'])} ms; "
        f"mean batch {result['mean_batch']:.2f}; vGPUs {_rate(result['vgpu_utilisation'])} in use."
    )


def _unserved(name: str, result: Result) -> str:
    return (
        f"{name}: of {result['requests']:g} requests {result['refused']:g} were refused (no config "
        "is fast enough for them, too many wait, or there is no such application), and "
        f"{result['failed']:g} failed, were dropped as too late, or were cancelled."
    )


def _table(rows: Mapping[str, Result], limits: Limits, *, margins_below: bool) -> Table:
    table = open_table()
    table.add_column("policy", no_wrap=True)
    for heading in (
        "hit\nrate",
        "cost",
        "to\nfirst",
        "p50\nms",
        "p99\nms",
        "batch",
        "remote",
        "plan\nmisses",
        "vGPU\nuse",
        "decide\nms",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    first = next(iter(rows.values()))
    gap = "\n" if margins_below else " "
    for name, result in rows.items():
        latency_ms = result["latency_ms"]
        remote, local = result["remote_transfers"], result["local_transfers"]
        table.add_row(
            at_hyphens(name, 12),
            _rate(result["slo_hit_rate"])
            + _margin(gap, result.get("slo_hit_rate_margin"), 100, decimals=1),
            _cost(result["cost_usd_per_1k_requests"])
            + _margin(gap, result.get("cost_usd_per_1k_requests_margin"), 1, decimals=4),
            "" if result is first else _against(result["cost_usd_per_1k_requests"], first),
            latency_text(latency_ms["p50"]),
            latency_text(latency_ms["p99"]),
            f"{result['mean_batch']:.2f}",
            _rate(remote / (remote + local)) if remote + local else "-",
            _rate(result["plan_miss_rate"]),
            _rate(result["vgpu_utilisation"]),
            _decision(result["decision_ms"]),
        )
    table.add_section()
    table.add_row(
        "limits",
        _rate(limits.slo_hit_rate),
        _cost(limits.cost_usd_per_1k_requests),
        _against(limits.cost_usd_per_1k_requests, first),
        style="dim",
    )
    return table


def _applications_table(rows: Mapping[str, Result]) -> Table:
    table = open_table()
    table.add_column("hit rate of", no_wrap=True)
    for application in _applications(rows):
        table.add_column(at_hyphens(application, 14), justify="right", no_wrap=True)
    for name, result in rows.items():
        table.add_row(name, *(_rate_in(result, name) for name in _applications(rows)))
    return table


def _applications_table_turned(rows: Mapping[str, Result]) -> Table:
    """For many applications, or few policies."""
    table = open_table()
    table.add_column("hit rate of")
    for name in rows:
        table.add_column(at_hyphens(name, 8), justify="right")
    for application in _applications(rows):
        table.add_row(application, *(_rate_in(result, application) for result in rows.values()))
    return table


def _applications(rows: Mapping[str, Result]) -> list[str]:
    return sorted({name for result in rows.values() for name in result["hit_rate_by_application"]})


def _rate_in(result: Result, application: str) -> str:
    rate = result["hit_rate_by_application"].get(application)
    return "-" if rate is None else _rate(rate)


def _rate(share: float) -> str:
    return f"{shown_percent(share):.1f}%"


def _cost(usd: float) -> str:
    return f"{usd:.4f}"


def _margin(gap: str, margin: float | None, scale: float, *, decimals: int) -> str:
    return "" if margin is None else f"{gap}±{scale * margin:.{decimals}f}"


def _against(cost: float, first: Result) -> str:
    """
    >>> [_against(cost, {"cost_usd_per_1k_requests": 2.0}) for cost in (1.999, 2.5, 1.0)]
    ['+0%', '+25%', '-50%']
    """
    whole = first["cost_usd_per_1k_requests"]
    percent = round(100 * (cost / whole - 1)) if whole else None
    return "-" if percent is None else f"{percent:+d}%"


def _decision(time_ms: float | None) -> str:
    return "-" if time_ms is None else f"{time_ms:.3f}"
