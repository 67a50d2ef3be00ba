"""Profiles: what a function takes with every config, measured or modelled, and what that costs.

A profile is a table over configs (batch, vCPUs, vGPUs, and the kind of these). Cells whose batch
does not fit into the memory of its slices are simply absent, and so are all cells of a kind that
nothing is known about: no kind is planned with the times of another. Costs follow from times and
prices (paper, section "Applications"): a task pays for all it holds, for as long as it holds it,
and a job pays its share. How long that is depends on the tasks' mode (`phases`): the same profile
has other costs in another.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from esg.core.catalog.config import CONFIG_LEGEND, Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.phases import Phases, TaskMode
from esg.core.catalog.slice_kinds import USUAL
from esg.errors import Rejected
from esg.limits import LONGEST_PROFILED_US, MOST_TASK_PUSD
from esg.units import PUSD_PER_USD, US_PER_HOUR

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per hour for one vCPU and one vGPU; the defaults are the paper's. Slices of other
    kinds than the usual one have prices of their own."""

    vcpu_usd_per_hour: float = 0.034
    vgpu_usd_per_hour: float = 0.67
    kinds_usd_per_hour: Mapping[str, float] = field(default_factory=dict, hash=False)

    def slice_usd_per_hour(self, kind: str) -> float:
        return self.kinds_usd_per_hour.get(kind, self.vgpu_usd_per_hour)

    def usual_slices(self, config: Config) -> float:
        """How many usual slices cost as much as those of a config: a measure for slices of all
        kinds.

        >>> prices = Prices(kinds_usd_per_hour={"3g.40gb": 2.01})
        >>> [round(prices.usual_slices(Config(1, 1, 2, kind)), 6) for kind in ("", "3g.40gb")]
        [2.0, 6.0]
        """
        own, usual = self.slice_usd_per_hour(config.kind), self.vgpu_usd_per_hour
        if not config.kind or not own or not usual:  # what costs nothing is no measure
            return float(config.vgpus)
        return config.vgpus * own / usual

    def usual_slices_of(self, counts: Mapping[str, int]) -> float:
        """The same of so many slices of each kind that is known."""
        known = [kind for kind in counts if not kind or kind in self.kinds_usd_per_hour]
        return sum(self.usual_slices(Config(1, 1, counts[kind], kind)) for kind in known)

    def task_cost_pusd(self, config: Config, time_us: int) -> int:
        """What a task costs that holds `config` for `time_us`.

        >>> Prices().task_cost_pusd(Config(1, 1, 1), 3_600_000_000) == 704 * 10**9
        True
        """
        slices_usd_per_hour = config.vgpus * self.slice_usd_per_hour(config.kind)
        usd_per_hour = config.vcpus * self.vcpu_usd_per_hour + slices_usd_per_hour
        return round(time_us * (usd_per_hour * PUSD_PER_USD / US_PER_HOUR))

    def phased_cost_pusd(self, config: Config, phases: Phases) -> int:
        """What a task costs that holds `config` phase by phase.

        >>> Prices().phased_cost_pusd(Config(1, 1, 1), Phases(0, 3_600_000_000, 0)) == 704 * 10**9
        True
        """
        vcpu_us, vgpu_us = phases.held_by(config)
        usd = vcpu_us * self.vcpu_usd_per_hour + vgpu_us * self.slice_usd_per_hour(config.kind)
        return round(usd * (PUSD_PER_USD / US_PER_HOUR))


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One function's time and cost per config, in the order of the configs.

    `relative_std` is the spread of a run around its profiled time (its standard deviation as a
    share of the mean): what emulated durations add, and what risk-aware policies plan with. `cpu`
    says what a model assumes of vCPUs; a measured table assumes nothing. Of the time of a config,
    `slices_us` is spent on the slices and `after_us` after that; what is not known to be a CPU part
    counts as spent on the slices. `mode` is what the costs are for, `kinds` has the kinds of slices
    that it knows, the one with the cheapest slices first.

    `alone_us` is the time that the paper's L is made of: at the minimum config of usual slices,
    whatever kinds a cluster has, so that a deadline does not move when slices are cut anew.
    """

    function: str
    configs: tuple[Config, ...]
    time_us: Int64s
    slices_us: Int64s
    after_us: Int64s
    task_cost_pusd: Int64s
    job_cost_pusd: Int64s
    prices: Prices
    alone_us: int
    mode: TaskMode = TaskMode.JOINT
    relative_std: float = 0.0
    provenance: str = ""
    cpu: CpuUse | None = None
    kinds: tuple[str, ...] = field(init=False)
    minimum: Config = field(init=False)
    max_batch: int = field(init=False)
    fastest_us: int = field(init=False)
    _index: dict[Config, int] = field(init=False, repr=False)
    _time_us: dict[Config, int] = field(init=False, repr=False)
    _phases: dict[Config, Phases] = field(init=False, repr=False)  # when they are asked for

    def __post_init__(self) -> None:
        usd_per_hour = self.prices.slice_usd_per_hour
        kinds = sorted({c.kind for c in self.configs}, key=lambda kind: (usd_per_hour(kind), kind))
        object.__setattr__(self, "kinds", tuple(kinds))
        object.__setattr__(self, "minimum", self.minimum_of(kinds[0]))
        object.__setattr__(self, "max_batch", self.configs[-1].batch)
        object.__setattr__(self, "fastest_us", int(self.time_us.min()))
        object.__setattr__(self, "_index", {c: i for i, c in enumerate(self.configs)})
        times_us = dict(zip(self.configs, self.time_us.tolist(), strict=True))
        object.__setattr__(self, "_time_us", times_us)
        object.__setattr__(self, "_phases", {})

    @staticmethod
    def of(
        function: str,
        times_us: Mapping[Config, int | Phases],
        prices: Prices,
        *,
        mode: TaskMode = TaskMode.JOINT,
        relative_std: float = 0.0,
        provenance: str = "",
        cpu: CpuUse | None = None,
        alone_us: int | None = None,
    ) -> "Profile":
        """A profile from the feasible cells of a table, with their phases as far as they are known.

        >>> profile = Profile.of("f", {Config(1, 1, 1): 1000, Config(2, 1, 1): 1500}, Prices())
        >>> profile.minimum, profile.max_batch
        (Config(batch=1, vcpus=1, vgpus=1, kind=''), 2)
        """
        configs = tuple(sorted(times_us))
        if not configs:
            raise Rejected(f"profile of {function}: no config at all; add one with batch 1")
        _check_single_jobs(function, configs)
        cells = [times_us[config] for config in configs]
        phases = [cell if isinstance(cell, Phases) else Phases(0, cell, 0) for cell in cells]
        totals_us = [cell.total_us for cell in phases]
        if max(totals_us) > LONGEST_PROFILED_US:
            raise Rejected(
                f"profile of {function}: a time of {max(totals_us) / 1e6:g} s; "
                f"the longest that can be planned for is {LONGEST_PROFILED_US / 1e6:g} s"
            )
        if mode is TaskMode.PHASED:
            task_costs = [*map(prices.phased_cost_pusd, configs, phases)]
        else:
            task_costs = [*map(prices.task_cost_pusd, configs, totals_us)]
        if max(task_costs) > MOST_TASK_PUSD:
            raise Rejected(f"profile of {function}: a task costs more than {MOST_TASK_PUSD:g} pUSD")
        job_costs = [
            round(cost / config.batch) for cost, config in zip(task_costs, configs, strict=True)
        ]
        made = Profile(
            function=function,
            configs=configs,
            time_us=np.array(totals_us, dtype=np.int64),
            slices_us=np.array([cell.slices_us for cell in phases], dtype=np.int64),
            after_us=np.array([cell.after_us for cell in phases], dtype=np.int64),
            task_cost_pusd=np.array(task_costs, dtype=np.int64),
            job_cost_pusd=np.array(job_costs, dtype=np.int64),
            prices=prices,
            alone_us=alone_us or 0,
            mode=mode,
            relative_std=relative_std,
            provenance=provenance,
            cpu=cpu,
        )
        if alone_us is None:
            usual = made.minimum_of(USUAL) if USUAL in made.kinds else made.minimum
            object.__setattr__(made, "alone_us", made.time_us_of(usual))
        return made

    def count_up_to(self, batch: int) -> int:
        """How many configs, from the front, have at most this batch (configs are sorted by it)."""
        return bisect_right(self.configs, batch, key=lambda config: config.batch)

    def minimum_of(self, kind: str) -> Config:
        """The smallest config of a kind: batch 1, then the fewest vGPUs, then the fewest vCPUs."""
        own = [config for config in self.configs if config.kind == kind]
        return min(own, key=lambda config: (config.batch, config.vgpus, config.vcpus))

    def narrowed(self, allowed: Callable[[Config], bool]) -> "Profile":
        """This profile with only some of its configs. Of a kind of which none is left that takes a
        single job, none is left at all; of one kind at least some must be."""
        kept = [index for index, config in enumerate(self.configs) if allowed(config)]
        if len(kept) == len(self.configs):
            return self
        alone = {self.configs[index].kind for index in kept if self.configs[index].batch == 1}
        kept = [index for index in kept if self.configs[index].kind in alone]
        if not kept:
            raise Rejected(f"profile of {self.function}: no config for a single job is left")
        return replace(
            self,
            configs=tuple(self.configs[index] for index in kept),
            time_us=self.time_us[kept],
            slices_us=self.slices_us[kept],
            after_us=self.after_us[kept],
            task_cost_pusd=self.task_cost_pusd[kept],
            job_cost_pusd=self.job_cost_pusd[kept],
        )

    def scaled(self, factor: float, prices: Prices) -> "Profile":
        """This profile with every time multiplied, but none below a microsecond."""
        return self.stretched(lambda _: factor, prices)

    def stretched(self, factor: Callable[[Config], float], prices: Prices) -> "Profile":
        """This profile with the time of each config multiplied by a factor of its own."""

        def stretched(config: Config, phases: Phases) -> Phases:
            pace = factor(config)
            before_us, after_us = round(phases.before_us * pace), round(phases.after_us * pace)
            total_us = max(1, round(phases.total_us * pace), before_us + after_us)
            return Phases(before_us, total_us - before_us - after_us, after_us)

        phases = {config: stretched(config, self.phases_of(config)) for config in self.configs}
        alone_us = None
        if USUAL not in self.kinds:
            alone_us = max(1, round(self.alone_us * factor(self.minimum)))
        return self._with(phases, prices, self.mode, alone_us)

    def priced(self, prices: Prices, mode: TaskMode | None = None) -> "Profile":
        """This profile at other prices, or for tasks of another mode."""
        phases = {config: self.phases_of(config) for config in self.configs}
        return self._with(phases, prices, mode or self.mode, self.alone_us)

    def _with(
        self,
        phases: Mapping[Config, Phases],
        prices: Prices,
        mode: TaskMode,
        alone_us: int | None,
    ) -> "Profile":
        return Profile.of(
            self.function,
            phases,
            prices,
            mode=mode,
            relative_std=self.relative_std,
            provenance=self.provenance,
            cpu=self.cpu,
            alone_us=alone_us,
        )

    def __contains__(self, config: Config) -> bool:
        return config in self._index

    def index(self, config: Config) -> int:
        """Where a config stands in the arrays."""
        try:
            return self._index[config]
        except KeyError:
            raise self._unknown(config) from None

    def time_us_of(self, config: Config) -> int:
        try:
            return self._time_us[config]
        except KeyError:
            raise self._unknown(config) from None

    def job_cost_pusd_of(self, config: Config) -> int:
        return int(self.job_cost_pusd[self.index(config)])

    def phases_of(self, config: Config) -> Phases:
        found = self._phases.get(config)
        if found is None:
            row, total_us = self.index(config), self.time_us_of(config)
            on_us, after_us = int(self.slices_us[row]), int(self.after_us[row])
            found = self._phases[config] = Phases(total_us - on_us - after_us, on_us, after_us)
        return found

    def on_kinds(self, kinds: Collection[str]) -> "Profile":
        """This profile without the configs of other kinds than these; as it is if it would have
        none."""
        if all(kind in kinds for kind in self.kinds) or not any(k in kinds for k in self.kinds):
            return self
        return self.narrowed(lambda config: config.kind in kinds)

    def vgpu_us_of(self, config: Config) -> int:
        """How long a task holds its slices, added up; those of another kind count as many usual
        ones as they cost."""
        phased = self.mode is TaskMode.PHASED
        held_us = self.phases_of(config).slices_us if phased else self.time_us_of(config)
        if not config.kind:
            return held_us * config.vgpus
        return round(held_us * self.prices.usual_slices(config))

    def _unknown(self, config: Config) -> Rejected:
        return Rejected(f"profile of {self.function}: no config {config} ({CONFIG_LEGEND})")


def _check_single_jobs(function: str, configs: Collection[Config]) -> None:
    """Whether a single job could run wherever any can."""
    alone = {config.kind for config in configs if config.batch == 1}
    for kind in sorted({config.kind for config in configs} - alone):
        where = f" on {kind}" if kind else ""
        raise Rejected(
            f"profile of {function}: no config with batch 1{where}, so a single job could never "
            "run; add one"
        )
