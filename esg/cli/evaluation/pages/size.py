"""The page of `esg size`: what fleets cost, how many requests they have in time, and what each MIG
layout could do."""

from html import escape
from itertools import cycle

import plotly.graph_objects as go

from esg.cli.evaluation.comparison import MARGINS_LEGEND
from esg.cli.evaluation.pages.emulated import interval_text
from esg.cli.evaluation.size import LEGEND, Sized, margin_of, table_rows
from esg.emulator.sizing.fleet_files import named
from esg.emulator.sizing.search import Tried
from esg.reporting.page import (
    NOSCRIPT,
    facts_table,
    figure_section,
    row,
    section,
    table,
    whole_page,
)
from esg.reporting.plots import BLUE, GREY, PALETTE, Figure, Panel, empty_plot
from esg.reporting.provenance import Provenance

HEADINGS = ("Fleet", "USD per hour", "Nodes", "vCPUs each", "In time", "GPUs")
CONFIRMED = "confirmed"


def page(sized: Sized, provenance: Provenance) -> str:
    """The whole file."""
    title = "esg size: the cheapest cluster"
    facts = {
        **provenance.facts(),
        "Traffic": sized.traffic.text,
        "Conditions": sized.conditions_text,
    }
    return whole_page(
        title,
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(sized.question_text)}</p>',
        f"{facts_table(facts)}</header>",
        NOSCRIPT,
        section("Fleets", _table(sized)),
        figure_section(1, _costs(sized)),
        figure_section(2, _layouts(sized)),
        section("Every fleet that was emulated", _all(sized)),
        made_by="esg",
    )


def _table(sized: Sized) -> str:
    rows = [row("td", cells, kind=_kind(cells[0])) for cells in table_rows(sized)]
    return f"{table(HEADINGS, rows)}<p>{escape(LEGEND + MARGINS_LEGEND)}</p>"


def _kind(name: str) -> str:
    return "best" if name == CONFIRMED else ""


def _all(sized: Sized) -> str:
    found = sized.found
    runs = [(one.approach, one) for one in found.tried]
    runs += [(f"{one.approach}, other seeds", one) for one in found.again]
    rows = [
        row(
            "td",
            (
                name,
                f"{one.fleet.usd_per_hour:.2f}",
                str(one.fleet.nodes),
                str(one.fleet.vcpus),
                interval_text(one.hit_rate, margin_of(one)),
                sized.words(one.fleet),
            ),
            kind=_kind(CONFIRMED) if one is found.confirmed else "",
        )
        for name, one in sorted(runs, key=lambda run: run[1].fleet.usd_per_hour)
    ]
    return table(HEADINGS, rows)


def _costs(sized: Sized) -> Figure:
    found = sized.found
    assert found.bounds is not None
    plot = empty_plot("in time, %", "USD per hour", above_zero=False)
    approaches = dict.fromkeys(one.approach for one in found.tried)
    colours = dict(zip(approaches, cycle(PALETTE[1:]), strict=False))
    for name in approaches:
        _dots(
            plot, sized, name, [one for one in found.tried if one.approach == name], colours[name]
        )
    if found.confirmed is not None:
        _dots(plot, sized, CONFIRMED, [found.confirmed], BLUE, symbol="diamond", size=13)
        colours = {CONFIRMED: BLUE, **colours}
    plot.add_hline(y=100 * sized.question.target, line={"color": GREY, "dash": "dash"})
    plot.add_vline(x=found.bounds.usd_per_hour, line={"color": GREY, "dash": "dot"})
    return Figure(
        "Cost against hit rate",
        [Panel("Every fleet that was emulated", plot)],
        "The dashed line is the share in time that is asked for, the dotted one the bound: no "
        "fleet left of it could carry the traffic.",
        colours | {"asked for, and the bound": GREY},
    )


def _dots(
    plot: go.Figure,
    sized: Sized,
    name: str,
    fleets: list[Tried],
    colour: str,
    *,
    symbol: str = "circle",
    size: int = 9,
) -> None:
    plot.add_trace(
        go.Scatter(
            name=escape(name),
            x=[round(one.fleet.usd_per_hour, 2) for one in fleets],
            y=[round(100 * one.hit_rate, 2) for one in fleets],
            text=[escape(sized.words(one.fleet)) for one in fleets],
            mode="markers",
            marker={"color": colour, "size": size, "symbol": symbol},
        )
    )


def _layouts(sized: Sized) -> Figure:
    bounds, best, kinds = sized.found.bounds, sized.best, sized.question.catalog.kinds
    assert bounds is not None
    each = sorted(bounds.by_layout.items(), key=lambda one: -one[1])
    plot = empty_plot("", "USD per hour")
    plot.add_trace(
        go.Bar(
            y=[escape(named(layout, kinds)) for layout, _ in each],
            x=[round(usd, 2) for _, usd in each],
            orientation="h",
            marker={"color": PALETTE[5]},
        )
    )
    plot.update_layout(height=80 + 26 * len(each), margin={"l": 210, "r": 12, "t": 12, "b": 44})
    legend = {"the least that could do, all GPUs alike": PALETTE[5]}
    if best is not None:
        plot.add_vline(x=round(best.fleet.usd_per_hour, 2), line={"color": BLUE, "width": 2})
        legend["the fleet that was found, emulated"] = BLUE
    return Figure(
        "Layouts side by side",
        [Panel("What fleets cost at least whose GPUs all have one layout", plot)],
        "By the linear program: fleets that could carry the traffic if no request ever waited. A "
        "layout that is missing could carry it in no number.",
        legend,
    )
