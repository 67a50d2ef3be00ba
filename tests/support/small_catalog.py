"""A catalog small enough to reckon with in the head.

A vCPU costs one picodollar per microsecond and a vGPU ten. In the order of configs, with what a
job costs there in thousands of picodollars:

    resize   1x1x1  10 ms  110
    detect   1x1x1 100 ms 1100    1x2x2 60 ms 1320    2x1x1 150 ms 825    2x2x2 90 ms 990
    depth    1x1x1 100 ms 1100    1x2x1 70 ms  840    1x4x1  50 ms 700
    label    1x1x1  20 ms  220    2x1x1 30 ms  165

So `detect` pays for speed with a second slice, and saves by batching; more vCPUs make `depth` both
faster and cheaper, so what it would like best is what fits least often.
"""

from collections.abc import Mapping

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Cluster, Function, Stage, with_profiles
from esg.core.catalog.phases import Phases, TaskMode
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import all_alike
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
