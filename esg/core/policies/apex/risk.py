"""Risk: a plan is worth its cost, plus what being late costs, times how likely that is.

A faster plan costs more, and a slower one is late more often. So the two are added up:

    cost of the plan + LATE x (cost of the whole pipeline) x (chance to be late)

and the plan with the least sum is taken. That is better than the same margin for everybody: where a
bit of safety is cheap, it is bought; where the next faster config costs much, it is not. Waiting
for a larger cohort uses time up, so it is weighed against the same risk.

A job that goes alone does what has to be done anyway. One that uses time up to save money, in a
batch or by waiting for one, had better be sure to have it: there, doubt about profiles counts too,
and times vary as profiled at least. As long as later stages can be hurried with larger configs,
being late by a plan is no more than a threat. At the last stage it is certain, and while vCPUs are
scarce there is no room to hurry: there, those who save pay for being late many times over.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from esg.core.policies.apex.batch_aware import BatchPlans
from esg.core.policies.apex.forecast import Forecast, Z
from esg.core.search.plan import Plan
from esg.units import NEVER_PUSD

LATE = 3
"""A request that is late is as bad as three more that have to be paid for."""

LATE_FOR_GOOD = 100
"""One that saved, and that no later stage can hurry any more, is as bad as a hundred."""

Z_FOR_GOOD = 4.0
"""Standard deviations for such a one to be safe from."""

Price = Callable[[Plan, int], int | None]
"""What a job pays for a plan that ends so much later, risk included; None if it would rather be
late than not."""


class Terms(Struct, frozen=True):
    """What some jobs count on, what being late costs them, and how safe is safe enough."""

    expected: Forecast
    late_pusd: int
    z: float = Z

    def safe_us(self, left_us: int) -> int:
        return self.expected.safe_us(left_us, self.z)


@dataclass(slots=True)
class RiskModel:
    """The risk of the jobs at one stage of an application. It is `final` if they can hardly be
    hurried later on: there is no later stage, or no room for large configs."""

    plans: BatchPlans
    stage: str
    expected: Forecast
    final: bool
    usual: Terms = field(init=False)
    wary: Terms = field(init=False)
    _found: dict[tuple[int, int, bool], tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole_pusd = self.plans.whole_pusd
        late, z = (LATE_FOR_GOOD, Z_FOR_GOOD) if self.final else (LATE, Z)
        self.usual = Terms(self.expected, LATE * whole_pusd)
        self.wary = Terms(self.expected.wary(), late * whole_pusd, z)

    def terms(self, *, saves: bool) -> Terms:
        return self.wary if saves else self.usual

    def now(self, jobs: int, left_us: int, *, saves: bool) -> tuple[int, int]:
        """What each of so many jobs pays if they go together now, risk included, and the profiled
        time of that plan."""
        key = jobs, left_us, saves
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._best(jobs, left_us, self.terms(saves=saves))
        return found

    def later_pusd(self, jobs: int, left_us: int) -> int:
        """What each of so many jobs pays if they wait until so much time is left. The less is left,
        the more it is."""
        return self._best(jobs, left_us, self.wary)[0]

    def least_pusd(self, jobs: int) -> int:
        """What each of so many jobs pays if they have all the time."""
        return self.plans.stairs(self.stage, jobs)[1][-1]

    def _best(self, jobs: int, left_us: int, terms: Terms) -> tuple[int, int]:
        """Of equals, the slowest. Only what is as likely in time as not comes into question."""
        expected, late_pusd = terms.expected, terms.late_pusd
        times_us, costs_pusd = self.plans.stairs(self.stage, jobs)
        safe_us = expected.safe_us(left_us, terms.z)
        # begin near the best: the slower, the later; the faster, the dearer
        if times_us[-1] <= safe_us:
            likely = len(times_us)
            begin = likely - 1
        else:
            likely = bisect_right(times_us, expected.likely_us(left_us))
            if not likely:
                return NEVER_PUSD, 0
            begin = max(1, bisect_right(times_us, safe_us, 0, likely)) - 1
        best_pusd, best = NEVER_PUSD, begin
        for place in range(begin, likely):
            risk_pusd = int(late_pusd * expected.risk(left_us, times_us[place]))
            pusd = costs_pusd[place] + risk_pusd
            if pusd <= best_pusd:
                best_pusd, best = pusd, place
            elif costs_pusd[likely - 1] + risk_pusd > best_pusd:
                break
        for place in range(begin - 1, -1, -1):
            if costs_pusd[place] >= best_pusd:
                break
            pusd = costs_pusd[place] + int(late_pusd * expected.risk(left_us, times_us[place]))
            if pusd < best_pusd:
                best_pusd, best = pusd, place
        return best_pusd, times_us[best]
