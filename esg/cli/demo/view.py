"""How the demonstration is told: on a screen of 80 columns while it goes on, and as a document."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from esg.cli.demo.findings import (
    PAYLOAD_SCALE,
    VCPUS,
    VGPUS,
    DemoFindings,
    DemoLoad,
    Demonstration,
)
from esg.client import Result
from esg.console.formatting import COST_HEADING, cost_text, counted, latency_text, rate_text
from esg.console.terminal import fits, open_table
from esg.core.catalog.config import CONFIG_LEGEND
from esg.loadgen.outcome import Figures
from esg.loadgen.report.summary import LEGEND
from esg.runtime.settings import DEFAULT_POLICY

BUSY_MS = 20
"""A sender that is later than this had to wait for a core."""
VERIFIED, WRONG = Text("verified", "green"), Text("wrong", "bold red")


class DemoView:
    """Prints the demonstration as it happens; to a quiet screen, nothing."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen

    def begin(self, demonstration: Demonstration) -> None:
        self._screen.print(
            f"A mesh on this machine: Redis, a controller, a gateway and "
            f"{counted(demonstration.nodes, 'node')} of {VCPUS} vCPUs and {VGPUS} vGPUs. The vGPUs "
            "are emulated: their models take the profiled times, and answer with a digest of what "
            "they got, which is checked here (a Triton server would answer with real outputs). "
            f"Data between stages has {PAYLOAD_SCALE:.0%} of its real size, for the sake of small "
            "machines. All models are loaded at the start.\n"
        )

    def waiting(self, text: str) -> AbstractContextManager[object]:
        return self._screen.status(f"{text} ...")

    def up(self, demonstration: Demonstration, found: DemoFindings) -> None:
        services = [name for name in found.processes if not name.startswith("node")]
        names = ", ".join([*services, counted(demonstration.nodes, "node")])
        self._screen.print(f"The mesh is up after {found.up_s:.1f} s: {names}.", style="bold")

    def pictures(self, found: DemoFindings, size: int) -> None:
        self._screen.print(f"\nA picture of {size / 1000:.1f} kB, through every application:\n")
        self._screen.print(_pictures_table(found.pictures))
        self._screen.print(
            f"\nA config is {CONFIG_LEGEND}, one per stage, chosen just before the stage began."
        )
        for result, _ in found.pictures:
            if result.reason:
                self._screen.print(f"{result.application}: {result.reason}", style="red")

    @contextmanager
    def load(self, demonstration: Demonstration) -> Iterator[Callable[[DemoLoad], None]]:
        """A progress bar of the load on stderr, while somebody looks."""
        total, rate = len(demonstration.arrivals), demonstration.rate
        named = "" if "/" in rate.name else f" (rate {rate.name})"
        self._screen.print(
            f"\n{demonstration.seconds:g} s of load: the same picture, {rate.mean_per_s:.1f} times "
            f"a second{named}, each for an application drawn at random.\n"
        )
        shown = not self._screen.quiet and sys.stderr is not None and sys.stderr.isatty()
        columns = BarColumn(), TextColumn("{task.description}", markup=False)
        with Progress(
            *columns, console=Console(stderr=True), transient=True, disable=not shown
        ) as progress:
            bar = progress.add_task(f"0 of {total}", total=total)

            def advance(served: DemoLoad) -> None:
                figures = served.outcome.total
                rate = rate_text(figures.served.hit_rate)
                text = f"{figures.requests} of {total} answered, {rate} in time"
                progress.update(bar, completed=figures.requests, description=text)

            yield advance

    def served(self, served: DemoLoad) -> None:
        table = _served_table(served)
        if not fits(table, self._screen):
            table.padding = 0
        self._screen.print(table)
        total = served.outcome.total
        self._screen.print(
            f"\n{LEGEND} local, remote: data that a stage found on its own node, or got from "
            "another one through Redis."
        )
        right = f"{served.verified} of {counted(total.requests, 'result')} verified byte for byte."
        style = "green" if served.verified == total.requests else "bold red"
        self._screen.print(f"\n{right}", style=style)
        late_ms = served.outcome.document()["sender_late_ms_p99"]
        if late_ms > BUSY_MS:
            self._screen.print(
                f"This machine is busy: 1 in 100 requests went out {late_ms:.0f} ms late or more. "
                "This slows the mesh down as well.",
                style="yellow",
            )
        for reason, count in served.outcome.errors.most_common():
            self._screen.print(f"{count} x {reason}", style="red")

    def end(self, demonstration: Demonstration, found: DemoFindings) -> None:
        self._screen.print(
            f"Everything is down again, {found.whole_s:.0f} s after the beginning.", style="bold"
        )
        self._screen.print(
            "\nNext: esg up, and in another terminal esg top. The same load in virtual time: esg "
            f"emulate --policy {DEFAULT_POLICY} --rate {demonstration.rate.name} "
            f"--nodes {demonstration.nodes} "
            f"--duration {demonstration.seconds:g}"
        )


