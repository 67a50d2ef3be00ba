"""Arrivals summed up, and saved, without sending any."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from esg.console.formatting import ms_text
from esg.console.terminal import open_table, print_line
from esg.units import US_PER_S
from esg.workload.arrivals import Arrival
from esg.workload.plan import Workload
from esg.workload.saved import saving


@dataclass(slots=True)
class Summary:
    """Arrivals summed up; the first interval starts with the run."""

    last_us: int = 0
    by_application: Counter[str] = field(default_factory=Counter)

    @property
    def mean_interval_us(self) -> float | None:
        count = self.by_application.total()
        return self.last_us / count if count else None


def resolve(
    arrivals: Iterable[Arrival], applications: Sequence[str], save_to: Path | None
) -> Summary:
    """Sum arrivals up, and save them, in one pass: a long run takes no memory."""
    summary = Summary(by_application=Counter(dict.fromkeys(applications, 0)))
    with ExitStack() as stack:
        save = stack.enter_context(saving(save_to)) if save_to else None
        for arrival in arrivals:
            summary.last_us = arrival.at_us
            summary.by_application[arrival.application] += 1
            if save:
                save(arrival)
    return summary


def arrivals_document(summary: Summary, plan: Workload, saved_to: Path | None) -> dict[str, Any]:
    mean_us = summary.mean_interval_us
    return {
        **plan.document(),
        "count": summary.by_application.total(),
        "span_ms": summary.last_us / 1e3,
        "mean_interval_ms": None if mean_us is None else mean_us / 1e3,
        "applications": dict(summary.by_application),
        "saved_to": str(saved_to) if saved_to else None,
    }


def print_summary(screen: Console, summary: Summary, plan: Workload, saved_to: Path | None) -> None:
    count, mean_us = summary.by_application.total(), summary.mean_interval_us
    table = open_table()
    table.add_column("application")
    table.add_column("requests", justify="right")
    table.add_column("share", justify="right")
    for name, number in summary.by_application.items():
        table.add_row(name, str(number), f"{number / count:.1%}" if count else "-")
    print_line(
        screen,
        f"{plan.text()}: {count} requests in {summary.last_us / US_PER_S:.3f} s"
        + (f", one every {ms_text(round(mean_us))} ms\n" if mean_us else "\n"),
    )
    screen.print(table)
    if saved_to:
        screen.print(f"\nSaved to {saved_to}.", soft_wrap=True)
