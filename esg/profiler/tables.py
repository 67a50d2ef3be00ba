"""The profile files and the catalog, made from the record.

    FOLDER/catalog.toml          as the one that was measured with, with what was found instead
    FOLDER/segmentation.toml     a profile: provenance, and where its table is
    FOLDER/segmentation.csv      the table: the median of each config's runs, what of it is spent on
                                 the slices and what after that; or "oom"

Applications and prices are taken over as they are written in the first catalog; an SLO that is a
multiple of L there is the same multiple of the measured L here.
"""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from esg.core.catalog.file import catalog_content
from esg.core.catalog.model import Catalog
from esg.errors import Rejected
from esg.files import written
from esg.profiler.grid import SMALLEST
from esg.profiler.imported import ImportedTime
from esg.profiler.record import Cell, FunctionRecord, ProfileRecord
from esg.units import to_ms

CATALOG = "catalog.toml"
COLUMNS = ("batch", "vcpus", "vgpus", "time_ms", "slices_ms", "after_ms", "runs", "note")
MB = 1_000_000


def write_profile(
    folder: Path, name: str, measured: FunctionRecord, provenance: Mapping[str, str]
) -> Path:
    """One function's profile, as far as it is measured; returns where it is."""
    with written(folder / f"{name}.csv") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(_row(cell) for cell in measured.cells)
    path = folder / f"{name}.toml"
    with written(path) as file:
        _write(file, {"function": name})
        _write(file, dict(provenance), "provenance")
        spread = round(measured.relative_std, 4)
        _write(file, {"table": f"{name}.csv", "relative_std": spread}, "measured")
    return path


def write_imported(
    folder: Path,
    name: str,
    times: Sequence[ImportedTime],
    *,
    vcpus: int,
    vgpus: int,
    files: Sequence[str],
) -> Path:
    """A profile of what other tools have measured; returns where it is."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"{folder}: cannot be made: {error.strerror}; name another --out") from None
    with written(folder / f"{name}.csv") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("batch", "vcpus", "vgpus", "time_ms", "slices_ms"))
        for time in times:
            table.writerow((time.batch, vcpus, vgpus, *[f"{time.time_ms:.3f}"] * 2))
    path = folder / f"{name}.toml"
    origin = {
        "kind": "imported",
        "files": ", ".join(files),
        "times": ", ".join(dict.fromkeys(time.column for time in times)),
    }
    with written(path) as file:
        _write(file, {"function": name})
        _write(file, origin, "provenance")
        _write(file, {"table": f"{name}.csv"}, "measured")
    return path


def _row(cell: Cell) -> tuple[object, ...]:
    batch, vcpus, vgpus, _ = cell.config
    size = batch, vcpus, vgpus
    if cell.failure:
        note = " ".join(cell.failure.split())[:200]
        return (*size, "oom" if cell.out_of_memory else "", "", "", 0, note)
    times_us = (cell.time_us, cell.phases.slices_us, cell.phases.after_us)
    return (*size, *(f"{to_ms(time):.3f}" for time in times_us), len(cell.runs_us), "")


def write_catalog(
    folder: Path, source: Path, catalog: Catalog, record: ProfileRecord, node: Mapping[str, int]
) -> list[str]:
    """A catalog of all functions that are profiled in the folder; returns the applications that it
    has not got, because a function of theirs is not. Without any other there is no catalog."""
    given = catalog_content(source)
    names = [n for n in catalog.functions if profiled(record.functions.get(n, FunctionRecord()))]
    whole = [
        name
        for name, application in catalog.applications.items()
        if all(stage.function.name in names for stage in application.stages.values())
    ]
    left_out = [name for name in catalog.applications if name not in whole]
    if not whole:
        return left_out
    with written(folder / CATALOG) as file:
        file.write(f"# Measured by esg profile; the rest is as in {source.name}.\n\n")
        if "prices" in given:
            _write(file, given["prices"], "prices")
        _write(file, {"nodes": 1, **node}, "cluster")
        for name in names:
            table = _function(folder, source, given["functions"][name], name, catalog, record)
            _write(file, table, "functions", name)
        for name in whole:
            _write(file, given["applications"][name], "applications", name)
    return left_out


def profiled(measured: FunctionRecord) -> bool:
    """Whether a single job can be planned for."""
    smallest = measured.cell(SMALLEST)
    return smallest is not None and not smallest.failure


def _function(
    folder: Path,
    source: Path,
    given: Mapping[str, Any],
    name: str,
    catalog: Catalog,
    record: ProfileRecord,
) -> dict[str, Any]:
    measured = record.functions[name]
    kept = {key: given[key] for key in ("model", "handler", "cpu") if key in given}
    if "folder" in given:
        kept["folder"] = _from_here(folder, source.parent / given["folder"])
    home, _, part = kept.get("handler", "").rpartition(":")
    if home.endswith(".py"):
        kept["handler"] = f"{_from_here(folder, source.parent / home)}:{part}"
    return {
        **kept,
        "profile": f"{name}.toml",
        "cold_start_ms": round(to_ms(round(median(measured.cold_starts_us))), 3),
        "input_mb": round(measured.input_bytes / MB, 6),
        "memory_mb": measured.memory_mb or catalog.functions[name].memory_mb,
    }


def _from_here(folder: Path, there: Path) -> str:
    return os.path.relpath(there.resolve(), folder.resolve())


def _write(file: TextIO, table: Mapping[str, Any], *path: str) -> None:
    """A TOML table, and those in it."""
    own = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if path and (own or len(own) == len(table)):
        file.write(f"[{'.'.join(_key(part) for part in path)}]\n")
    for key, value in own.items():
        file.write(f"{_key(key)} = {_value(value)}\n")
    if own or not table:
        file.write("\n")
    for key, value in table.items():
        if isinstance(value, Mapping):
            _write(file, value, *path, key)


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if plain else json.dumps(name, ensure_ascii=False)


def _value(value: Any) -> str:
    """Text, numbers, truth and lists are written in TOML as in JSON."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
