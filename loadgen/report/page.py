"""A run as one page (see `esg.reporting.page`), which looks like that of `esg reproduce`."""

from collections.abc import Mapping
from html import escape

from esg.console.formatting import cost_text, latency_text, rate_text
from esg.loadgen.outcome import Figures, LoadOutcome
from esg.loadgen.report.circumstances import Circumstances
from esg.loadgen.report.figures import figures
from esg.loadgen.report.summary import LEGEND, behind_text, fell_behind, lateness_text, sending_text
from esg.loadgen.run import LoadFindings
from esg.reporting.page import (
    NOSCRIPT,
    facts_table,
    figure_section,
    row,
    section,
    table,
    whole_page,
)
from esg.workload.plan import Workload

HEADINGS = (
    "",
    "SLO, ms",
    "Requests",
    "Hit rate",
    "p50, ms",
    "p90, ms",
    "p99, ms",
    "USD per 1k",
    "Not done",
)


def report(
    plan: Workload,
    found: LoadFindings,
    emulated: LoadOutcome | None = None,
    *,
    under: Circumstances,
) -> str:
    """The page of a run: a whole HTML file."""
    title = f"loadgen: {plan.text()}"
    warning = behind_text(found) if fell_behind(found.outcome) else ""
    return whole_page(
        title,
        f"<header><h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(sending_text(found))}</p>',
        f"<p>{escape(lateness_text(found.outcome))}</p>",
        f"<p><strong>{escape(warning)}</strong></p>" if warning else "",
        f"{facts_table(under.facts())}</header>",
        NOSCRIPT,
        section("Live", _table(found.outcome, under.slos_ms)),
        "" if emulated is None else section("Emulated", _table(emulated, under.slos_ms)),
        _failures(found.outcome),
        *(
            figure_section(number, figure)
            for number, figure in enumerate(figures(found, emulated), 1)
        ),
        made_by="loadgen, esg",
    )


def _table(outcome: LoadOutcome, slos_ms: Mapping[str, float]) -> str:
    rows = [
        row("td", (name, latency_text(slos_ms.get(name)), *_cells(figures)))
        for name, figures in sorted(outcome.by_application.items())
    ]
    rows.append(row("td", ("all", "", *_cells(outcome.total)), kind="best"))
    return f"{table(HEADINGS, rows)}<p>{escape(LEGEND)}</p>"


def _cells(figures: Figures) -> tuple[str, ...]:
    latency_ms = figures.percentiles_ms()
    return (
        f"{figures.requests:,}",
        rate_text(figures.served.hit_rate),
        *(latency_text(latency_ms[name]) for name in ("p50", "p90", "p99")),
        cost_text(figures.served.cost_usd_per_1k),
        f"{figures.not_done:,}",
    )


def _failures(outcome: LoadOutcome) -> str:
    if not outcome.errors:
        return ""
    items = (f"<li>{n:,} x {escape(why)}</li>" for why, n in outcome.errors.most_common())
    return section("What went wrong", f"<ul>{''.join(items)}</ul>")
