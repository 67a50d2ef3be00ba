"""`esg profile --slices ...`: measuring, with a bar, and what came of it."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import typer

from esg.cli.bringup.preflight import check_slices
from esg.cli.profile.report import Profiled, document, show
from esg.cli.requests.connection import run_live
from esg.console.catalog import read_catalog
from esg.console.formatting import counted
from esg.console.progress import progress_bar
from esg.console.terminal import print_json
from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog
from esg.core.catalog.profile_model import Grid
from esg.core.catalog.shipped import DEFAULT
from esg.core.catalog.slice_kinds import counts
from esg.errors import Fault, Rejected
from esg.local.options import Chosen, MeshOptions
from esg.profiler import record as records
from esg.profiler.grid import (
    BATCHES,
    QUICK,
    QUICK_BATCHES,
    Effort,
    chosen,
    configs_of,
    steps,
)
from esg.profiler.machine import processor, provenance, triton_version
from esg.profiler.measure import Profiler, work_of
from esg.profiler.node_under_test import Bench
from esg.profiler.record import ProfileRecord
from esg.profiler.samples import ProfilingPayloads
from esg.profiler.tables import CATALOG, MeasuredNode, profiled, write_catalog, write_profile
from esg.runtime.slice_setting import Addresses, parse_slices

TRITON = "triton"
"""What the names of a Triton server's processes begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for on the command line."""

    slices: str
    quick: bool
    functions: list[str] | None
    batches: list[int] | None
    vcpus: list[int] | None
    vgpus: list[int] | None
    payload: Path | None
    out: Path
    restart: bool
    catalog: Path | None

    @property
    def emulated(self) -> bool:
        return self.slices.startswith("emulated")

    @property
    def addresses(self) -> list[str]:
        """Of Triton servers that somebody else runs."""
        kind = parse_slices(self.slices)
        return list(kind.addresses) if isinstance(kind, Addresses) else []

    @property
    def effort(self) -> Effort:
        return QUICK if self.quick else Effort()

    def node_vcpus(self, catalog: Catalog) -> int:
        """Of an emulated node as many as the catalog says, of a real one what is there."""
        here = catalog.cluster.vcpus if self.emulated else len(os.sched_getaffinity(0))
        return max(self.vcpus or [here])

    def grids(self, vcpus: int, kinds: Sequence[str]) -> dict[str, Grid]:
        """For each kind of slices; a config has slices of one kind only."""
        batches = QUICK_BATCHES if self.quick else BATCHES
        slices = counts(kinds)
        most = max(slices.values())
        chosen(self.vgpus, [], most, "vgpus")  # refuses what no kind has
        return {
            kind: Grid(
                batch=chosen(self.batches, batches, 10_000, "batches"),
                vcpus=chosen(self.vcpus, steps(vcpus, quick=self.quick), vcpus, "vcpus"),
                vgpus=chosen(
                    self.vgpus and ([number for number in self.vgpus if number <= count] or [1]),
                    steps(count, quick=self.quick),
                    count,
                    "vgpus",
                ),
            )
            for kind, count in slices.items()
        }


def measure(wanted: Wanted, *, as_json: bool) -> None:
    catalog = read_catalog(wanted.catalog)
    names = list(catalog.functions) if wanted.functions is None else wanted.functions
    for name in names:
        catalog.function(name)  # refuses what is not there
    payload = _read(wanted.payload) if wanted.payload is not None else None
    conditions = {"slices": wanted.slices, "device": processor()}
    record = records.begun(wanted.out, conditions, restart=wanted.restart)
    found = run_live(_measure(wanted, catalog, names, payload, record, shown=not as_json))
    if as_json:
        print_json(document(found))
    else:
        show(wanted.out, wanted.slices, found)
    if found.problems:
        raise typer.Exit(1)


async def _measure(
    wanted: Wanted,
    catalog: Catalog,
    names: list[str],
    payload: bytes | None,
    record: ProfileRecord,
    *,
    shown: bool,
) -> Profiled:
    began_s = monotonic()
    source = wanted.catalog or DEFAULT
    options = MeshOptions(
        nodes=1,
        vcpus=wanted.node_vcpus(catalog),
        catalog=source,
        log_level="warning",
        more={"invoker": {"slices": wanted.slices}},
    )
    check_slices(Chosen(options))
    found = Profiled(record)
    with TemporaryDirectory(prefix="esg-profile-") as folder:
        async with Bench(options, Path(folder) / "node", _tell_of_the_end) as bench:
            has = bench.inventory
            node = MeasuredNode(
                vcpus=has.vcpus,
                kinds=tuple(bench.kinds),
                memories_mb=tuple(part.memory_mb for part in has.slices),
            )
            usual = node.usual(catalog)
            configs = [
                config
                for kind, grid in wanted.grids(has.vcpus, node.kinds).items()
                for config in configs_of(grid, kind)
            ]
            profiler = Profiler(
                bench=bench,
                catalog=catalog,
                samples=ProfilingPayloads(catalog, bench, payload),
                record=record,
                effort=wanted.effort,
                save=lambda: record.write(wanted.out),
                done=lambda _: None,
                server=TRITON if wanted.slices.startswith("cpu") else "",
            )
            addresses = bench.own_tritons() or wanted.addresses
            origin = provenance(wanted.slices, await triton_version(addresses))
            work = sum(_work(profiler, name, configs) for name in names)
            text = f"{counted(len(configs), 'config')} of {counted(len(names), 'function')}"
            with progress_bar(text, work, shown=shown) as advance:
                profiler.done = _summed(advance)
                for name in names:
                    try:
                        await profiler.measure(name, configs)
                    except Fault as error:
                        found.problems[name] = str(error)
                    if profiled(record.of(name)):
                        path = write_profile(wanted.out, name, record.of(name), origin, usual)
                        found.profiles.append(path)
                        found.left_out = write_catalog(wanted.out, source, catalog, record, node)
                        if len(found.left_out) < len(catalog.applications):
                            found.catalog = wanted.out / CATALOG
    found.took_s = monotonic() - began_s
    return found


def _tell_of_the_end() -> None:
    """Ending the processes of a node takes a moment, and nobody should wonder."""
    print("stopping; what was measured is kept, and the same command continues", file=sys.stderr)


def _work(profiler: Profiler, name: str, configs: list[Config]) -> float:
    function = profiler.catalog.functions[name]
    return sum(work_of(function, config) for config in profiler.missing(name, configs))


def _summed(advance: Any) -> Any:
    """A bar wants to know how much is done in all."""
    total = 0.0

    def done(work: float) -> None:
        nonlocal total
        total += work
        advance(total)

    return done


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Rejected(f"--payload: {path}: {error.strerror}; name a file") from None
