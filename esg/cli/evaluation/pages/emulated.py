"""The page of `esg emulate`: policies side by side, and their differences, paired by seed."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import cycle
from statistics import fmean
from typing import Any

import plotly.graph_objects as go

from esg.cli.evaluation.comparison import (
    COST,
    HIT_RATE,
    LIMITS_LEGEND,
    MARGINS_LEGEND,
    Result,
    change_text,
    margin_text,
    possible_text,
    to_first,
)
from esg.cli.evaluation.emulated import Emulated
from esg.cli.evaluation.study import StudyFindings, thinned
from esg.console.conditions import conditions_text
from esg.console.formatting import cost_text, latency_text, rate_text
from esg.core.metrics import CAPTION
from esg.emulator.reproduce.traces import bars, marks
from esg.emulator.scenario import applied
from esg.emulator.sweep import Estimate
from esg.reporting.page import (
    NOSCRIPT,
    facts_table,
    figure_section,
    row,
    section,
    table,
    whole_page,
)
from esg.reporting.plots import GREY, PALETTE, Figure, Panel, empty_plot
from esg.reporting.provenance import Provenance
from esg.units import to_ms

HEADINGS = (
    "Policy",
    "Hit rate",
    "to first, points",
    "USD per 1k",
    "to first",
    "p50, ms",
    "p99, ms",
)
LEGEND = (
    f"{CAPTION} to first: against the first policy, which met the same requests and the same "
    "noise with every seed, so differences are paired by seed and their margins are narrower than "
    "those of the figures."
)


@dataclass(frozen=True, slots=True)
class _Compared:
    """What the page shows. Policies have colours of their own; many share them."""

    asked: Emulated
    found: StudyFindings

    @property
    def results(self) -> Mapping[str, Result]:
        return self.found.results

    @property
    def first(self) -> Result:
        return next(iter(self.results.values()))

    @property
    def colours(self) -> dict[str, str]:
        return dict(zip(self.results, cycle(PALETTE), strict=False))

    @property
    def slos_ms(self) -> dict[str, float]:
        study = self.asked.study
        catalog = applied(study.catalog, study.scenario)
        return {name: to_ms(one.slo_us) for name, one in catalog.applications.items()}


def page(asked: Emulated, found: StudyFindings, provenance: Provenance) -> str:
    """The whole file."""
    compared = _Compared(asked, found)
    policies = list(found.results)
    title = f"esg emulate: {', '.join(policies)}"
    study = asked.study
    came = round(compared.first["requests"])
    facts = {
        **provenance.facts(),
        "Policies": ", ".join(policies),
        "Requests": asked.heading(came, found.seeds),
        "Conditions": conditions_text(study.scenario, study.policies),
    }
    figures = [_figures(compared), *([_differences(compared)] * (len(policies) > 1))]
    figures.append(_latencies(compared))
    return whole_page(
        title,
        f"<header><h1>{escape(title)}</h1>{facts_table(facts)}</header>",
        NOSCRIPT,
        section("Policies", _policies(compared)),
        section("Applications", _applications(compared)),
        *(figure_section(number, figure) for number, figure in enumerate(figures, 1)),
        made_by="esg",
    )


def _policies(compared: _Compared) -> str:
    first, limits = compared.first, compared.found.limits
    rows = [_policy_row(name, result, first) for name, result in compared.results.items()]
    bounds = (rate_text(limits.slo_hit_rate), "", cost_text(limits.cost_usd_per_1k_requests))
    rows.append(row("td", ("limits", *bounds, "", "", "")))
    margins = MARGINS_LEGEND if len(compared.found.seeds) > 1 else " One seed has no margins."
    possible = ""
    if limits.possible_at_this_load is not None:
        possible = f"<p>{escape(possible_text(limits.possible_at_this_load))}</p>"
    legend = escape(f"{LEGEND} {LIMITS_LEGEND}{margins}")
    return f"{table(HEADINGS, rows)}{possible}<p>{legend}</p>"


def _policy_row(name: str, result: Result, first: Result) -> str:
    hits, costs = ("first", "first") if result is first else _to_first(result, first)
    return row(
        "td",
        (
            name,
            interval_text(result[HIT_RATE], result.get(f"{HIT_RATE}_margin")),
            hits,
            cost_text(result[COST]) + margin_text(" ", result.get(f"{COST}_margin"), 1, decimals=4),
            costs,
            latency_text(result["latency_ms"]["p50"]),
            latency_text(result["latency_ms"]["p99"]),
        ),
        kind="best" if result is first else "",
    )


def interval_text(rate: float | None, margin: float | None) -> str:
    """A hit rate with its 95 % interval, which has no values that a hit rate cannot have.

    >>> interval_text(0.998, 0.004), interval_text(0.5, None), interval_text(None, None)
    ('99.8% (99.4 to 100.0)', '50.0%', '-')
    """
    if rate is None or margin is None:
        return rate_text(rate)
    low, high = max(0.0, rate - margin), min(1.0, rate + margin)
    return f"{rate_text(rate)} ({100 * low:.1f} to {100 * high:.1f})"


def _to_first(result: Result, first: Result) -> tuple[str, str]:
    difference = to_first(result, first)
    hits, margin = difference[HIT_RATE], difference[f"{HIT_RATE}_margin"]
    points = "-" if hits is None else f"{100 * hits:+.1f}"
    return points + margin_text(" ", margin, 100, decimals=1), change_text(difference, " ")


def _applications(compared: _Compared) -> str:
    headings = ["", "SLO, ms"]
    for policy in compared.results:
        headings += [f"{policy}: hit rate", "USD per 1k", "p99, ms"]
    slos_ms = compared.slos_ms
    names = sorted({n for r in compared.results.values() for n in r["hit_rate_by_application"]})
    rows = []
    for name in names:
        cells = [name, latency_text(slos_ms.get(name))]
        for result in compared.results.values():
            latency_ms = result["latency_ms"]["by_application"].get(name, {})
            cells += [
                rate_text(result["hit_rate_by_application"].get(name)),
                cost_text(result["cost_usd_per_1k_by_application"].get(name)),
                latency_text(latency_ms.get("p99")),
            ]
        rows.append(row("td", cells))
    return table(headings, rows)


def _figures(compared: _Compared) -> Figure:
    hits, costs = empty_plot("SLO hit rate, %"), empty_plot("USD per 1k requests")
    hits.update_yaxes(range=[0, 105])
    for name, result in compared.results.items():
        colour = compared.colours[name]
        hits.add_trace(bars(name, colour, [name], [_estimate(result, HIT_RATE, 100)], most=100))
        costs.add_trace(bars(name, colour, [name], [_estimate(result, COST, 1)]))
    limits, names = compared.found.limits, list(compared.results)
    if limits.slo_hit_rate is not None and limits.cost_usd_per_1k_requests is not None:
        hits.add_trace(marks("limit", names, [100 * limits.slo_hit_rate] * len(names)))
        costs.add_trace(marks("limit", names, [limits.cost_usd_per_1k_requests] * len(names)))
    for plot in (hits, costs):
        plot.update_layout(barmode="overlay")
    return Figure(
        "Hit rate and cost",
        [Panel("Requests answered in time", hits), Panel("Cost per thousand requests", costs)],
        f"{_means(compared)} The dashes are the limits: the most that could be in time, and the "
        "least it costs to be in time.",
        compared.colours | {"limit": GREY},
    )


def _differences(compared: _Compared) -> Figure:
    hits, costs = (empty_plot(title, above_zero=False) for title in ("points", "%"))
    for name, result in compared.results.items():
        if result is compared.first:
            continue
        difference = to_first(result, compared.first)
        for plot, key in ((hits, HIT_RATE), (costs, "cost_relative")):
            if difference[key] is not None:
                found = _estimate(difference, key, 100)
                colour = compared.colours[name]
                plot.add_trace(bars(name, colour, [name], [found], least=-float("inf")))
    for plot in (hits, costs):
        plot.update_layout(barmode="overlay")
        plot.update_yaxes(zeroline=True, zerolinecolor=GREY)
    first = next(iter(compared.results))
    return Figure(
        f"Differences from {first}, paired by seed",
        [Panel("Hit rate", hits), Panel("Cost", costs)],
        f"{_means(compared)} An interval that does not reach zero is a difference that the seeds "
        "agree on.",
        {name: colour for name, colour in compared.colours.items() if name != first},
    )


def _estimate(figures: Mapping[str, Any], key: str, scale: float) -> Estimate:
    return Estimate(scale * (figures[key] or 0), scale * (figures.get(f"{key}_margin") or 0))


def _means(compared: _Compared) -> str:
    count = len(compared.found.seeds)
    return f"Means over {count} seeds, with 95 % intervals." if count > 1 else "Of one seed."


def _latencies(compared: _Compared) -> Figure:
    panels = []
    for name, slo_ms in compared.slos_ms.items():
        plot = empty_plot("requests, %", "ms")
        drawn = False
        for policy, runs in compared.found.latencies_us.items():
            x_us, shares = _cdf([run[name] for run in runs if run.get(name)])
            drawn = drawn or bool(x_us)
            plot.add_trace(
                go.Scatter(
                    name=escape(policy),
                    x=[round(to_ms(us), 1) for us in x_us],
                    y=[round(100 * share, 2) for share in shares],
                    mode="lines",
                    line={"color": compared.colours[policy], "width": 2, "shape": "hv"},
                )
            )
        plot.add_vline(x=slo_ms, line={"color": GREY, "dash": "dash", "width": 1.5})
        plot.update_yaxes(range=[0, 102])
        if drawn:
            panels.append(Panel(f"{name} (SLO {slo_ms:.0f} ms)", plot))
    return Figure(
        "How many were answered within a time",
        panels,
        "The cumulative distribution of the latencies of what was done, as a mean over seeds; the "
        "dashed line is the SLO.",
        compared.colours | {"SLO": GREY},
    )


def _cdf(runs: Sequence[Sequence[int]]) -> tuple[list[int], list[float]]:
    """The mean of the runs' distribution functions, each of latencies in ascending order.

    >>> _cdf([[10, 20], [20, 20, 20, 40]])
    ([10, 20, 40], [0.25, 0.875, 1.0])
    """
    points = thinned(sorted({us for run in runs for us in run}))
    return points, [fmean(bisect_right(run, us) / len(run) for run in runs) for us in points]
