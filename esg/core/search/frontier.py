"""The `frontier` engine: exact plans for the whole pipeline, by look-up in Pareto frontiers.

The cheapest cost of all stages after the current one, as a function of the time left for them,
depends on nothing but profiles: a Pareto frontier (a staircase, see `pareto`), built once per
application from the back of its reduced DAG. A decision is then a few vector operations: every
config of the current stage, plus the staircase at the time it leaves over; take the k cheapest. The
very cheapest, which is all that is needed while there is room, is a look-up in one more staircase
(`cheapest`).

Stages before a split plan for all branches; a stage inside a branch plans for the rest of
its own branch and what follows the join. Where the DAG is not series-parallel (a tangle), each of
its stages may use its share of the time that the tangle as a whole is given: the plan stays valid,
though it may be dearer than the best one.

A chain of two stages, each with a cheap config (100 us) and a fast one (95 us):

>>> from esg.core.catalog.model import Function, Stage
>>> from esg.core.catalog.profile import Prices, Profile
>>> profile = Profile.of("f", {Config(1, 1, 1): 100, Config(1, 4, 1): 95}, Prices())
>>> f = Function(name="f", profile=profile, cold_start_us=0, input_bytes=0, memory_mb=1)
>>> app = Application.of("app", [Stage("a", f), Stage("b", f, ("a",))])
>>> answer = Frontier(app).search("a", queue=1, left_us=195, k=5)
>>> [(plan.config.vcpus, plan.rest[0].config.vcpus, plan.time_us) for plan in answer.plans]
[(1, 4, 195), (4, 1, 195)]
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from esg.core.catalog.config import Config
from esg.core.catalog.dag import Parallel, Series, Tangle
from esg.core.catalog.model import Application
from esg.core.catalog.profile import Int64s
from esg.core.search.pareto import ParetoFrontier, nothing, of_profile, pareto_optimal
from esg.core.search.plan import Answer, Plan, Step
from esg.core.search.slo_split import normalised_lengths, path_lengths
from esg.units import NEVER_PUSD

_NEVER = np.int64(NEVER_PUSD)


@dataclass(slots=True)
class _Choice:
    """All there is to decide at one stage: its configs, and the staircase of what follows."""

    configs: tuple[Config, ...]
    times: Int64s
    costs: Int64s
    count_by_batch: list[int]
    rest: ParetoFrontier
    rest_times: Int64s  # both shifted by one, so that index 0 stands for "too late for any corner"
    rest_costs: Int64s
    # by number of configs that come into question, as they are asked for:
    fastest: dict[int, int]
    best: "dict[int, _Best]"


class _Best:
    """The cheapest plan from a stage on, by the time that is left: one staircase, whose corners are
    plans. It takes up to a millisecond to build, and about a microsecond to ask."""

    def __init__(self, stage: str, choice: _Choice, count: int) -> None:
        # by their number, not by their time: of equal plans the first config's is taken
        self._own = np.sort(pareto_optimal(choice.times[:count], choice.costs[:count]))
        self._stage, self._choice = stage, choice
        times = np.add.outer(choice.times[self._own], choice.rest.times).ravel()
        costs = np.add.outer(choice.costs[self._own], choice.rest.costs).ravel()
        self._kept = pareto_optimal(times, costs)
        self._times: list[int] = times[self._kept].tolist()
        self._costs = costs[self._kept]
        self._plans: list[Plan | None] = [None] * len(self._kept)

    def within(self, left_us: int) -> Plan | None:
        corner = bisect_right(self._times, left_us) - 1
        if corner < 0:
            return None
        plan = self._plans[corner]
        if plan is None:
            plan = self._plans[corner] = self._unfold(corner)
        return plan

    def _unfold(self, corner: int) -> Plan:
        own, rest = divmod(int(self._kept[corner]), len(self._choice.rest))
        config = self._choice.configs[self._own[own]]
        steps = self._choice.rest.steps(rest)
        return Plan(self._stage, config, self._times[corner], int(self._costs[corner]), steps)


class RankedPlans(Sequence[Plan]):
    """Up to k plans for a stage, the cheapest first. Most often that one is all that is needed: the
    others are sorted, and each of them made, when they are asked for."""

    def __init__(
        self,
        stage: str,
        choice: _Choice,
        times: Int64s,
        corners: Int64s,
        totals: Int64s,
        least: np.int64,
        k: int,
    ) -> None:
        self._stage, self._choice, self._k = stage, choice, k
        self._times, self._corners, self._totals = times, corners, totals
        cheapest = (totals == least).nonzero()[0]
        if len(cheapest) == 1:
            index = int(cheapest[0])
            corner = int(corners[index])
            time_us = int(times[index]) + int(choice.rest_times[corner])
            self._plans = [self._plan(int(totals[index]), time_us, index, corner)]
        else:
            self._plans = [self._plan(*self._sorted(cheapest)[0])]
        self._rows: list[_Row] | None = None

    def __len__(self) -> int:
        return len(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Plan]:
        plans = self._plans
        yield plans[0]
        for place, row in enumerate(self._all()):
            if place == len(plans):
                plans.append(self._plan(*row))
            if place:
                yield plans[place]

    @overload
    def __getitem__(self, place: int) -> Plan: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Plan]: ...
    def __getitem__(self, place: int | slice) -> Plan | Sequence[Plan]:
        plans = self._plans
        if place == 0:
            return plans[0]
        rows = self._all()
        wanted = place + 1 if isinstance(place, int) and place > 0 else len(rows)
        plans += [self._plan(*row) for row in rows[len(plans) : wanted]]
        return plans[place]

    def _all(self) -> "list[_Row]":
        if self._rows is None:
            totals, k = self._totals, self._k
            if len(totals) > k:
                picked = (totals <= np.partition(totals, k - 1)[k - 1]).nonzero()[0]
            else:
                picked = np.arange(len(totals))
            self._rows = [row for row in self._sorted(picked)[:k] if row[0] < _NEVER]
        return self._rows

    def _sorted(self, picked: NDArray[np.intp]) -> "list[_Row]":
        totals, corners = self._totals[picked], self._corners[picked]
        ends = self._times[picked] + self._choice.rest_times[corners]
        # by cost, then time, then config: the last decides ties that nothing else does
        columns = (totals.tolist(), ends.tolist(), picked.tolist(), corners.tolist())
        return sorted(zip(*columns, strict=True))

    def _plan(self, cost: int, time_us: int, index: int, corner: int) -> Plan:
        choice = self._choice
        steps = choice.rest.steps(corner - 1)
        return Plan(self._stage, choice.configs[index], time_us, cost, steps)


_Row = tuple[int, int, int, int]
"""The cost of a plan, its time, its config's number and the corner of what follows."""


