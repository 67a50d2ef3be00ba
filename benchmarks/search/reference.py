"""Independent answers to the questions that search engines are asked: slow, and easy to believe.

    BruteForce   every combination of configs of up to three stages in a row, vectorised
    PlainLoops   the same in plain Python, and only the cheapest plan
    SplitJoin    every combination for a stage, a few branches of one stage each, and their join
    Listing      the paper's listing of ESG_1Q (its appendix), level by level, as it is written

They share no code with the engines. All of them keep a budget when they take at most all of it.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from esg.core.catalog.model import Application
from esg.core.catalog.profile import Int64s, Profile

_NEVER = 2**62


@dataclass(frozen=True, slots=True)
class Reply:
    """What a plan costs at least, per config of the current stage, cheapest first."""

    feasible: bool
    costs: tuple[int, ...]
    effort: int


class GaveUpError(Exception):
    """The question would take more work than the benchmark has time for."""


def chain_from(application: Application, stage: str) -> list[Profile]:
    """The profiles from a stage to the end of the pipeline, which must not split on the way."""
    profiles = [application.stages[stage].function.profile]
    while followers := application.successors[stage]:
        (stage,) = followers
        profiles.append(application.stages[stage].function.profile)
    return profiles


class BruteForce:
    """All combinations: for each config of the current stage, the cheapest of all later ones."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def search(self, stage: str, *, queue: int, left_us: int, k: int) -> Reply:
        first, *later = chain_from(self._application, stage)
        times = costs = np.zeros(1, dtype=np.int64)
        for profile in later:
            times = np.add.outer(times, profile.time_us).ravel()
            costs = np.add.outer(costs, profile.job_cost_pusd).ravel()
        count = first.count_up_to(queue)
        best = [
            int(first.job_cost_pusd[i])
            + int(np.where(times <= left_us - first.time_us[i], costs, _NEVER).min())
            for i in range(count)
        ]
        return _cheapest(best, k, effort=count * len(times))


class PlainLoops:
    """All combinations of exactly three stages, as three nested loops."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def search(self, stage: str, *, queue: int, left_us: int, k: int) -> Reply:
        one, two, three = (_rows(p) for p in chain_from(self._application, stage))
        one = [row for row in one if row[2] <= queue]
        best = _NEVER
        for time_1, cost_1, _ in one:
            for time_2, cost_2, _ in two:
                time_12, cost_12 = time_1 + time_2, cost_1 + cost_2
                for time_3, cost_3, _ in three:
                    if time_12 + time_3 <= left_us and cost_12 + cost_3 < best:
                        best = cost_12 + cost_3
        return _cheapest([best], 1, effort=len(one) * len(two) * len(three))


class SplitJoin:
    """All combinations of a stage, branches of one stage each, and the stage that joins them.

    Once the first and the last stage are chosen, the branches have the same time left and do not
    touch each other, so each may be searched on its own.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    def search(self, stage: str, *, queue: int, left_us: int, k: int) -> Reply:
        stages, successors = self._application.stages, self._application.successors
        branches = successors[stage]
        ((join,),) = {successors[branch] for branch in branches}
        first, last = stages[stage].function.profile, stages[join].function.profile
        between = [stages[branch].function.profile for branch in branches]
        count = first.count_up_to(queue)
        best = []
        for i in range(count):
            limits_us = left_us - first.time_us[i] - last.time_us
            costs = last.job_cost_pusd + sum(_cheapest_within(p, limits_us) for p in between)
            best.append(int(first.job_cost_pusd[i]) + int(costs.min()))
        pairs = sum(len(last.configs) * len(profile.configs) for profile in between)
        return _cheapest(best, k, effort=count * pairs)


class Listing:
    """The paper's listing of ESG_1Q: all partial paths of one level, then those of the next.

    As written there, the list of the k best rscFastest starts empty on every level and is not kept
    on the last one, so that only the time blade cuts there. Its k best paths may share their first
    config; only the cheapest can be compared with an engine's.
    """

    def __init__(self, application: Application, limit: int = 1_500_000) -> None:
        """`limit` bounds the number of partial paths per question."""
        self._application = application
        self._limit = limit

    def search(self, stage: str, *, queue: int, left_us: int, k: int) -> Reply:
        profiles = chain_from(self._application, stage)
        columns = [sorted(_rows(profile)) for profile in profiles]
        columns[0] = [row for row in columns[0] if row[2] <= queue]
        target_us = left_us + 1  # the listing cuts at the target itself, we only beyond it
        paths = [(0, 0)]
        effort = 0
        for level, column in enumerate(columns):
            later = columns[level + 1 :]
            later_us = sum(rows[0][0] for rows in later)
            later_fastest = sum(rows[0][1] for rows in later)
            later_cheapest = sum(min(cost for _, cost, _ in rows) for rows in later)
            min_rsc: list[int] = []
            longer: list[tuple[int, int]] = []
            for path_cost, path_us in sorted(paths):
                if effort > self._limit:
                    raise GaveUpError
                for time_us, cost, _ in column:
                    effort += 1
                    if path_us + time_us + later_us >= target_us:  # tLow
                        break
                    new_cost = path_cost + cost
                    if len(min_rsc) == k and new_cost + later_cheapest >= min_rsc[-1]:  # rscLow
                        continue
                    if later:
                        insort(min_rsc, new_cost + later_fastest)  # rscFastest
                        del min_rsc[k:]
                    longer.append((new_cost, path_us + time_us))
            paths = longer
        return _cheapest([cost for cost, _ in paths], k, effort=effort)


def _rows(profile: Profile) -> list[tuple[int, int, int]]:
    """Time, cost and batch of every config, as plain integers."""
    batches = (config.batch for config in profile.configs)
    return list(zip(profile.time_us.tolist(), profile.job_cost_pusd.tolist(), batches, strict=True))


def _cheapest_within(profile: Profile, limits_us: Int64s) -> Int64s:
    """For each limit, the least cost of a config that keeps it."""
    kept = profile.time_us <= limits_us[:, np.newaxis]
    cheapest: Int64s = np.where(kept, profile.job_cost_pusd, _NEVER // 8).min(axis=1)
    return cheapest


def _cheapest(costs: Sequence[int], k: int, *, effort: int) -> Reply:
    found = tuple(sorted(cost for cost in costs if cost < _NEVER // 8)[:k])
    return Reply(bool(found), found, effort)
