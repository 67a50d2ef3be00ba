"""Plans as columns of a linear program: what a request takes of each resource.

A plan gives every stage of a pipeline a config. In full batches a request then takes so many
vCPU-seconds, and so many slice-seconds of each kind: as long as tasks hold them, in their mode.
There are far too many plans to list, but the cheapest one at given prices of vCPUs and slices that
keeps the deadline is what the search finds in a moment: so columns are made when a linear program
asks for a better one (column generation).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.model import Application
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import counts
from esg.core.search.frontier import Frontier
from esg.core.search.plan import Step
from esg.units import US_PER_S

Floats = NDArray[np.float64]

DEAREST = 2**40
"""Of a task, at prices in whole numbers: that leaves them twelve digits, and room for sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """An amount of each resource: vCPUs, and slices by kind."""

    vcpus: float
    slices: Mapping[str, float]

    @staticmethod
    def of(cluster: Cluster) -> "Resources":
        """All of a cluster together."""
        slices = counts(kind for one in cluster.each() for kind in one.slices)
        return Resources(vcpus=sum(one.vcpus for one in cluster.each()), slices=slices)

    @staticmethod
    def priced(prices: Prices, kinds: Sequence[str]) -> "Resources":
        """What one of each costs, in dollars per hour."""
        return Resources(
            vcpus=prices.vcpu_usd_per_hour,
            slices={kind: prices.slice_usd_per_hour(kind) for kind in kinds},
        )

    def for_seconds(self, seconds: float) -> "Resources":
        """As much as there is of each in so long a time."""
        slices = {kind: count * seconds for kind, count in self.slices.items()}
        return Resources(vcpus=self.vcpus * seconds, slices=slices)

    def vector(self, kinds: Sequence[str]) -> Floats:
        return np.array([self.vcpus, *(self.slices.get(kind, 0) for kind in kinds)], dtype=float)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A plan of an application (by its number), and what a request takes with it: seconds of
    vCPUs, then of slices of each kind."""

    application: int
    steps: tuple[Step, ...]
    takes: Floats


class PlanColumns:
    """The plans of some applications that keep their deadlines on slices of some kinds."""

    def __init__(self, applications: Sequence[Application], kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        thinned = cache(lambda profile: _thinned(profile.on_kinds(self.kinds), self.kinds))
        self.applications = [application.with_profiles(thinned) for application in applications]
        # by the identity of profiles, which live as long as the applications
        self._takes = {
            id(function.profile): _takes(function.profile, self.kinds)
            for application in self.applications
            for function in application.functions()
        }
        self.served = [self._served(application) for application in self.applications]
        """Of each application: whether any plan keeps its deadline."""

    def _served(self, application: Application) -> bool:
        if any(set(f.profile.kinds) - set(self.kinds) for f in application.functions()):
            return False  # a function that knows none of the kinds keeps those that it knows
        return application.fastest_us()[application.root] <= application.slo_us

    def cheapest(self, prices: Floats) -> list[Column | None]:
        """The cheapest plan of each application, where what it takes has these prices; None if none
        keeps the deadline."""
        repriced: dict[int, Profile] = {}
        dearest = max(float((takes @ prices).max()) for takes in self._takes.values())
        scale = DEAREST / dearest if dearest > 0 else 0.0

        def priced(profile: Profile) -> Profile:
            key = id(profile)
            if key not in repriced:
                costs = np.rint(self._takes[key] @ prices * scale).astype(np.int64)
                repriced[key] = replace(profile, job_cost_pusd=costs)
            return repriced[key]

        found: list[Column | None] = []
        for number, application in enumerate(self.applications):
            column = None
            if self.served[number]:
                column = self._column(number, _cheapest_steps(application.with_profiles(priced)))
            found.append(column)
        return found

    def _column(self, number: int, steps: tuple[Step, ...]) -> Column:
        takes = np.zeros(1 + len(self.kinds))
        stages = self.applications[number].stages
        for step in steps:
            profile = stages[step.stage].function.profile
            takes += self._takes[id(profile)][profile.index(step.config)]
        return Column(number, steps, takes)


def _cheapest_steps(application: Application) -> tuple[Step, ...]:
    """Of one that can keep its deadline. Where only the shares of a tangle's time do not suffice,
    that is the fastest plan."""
    batch = application.stages[application.root].function.profile.max_batch
    answer = Frontier(application).search(
        application.root, queue=batch, left_us=application.slo_us, k=1
    )
    return answer.plans[0].steps


def _thinned(profile: Profile, kinds: Sequence[str]) -> Profile:
    """A profile without the configs that are no choice at any prices: another one takes no longer,
    and no more of anything. Of those that are alike the first stays."""
    columns = np.column_stack([profile.time_us, _takes(profile, kinds)])
    no_more = (columns[:, None, :] <= columns[None, :, :]).all(axis=2)
    alike = no_more & no_more.T
    beaten = (no_more & ~alike).any(axis=0) | np.triu(alike, 1).any(axis=0)
    kept = np.flatnonzero(~beaten).tolist()
    return replace(
        profile,
        configs=tuple(profile.configs[row] for row in kept),
        time_us=profile.time_us[kept],
        slices_us=profile.slices_us[kept],
        after_us=profile.after_us[kept],
        task_cost_pusd=profile.task_cost_pusd[kept],
        job_cost_pusd=profile.job_cost_pusd[kept],
    )


def _takes(profile: Profile, kinds: Sequence[str]) -> Floats:
    """A row for each config: what a job takes in a full batch, in seconds."""
    table = np.zeros((len(profile.configs), 1 + len(kinds)))
    place = {kind: number for number, kind in enumerate(kinds, 1)}
    for row, config in enumerate(profile.configs):
        if profile.mode is TaskMode.PHASED:
            vcpu_us, vgpu_us = profile.phases_of(config).held_by(config)
        else:
            time_us = profile.time_us_of(config)
            vcpu_us, vgpu_us = config.vcpus * time_us, config.vgpus * time_us
        table[row, 0] = vcpu_us / config.batch
        if config.kind in place:
            table[row, place[config.kind]] = vgpu_us / config.batch
    return table / US_PER_S
