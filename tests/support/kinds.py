"""Applications and catalogs over kinds of slices, small enough to reckon with."""

from collections.abc import Mapping
from dataclasses import replace

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Function, Stage
from esg.core.catalog.phases import Phases, TaskMode
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import USUAL, SliceKind, mig_kind
from esg.units import ms

PRICES = Prices(
    vcpu_usd_per_hour=0.1,
    vgpu_usd_per_hour=1.0,
    kinds_usd_per_hour={"2g.20gb": 2.0, "3g.40gb": 3.0, "7g.80gb": 7.0},
)

Cells = Mapping[Config, float | tuple[float, float, float]]
"""Milliseconds by config: in all, or before, on and after the slices."""


def function(name: str, cells: Cells, mode: TaskMode = TaskMode.JOINT) -> Function:
    times = {
        config: Phases(*(ms(part) for part in cell)) if isinstance(cell, tuple) else ms(cell)
        for config, cell in cells.items()
    }
    profile = Profile.of(name, times, PRICES, mode=mode)
    return Function(name=name, profile=profile, cold_start_us=0, input_bytes=0, memory_mb=100)


def chain(name: str, *functions: Function, slo_ms: float) -> Application:
    stages = [
        Stage(f"s{place}", one, (f"s{place - 1}",) if place else ())
        for place, one in enumerate(functions)
    ]
    return Application.of(name, stages, slo_us=ms(slo_ms))


def catalog(*applications: Application, cluster: Cluster | None = None) -> Catalog:
    usual = replace_price(mig_kind("1g.10gb", 1.0), 1.0)
    kinds = {USUAL: usual}
    for name, usd_per_hour in PRICES.kinds_usd_per_hour.items():
        kinds[name] = replace_price(mig_kind(name, 1.0), usd_per_hour)
    return Catalog(
        functions={f.name: f for a in applications for f in a.functions()},
        applications={a.name: a for a in applications},
        cluster=cluster or Cluster.alike(nodes=2, vcpus=8, vgpus=7),
        kinds=kinds,
        prices=PRICES,
    )


def replace_price(kind: SliceKind | None, usd_per_hour: float) -> SliceKind:
    assert kind is not None
    return replace(kind, usd_per_hour=usd_per_hour)
