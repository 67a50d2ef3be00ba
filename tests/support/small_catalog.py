"""A catalog small enough to reckon with in the head.

A vCPU costs one picodollar per microsecond and a vGPU ten. In the order of configs, with what a
job costs there in thousands of picodollars:

    resize   1x1x1  10 ms  110
    detect   1x1x1 100 ms 1100    1x2x2 60 ms 1320    2x1x1 150 ms 825    2x2x2 90 ms 990
    depth    1x1x1 100 ms 1100    1x2x1 70 ms  840    1x4x1  50 ms 700
    label    1x1x1  20 ms  220    2x1x1 30 ms  165

So `detect` pays for speed with a second slice, and saves by batching; more vCPUs make `depth` both
faster and cheaper, so what it would like best is what fits least often.

`MIXED` has the same applications where slices are of three kinds, and most functions cannot run on
all of them. A slice of a 3g costs thirty picodollars per microsecond, and one without a GPU two.

              1g.10gb (usual)    3g.40gb                       cpu-2
    resize    as above           1x1x1  6 ms                   1x1x1 30 ms
    detect    as above           1x1x1 40 ms    2x2x1 60 ms
    depth                        1x1x1 40 ms    1x2x1 30 ms    1x1x1 250 ms
    label     as above                                         1x1x1 60 ms
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Function, Stage, with_profiles
from esg.core.catalog.phases import Phases, TaskMode
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import (
    USUAL,
    NodeClass,
    SliceKind,
    all_alike,
    prices_by_kind,
)
from esg.units import ms

PRICES = Prices(vcpu_usd_per_hour=0.0036, vgpu_usd_per_hour=0.036)


def _function(
    name: str, times_ms: Mapping[tuple[int, int, int], int], *, memory_mb: int, cold_start_ms: int
) -> Function:
    times_us = {Config(*cell): ms(time_ms) for cell, time_ms in times_ms.items()}
    return Function(
        name=name,
        profile=Profile.of(name, times_us, PRICES, relative_std=0.05),
        cold_start_us=ms(cold_start_ms),
        input_bytes=100_000,
        memory_mb=memory_mb,
    )


RESIZE = _function("resize", {(1, 1, 1): 10}, memory_mb=300, cold_start_ms=40)
DETECT = _function(
    "detect",
    {(1, 1, 1): 100, (1, 2, 2): 60, (2, 1, 1): 150, (2, 2, 2): 90},
    memory_mb=400,
    cold_start_ms=200,
)
DEPTH = _function(
    "depth", {(1, 1, 1): 100, (1, 2, 1): 70, (1, 4, 1): 50}, memory_mb=500, cold_start_ms=300
)
LABEL = _function("label", {(1, 1, 1): 20, (2, 1, 1): 30}, memory_mb=300, cold_start_ms=40)

APPLICATIONS = (
    # one stage each; `scan` and `watch` are alike
    Application.of("thumb", [Stage("resize", RESIZE)], slo_us=ms(100)),
    Application.of("scan", [Stage("detect", DETECT)], slo_us=ms(300)),
    Application.of("watch", [Stage("detect", DETECT)], slo_us=ms(300)),
    Application.of("map", [Stage("depth", DEPTH)], slo_us=ms(300)),
    # a chain
    Application.of(
        "photo",
        [
            Stage("resize", RESIZE),
            Stage("detect", DETECT, ("resize",)),
            Stage("label", LABEL, ("detect",)),
        ],
        slo_us=ms(600),
    ),
    # a diamond
    Application.of(
        "scene",
        [
            Stage("resize", RESIZE),
            Stage("detect", DETECT, ("resize",)),
            Stage("depth", DEPTH, ("resize",)),
            Stage("label", LABEL, ("detect", "depth")),
        ],
        slo_us=ms(600),
    ),
)

SMALL = Catalog(
    functions={function.name: function for function in (RESIZE, DETECT, DEPTH, LABEL)},
    applications={application.name: application for application in APPLICATIONS},
    cluster=Cluster.alike(nodes=3, vcpus=4, vgpus=2),
    kinds=all_alike(1000),
    prices=PRICES,
)


LARGE, CPU = "3g.40gb", "cpu-2"
"""The kinds of `MIXED` besides the usual one."""

KINDS = {
    USUAL: SliceKind(name="1g.10gb", memory_mb=1000, usd_per_hour=0.036),
    LARGE: SliceKind(name=LARGE, memory_mb=1000, usd_per_hour=0.108),
    CPU: SliceKind(name=CPU, memory_mb=1000, usd_per_hour=0.0072),
}
MIXED_PRICES = replace(PRICES, kinds_usd_per_hour=prices_by_kind(KINDS))
ON_OTHERS = {
    "resize": {Config(1, 1, 1, LARGE): 6, Config(1, 1, 1, CPU): 30},
    "detect": {Config(1, 1, 1, LARGE): 40, Config(2, 2, 1, LARGE): 60},
    "depth": {
        Config(1, 1, 1, LARGE): 40,
        Config(1, 2, 1, LARGE): 30,
        Config(1, 1, 1, CPU): 250,
    },
    "label": {Config(1, 1, 1, CPU): 60},
}


def _mixed(profile: Profile) -> Profile:
    name = profile.function
    usual = {} if name == "depth" else {c: profile.time_us_of(c) for c in profile.configs}
    others = {config: ms(time_ms) for config, time_ms in ON_OTHERS[name].items()}
    spread = profile.relative_std
    return Profile.of(name, usual | others, MIXED_PRICES, relative_std=spread)


MIXED = replace(
    with_profiles(SMALL, _mixed),
    cluster=Cluster(classes=(NodeClass(count=1, vcpus=4, slices=(USUAL, USUAL, LARGE, CPU)),)),
    kinds=KINDS,
    prices=MIXED_PRICES,
)


def with_slices(catalog: Catalog, kinds: Iterable[str]) -> Catalog:
    """The same catalog, of a cluster that has slices of these kinds."""
    classes = (NodeClass(count=1, vcpus=4, slices=tuple(kinds)),)
    return replace(catalog, cluster=Cluster(classes=classes))


def in_phases(catalog: Catalog) -> Catalog:
    """The same times, of which three tenths are a CPU part before and one tenth is one after."""

    def profile(whole: Profile) -> Profile:
        cells = {c: _phases(whole.time_us_of(c)) for c in whole.configs}
        return Profile.of(
            whole.function,
            cells,
            catalog.prices,
            mode=TaskMode.PHASED,
            relative_std=whole.relative_std,
        )

    return with_profiles(catalog, profile)


def _phases(time_us: int) -> Phases:
    before_us, after_us = time_us * 3 // 10, time_us // 10
    return Phases(before_us, time_us - before_us - after_us, after_us)
