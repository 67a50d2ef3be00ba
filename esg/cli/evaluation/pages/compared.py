"""The page of `esg compare`: two saved results, column by column."""

from html import escape

import plotly.graph_objects as go

from esg.cli.evaluation.compare import FIGURES, LEGEND, Compared, headings
from esg.cli.evaluation.saved_results import SavedResult
from esg.reporting.page import (
    NOSCRIPT,
    facts_table,
    figure_section,
    row,
    section,
    table,
    whole_page,
)
from esg.reporting.plots import BLUE, ORANGE, Figure, Panel, empty_plot, tick
from esg.reporting.provenance import Provenance

SHOWN = ("hit rate", "USD per 1k", "p50, ms", "p99, ms")
"""The figures that have a plot."""


def page(
    both: tuple[SavedResult, SavedResult], found: list[Compared], provenance: Provenance
) -> str:
    """The whole file."""
    title = f"esg compare: {both[0].file.name}, {both[1].file.name}"
    tables = (section(", ".join(dict.fromkeys(one.names)), _lines(both, one)) for one in found)
    return whole_page(
        title,
        f"<header><h1>{escape(title)}</h1>{facts_table(provenance.facts())}</header>",
        NOSCRIPT,
        section("What was run", _facts(both)),
        *tables,
        f"<p>{escape(LEGEND)}</p>",
        *(figure_section(number, _figure(both, one)) for number, one in enumerate(found, 1)),
        made_by="esg",
    )


def _facts(both: tuple[SavedResult, SavedResult]) -> str:
    """Both sides' facts; those that differ are in bold."""
    first, second = (one.facts for one in both)
    rows = []
    for name in dict.fromkeys([*first, *second]):
        values = first.get(name, ""), second.get(name, "")
        rows.append(row("td", (name, *values), kind="best" if values[0] != values[1] else ""))
    head = row("th", ("", *(str(one.file) for one in both)))
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _lines(both: tuple[SavedResult, SavedResult], one: Compared) -> str:
    rows, part = [], ""
    for line in one.lines:
        if line.part != part:
            part = line.part
            rows.append(f'<tr><th class="part" colspan="4">{escape(part)}</th></tr>')
        rows.append(row("td", (line.figure.name, *line.texts())))
    return table(("", *headings(both, one), "Difference"), rows)


def _figure(both: tuple[SavedResult, SavedResult], one: Compared) -> Figure:
    colours = dict(zip(headings(both, one), (BLUE, ORANGE), strict=False))
    panels = []
    for figure in (figure for figure in FIGURES if figure.name in SHOWN):
        lines = [line for line in one.lines if line.figure is figure]
        scale = 1 if figure.relative else 100
        plot = empty_plot(figure.name if figure.relative else "%")
        if not figure.relative:
            plot.update_yaxes(range=[0, 105])
        sides = ([line.first for line in lines], [line.second for line in lines])
        for values, colour in zip(sides, (BLUE, ORANGE), strict=True):
            x = [tick(line.part) for line in lines]
            y = [None if value is None else round(scale * value, 4) for value in values]
            plot.add_trace(go.Bar(x=x, y=y, marker={"color": colour}))
        panels.append(Panel(figure.name, plot))
    return Figure(
        f"Side by side: {' and '.join(dict.fromkeys(one.names))}",
        panels,
        "All requests, and by application.",
        colours,
    )
