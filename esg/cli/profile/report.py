"""What measuring came to, for people and as a document."""

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from esg.console.formatting import ms_text
from esg.console.terminal import open_table, terminal
from esg.profiler.grid import SMALLEST
from esg.profiler.record import FunctionRecord, ProfileRecord
from esg.profiler.tables import profiled
from esg.units import to_ms


@dataclass(slots=True)
class Profiled:
    """What came of it. `problems` say why a function was not measured; `catalog` is None if no
    application has all of its functions measured."""

    record: ProfileRecord
    problems: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    profiles: list[Path] = field(default_factory=list)
    catalog: Path | None = None
    took_s: float = 0.0


def document(found: Profiled) -> dict[str, Any]:
    return {
        "catalog": None if found.catalog is None else str(found.catalog),
        "profiles": list(map(str, found.profiles)),
        "took_s": found.took_s,
        "functions": {n: _figures(f) for n, f in found.record.functions.items() if profiled(f)},
        "problems": found.problems,
        "applications_left_out": found.left_out,
    }


def _figures(measured: FunctionRecord) -> dict[str, Any]:
    alone = [cell for cell in measured.feasible if cell.config.batch == 1]
    smallest = next(cell for cell in alone if cell.config[:3] == SMALLEST[:3])
    kinds = dict.fromkeys(cell.config.kind for cell in measured.feasible)
    return {
        "kinds": list(kinds),
        "configs": len(measured.cells),
        "infeasible": len(measured.cells) - len(measured.feasible),
        "cold_start_ms": median(measured.cold_starts_us) / 1000,
        "memory_mb": measured.memory_mb or None,
        "input_bytes": measured.input_bytes,
        "alone_ms": to_ms(smallest.time_us),
        "alone_slices_ms": to_ms(smallest.phases.slices_us),
        "alone_after_ms": to_ms(smallest.phases.after_us),
        "fastest_ms": min(cell.time_us for cell in alone) / 1000,
        "relative_std": measured.relative_std,
    }


def show(out: Path, slices: str, found: Profiled) -> None:
    screen = terminal()
    screen.print(_table(found.record))
    screen.print()
    for name, why in found.problems.items():
        screen.print(f"Not measured: {name}: {why}", soft_wrap=True)
    for path in found.profiles:
        screen.print(f"Written: {path}, with its table beside it", soft_wrap=True)
    if found.catalog is not None:
        for name in found.left_out:
            screen.print(f"Left out: {name}, because not all of its functions are measured")
        path = found.catalog
        took = f"({found.took_s:.0f} s)"
        screen.print(f"Written: {path} {took}. Use it, for example:", soft_wrap=True)
        screen.print(f"  esg plan --catalog {path}", soft_wrap=True)
        screen.print(f"  esg up --slices {slices} --catalog {path}", soft_wrap=True)
    elif found.profiles:
        screen.print(
            f"No catalog ({found.took_s:.0f} s): no application has all of its functions measured. "
            f"The others can follow: name them, or all, and --out {out} again."
        )


def _table(record: ProfileRecord) -> Table:
    table = open_table()
    table.add_column("function", overflow="fold")
    for heading in (
        "configs",
        "cannot\nrun",
        "cold start\nms",
        "memory\nMB",
        "alone\nms",
        "fastest\nms",
        "spread",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, measured in record.functions.items():
        if profiled(measured):
            figures = _figures(measured)
            table.add_row(
                name,
                str(figures["configs"]),
                str(figures["infeasible"]),
                ms_text(round(1000 * figures["cold_start_ms"])),
                str(figures["memory_mb"] or "-"),
                ms_text(round(1000 * figures["alone_ms"])),
                ms_text(round(1000 * figures["fastest_ms"])),
                f"{figures['relative_std']:.1%}",
            )
    return table
