"""How the plots of a report look. Texts are escaped: plotly takes some tags in them for markup."""

from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

PALETTE = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7")
"""Okabe and Ito's, which colour-blind people can tell apart, too."""

BLUE, ORANGE = PALETTE[:2]
GREY = "#8a8f98"


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. `title` is plain text."""

    title: str
    plot: Any


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels that belong together. `legend` has the colours of all; texts are plain."""

    title: str
    panels: list[Panel]
    caption: str
    legend: dict[str, str]


def empty_plot(y_title: str, x_title: str = "", *, above_zero: bool = True) -> Any:
    """The page's style sheet colours its texts and its grid."""
    plot = go.Figure()
    plot.update_layout(
        template="none",
        height=280,
        margin={"l": 56, "r": 12, "t": 12, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": GREY},
        showlegend=False,
        barmode="group",
        bargap=0.25,
        hovermode="closest",
        dragmode=False,
    )
    plot.update_xaxes(
        title={"text": escape(x_title)},
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        tickangle=0,
    )
    plot.update_yaxes(
        title={"text": escape(y_title), "standoff": 6},
        gridcolor="rgba(138,143,152,0.3)",
        zeroline=False,
        fixedrange=True,
        rangemode="tozero" if above_zero else "normal",
    )
    return plot


def tick(text: str) -> str:
    """A label, on two lines if it can be."""
    return escape(text).replace("-", "-<br>", 1)
