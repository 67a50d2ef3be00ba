"""The `loadgen` command: works arrivals out, sums them up and saves them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.entry import run_app
from cli.options import AsJson, CatalogFile, above_zero, at_least, read_catalog
from cli.terminal import open_table, print_json, terminal
from cli.words import ms_text
from esg.errors import Rejected
from esg.spelling import one_of
from esg.units import US_PER_S, seconds
from loadgen.arrivals import RATES_US, at_rate, until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loadgen.arrivals import Arrival

LONGEST_S = 31_536_000
"""A year, at most: the largest number of seconds anybody can mean."""

DEFAULT_REQUESTS = 1_000

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def loadgen(
    rate: Annotated[
        str,
        typer.Option(metavar="RATE", help="How dense the requests come: heavy, normal or light."),
    ],
    requests: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default=f"{DEFAULT_REQUESTS}, without --duration",
            help="Stop after so many requests.",
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", callback=above_zero(LONGEST_S), help="Stop after so long instead."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="S", help="The same seed gives the same arrivals.")
    ] = 0,
    save_arrivals: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write them as CSV: at_us,application."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the summary, send nothing.")
    ] = False,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Work out when which request comes, at one of the paper's rates.

    The time between two requests is uniform in 10-16.8 ms (heavy), 20-33.6 ms (normal) or
    40-67.2 ms (light), and each application is as likely as any other.

    This version cannot send requests yet: say --dry-run or --save-arrivals.

    \b
    Examples:
      loadgen --rate heavy --dry-run
      loadgen --rate normal --duration 60 --seed 7 --save-arrivals normal.csv
      loadgen --rate light --requests 500 --dry-run --json
    """
    if rate not in RATES_US:
        raise Rejected(f"--rate: {one_of('rate', rate, RATES_US)}")
    if requests is not None and duration is not None:
        raise Rejected("--requests and --duration are two ways to stop; give one of them")
    if not dry_run and save_arrivals is None:
        raise Rejected(
            "there is no gateway to send requests to in this version; "
            "say --dry-run to see the arrivals or --save-arrivals FILE to keep them"
        )
    applications = list(read_catalog(catalog).applications)
    endless = at_rate(rate, applications, seed)
    if duration is None:
        arrivals: Iterable[Arrival] = islice(endless, requests or DEFAULT_REQUESTS)
    else:
        arrivals = until(endless, seconds(duration))
    summary = _resolve(arrivals, applications, save_arrivals)
    if as_json:
        print_json(_document(summary, rate, seed, save_arrivals))
    else:
        _print(summary, rate, seed, save_arrivals)


@dataclass(slots=True)
class Summary:
    """What came; the first interval starts with the run."""

    last_us: int = 0
    by_application: Counter[str] = field(default_factory=Counter)

    @property
    def mean_interval_us(self) -> float | None:
        count = self.by_application.total()
        return self.last_us / count if count else None


def _resolve(arrivals: Iterable[Arrival], applications: list[str], save_to: Path | None) -> Summary:
    """One pass, so that a long run takes no memory."""
    from loadgen.saved import saving

    summary = Summary(by_application=Counter(dict.fromkeys(applications, 0)))
    with ExitStack() as stack:
        save = stack.enter_context(saving(save_to)) if save_to else None
        for arrival in arrivals:
            summary.last_us = arrival.at_us
            summary.by_application[arrival.application] += 1
            if save:
                save(arrival)
    return summary


def _document(summary: Summary, rate: str, seed: int, saved_to: Path | None) -> dict[str, Any]:
    mean_us = summary.mean_interval_us
    return {
        "rate": rate,
        "seed": seed,
        "count": summary.by_application.total(),
        "span_ms": summary.last_us / 1e3,
        "mean_interval_ms": None if mean_us is None else mean_us / 1e3,
        "applications": dict(summary.by_application),
        "saved_to": str(saved_to) if saved_to else None,
    }


def _print(summary: Summary, rate: str, seed: int, saved_to: Path | None) -> None:
    count, mean_us = summary.by_application.total(), summary.mean_interval_us
    table = open_table()
    table.add_column("application")
    table.add_column("requests", justify="right")
    table.add_column("share", justify="right")
    for name, number in summary.by_application.items():
        table.add_row(name, str(number), f"{number / count:.1%}" if count else "-")
    screen = terminal()
    screen.print(
        f"{rate}, seed {seed}: {count} requests in {summary.last_us / US_PER_S:.3f} s"
        + (f", one every {ms_text(round(mean_us))} ms\n" if mean_us else "\n")
    )
    screen.print(table)
    if saved_to:
        screen.print(f"\nSaved to {saved_to}.", soft_wrap=True)


def run() -> int:
    return run_app(app, "loadgen")
