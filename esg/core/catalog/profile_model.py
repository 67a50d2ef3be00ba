"""The analytic time model behind the shipped profiles.

The paper's own tables are not public, so a function is a CPU part and a GPU part whose sum at
(1, 1, 1) is the time the paper gives for the minimum config:

    t(b, c, g) = cpu * work(b, c)  +  gpu * growth(ceil(b / g))

What vCPUs do for the CPU part (decoding, pre- and post-processing) is a choice, `CpuUse`:

    within_job     b * ((1 - p) + p / c)    one job after the other, each with all vCPUs (Amdahl)
    across_jobs    ceil(b / c)              each job on one core, c of them at a time

The GPU part grows with the portion that each slice gets, so that a second slice does nothing for a
batch of one. Growth is either affine, s + (1 - s) * portion, or a table of measured ratios, linear
in between. Parameters and their sources stand in each profile file.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from esg.core.catalog.config import Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.phases import Phases
from esg.units import ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The configs that are offered: every combination of these values."""

    batch: Sequence[int]
    vcpus: Sequence[int]
    vgpus: Sequence[int]

    def configs(self) -> list[Config]:
        return [Config(*cell) for cell in product(self.batch, self.vcpus, self.vgpus)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeModel:
    """Parameters of one function; shares are between 0 and 1.

    `parallel_fraction` matters within a job only. `gpu_growth`, if there is any, has the GPU time
    of rising portions relative to that of a single job, and takes the place of `gpu_fixed_share`.
    `max_portion` is the largest portion of a batch that fits into one slice's memory; configs with
    a larger portion are infeasible and left out.
    """

    base_ms: float
    cpu_share: float
    cpu: CpuUse = CpuUse.WITHIN_JOB
    parallel_fraction: float = 0.0
    gpu_fixed_share: float = 0.0
    gpu_growth: Sequence[tuple[int, float]] = ()
    max_portion: int | None = None

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
        portion = math.ceil(config.batch / config.vgpus)
        before_ms = self._cpu_ms(cpu_ms, config)
        total_us = max(1, ms(before_ms + gpu_ms * self._growth(portion)))
        before_us = min(total_us, ms(before_ms))
        return Phases(before_us, total_us - before_us, 0)

    def _cpu_ms(self, cpu_ms: float, config: Config) -> float:
        if self.cpu is CpuUse.ACROSS_JOBS:
            return cpu_ms * math.ceil(config.batch / config.vcpus)
        amdahl = (1 - self.parallel_fraction) + self.parallel_fraction / config.vcpus
        return cpu_ms * config.batch * amdahl

    def _growth(self, portion: int) -> float:
        """How many times as long as one job a portion takes.

        >>> model = TimeModel(base_ms=1, cpu_share=0, gpu_growth=[(1, 1.0), (2, 1.2), (4, 1.8)])
        >>> [round(model._growth(portion), 3) for portion in (1, 2, 3, 4)]
        [1.0, 1.2, 1.5, 1.8]
        """
        if not self.gpu_growth:
            return self.gpu_fixed_share + (1 - self.gpu_fixed_share) * portion
        above = bisect_left(self.gpu_growth, portion, key=lambda point: point[0])
        at, growth = self.gpu_growth[above]
        if at == portion:
            return growth
        before, less = self.gpu_growth[above - 1]
        return less + (growth - less) * (portion - before) / (at - before)

    def times_us(self, grid: Grid) -> dict[Config, Phases]:
        return {
            config: self.phases(config)
            for config in grid.configs()
            if self.max_portion is None
            or math.ceil(config.batch / config.vgpus) <= self.max_portion
        }
