"""The analytic time model behind the shipped profiles.

The paper's own tables are not public, so a function is a CPU part and a GPU part whose sum at
(1, 1, 1) is the time the paper gives for the minimum config:

    t(b, c, g) = cpu * b * ((1 - p) + p / c)  +  gpu * (s + (1 - s) * ceil(b / g))

The CPU part (decoding, pre- and post-processing) grows with the batch and falls with vCPUs by
Amdahl's law; the GPU part is affine in the portion that each slice gets, so that a second slice
does nothing for a batch of one. Parameters and their sources stand in each profile file.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from esg.core.catalog.config import Config
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

    `max_portion` is the largest portion of a batch that fits into one slice's memory; configs with
    a larger portion are infeasible and left out.
    """

    base_ms: float
    cpu_share: float
    parallel_fraction: float
    gpu_fixed_share: float
    max_portion: int | None = None

    def time_us(self, config: Config) -> int:
        """
        >>> model = TimeModel(
        ...     base_ms=100, cpu_share=0.5, parallel_fraction=1.0, gpu_fixed_share=0.2
        ... )
        >>> [model.time_us(Config(*c)) for c in [(1, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2)]]
        [100000, 75000, 100000, 100000]
        """
        cpu_ms = self.base_ms * self.cpu_share
        gpu_ms = self.base_ms - cpu_ms
        amdahl = (1 - self.parallel_fraction) + self.parallel_fraction / config.vcpus
        portion = math.ceil(config.batch / config.vgpus)
        growth = self.gpu_fixed_share + (1 - self.gpu_fixed_share) * portion
        return max(1, ms(cpu_ms * config.batch * amdahl + gpu_ms * growth))

    def times_us(self, grid: Grid) -> dict[Config, int]:
        return {
            config: self.time_us(config)
            for config in grid.configs()
            if self.max_portion is None
            or math.ceil(config.batch / config.vgpus) <= self.max_portion
        }
