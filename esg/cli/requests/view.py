"""How requests are shown: bars while they run, a table when they are done."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from esg.client import Progress, Result
from esg.console.formatting import cost_text
from esg.console.terminal import open_table, print_line
from esg.core.catalog.config import CONFIG_LEGEND
from esg.core.emulated_output import looks_emulated

EMULATED = (
    "slices are emulated: outputs are digests, not pictures (esg demo --real has real models)"
)


class StageBars:
    """A bar for each request on stderr, if somebody looks."""

    def __init__(self, stages: int, *, shown: bool) -> None:
        self._stages = stages
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        if shown and sys.stderr is not None and sys.stderr.isatty():
            self._bars = Bars(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[stage]}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def tell(self, name: str, progress: Progress) -> None:
        """Show that a stage of a request began or ended; each is half a step."""
        if self._bars is None:
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=2 * self._stages, stage="")
        what = "done" if progress.finished else f"on {progress.node}"
        self._bars.update(self._tasks[name], advance=1, stage=f"{progress.stage} {what}")

    def end(self, name: str) -> None:
        if self._bars is not None and name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))


def result_document(result: Result, written: Mapping[str, Path] | None = None) -> dict[str, Any]:
    """A result as a document; `written` are the files that its outputs are in, by stage; None:
    outputs are not told of."""
    document: dict[str, Any] = {
        "request_id": result.request_id,
        "application": result.application,
        "outcome": result.outcome.value,
        "reason": result.reason,
        "slo_met": result.slo_met,
        "slo_ms": result.slo_ms,
        "latency_ms": result.latency_ms,
        "cost_usd": result.cost_usd,
        "stages": [
            {
                "stage": stage.stage,
                "task": stage.task,
                "node": stage.node,
                "config": stage.config._asdict(),
                "ready_ms": stage.ready_ms,
                "started_ms": stage.started_ms,
                "finished_ms": stage.finished_ms,
                "cost_usd": stage.cost_usd,
                "slices_from_ms": stage.slices_from_ms,
                "slices_until_ms": stage.slices_until_ms,
            }
            for stage in result.stages
        ],
    }
    if written is not None:
        document["outputs"] = {
            stage: {
                "bytes": len(content),
                "file": str(written[stage]) if stage in written else None,
            }
            for stage, content in result.outputs.items()
        }
    return document


def is_emulated(result: Result) -> bool:
    """Whether its outputs are an emulated model's: seen from them, for nothing else tells."""
    return any(looks_emulated(output) for output in result.outputs.values())


def print_result(
    screen: Console, title: str, result: Result, written: Mapping[str, Path] | None = None
) -> None:
    if result.outcome != "done":
        reason = f": {result.reason}" if result.reason else ""
        print_line(screen, f"{title}: {result.outcome.value}{reason}\n")
        return
    kept = "kept" if result.slo_met else "missed"
    print_line(
        screen,
        f"{title}: done in {result.latency_ms:.1f} ms, SLO of {result.slo_ms:.1f} ms {kept}; "
        f"{cost_text(1000 * result.cost_usd)} USD per 1k; request {result.request_id}",
    )
    table = open_table()
    table.add_column("stage")
    table.add_column("node")
    table.add_column(CONFIG_LEGEND)
    for heading in ("wait ms", "run ms", "USD per 1k"):
        table.add_column(heading, justify="right")
    for stage in result.stages:
        table.add_row(
            stage.stage,
            stage.node,
            str(stage.config),
            f"{stage.wait_ms:.1f}",
            f"{stage.run_ms:.1f}",
            cost_text(1000 * stage.cost_usd),
        )
    screen.print(table)
    sizes = {name: f"{len(content):,} bytes" for name, content in result.outputs.items()}
    if written:
        for name, path in written.items():
            screen.print(f"written: {path} ({sizes[name]})", soft_wrap=True)
    elif sizes:
        outputs = ", ".join(f"{name} {size}" for name, size in sizes.items())
        print_line(screen, f"outputs: {outputs}")
    screen.print()
