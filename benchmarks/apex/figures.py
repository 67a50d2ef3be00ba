"""The pictures in docs/apex.md, from what `benchmarks.apex` measured.

.venv/bin/python -m benchmarks.apex.figures --results FILE --to docs/pictures
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.apex.cases import LOADS
from benchmarks.apex.floors import STEPS, floors
from esg.core.catalog.file import load_catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.emulator.scenario import SETTINGS

WIDTH, HEIGHT, MARGIN = 640, 300, 50
COLOURS = {"esg": "#8a8f98", "apex": "#1f6feb", **dict.fromkeys(STEPS, "#d0d7de")}
Results = dict[str, dict[str, Any]]


def mean(results: Results, start: str, figure: str) -> float:
    return fmean(found[figure] for name, found in results.items() if name.startswith(start))


def _text(x: float, y: float, words: str, *, anchor: str = "middle", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="#57606a">{words}</text>'
    )


def _picture(title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif"><title>{title}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>{"".join(parts)}</svg>\n'
    )


def load_pictures(results: Results) -> str:
    """By load: where each policy stops coping, and what a request costs."""
    parts = [_text(WIDTH / 2, 20, "by load, in percent of capacity (SLO 1.2 L, 16 nodes)", size=14)]
    parts += _curves(
        results, "slo_hit_rate", "in time", left=MARGIN, grid=(0.0, 0.25, 0.5, 0.75, 1.0)
    )
    dollars = "dollars per thousand requests"
    grid = (0.19, 0.2, 0.21, 0.22, 0.23)
    parts += _curves(
        results, "cost_usd_per_1k_requests", dollars, left=WIDTH / 2 + MARGIN, grid=grid
    )
    return _picture("requests in time, and their cost, by load", parts)


def _curves(
    results: Results, figure: str, title: str, *, left: float, grid: Sequence[float]
) -> list[str]:
    wide, high = WIDTH / 2 - 2 * MARGIN, HEIGHT - 2.4 * MARGIN
    low, top = grid[0], grid[-1]

    def x(load: float) -> float:
        return left + wide * (load - LOADS[0]) / (LOADS[-1] - LOADS[0])

    def y(value: float) -> float:
        return HEIGHT - 1.2 * MARGIN - high * (value - low) / (top - low)

    parts = [_text(left + wide / 2, 45, title)]
    for value in grid:
        across = f'x1="{left:.1f}" x2="{left + wide:.1f}" y1="{y(value):.1f}" y2="{y(value):.1f}"'
        parts.append(f'<line {across} stroke="#eaeef2"/>')
        parts.append(_text(left - 6, y(value) + 4, f"{value:g}", anchor="end", size=10))
    parts += [_text(x(load), HEIGHT - MARGIN + 8, f"{100 * load:.0f}", size=9) for load in LOADS]
    for policy in ("esg", "apex"):
        values = [mean(results, f"beyond: load {load:.0%}: {policy}:", figure) for load in LOADS]
        points = " ".join(
            f"{x(load):.1f},{y(value):.1f}" for load, value in zip(LOADS, values, strict=True)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{COLOURS[policy]}" stroke-width="3"/>'
        )
        parts.append(_text(x(LOADS[-1]) + 6, y(values[-1]) + 4, policy, anchor="start"))
    return parts


def cost_picture(results: Results) -> str:
    """What a request costs over ESG's: how far down it goes, and how far apex gets."""
    bars = ("esg", "apex", *reversed(STEPS))
    wide = (WIDTH - 2 * MARGIN) / len(SETTINGS)
    thin = wide / (len(bars) + 1)
    parts = [_text(WIDTH / 2, 20, "cost of a request over esg's; grey: the floor, step by step")]
    for place, setting in enumerate(SETTINGS):
        shares = floors(on_its_cluster(load_catalog()), setting) | {"esg": 1.0}
        figure = "cost_usd_per_1k_requests"
        whole = mean(results, f"warm start: {setting}: esg:", figure)
        shares["apex"] = mean(results, f"warm start: {setting}: apex:", figure) / whole
        left = MARGIN + place * wide
        for number, bar in enumerate(bars):
            height = (HEIGHT - 2.4 * MARGIN) * (shares[bar] - 0.8) / 0.25
            top, x = HEIGHT - 1.2 * MARGIN - height, left + number * thin
            parts.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{thin - 4:.1f}" height="{height:.1f}" '
                f'fill="{COLOURS[bar]}"/>'
            )
            parts.append(_text(x + thin / 2 - 2, top - 4, f"{shares[bar]:.3f}", size=8))
            parts.append(_text(x + thin / 2 - 2, HEIGHT - MARGIN, bar, size=7))
        parts.append(_text(left + wide / 2, HEIGHT - MARGIN + 22, setting))
    parts.append(_text(MARGIN, HEIGHT - 8, "bars begin at 0.8", anchor="start", size=10))
    return _picture("cost over esg's", parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.apex.figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    results: Results = json.loads(arguments.results.read_text())
    arguments.to.mkdir(parents=True, exist_ok=True)
    if any(name.startswith("warm start") for name in results):
        (arguments.to / "apex-cost.svg").write_text(cost_picture(results))
    if any(name.startswith("beyond: load") for name in results):
        (arguments.to / "apex-load.svg").write_text(load_pictures(results))


if __name__ == "__main__":
    main()
