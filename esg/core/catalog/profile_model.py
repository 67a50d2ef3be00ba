"""The analytic time model behind the shipped profiles.

The paper's own tables are not public, so a function is a CPU part and a GPU part whose sum at
(1, 1, 1) is the time the paper gives for the minimum config:

    t(b, c, g) = cpu * work(b, c)  +  gpu * growth(ceil(b / g))

What vCPUs do for the CPU part (decoding, pre- and post-processing) is a choice, `CpuUse`:

    within_job     b * ((1 - p) + p / c)    one job after the other, each with all vCPUs (Amdahl)
    across_jobs    ceil(b / c)              each job on one core, c of them at a time

The GPU part grows with the portion that each slice gets, so that a second slice does nothing for a
batch of one. Growth is either affine, s + (1 - s) * portion, or a table of measured ratios, linear
in between. On slices of another kind than the usual one it is a table of its own, or the same
growth divided by a speed-up. Parameters and their sources stand in each profile file.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from esg.core.catalog.config import Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.phases import Phases
from esg.core.catalog.slice_kinds import USUAL
from esg.units import ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The configs that are offered: every combination of these values."""

    batch: Sequence[int]
    vcpus: Sequence[int]
    vgpus: Sequence[int]

    def configs(self, kinds: "Mapping[str, KindModel] | None" = None) -> list[Config]:
        """Those on usual slices, and on slices of other kinds."""
        vgpus = {USUAL: self.vgpus} | {kind: own.vgpus for kind, own in (kinds or {}).items()}
        return [
            Config(*cell, kind)
            for kind, counts in vgpus.items()
            for cell in product(self.batch, self.vcpus, counts)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindModel:
    """The GPU part on slices of another kind: how many of them a task can have, and either a table
    of its growth, relative to a single job on a usual slice, or how many times as fast all of it
    is."""

    vgpus: Sequence[int] = (1,)
    gpu_growth: Sequence[tuple[int, float]] = ()
    speedup: float = 1.0
    max_portion: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeModel:
    """Parameters of one function; shares are between 0 and 1.

    `parallel_fraction` matters within a job only. `gpu_growth`, if there is any, has the GPU time
    of rising portions relative to that of a single job, and takes the place of `gpu_fixed_share`.
    `max_portion` is the largest portion of a batch that fits into one slice's memory; configs with
    a larger portion are infeasible and left out. `kinds` has what is different on slices of others
    than the usual kind.
    """

    base_ms: float
    cpu_share: float
    cpu: CpuUse = CpuUse.WITHIN_JOB
    parallel_fraction: float = 0.0
    gpu_fixed_share: float = 0.0
    gpu_growth: Sequence[tuple[int, float]] = ()
    max_portion: int | None = None
    kinds: Mapping[str, KindModel] = field(default_factory=dict)

    def time_us(self, config: Config) -> int:
        """
        >>> model = TimeModel(
        ...     base_ms=100, cpu_share=0.5, parallel_fraction=1.0, gpu_fixed_share=0.2
        ... )
        >>> [model.time_us(Config(*c)) for c in [(1, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2)]]
        [100000, 75000, 100000, 100000]
        """
        return self.phases(config).total_us

    def phases(self, config: Config) -> Phases:
        """The CPU part comes first: nothing is known of a part after the slices."""
        cpu_ms = self.base_ms * self.cpu_share
        gpu_ms = self.base_ms - cpu_ms
        before_ms = self._cpu_ms(cpu_ms, config)
        total_us = max(1, ms(before_ms + gpu_ms * self._growth(_portion(config), config.kind)))
        before_us = min(total_us, ms(before_ms))
        return Phases(before_us, total_us - before_us, 0)

    def _cpu_ms(self, cpu_ms: float, config: Config) -> float:
        if self.cpu is CpuUse.ACROSS_JOBS:
            return cpu_ms * math.ceil(config.batch / config.vcpus)
        amdahl = (1 - self.parallel_fraction) + self.parallel_fraction / config.vcpus
        return cpu_ms * config.batch * amdahl

    def _growth(self, portion: int, kind: str) -> float:
        """How many times as long as one job on a usual slice a portion takes.

        >>> model = TimeModel(
        ...     base_ms=1,
        ...     cpu_share=0,
        ...     gpu_growth=[(1, 1.0), (2, 1.2), (4, 1.8)],
        ...     kinds={"2g.20gb": KindModel(speedup=2)},
        ... )
        >>> [round(model._growth(portion, ""), 3) for portion in (1, 2, 3, 4)]
        [1.0, 1.2, 1.5, 1.8]
        >>> model._growth(4, "2g.20gb")
        0.9
        """
        own = self.kinds.get(kind)
        if own is not None and own.gpu_growth:
            return _between(own.gpu_growth, portion)
        speedup = 1.0 if own is None else own.speedup
        if self.gpu_growth:
            return _between(self.gpu_growth, portion) / speedup
        return (self.gpu_fixed_share + (1 - self.gpu_fixed_share) * portion) / speedup

    def times_us(self, grid: Grid) -> dict[Config, Phases]:
        return {
            config: self.phases(config) for config in grid.configs(self.kinds) if self._fits(config)
        }

    def _fits(self, config: Config) -> bool:
        own = self.kinds.get(config.kind)
        most = self.max_portion if own is None else own.max_portion
        return most is None or _portion(config) <= most


def _portion(config: Config) -> int:
    return math.ceil(config.batch / config.vgpus)


def _between(points: Sequence[tuple[int, float]], portion: int) -> float:
    above = bisect_left(points, portion, key=lambda point: point[0])
    at, growth = points[above]
    if at == portion:
        return growth
    before, less = points[above - 1]
    return less + (growth - less) * (portion - before) / (at - before)
