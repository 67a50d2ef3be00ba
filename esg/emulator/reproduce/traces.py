"""Traces of plots over seeds: bars, lines and marks, with intervals."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from esg.emulator.sweep import Estimate
from esg.reporting.plots import GREY, tick

DASH_PX = 48
"""As wide as a group of bars on a phone."""


def bars(
    name: str,
    colour: str,
    x: Sequence[str],
    found: Sequence[Estimate],
    most: float = math.inf,
    *,
    least: float = 0.0,
) -> Any:
    """Bars whose intervals end at `least` and `most`, as those of a percentage do at 0 and 100."""
    return go.Bar(
        name=escape(name),
        x=[tick(text) for text in x],
        y=[round(e.mean, 4) for e in found],
        error_y=_error_bars(found, most, least),
        marker={"color": colour},
    )


def line(
    name: str, colour: str, x: Sequence[str], found: Sequence[Estimate], most: float = math.inf
) -> Any:
    """A line with the same intervals."""
    return go.Scatter(
        name=escape(name),
        x=[tick(text) for text in x],
        y=[round(e.mean, 4) for e in found],
        error_y=_error_bars(found, most),
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"size": 7},
    )


def marks(name: str, x: Sequence[str], y: Sequence[float]) -> Any:
    """A dash across each group of bars."""
    return go.Scatter(
        name=escape(name),
        x=[tick(text) for text in x],
        y=[round(value, 4) for value in y],
        mode="markers",
        marker={"symbol": "line-ew", "size": DASH_PX, "line": {"width": 2, "color": GREY}},
    )


def paper_marks(x: Sequence[str], y: Sequence[float]) -> Any:
    """What the paper has, as diamonds."""
    style = {"symbol": "diamond", "size": 11, "color": GREY}
    return go.Scatter(name="paper", x=x, y=y, mode="markers", marker=style)


def _error_bars(found: Sequence[Estimate], most: float, least: float = 0.0) -> dict[str, Any]:
    """The 95 % intervals, as far as there are such values: none below `least` or above `most`."""
    if not any(e.margin for e in found):
        return {"visible": False}
    return {
        "symmetric": False,
        "array": [round(max(0.0, min(e.margin, most - e.mean)), 4) for e in found],
        "arrayminus": [round(max(0.0, min(e.margin, e.mean - least)), 4) for e in found],
        "color": GREY,
        "thickness": 1.2,
        "width": 3,
    }
