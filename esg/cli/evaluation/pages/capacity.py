"""The page of `esg capacity`: how the hit rate falls as the rate grows, for each policy."""

from collections.abc import Mapping
from html import escape
from itertools import cycle

import plotly.graph_objects as go

from esg.cli.evaluation.capacity import LEGEND, found_text
from esg.cli.evaluation.comparison import MARGINS_LEGEND, Result, margin_text
from esg.cli.evaluation.pages.emulated import interval_text
from esg.console.conditions import conditions_text
from esg.console.formatting import cost_text, rate_text
from esg.emulator.capacity import CapacityQuestion
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

HEADINGS = ("Policy", "Rate per s", "Hit rate", "USD per 1k", "vGPU use", "Fails at", "with")


def page(
    question: CapacityQuestion,
    results: Mapping[str, Result],
    *,
    text: str,
    provenance: Provenance,
) -> str:
    """The whole file; `text` is the question in words."""
    title = f"esg capacity: {', '.join(results)}"
    facts = {
        **provenance.facts(),
        "Policies": ", ".join(results),
        "Conditions": conditions_text(question.scenario, question.policies),
    }
    return whole_page(
        title,
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(text)}</p>',
        f"{facts_table(facts)}</header>",
        NOSCRIPT,
        section("Capacity", _table(question, results)),
        figure_section(1, _rates(question, results)),
        made_by="esg",
    )


def _table(question: CapacityQuestion, results: Mapping[str, Result]) -> str:
    rows = [row("td", (name, *_cells(result))) for name, result in results.items()]
    margins = MARGINS_LEGEND if len(question.seeds) > 1 else ""
    return f"{table(HEADINGS, rows)}<p>{escape(LEGEND + margins)}</p>"


def _cells(result: Result) -> tuple[str, ...]:
    failed, cost = result["fails_at_per_s"], result["cost_usd_per_1k_requests"]
    return (
        found_text(result["rate_per_s"]),
        interval_text(result["slo_hit_rate"], result["slo_hit_rate_margin"]),
        cost_text(cost)
        + margin_text(" ", result["cost_usd_per_1k_requests_margin"], 1, decimals=4),
        rate_text(result["vgpu_utilisation"]),
        "" if failed is None else f"{failed:g}",
        rate_text(result["fails_with_slo_hit_rate"]),
    )


def _rates(question: CapacityQuestion, results: Mapping[str, Result]) -> Figure:
    colours = dict(zip(results, cycle(PALETTE), strict=False))
    plot = empty_plot("SLO hit rate, %", "requests per second")
    plot.update_yaxes(range=[0, 105])
    for name, result in results.items():
        tried = result["tried"]
        plot.add_trace(
            go.Scatter(
                name=escape(name),
                x=[round(one["rate_per_s"], 3) for one in tried],
                y=[round(100 * one["slo_hit_rate"], 2) for one in tried],
                mode="lines+markers",
                line={"color": colours[name], "width": 2},
            )
        )
    plot.add_hline(y=100 * question.target, line={"color": GREY, "dash": "dash", "width": 1.5})
    return Figure(
        "Hit rate by rate",
        [Panel("Every rate that was tried", plot)],
        "Means over all seeds. The dashed line is the hit rate that is asked for.",
        colours | {"asked for": GREY},
    )
