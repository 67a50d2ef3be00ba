"""The profile files and the catalog, made from the record.

    FOLDER/catalog.toml          as the one that was measured with, with what was found instead
    FOLDER/segmentation.toml     a profile: provenance, and where its table is
    FOLDER/segmentation.csv      the table: the median of each config's runs, what of it is spent on
                                 the slices and what after that; or "oom"

Slices go by the names of their kinds, unless the first catalog takes all for alike. The usual kind
is that of the first catalog if it was measured; or else the kind of the first slice. What nobody
has said a price of has one by its name: a MIG instance by its GPCs, a slice without a GPU by its
threads, a whole GPU as if it were cut into seven.

Applications and prices are taken over as they are written in the first catalog; an SLO that is a
multiple of L there is the same multiple of the measured L here.
"""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from esg.core.catalog.file import catalog_content
from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import USUAL, SliceKind, layout_text, mig_kind
from esg.errors import Rejected
from esg.files import written
from esg.profiler.grid import SMALLEST
from esg.profiler.imported import ImportedTime
from esg.profiler.record import Cell, FunctionRecord, ProfileRecord
from esg.runtime.slice_setting import CPU_KIND
from esg.units import to_ms

CATALOG = "catalog.toml"
COLUMNS = ("kind", "batch", "vcpus", "vgpus", "time_ms", "slices_ms", "after_ms", "runs", "note")
SLICES_OF_A_GPU = 7
MB = 1_000_000


def write_profile(
    folder: Path,
    name: str,
    measured: FunctionRecord,
    provenance: Mapping[str, str],
    usual: str = "",
) -> Path:
    """One function's profile, as far as it is measured; returns where it is. `usual` is the name
    of the kind that configs do not name."""
    alone = kinds_profiled(measured)
    with written(folder / f"{name}.csv") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(
            _row(cell, usual, alone=cell.config.kind in alone) for cell in measured.cells
        )
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


def _row(cell: Cell, usual: str, *, alone: bool) -> tuple[object, ...]:
    *size, kind = cell.config
    config = (kind or usual, *size)
    if cell.failure or not alone:
        note = " ".join((cell.failure or "no single job runs there").split())[:200]
        return (*config, "oom" if cell.out_of_memory else "", "", "", 0, note)
    times_us = (cell.time_us, cell.phases.slices_us, cell.phases.after_us)
    return (*config, *(f"{to_ms(time):.3f}" for time in times_us), len(cell.runs_us), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNode:
    """What functions were measured on: the kinds of the slices, as configs have them, and the
    memory of each."""

    vcpus: int
    kinds: tuple[str, ...]
    memories_mb: tuple[int, ...]

    def usual(self, catalog: Catalog) -> str:
        """The real name of what is the usual kind of the catalog that is written; none if there are
        no kinds."""
        return catalog.kinds[USUAL].name if USUAL in self.kinds else self.kinds[0]

    def kinds_in(self, catalog: Catalog) -> dict[str, SliceKind]:
        """The kinds by what configs call them in the catalog that is written, the usual one
        first."""
        usual = self.usual(catalog)
        names = {kind: kind or usual for kind in self.kinds}
        known = {
            name: SliceKind(
                name=name,
                memory_mb=min(
                    mb for k, mb in zip(self.kinds, self.memories_mb, strict=True) if k == kind
                ),
                usd_per_hour=_usd_per_hour(name, kind, catalog),
            )
            for kind, name in names.items()
        }
        return {USUAL: known.pop(usual), **known}

    def cluster(self, kinds: Mapping[str, SliceKind]) -> dict[str, Any]:
        """The table of the catalog."""
        usual = kinds[USUAL]
        named = {"kind": usual.name} if usual.name else {}
        memory = {"slice_memory_mb": usual.memory_mb}
        if len(kinds) == 1:
            size = {"nodes": 1, "vcpus": self.vcpus, "vgpus": len(self.kinds)}
            return {**named, **size, **memory}
        layout = layout_text([kind or usual.name for kind in self.kinds])
        return {**named, **memory, "classes": [{"count": 1, "vcpus": self.vcpus, "slices": layout}]}


def _usd_per_hour(name: str, kind: str, catalog: Catalog) -> float:
    """What the first catalog says, or what the name does."""
    prices = catalog.prices
    if kind in catalog.kinds:
        return prices.slice_usd_per_hour(kind)
    if (threads := CPU_KIND.fullmatch(name)) is not None:
        return int(threads[1]) * prices.vcpu_usd_per_hour
    mig = mig_kind(name, prices.vgpu_usd_per_hour, catalog.kinds[USUAL].name)
    return SLICES_OF_A_GPU * prices.vgpu_usd_per_hour if mig is None else mig.usd_per_hour


def write_catalog(
    folder: Path, source: Path, catalog: Catalog, record: ProfileRecord, node: MeasuredNode
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
        kinds = node.kinds_in(catalog)
        usual, *others = kinds.values()
        prices = dict(given.get("prices", {}))
        if usual.usd_per_hour != catalog.prices.vgpu_usd_per_hour:
            prices["vgpu_usd_per_hour"] = usual.usd_per_hour
        if prices:
            _write(file, prices, "prices")
        _write(file, node.cluster(kinds), "cluster")
        for kind in others:
            said = {"memory_mb": kind.memory_mb, "usd_per_hour": kind.usd_per_hour}
            _write(file, said, "kinds", kind.name)
        for name in names:
            table = _function(folder, source, given["functions"][name], name, catalog, record)
            _write(file, table, "functions", name)
        for name in whole:
            _write(file, given["applications"][name], "applications", name)
    return left_out


def profiled(measured: FunctionRecord) -> bool:
    """Whether a single job can be planned for."""
    return bool(kinds_profiled(measured))


def kinds_profiled(measured: FunctionRecord) -> set[str]:
    """The kinds of slices on which a single job can be planned for."""
    return {cell.config.kind for cell in measured.feasible if cell.config[:3] == SMALLEST[:3]}


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
    """Text, numbers, truth and lists are written in TOML as in JSON, but not tables in a line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(key)} = {_value(said)}' for key, said in value.items())} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
