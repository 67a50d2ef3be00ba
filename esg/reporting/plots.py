"""How the plots of a report look. Texts are escaped: plotly takes some tags in them for markup."""

import math
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

PALETTE = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9")
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


SHORT = 8
"""Labels with no more characters than this are left on one line."""


def tick(text: str) -> str:
    """A label, on two lines if it can be: broken at a hyphen or a space, near the middle.

    >>> tick("strict-light"), tick("no GPU sharing"), tick("no batching"), tick("K = 80")
    ('strict-<br>light', 'no GPU<br>sharing', 'no<br>batching', 'K = 80')
    """
    ends = [place for place, sign in enumerate(text, 1) if sign in "- "]
    if len(text) <= SHORT or not ends:
        return escape(text)
    end = min(ends, key=lambda place: max(len(text[:place].rstrip()), len(text[place:])))
    return f"{escape(text[:end].rstrip())}<br>{escape(text[end:])}"


FEWEST_TICKS = 3


def log_ticks(low: float, high: float) -> list[int]:
    """Round whole values for a logarithmic axis: 1, 2, 5, 10 and so on; where too few of those are
    between the ends, evenly spaced ones.

    >>> log_ticks(300, 9000), log_ticks(340, 1200), log_ticks(920, 2080), log_ticks(480, 640)
    ([500, 1000, 2000, 5000], [400, 600, 800, 1000, 1200], [1000, 1500, 2000], [500, 550, 600])
    """
    rounds = [digit * 10**power for power in range(7) for digit in (1, 2, 5)]
    found = [value for value in rounds if low <= value <= high]
    for step in reversed(rounds):
        if len(found) >= FEWEST_TICKS:
            break
        found = list(range(step * math.ceil(max(low, 1) / step), math.floor(high) + 1, step))
    return found
