"""The benchmark's results for people: tables for a terminal of 100 columns."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from benchmarks.search.aims import FRONTIER, Aim, Cells, PaperFigure
from benchmarks.search.growth import GROWTH_K, GROWTH_SETTING, TOO_SLOW_NS, Build, Growth
from benchmarks.search.measure import Cell, Contender
from benchmarks.search.questions import KS, SETTINGS


def time_text(ns: float) -> str:
    """
    >>> [time_text(ns) for ns in (940, 13_460, 3_158_000, 1_520_000_000)]
    ['0.94 us', '13.5 us', '3.16 ms', '1.52 s']
    """
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{_three_digits(ns / 1e3)} us"


def count_text(count: float) -> str:
    """
    >>> [count_text(count) for count in (143.6, 81_234, 16_777_216)]
    ['144', '81.2k', '16.8M']
    """
    for unit, size in (("M", 1e6), ("k", 1e4)):
        if count >= size:
            return f"{_three_digits(count / (1e6 if unit == 'M' else 1e3))}{unit}"
    return f"{count:.0f}"


def ratio_text(ratio: float) -> str:
    """
    >>> [ratio_text(ratio) for ratio in (1, 8.449, 197.3, 81_234)]
    ['1x', '8.4x', '197x', '81.2kx']
    """
    if ratio == 1:
        return "1x"
    return f"{ratio:.1f}x" if ratio < 10 else f"{count_text(ratio)}x"


def _three_digits(value: float) -> str:
    return f"{value:.{max(0, 2 - (len(str(int(value))) - 1))}f}"


def decisions_table(subject: str, contenders: Sequence[Contender], cells: Cells) -> Table:
    table = Table(
        title=f"Decisions, {subject}",
        caption="p50 / p99; below: mean effort, and p50 as a multiple of frontier's",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("contender", no_wrap=True)
    for k in KS:
        table.add_column(f"k = {k}", justify="right", no_wrap=True)
    for setting, scale in SETTINGS.items():
        share = cells(subject, FRONTIER, setting, KS[0]).feasible_share
        table.add_row(f"[bold]{setting}, {scale} L[/bold]", f"{share:.0%} in time")
        for contender in contenders:
            row = [cells.find(subject, contender.name, setting, k) for k in KS]
            if any(row):
                table.add_row(_contender_text(contender, row), *(_cell_text(c, cells) for c in row))
        table.add_section()
    return table


def _contender_text(contender: Contender, row: Sequence[Cell | None]) -> Text:
    asked = max(len(cell.decisions) for cell in row if cell)
    name = contender.name if contender.whole else f"{contender.name} *"
    return Text.assemble(f"{name}\n", (f"{asked} asked", "dim"))


def _cell_text(cell: Cell | None, cells: Cells) -> Text:
    if cell is None:
        return Text("-", style="dim")
    ratio = cell.p50_ns / cells(cell.subject, FRONTIER, cell.setting, cell.k).p50_ns
    effort = f"{cell.gave_up} gave up" if cell.gave_up else count_text(cell.mean_effort)
    return Text.assemble(
        f"{_both(time_text(cell.p50_ns), time_text(cell.p99_ns))}\n",
        (f"{effort}, {ratio_text(ratio)}", "dim"),
    )


def _both(p50: str, p99: str) -> str:
    """
    >>> _both("13.8 us", "94.7 us"), _both("155 us", "1.54 ms")
    ('13.8 / 94.7 us', '155 us / 1.54 ms')
    """
    value, unit = p50.split()
    return f"{value} / {p99}" if p99.endswith(f" {unit}") else f"{p50} / {p99}"


def builds_table(builds: Iterable[Build]) -> Table:
    table = Table(
        title="Building, once per application",
        caption="corners of the staircase after the first stage, and after all stages together",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("application", no_wrap=True)
    for heading in ("stages", "frontier", "astar", "corners, first", "corners, all"):
        table.add_column(heading, justify="right")
    for build in builds:
        table.add_row(
            build.application,
            str(build.stages),
            time_text(build.frontier_ns),
            time_text(build.astar_ns),
            str(build.corners_first),
            str(build.corners_all),
        )
    return table


def growth_table(grown: Sequence[Growth], axis: str, title: str) -> Table:
    table = Table(
        title=title,
        caption=f"{GROWTH_SETTING}, k = {GROWTH_K}, first stage; astar plans the whole chain, "
        f"and is not asked again after a decision of over {time_text(TOO_SLOW_NS)}",
        title_justify="left",
        caption_justify="left",
    )
    for heading in (axis, "corners", "frontier build", "frontier p50", "astar build"):
        table.add_column(heading, justify="right")
    for heading in ("astar p50 / max", "effort", "ratio", "costs"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in (row for row in grown if row.axis == axis):
        if row.astar_p50_ns is None or row.astar_max_ns is None or row.astar_effort is None:
            astar = ["not asked", "-", "-", "-"]
        else:
            astar = [
                _both(time_text(row.astar_p50_ns), time_text(row.astar_max_ns)),
                count_text(row.astar_effort),
                ratio_text(row.astar_p50_ns / row.frontier_p50_ns),
                "equal",
            ]
        table.add_row(
            str(row.size),
            count_text(row.build.corners_first),
            time_text(row.build.frontier_ns),
            time_text(row.frontier_p50_ns),
            time_text(row.build.astar_ns),
            *astar,
        )
    return table


def aims_table(aims: Iterable[Aim]) -> Table:
    table = Table(
        title="Aims, reached if the worst setting reaches them",
        caption="frontier against astar: k = 5, first-stage questions, astar with a group of 5",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("aim")
    for heading in (*SETTINGS, "reached"):
        table.add_column(heading, justify="right", no_wrap=True)
    for aim in aims:
        shown = time_text if aim.unit == "ns" else ratio_text
        table.add_row(
            aim.text,
            *(shown(aim.by_setting[setting]) for setting in SETTINGS),
            Text("yes", style="green") if aim.reached else Text("no", style="bold red"),
        )
    return table


def paper_table(figures: Iterable[PaperFigure]) -> Table:
    table = Table(
        title="Beside it: the paper's own figures, as reported there, on other hardware",
        title_justify="left",
    )
    for heading in ("what", "the paper's", "here", "here is"):
        table.add_column(heading)
    for figure in figures:
        here = " -> " if "->" in figure.paper else ", "
        table.add_row(
            figure.text, figure.paper, here.join(map(time_text, figure.ours_ns)), figure.note
        )
    return table
