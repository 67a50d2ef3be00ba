"""The summary of a run: as tables on 80 columns, and as a document."""

from typing import Any

from rich.console import Console
from rich.table import Table

from esg.console.formatting import COST_HEADING, cost_text, counted, latency_text, rate_text
from esg.console.terminal import fits, open_table, print_line
from esg.core.metrics import CAPTION
from esg.loadgen.outcome import Figures, LoadOutcome
from esg.loadgen.record import UNANSWERED
from esg.loadgen.report.circumstances import Circumstances
from esg.loadgen.run import LoadFindings
from esg.workload.plan import Workload

LEGEND = (
    f"{CAPTION} SLOs are kept by the mesh's clock, from when it accepted a request; latencies are "
    "from the planned instant to the answer."
)
LATE_MS = 2.0
"""A sender that is later than this at its 99th percentile has to say so."""
MOST_REASONS = 5
BEHIND_TEXT = (
    "The mesh fell behind. {crowd}It may have been cold: esg up --cold-start begins without loaded "
    "models. Or it is too small for this rate: --rate 80% is a share of what it can carry. esg top "
    "shows where work waits."
)


def print_findings(
    screen: Console, plan: Workload, found: LoadFindings, emulated: LoadOutcome | None = None
) -> None:
    outcome = found.outcome
    print_line(screen, f"{plan.text()}: {sending_text(found)}\n")
    tables = [outcome_table(outcome)]
    if emulated is not None:
        tables.append(comparison_table(outcome, emulated))
    for table in tables:
        if not fits(table, screen):
            table.padding = 0
        screen.print(table)
        screen.print()
    screen.print(LEGEND)
    screen.print(lateness_text(outcome), style="yellow" if is_late(outcome) else "")
    if fell_behind(outcome):
        screen.print(behind_text(found), style="yellow")
    for reason, count in outcome.errors.most_common(MOST_REASONS):
        screen.print(f"{count} x {reason}", style="red")


def sending_text(found: LoadFindings) -> str:
    rate = f" ({found.sent / found.sending_s:.1f}/s)" if found.sending_s else ""
    waited = "given up" if UNANSWERED in found.outcome.errors else "the last answer"
    end = f", {waited} after {found.elapsed_s:.1f} s" if found.sent else ""
    cut = "; ended by Ctrl-C" if found.interrupted else ""
    return f"{counted(found.sent, 'request')} sent in {found.sending_s:.1f} s{rate}{end}{cut}"


def fell_behind(outcome: LoadOutcome) -> bool:
    """Whether the mesh fell behind: most were not done in time. Where nothing was done at all, the
    reasons say more."""
    total = outcome.total
    return (total.served.hit_rate or 0) < 0.5 and total.served.done > 0


def behind_text(found: LoadFindings) -> str:
    """Advice on what to look at first if a mesh fell behind. A mesh on this machine suffers from
    whatever else runs here."""
    crowd = ""
    if found.load > found.cores:
        crowd = (
            f"This machine is busy, with a load of {found.load:.1f} on "
            f"{counted(found.cores, 'core')}: if the mesh runs here, measure again when nothing "
            "else does. "
        )
    elif is_late(found.outcome):
        crowd = (
            "loadgen itself was late, so this machine's cores may be busy; a mesh that runs here "
            "has to share them. "
        )
    return BEHIND_TEXT.format(crowd=crowd)


def is_late(outcome: LoadOutcome) -> bool:
    return outcome.late.percentiles_ms(99)[0] > LATE_MS


def lateness_text(outcome: LoadOutcome) -> str:
    p50_ms, p99_ms = outcome.late.percentiles_ms(50, 99)
    most_ms = outcome.late.most_ms
    text = f"p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms, at most {most_ms:.1f} ms after the plan"
    if is_late(outcome):
        return (
            f"loadgen itself was late: {text}. Latencies include that. Smaller payloads help, and "
            "more --workers if there are cores for them."
        )
    return f"Requests went out in time: {text}."


def outcome_table(outcome: LoadOutcome) -> Table:
    table = open_table()
    table.add_column("application", overflow="fold")
    for heading in ("\nrequests", "hit\nrate", "p50\nms", "p99\nms", COST_HEADING, "not\ndone"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, figures in sorted(outcome.by_application.items()):
        table.add_row(name, *_cells(figures))
    table.add_section()
    table.add_row("all", *_cells(outcome.total), style="bold")
    return table


def _cells(figures: Figures) -> tuple[str, ...]:
    latency_ms = figures.percentiles_ms()
    return (
        str(figures.requests),
        rate_text(figures.served.hit_rate),
        latency_text(latency_ms["p50"]),
        latency_text(latency_ms["p99"]),
        cost_text(figures.served.cost_usd_per_1k),
        str(figures.not_done),
    )


def comparison_table(live: LoadOutcome, emulated: LoadOutcome) -> Table:
    """A table of the same requests in the mesh and in the emulator, side by side."""
    table = open_table()
    table.add_column("application", overflow="fold")
    for first, second in (("hit", "rate"), ("p50", "ms"), ("p99", "ms"), ("USD", "per 1k")):
        table.add_column(f"{first}\nlive", justify="right", no_wrap=True)
        table.add_column(f"{second}\nemul.", justify="right", no_wrap=True)
    names = sorted(live.by_application.keys() & emulated.by_application.keys())
    for name in names:
        pairs = _cells(live.by_application[name]), _cells(emulated.by_application[name])
        table.add_row(name, *_alternating(*pairs))
    table.add_section()
    table.add_row("all", *_alternating(_cells(live.total), _cells(emulated.total)), style="bold")
    return table


def _alternating(live: tuple[str, ...], emulated: tuple[str, ...]) -> list[str]:
    """Hit rate, p50, p99 and cost: live, emulated, live, emulated ..."""
    pairs = zip(live[1:5], emulated[1:5], strict=True)
    return [cell for pair in pairs for cell in pair]


def findings_document(
    plan: Workload,
    found: LoadFindings,
    emulated: LoadOutcome | None = None,
    *,
    under: Circumstances,
) -> dict[str, Any]:
    late = found.outcome.late
    p50_ms, p90_ms, p99_ms = late.percentiles_ms(50, 90, 99)
    return {
        **under.document(),
        "plan": plan.document(),
        "sent": found.sent,
        "sending_s": found.sending_s,
        "elapsed_s": found.elapsed_s,
        "interrupted": found.interrupted,
        **found.outcome.document(),
        "sender_late_ms": {"p50": p50_ms, "p90": p90_ms, "p99": p99_ms, "most": late.most_ms},
        "emulated": None if emulated is None else emulated.document(),
    }