def _pictures_table(pictures: list[tuple[Result, bool]]) -> Table:
    table = open_table()
    table.add_column("application\nconfigs")
    table.add_column("nodes")
    for heading in ("latency\nms", "SLO\nms", COST_HEADING):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("result", no_wrap=True)
    for result, right in pictures:
        configs = " ".join(str(stage.config) for stage in result.stages)
        table.add_row(
            Text.assemble((result.application, "bold"), f"\n{configs}"),
            ", ".join(dict.fromkeys(stage.node for stage in result.stages)),
            Text(latency_text(result.latency_ms), "" if result.slo_met else "red"),
            latency_text(result.slo_ms),
            cost_text(1000 * result.cost_usd),
            VERIFIED if right else WRONG,
        )
    return table


def _served_table(served: DemoLoad) -> Table:
    table = open_table()
    table.add_column("application", overflow="fold")
    for heading in (
        "\nsent",
        "hit\nrate",
        "p50\nms",
        "p99\nms",
        COST_HEADING,
        "\nlocal",
        "\nremote",
        "cold\nstarts",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, figures in sorted(served.outcome.by_application.items()):
        transfers = served.local[name], served.remote[name]
        table.add_row(name, *_cells(figures, *transfers))
    table.add_section()
    transfers = served.local.total(), served.remote.total()
    cells = _cells(served.outcome.total, *transfers)
    table.add_row("all", *cells, str(served.cold_starts), style="bold")
    return table


def _cells(figures: Figures, local: int, remote: int) -> tuple[str, ...]:
    latency_ms = figures.percentiles_ms()
    return (
        str(figures.requests),
        rate_text(figures.served.hit_rate),
        latency_text(latency_ms["p50"]),
        latency_text(latency_ms["p99"]),
        cost_text(figures.served.cost_usd_per_1k),
        str(local),
        str(remote),
    )


def demo_document(demonstration: Demonstration, found: DemoFindings) -> dict[str, Any]:
    served = found.served
    return {
        "mesh": {
            "processes": found.processes,
            "up_s": found.up_s,
            "nodes": demonstration.nodes,
            "vcpus": VCPUS,
            "vgpus": VGPUS,
            "payload_scale": PAYLOAD_SCALE,
        },
        "pictures": [_picture(result, right) for result, right in found.pictures],
        "load": {
            "rate": demonstration.rate.name,
            "seconds": demonstration.seconds,
            **served.outcome.document(),
            "verified": served.verified,
            "local_transfers": served.local.total(),
            "remote_transfers": served.remote.total(),
            "cold_starts": served.cold_starts,
        },
        "whole_s": found.whole_s,
    }


def _picture(result: Result, right: bool) -> dict[str, Any]:
    return {
        "application": result.application,
        "outcome": str(result.outcome),
        "verified": right,
        "slo_met": result.slo_met,
        "slo_ms": result.slo_ms,
        "latency_ms": result.latency_ms,
        "cost_usd": result.cost_usd,
        "stages": [
            {"stage": stage.stage, "node": stage.node, **stage.config._asdict()}
            for stage in result.stages
        ],
    }
