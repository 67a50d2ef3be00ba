"""A measured profile's table: one row per config; lines that start with # are comments.

batch,vcpus,vgpus,time_ms                    what a table has at least
kind                                         of the slices; empty: see `catalog.file`
slices_ms,after_ms                           how much of time_ms is spent on the slices, and after
"""

import csv
from collections.abc import Sequence
from pathlib import Path

from esg.core.catalog.config import Config
from esg.core.catalog.phases import Phases
from esg.core.catalog.slice_kinds import USUAL
from esg.errors import Rejected
from esg.limits import LONGEST_PART_MS
from esg.suggest import shortened
from esg.units import ms, to_ms

_COLUMNS = ("batch", "vcpus", "vgpus", "time_ms")
_PHASES = ("slices_ms", "after_ms")


def measured_table(path: Path, lines: Sequence[str]) -> dict[Config, Phases]:
    """The configs that a table has, with their phases; `path` is where it is from."""
    numbered = [(n, line) for n, line in enumerate(lines, 1) if line and not line.startswith("#")]
    rows = csv.reader(line for _, line in numbered)
    header = [name.strip() for name in next(rows, [])]
    missing = [name for name in _COLUMNS if name not in header]
    if missing:
        raise Rejected(
            f"{path}: missing column {', '.join(missing)}; the header is {','.join(_COLUMNS)}"
        )
    times_us: dict[Config, Phases] = {}
    seen: set[Config] = set()
    for (number, _), row in zip(numbered[1:], rows, strict=False):
        config, phases = _table_row(f"{path}:{number}", header, row)
        if config in seen:
            raise Rejected(f"{path}:{number}: config {config} appears twice; remove one row")
        seen.add(config)
        if phases is not None:
            times_us[config] = phases
    return times_us


def _table_row(
    where: str, header: Sequence[str], row: Sequence[str]
) -> tuple[Config, Phases | None]:
    if len(row) != len(header):
        raise Rejected(f"{where}: {len(row)} cells where the header has {len(header)}")
    cell = {name: value.strip() for name, value in zip(header, row, strict=True)}
    try:
        kind = cell.get("kind", USUAL)
        config = Config(int(cell["batch"]), int(cell["vcpus"]), int(cell["vgpus"]), kind)
        time = None if cell["time_ms"] in ("", "oom") else float(cell["time_ms"])
        slices, after = (float(cell[name]) if cell.get(name) else None for name in _PHASES)
    except ValueError as error:
        problem = shortened(str(error))
        raise Rejected(f"{where}: {problem}; expected whole numbers and times in ms") from None
    if min(config.batch, config.vcpus, config.vgpus) < 1:
        raise Rejected(f"{where}: batch, vcpus and vgpus must be at least 1")
    if time is None:
        return config, None
    if not 0 < time <= LONGEST_PART_MS:
        raise Rejected(
            f"{where}: time_ms is {time}; it must be positive and at most {LONGEST_PART_MS:g} "
            "(or empty: does not fit)"
        )
    return config, _phases(where, time, slices, after)


def _phases(where: str, time: float, slices: float | None, after: float | None) -> Phases:
    """The phases of a measured task, in whole microseconds: the sum of rounded parts may be one
    more than their rounded sum."""
    for name, part in zip(_PHASES, (slices, after), strict=True):
        if part is not None and not part >= 0:
            raise Rejected(f"{where}: {name} is {part:g}; it must not be negative (or empty)")
    parts = (slices or 0.0) + (after or 0.0)
    if not parts <= time + to_ms(1):
        raise Rejected(
            f"{where}: slices_ms and after_ms are parts of time_ms, but add up to {parts:g}, more "
            f"than {time:g}"
        )
    total_us = max(1, ms(time))
    after_us = min(total_us, ms(after or 0.0))
    not_after_us = total_us - after_us
    slices_us = not_after_us if slices is None else min(not_after_us, ms(slices))
    return Phases(not_after_us - slices_us, slices_us, after_us)