class Frontier:
    """The `frontier` engine of one application."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._own = {
            name: of_profile(name, stage.function.profile)
            for name, stage in application.stages.items()
        }
        self._rest: dict[str, ParetoFrontier] = {}
        self._walk(application.series, nothing())
        self._choices = {stage: self._choice(stage) for stage in application.stages}
        self._fastest_us = application.fastest_us()

    def search(
        self, stage: str, *, queue: int, left_us: int, k: int, own_pace: float = 1.0
    ) -> Answer:
        """As `Engine.search`. With an `own_pace`, this stage takes so many times its profile, and
        the others do not."""
        answer = self.ranked(stage, queue=queue, left_us=left_us, k=k, own_pace=own_pace)
        answer.plans = tuple(answer.plans)
        return answer

    def ranked(
        self, stage: str, *, queue: int, left_us: int, k: int, own_pace: float = 1.0
    ) -> Answer:
        """The same plans, of which only those are worked out that are looked at."""
        choice = self._choices[stage]
        count = choice.count_by_batch[min(queue, len(choice.count_by_batch) - 1)]
        times = choice.times[:count]
        if own_pace != 1:
            times = (times * own_pace).astype(np.int64)
        corners = choice.rest.times.searchsorted(left_us - times, side="right")
        totals = choice.costs[:count] + choice.rest_costs[corners]
        least = totals[totals.argmin()]  # half the time of `min`
        if least >= _NEVER:
            fastest = self._fastest(stage, choice, count)
            feasible = own_pace == 1 and fastest.time_us <= left_us  # only a tangle's shares failed
            return Answer((fastest,), feasible, left_us, count)
        plans = RankedPlans(stage, choice, times, corners, totals, least, k)
        return Answer(plans, True, left_us, count)

    def cheapest(self, stage: str, queue: int, left_us: int) -> Plan | None:
        choice = self._choices[stage]
        by_batch = choice.count_by_batch
        count = by_batch[queue] if queue < len(by_batch) else by_batch[-1]
        best = choice.best.get(count)
        if best is None:
            best = choice.best[count] = _Best(stage, choice, count)
        return best.within(left_us)

    def fastest_us(self, stage: str) -> int:
        return self._fastest_us[stage]

    def onward(self, stage: str) -> ParetoFrontier:
        """The cheapest cost from a stage on, as a function of the time left."""
        return self._own[stage].series(self._rest[stage])

    def corners(self, stage: str) -> int:
        """How many corners the staircase after a stage has: the memory that exactness takes."""
        return len(self._rest[stage])

    def _fastest(self, stage: str, choice: _Choice, count: int) -> Plan:
        """The fastest plan, and of several the cheapest."""
        index = choice.fastest.get(count, -1)
        if index < 0:
            index = int(np.lexsort((choice.costs[:count], choice.times[:count]))[0])
            choice.fastest[count] = index
        own_us, own_pusd = int(choice.times[index]), int(choice.costs[index])
        after = self._application.successors[stage]
        after_us = max((self._fastest_us[follower] for follower in after), default=0)
        if after_us == choice.rest.times[0]:
            cost = own_pusd + int(choice.rest.costs[0])
            config, steps_after = choice.configs[index], choice.rest.steps(0)
            return Plan(stage, config, own_us + after_us, cost, steps_after)
        # shares of a tangle's time cannot express that every later stage goes flat out
        later, rest_pusd = set(after), 0
        steps: list[Step] = []
        for name, own in self._own.items():
            if name in later:
                later.update(self._application.successors[name])
                steps += own.steps(0)
                rest_pusd += int(own.costs[0])
        config = choice.configs[index]
        return Plan(stage, config, own_us + after_us, own_pusd + rest_pusd, tuple(steps))

    def _choice(self, stage: str) -> _Choice:
        profile = self._application.stages[stage].function.profile
        rest = self._rest[stage]
        return _Choice(
            configs=profile.configs,
            times=profile.time_us,
            costs=profile.job_cost_pusd,
            count_by_batch=[profile.count_up_to(batch) for batch in range(profile.max_batch + 1)],
            rest=rest,
            rest_times=np.concatenate(([0], rest.times)),
            rest_costs=np.concatenate(([_NEVER], rest.costs)),
            fastest={},
            best={},
        )

    def _walk(self, series: Series, after: ParetoFrontier) -> ParetoFrontier:
        """Note what follows each stage of the series; the staircase of the series and `after`."""
        for block in reversed(series):
            match block:
                case str():
                    self._rest[block] = after
                    after = self._own[block].series(after)
                case Parallel():
                    alone = nothing()
                    for branch in block.branches:
                        self._walk(branch, after)
                        alone = alone.parallel(self._alone(branch))
                    after = alone.series(after)
                case Tangle():
                    for stage in block.stages:
                        onward = self._tangled(self._descendants(stage, block))
                        self._rest[stage] = onward.series(after)
                    after = self._tangled(block.stages).series(after)
        return after

    def _alone(self, series: Series) -> ParetoFrontier:
        """The staircase of a series with nothing after it."""
        total = nothing()
        for block in reversed(series):
            match block:
                case str():
                    one = self._own[block]
                case Parallel():
                    one = nothing()
                    for branch in block.branches:
                        one = one.parallel(self._alone(branch))
                case Tangle():
                    one = self._tangled(block.stages)
            total = one.series(total)
        return total

    def _tangled(self, stages: tuple[str, ...]) -> ParetoFrontier:
        """Every stage within its share of the time: its length over that of its longest path."""
        lengths = normalised_lengths(self._application)
        through = path_lengths(stages, lengths, self._application.successors)
        total = nothing()
        for stage in stages:
            stretched = self._own[stage].stretched(through[stage], lengths[stage])
            total = total.parallel(stretched)
        return total

    def _descendants(self, stage: str, tangle: Tangle) -> tuple[str, ...]:
        found: set[str] = set(self._application.successors[stage])
        for other in tangle.stages:
            if other in found:
                found.update(self._application.successors[other])
        return tuple(other for other in tangle.stages if other in found)
