"""What a plan is worth: its cost, and the risk that it is late.

A faster plan costs more, and a slower one is late more often. So the two are added up:

    cost of the plan + LATE x (cost of the whole pipeline) x (chance to be late)

and the plan with the least sum is taken. That is better than the same margin for everybody: where a
bit of safety is cheap, it is bought; where the next faster config costs much, it is not. Waiting
for company uses time up, so it is weighed against the same risk.

Who goes alone and at once does what has to be done anyway. Who uses time up to save money, by
waiting or in a batch, had better be sure to have it: there, doubt about profiles counts too.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from esg.policies.forecast import Forecast
from esg.search.company import Company
from esg.search.plan import Plan

LATE = 3
"""A request that is late is as bad as three more that have to be paid for."""

Price = Callable[[Plan, int], int | None]
"""What a job pays for a plan that ends so much later, risk included; None if it would rather be
late than not."""

NEVER_PUSD = 2**62
"""The price of what cannot be done in time."""


@dataclass(slots=True)
class Outlook:
    """For the jobs at one stage of an application."""

    company: Company
    stage: str
    expected: Forecast
    wary: Forecast = field(init=False)
    late_pusd: int = field(init=False)

    def __post_init__(self) -> None:
        self.wary = self.expected.wary()
        self.late_pusd = LATE * self.company.whole_pusd

    def counts_on(self, jobs: int) -> Forecast:
        return self.expected if jobs == 1 else self.wary

    def now(self, jobs: int, left_us: int) -> tuple[int, int]:
        """What each of so many jobs pays if they go together now, risk included, and the profiled
        time of that plan."""
        return self._best(jobs, left_us, self.counts_on(jobs))

    def later_pusd(self, jobs: int, left_us: int) -> int:
        """The same if they wait until so much time is left."""
        return self._best(jobs, left_us, self.wary)[0]

    def _best(self, jobs: int, left_us: int, expected: Forecast) -> tuple[int, int]:
        times_us, costs_pusd = self.company.stairs(self.stage, jobs)
        best_pusd, best_us = NEVER_PUSD, 0
        # from what is as likely late as not to what is faster, and dearer
        place = bisect_right(times_us, expected.likely_us(left_us))
        while place and costs_pusd[place - 1] < best_pusd:
            place -= 1
            risk = expected.risk(left_us, times_us[place])
            pusd = costs_pusd[place] + int(self.late_pusd * risk)
            if pusd < best_pusd:
                best_pusd, best_us = pusd, times_us[place]
        return best_pusd, best_us
