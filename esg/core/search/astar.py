"""ESG_1Q: A* search with dual-blade pruning (paper, section of that name and its appendix).

The search walks through partial paths: configs for the first stages of one function group. For
each it knows three bounds, all sums of the path itself and of what the later stages add at least:

    tLow        with every later stage at its fastest: above the budget, the time blade cuts
    rscLow      with every later stage at its cheapest: the order in which paths are taken up.
                Only configs count that could still keep the budget if all others were at their
                fastest, which makes the bound far sharper than the cheapest config of all
    rscFastest  the cost with every later stage at its fastest. As tLow keeps the budget, that is a
                real plan, so nothing dearer than the k-th best of these can be among the k best:
                the cost blade cuts

Three things are ours. Paths are expanded lazily: the configs of a stage are sorted by cost, and a
path brings its next sibling and its first child to the heap only when it is taken from it. The
literal level-by-level rendering of the paper's listing builds all of them first and takes up to a
second per decision. For a later stage, a sibling is the next dearer config that is also faster; any
other could only make the path worse. And the k best plans have k *different* configs for the
current stage, because a list of plans that all start with the same config is of no use when that
config fits nowhere.

Equal costs are decided by time, then by the cost of the first config and by the config itself, so
the answer does not depend on heap order.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import accumulate

from esg.core.catalog.model import Application
from esg.core.catalog.profile import Profile
from esg.core.search.plan import Answer, Plan, Step
from esg.core.search.slo_split import Quotas
from esg.units import NEVER_PUSD


class _Column:
    """The configs of one stage, cheapest first, with what the blades need to know of them."""

    __slots__ = (
        "_best",
        "_sorted_times",
        "configs",
        "costs",
        "fastest_cost",
        "fastest_us",
        "next_faster",
        "times",
    )

    def __init__(self, profile: Profile, batch: int) -> None:
        times: list[int] = profile.time_us.tolist()
        costs: list[int] = profile.job_cost_pusd.tolist()
        order = sorted(
            range(profile.count_up_to(batch)),
            key=lambda i: (costs[i], times[i], profile.configs[i]),
        )
        self.configs = [profile.configs[i] for i in order]
        self.costs = [costs[i] for i in order]
        self.times = [times[i] for i in order]
        self.fastest_us, self.fastest_cost = min(zip(self.times, self.costs, strict=True))
        self.next_faster = _next_faster(self.times)
        # by rising time: the place, in the order above, of the cheapest config so far
        by_time = sorted((time, place) for place, time in enumerate(self.times))
        self._sorted_times = [time for time, _ in by_time]
        self._best = list(accumulate((place for _, place in by_time), min))

    def first_within(self, limit_us: int) -> int | None:
        """The place of the cheapest config that takes at most `limit_us`."""
        found = bisect_right(self._sorted_times, limit_us)
        return self._best[found - 1] if found else None

    def cheapest_within(self, limit_us: int) -> int:
        """The least cost in at most `limit_us`, which must be enough for the fastest config."""
        return self.costs[self._best[bisect_right(self._sorted_times, limit_us) - 1]]

    def places_within(self, limit_us: int) -> list[int]:
        """The time blade for a whole column: the places worth looking at, cheapest first."""
        return [place for place, time in enumerate(self.times) if time <= limit_us]


def _next_faster(times: Sequence[int]) -> list[int | None]:
    """For each place, the next one that takes less time.

    >>> _next_faster([50, 70, 40, 40])
    [2, 2, None, None]
    """
    found: list[int | None] = [None] * len(times)
    waiting: list[int] = []
    for place, time in enumerate(times):
        while waiting and times[waiting[-1]] > time:
            found[waiting.pop()] = place
        waiting.append(place)
    return found


class AStar:
    """The `astar` engine of one application: plans to the end of the current function group."""

    def __init__(self, application: Application, group_size: int) -> None:
        self._application = application
        self._quotas = Quotas.of(application, group_size)
        self._columns: dict[tuple[str, int], _Column] = {}
        self._fastest_us = application.fastest_us()

    def search(self, stage: str, *, queue: int, left_us: int, k: int) -> Answer:
        budget_us = self._quotas.budget_us(stage, left_us)
        stages = self._quotas.rest_of_group(stage)
        columns = [self._column(name, queue if name == stage else None) for name in stages]
        found, effort = k_cheapest(columns, budget_us, k)
        if not found:
            return Answer((_fastest(stages, columns),), False, budget_us, effort)
        plans = tuple(_plan(stages, columns, path) for path in found)
        return Answer(plans, True, budget_us, effort)

    def cheapest(self, stage: str, queue: int, left_us: int) -> Plan | None:
        return None

    def fastest_us(self, stage: str) -> int:
        return self._fastest_us[stage]

    def _column(self, stage: str, queue: int | None) -> _Column:
        profile = self._application.stages[stage].function.profile
        batch = profile.max_batch if queue is None else min(queue, profile.max_batch)
        key = (stage, batch)
        if key not in self._columns:
            self._columns[key] = _Column(profile, batch)
        return self._columns[key]


def k_cheapest(
    columns: Sequence[_Column], budget_us: int, k: int
) -> tuple[list[tuple[int, ...]], int]:
    """The cheapest paths within the budget, one per config of the first column, k at most.

    A path is a tuple of places in the columns. Also returns how many paths were taken up.
    """
    least_us = sum(column.fastest_us for column in columns)
    if least_us > budget_us:
        return [], 0
    firsts = columns[0].places_within(columns[0].fastest_us + budget_us - least_us)
    later_us = _summed_after([column.fastest_us for column in columns])
    later_fastest = _summed_after([column.fastest_cost for column in columns])
    ceiling = _Ceiling(columns[0], firsts, later_fastest[0], k)
    heap: list[tuple[int, int, tuple[int, ...], int, int, int]] = []
    done: dict[int, tuple[int, ...]] = {}
    last = len(columns) - 1
    effort = 0

    def cheapest_after(depth: int, time_us: int) -> int:
        """The least that the columns after this one can cost when `time_us` is already spent."""
        slack_us = budget_us - time_us - columns[depth].fastest_us - later_us[depth]
        return sum(c.cheapest_within(c.fastest_us + slack_us) for c in columns[depth + 1 :])

    def bring(place: int | None, path: tuple[int, ...], cost: int, time_us: int, rest: int) -> None:
        """Put a path, extended by this place, on the heap, unless the cost blade cuts it."""
        if place is not None:
            column = columns[len(path)]
            cost_low = cost + column.costs[place] + rest
            if cost_low <= ceiling.cost:
                time_low = time_us + column.times[place] + later_us[len(path)]
                heappush(heap, (cost_low, time_low, (*path, place), cost, time_us, rest))

    remaining = iter(firsts)
    bring(next(remaining), (), 0, 0, cheapest_after(0, 0))
    while heap and len(done) < k:
        _, _, path, cost, time_us, rest = heappop(heap)
        effort += 1
        first, place, depth = path[0], path[-1], len(path) - 1
        column = columns[depth]
        if depth == 0:
            bring(next(remaining, None), (), 0, 0, rest)
        elif first in done:
            continue
        elif depth < last:
            bring(column.next_faster[place], path[:-1], cost, time_us, rest)
        if depth == last:
            done[first] = path
            continue
        cost += column.costs[place]
        time_us += column.times[place]
        ceiling.lower(first, cost + later_fastest[depth])
        child = columns[depth + 1].first_within(budget_us - time_us - later_us[depth + 1])
        bring(child, path, cost, time_us, cheapest_after(depth + 1, time_us))
    return list(done.values()), effort


def _summed_after(values: Sequence[int]) -> list[int]:
    """For each position, the sum of all values after it.

    >>> _summed_after([1, 2, 3])
    [5, 3, 0]
    """
    return [sum(values[position + 1 :]) for position in range(len(values))]


class _Ceiling:
    """The cost blade: the k-th best rscFastest, of paths with different first configs."""

    __slots__ = ("_best", "_known", "_room", "cost")

    def __init__(self, column: _Column, places: list[int], later_fastest: int, k: int) -> None:
        self._known = {place: column.costs[place] + later_fastest for place in places}
        self._best = sorted(self._known.values())[:k]
        self._room = k
        self.cost = self._best[-1] if len(self._best) == k else NEVER_PUSD

    def lower(self, first: int, cost: int) -> None:
        """A path with this first config can be completed at this cost."""
        old = self._known[first]
        if cost < old:
            self._known[first] = cost
            if self._best and old <= self._best[-1] and old in self._best:
                self._best.remove(old)
            insort(self._best, cost)
            del self._best[self._room :]
            if len(self._best) == self._room:
                self.cost = self._best[-1]


def _plan(stages: tuple[str, ...], columns: Sequence[_Column], path: tuple[int, ...]) -> Plan:
    steps = [
        Step(stage, column.configs[place])
        for stage, column, place in zip(stages, columns, path, strict=True)
    ]
    time_us = sum(column.times[place] for column, place in zip(columns, path, strict=True))
    cost = sum(column.costs[place] for column, place in zip(columns, path, strict=True))
    return Plan(stages[0], steps[0].config, time_us, cost, tuple(steps[1:]))


def _fastest(stages: tuple[str, ...], columns: Sequence[_Column]) -> Plan:
    """The fastest plan, and of several the cheapest."""

    def place(column: _Column) -> int:
        return min(range(len(column.times)), key=lambda i: (column.times[i], column.costs[i]))

    return _plan(stages, columns, tuple(place(column) for column in columns))
