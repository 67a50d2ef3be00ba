"""`esg plan` without an application: a plan for each of them, at three deadlines."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from esg.cli.explain.kinds import OnSlices, config_legend
from esg.cli.explain.question import Question, ask_timed, build_timed, plan_document
from esg.console.formatting import COST_HEADING, job_cost_text, ms_text
from esg.console.handled import fastest_handled_us, handled_notes
from esg.console.shapes import shape_text
from esg.console.terminal import open_table, print_json, terminal
from esg.core.catalog.model import Application
from esg.core.policies.settings import PolicySettings
from esg.core.search import Answer
from esg.units import to_ms

SLO_SCALES = (0.8, 1.0, 1.2)
"""The paper's three settings, as multiples of L."""

SEARCHES = 9
"""A single search of some 30 us is as likely as not disturbed by whatever else the machine does."""


LATE, STAR = "late", "*"
MARKS = {
    LATE: "late: even the fastest configs take longer; such requests are refused.",
    STAR: "*: in time as profiled, but on real slices, as its handlers use vCPUs, no config is.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One row of the overview."""

    slo_scale: float
    question: Question
    answer: Answer
    elapsed_us: float

    @property
    def mark(self) -> str:
        """Whether it is late, by its profiles or (a star) as its handlers have it."""
        if not self.answer.feasible:
            return LATE
        application = self.question.application
        return STAR * (fastest_handled_us(application)[application.root] > self.question.slo_us)


def print_overview(here: OnSlices, *, as_json: bool) -> None:
    """Plan every application at 0.8, 1.0 and 1.2 times L, its time alone at the minimum config."""
    known = here.catalog
    impossible = {name: here.why_not(name) for name in known.applications}
    shown = {
        name: _ask(application)
        for name, application in known.applications.items()
        if not impossible[name]
    }
    if as_json:
        rows = [row for each in shown.values() for row in each]
        not_planned = {name: whys[0] for name, whys in impossible.items() if whys}
        print_json({"plans": [_document(row) for row in rows], "not_planned": not_planned})
        return

    screen = terminal()
    screen.print(
        "The cheapest plan that keeps the deadline, for one job that waits at the first stage. "
        f"{config_legend(known)}, one per stage; a later stage may share its batch with other "
        "requests. L is the application's time alone at the minimum config. Search times are the "
        f"median of {SEARCHES} in a row.\n"
    )
    width = max((len(_configs(row)) for rows in shown.values() for row in rows), default=1)
    screen.print(_table((), width))
    for name, rows in shown.items():
        screen.print(Text.assemble((name, "bold"), f": {shape_text(known.applications[name])}"))
        screen.print(_table(rows, width), "")
    for name, whys in impossible.items():
        if whys:
            screen.print(Text.assemble((name, "bold"), f": {whys[0]}\n"))
    marks = {row.mark for rows in shown.values() for row in rows}
    for words in (
        *(words for mark, words in MARKS.items() if mark in marks),
        *handled_notes(known.functions.values()),
        *here.notes,
    ):
        screen.print(f"{words}\n", soft_wrap=False)
    if shown:
        screen.print(f"Next, see why: esg plan {shlex.quote(next(iter(shown)))} --queue 4")


def _ask(application: Application) -> list[Shown]:
    usual = PolicySettings()
    engine, _ = build_timed(usual.engine, application, group_size=usual.group_size)
    rows = []
    for scale in SLO_SCALES:
        slo_us = round(scale * application.alone_us)
        question = Question(application=application, stage=application.root, slo_us=slo_us)
        asked = [ask_timed(question, engine) for _ in range(SEARCHES)]
        elapsed_us = sorted(elapsed_us for _, elapsed_us in asked)[SEARCHES // 2]
        answer = asked[0][0]
        rows.append(Shown(slo_scale=scale, question=question, answer=answer, elapsed_us=elapsed_us))
    return rows


def _document(row: Shown) -> dict[str, Any]:
    answer, application = row.answer, row.question.application
    return {
        "application": application.name,
        "slo_scale": row.slo_scale,
        "slo_ms": to_ms(row.question.slo_us),
        "feasible": answer.feasible,
        "fastest_handled_ms": to_ms(fastest_handled_us(application)[application.root]),
        **plan_document(answer.plans[0], application),
        "elapsed_us": row.elapsed_us,
    }


def _configs(row: Shown) -> str:
    return " ".join(str(step.config) for step in row.answer.plans[0].steps)


def _table(rows: Sequence[Shown], configs_width: int) -> Table:
    """A table with the rows of one application, or the head alone; with the same widths, so that
    all line up."""
    table = open_table()
    table.show_header = not rows
    for heading, width in (("SLO", 5), ("SLO\nms", 7)):
        table.add_column(heading, min_width=width, justify="right", no_wrap=True)
    table.add_column("configs", min_width=configs_width)
    for heading, width in (("time\nms", 7), (COST_HEADING, 7), ("search\nus", 6), ("", 4)):
        table.add_column(heading, min_width=width, justify="right", no_wrap=True)
    for row in rows:
        answer = row.answer
        best = answer.plans[0]
        table.add_row(
            f"{row.slo_scale} L",
            ms_text(row.question.slo_us),
            _configs(row),
            ms_text(best.time_us),
            job_cost_text(best.job_cost_pusd),
            f"{row.elapsed_us:.0f}",
            row.mark,
        )
    return table
