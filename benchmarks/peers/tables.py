"""What was found, as tables for a terminal and for a page."""

from collections.abc import Iterator
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.peers.highest_rate import SLOWEST

OPEN_LOOP = "open loop, p99 < 50 ms"


def figures(found: dict[str, Any]) -> Iterator[list[str]]:
    """A heading, then a row for each server: p50, rate and CPU per request; the open loop."""
    yield ["", *map(_cell_name, found["rows"][0]["cells"]), OPEN_LOOP]
    for row in found["rows"]:
        each = (_cell(**cell) for cell in row["cells"])
        per_s = row["open_loop_per_s"]
        yield [row["title"], *each, f"{per_s:.0f}/s" if per_s else f"below {SLOWEST:g}/s"]


def ratios(found: dict[str, Any]) -> Iterator[list[str]]:
    """Of the mesh to each peer in the same rounds: on a stream and, after a slash, unary."""
    peers = [row for row in found["rows"] if row["ours_to_it"]]
    yield ["ours, times", *map(_cell_name, peers[0]["cells"])]
    for row in peers:
        pairs = zip(row["ours_to_it"], row["ours_unary_to_it"], strict=True)
        yield [
            row["title"],
            *(
                f"p50 {s['p50']:.2f} / {u['p50']:.2f}, rate {s['per_s']:.1f} / {u['per_s']:.1f}"
                for s, u in pairs
            ),
        ]


def promises(found: dict[str, Any]) -> Iterator[list[str]]:
    yield ["", "durable", "deadline", "batching"]
    for row in found["rows"]:
        yield [row["title"], *row["promises"].values()]


def show(found: dict[str, Any]) -> None:
    screen = Console()
    for heading, *rest in _tables(found):
        table = Table(*heading, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for row in rest:
            table.add_row(*row)
        screen.print(table)
    for words in _about(found):
        screen.print(words)


def markdown(found: dict[str, Any]) -> str:
    lines: list[str] = []
    for heading, *rest in _tables(found):
        lines.append(f"| {' | '.join(heading)} |")
        lines.append("|---" * len(heading) + "|")
        lines += [f"| {' | '.join(row)} |" for row in rest]
        lines.append("")
    return "\n".join([*lines, *_about(found)])


def _tables(found: dict[str, Any]) -> list[list[list[str]]]:
    """None, if no peer could be had."""
    if not found["rows"]:
        return []
    return [list(figures(found)), list(ratios(found)), list(promises(found))]


def _about(found: dict[str, Any]) -> Iterator[str]:
    rounds = f"medians over {found['rounds']} rounds of {found['seconds']:g} s"
    yield f"{found['date']}, {found['cores']} cores; {rounds}."
    for name, why in found["left_out"].items():
        yield f"{name} was left out: {why}"


def _cell(*, p50_ms: float, per_s: float, cpu_ms: float, failed: float, **_: object) -> str:
    words = f"{_figure(p50_ms)} ms, {_figure(per_s)}/s, CPU {_figure(cpu_ms)} ms"
    return f"{words}, {failed:.0%} failed" if failed else words


def _cell_name(cell: dict[str, Any]) -> str:
    return f"{cell['size']}, {cell['clients']} client{'s' if cell['clients'] > 1 else ''}"


def _figure(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
