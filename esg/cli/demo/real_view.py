"""How the demonstration with real models is told, on a screen of 80 columns; with pictures, if it
has colours."""

from contextlib import AbstractContextManager
from itertools import zip_longest

from rich.console import Console
from rich.table import Table

from esg.cli.demo.real_findings import (
    APPLICATION,
    ENLARGED,
    LABELLED,
    MASKED,
    SLICES,
    RealDemoFindings,
    RealDemonstration,
    opened,
)
from esg.cli.demo.terminal_image import beside, half_blocks
from esg.client import Result
from esg.console.terminal import open_table

COLUMNS = 24
"""Of a picture: three fit beside each other."""


class RealDemoView:
    """Prints the demonstration with real models as it happens; to a quiet screen, nothing."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen

    def begin(self, demonstration: RealDemonstration, photo: bytes) -> None:
        width, height = opened(photo).size
        self._screen.print(
            f"A mesh on this machine: Redis, a controller, a gateway and a node with {SLICES} "
            "slices, each of them a real Triton server that runs on the CPU. The models are real, "
            "their weights trained, but smaller ones than on a GPU (docs/functions.md).\n\n"
            f"{demonstration.photo.name}, {width} × {height} pixels, goes through {APPLICATION}.\n"
        )

    def waiting(self, text: str) -> AbstractContextManager[object]:
        return self._screen.status(f"{text} ...")

    def up(self, seen: RealDemoFindings) -> None:
        self._screen.print(f"The mesh is up after {seen.up_s:.1f} s.\n", style="bold")

    def ran(self, seen: RealDemoFindings) -> None:
        self._screen.print(_times(seen.results))
        self._screen.print()
        for result in seen.results:
            if result.reason:
                self._screen.print(f"{result.outcome.value}: {result.reason}", style="red")

    def pictures(self, photo: bytes, seen: RealDemoFindings) -> None:
        if self._screen.color_system in ("256", "truecolor"):
            shown = [photo, seen.outputs[ENLARGED], seen.outputs[MASKED]]
            drawn = [half_blocks(opened(content), COLUMNS) for content in shown]
            for line in beside(drawn):
                self._screen.print(line)
            self._screen.print()
        width, height = opened(seen.outputs[ENLARGED]).size
        answer = seen.label
        found = answer["found"][MASKED]
        others = ", ".join(f"{other['label']} {other['score']:.0%}" for other in answer["others"])
        told = {
            ENLARGED: f"{width} × {height} pixels",
            MASKED: f"{found} of the picture, the rest is masked",
            LABELLED: f"{answer['label']} {answer['score']:.0%} (then: {others})",
        }
        for stage, text in told.items():
            self._screen.print(stage, style="bold")
            for words in (text, answer["weights"][stage], seen.files[stage]):
                self._screen.print(f"  {words}", soft_wrap=True)

    def end(self, seen: RealDemoFindings) -> None:
        self._screen.print(
            f"\nEverything is down again, {seen.whole_s:.0f} s after the beginning.", style="bold"
        )
        if seen.all_right:
            self._screen.print(
                "\nNext: esg up --slices cpu:2, and in another terminal: "
                "esg submit image-classification PHOTO --all-stages --out DIR --slo-ms 60000"
            )


def _times(results: list[Result]) -> Table:
    """What each stage took, without its model loaded and with it. "In all" is the sum of all that
    is above it, waits and runs."""
    table = open_table()
    table.add_column("ms")
    for heading in ("1st: loads,\nwaits", "\nruns", "2nd:\nwaits", "\nruns"):
        table.add_column(heading, justify="right")
    for stages in zip_longest(*(result.stages for result in results)):
        name = next(stage.stage for stage in stages if stage is not None)
        cells: list[str] = []
        for stage in stages:
            cells += ("", "") if stage is None else (f"{stage.wait_ms:.0f}", f"{stage.run_ms:.0f}")
        table.add_row(name, *cells)
    way: list[str] = []
    total: list[str] = []
    for result in results:
        in_stages_ms = sum(stage.wait_ms + stage.run_ms for stage in result.stages)
        way += (f"{result.latency_ms - in_stages_ms:.0f}", "")
        total += ("", f"{result.latency_ms:.0f}")
    table.add_row("on the way", *way)
    table.add_row("in all", *total, style="bold")
    return table
