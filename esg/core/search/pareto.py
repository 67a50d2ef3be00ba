"""The Pareto frontier of time and cost: the cheapest cost as a function of the time allowed.

Given more time, work gets cheaper in steps: the frontier is a staircase, of which just the corners
are held, strictly rising times with strictly falling costs. Frontiers compose exactly: one after
the other adds times and costs (`series`), side by side takes the longer time and adds costs
(`parallel`), and whatever is neither faster nor cheaper than another corner drops out.

Each corner remembers which corners it was made of, so that a plan can be read off it.
"""

from collections.abc import Callable

import numpy as np

from esg.core.catalog.config import Config
from esg.core.catalog.profile import Int64s, Profile
from esg.core.search.plan import Step

Unfold = Callable[[int], tuple[Step, ...]]


class ParetoFrontier:
    """Corners (time, cost), and the steps that reach each of them."""

    __slots__ = ("_known", "_unfold", "costs", "times")

    def __init__(self, times: Int64s, costs: Int64s, unfold: Unfold) -> None:
        self.times = times
        self.costs = costs
        self._unfold = unfold
        self._known: dict[int, tuple[Step, ...]] = {}

    def __len__(self) -> int:
        return len(self.times)

    def steps(self, corner: int) -> tuple[Step, ...]:
        """The plan behind a corner; each is worked out once."""
        known = self._known.get(corner)
        if known is None:
            known = self._known[corner] = self._unfold(corner)
        return known

    def series(self, after: "ParetoFrontier") -> "ParetoFrontier":
        """This, and afterwards that."""
        times = np.add.outer(self.times, after.times).ravel()
        costs = np.add.outer(self.costs, after.costs).ravel()
        kept = pareto_optimal(times, costs)
        width = len(after)

        def unfold(corner: int) -> tuple[Step, ...]:
            mine, its = divmod(int(kept[corner]), width)
            return self.steps(mine) + after.steps(its)

        return ParetoFrontier(times[kept], costs[kept], unfold)

    def parallel(self, other: "ParetoFrontier") -> "ParetoFrontier":
        """This and that at the same time."""
        earliest = max(self.times[0], other.times[0])
        times = np.union1d(self.times, other.times)
        times = times[times >= earliest]
        mine = np.searchsorted(self.times, times, side="right") - 1
        its = np.searchsorted(other.times, times, side="right") - 1

        def unfold(corner: int) -> tuple[Step, ...]:
            return self.steps(int(mine[corner])) + other.steps(int(its[corner]))

        return ParetoFrontier(times, self.costs[mine] + other.costs[its], unfold)

    def stretched(self, numerator: int, denominator: int) -> "ParetoFrontier":
        """The frontier of the same work with only denominator/numerator of the time for itself."""
        return ParetoFrontier(-(-self.times * numerator // denominator), self.costs, self.steps)


def nothing() -> ParetoFrontier:
    """No work: no time, no cost."""
    zero = np.zeros(1, dtype=np.int64)
    return ParetoFrontier(zero, zero, lambda _: ())


def of_profile(stage: str, profile: Profile) -> ParetoFrontier:
    """One stage on its own: its configs that no other config beats in both time and cost.

    >>> from esg.core.catalog.profile import Prices
    >>> times = {Config(1, 1, 1): 100, Config(1, 2, 1): 60, Config(1, 2, 2): 60}
    >>> staircase = of_profile("f", Profile.of("f", times, Prices()))
    >>> [staircase.steps(i)[0].config for i in range(len(staircase))]
    [Config(batch=1, vcpus=2, vgpus=1, kind='')]
    """
    kept = pareto_optimal(profile.time_us, profile.job_cost_pusd)
    configs: list[Config] = [profile.configs[i] for i in kept]
    return ParetoFrontier(
        profile.time_us[kept], profile.job_cost_pusd[kept], lambda i: (Step(stage, configs[i]),)
    )


def pareto_optimal(times: Int64s, costs: Int64s) -> Int64s:
    """Which points are corners, by rising time; of equal points the first one."""
    order = np.lexsort((costs, times))
    falling = costs[order]
    cheapest_before = np.minimum.accumulate(falling)[:-1]
    kept = np.ones(len(order), dtype=bool)
    kept[1:] = falling[1:] < cheapest_before
    return order[kept]
