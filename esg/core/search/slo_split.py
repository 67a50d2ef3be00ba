"""Dominator-based SLO distribution (paper, section of that name).

Each function gets an average normalised length (ANL): its time as a share of all functions' time
in the same config, averaged over the configs. The SLO is then handed down the reduced DAG in
proportion: a list shares it out among its blocks, branches that run in parallel each get the whole
of their block's part, and a block's length is that of its longest branch. Consecutive stages of one
list form groups of at most `group_size`; a reduced block is never part of a group.

A worked example: stages of lengths 1, 2, 3, 4 in a row, an SLO of 1000 us, groups of at most 3:

>>> shares = _handed_down(("a", "b", "c", "d"), dict(a=1, b=2, c=3, d=4), {})
>>> quotas = Quotas(_groups(("a", "b", "c", "d"), 3), shares, {"a": "b", "b": "c", "c": "d"})
>>> quotas.quotas_us(1000)
{('a', 'b', 'c'): 600, ('d',): 400}

How long may the rest of its group take, from stage `b` on, when 900 us are left of the SLO? Of the
lengths still to come (2 + 3 + 4), the group has 2 + 3:

>>> quotas.budget_us("b", 900)
500

The paper writes (SLO - w) x q. Here w is all the time since the request arrived and q the group's
share of what is left to do, not of the whole application: so a stage that was late takes from
those after it in proportion, and the last group may use everything that remains.

Caveat: in a tangle (see `dominators`) every stage is a group of its own.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from esg.core.catalog.dag import Parallel, Series, Tangle, stages_of
from esg.core.catalog.model import Application

_SCALE = 10**9
"""Average lengths are rounded to this resolution once, so that all later sums are exact."""


def normalised_lengths(application: Application) -> dict[str, int]:
    """Each stage's average normalised length, as whole billionths, at least one.

    The average is over the configs that all functions of the application have. If measured tables
    share no config at all, the functions' mean times stand in for it.
    """
    tables = {
        name: dict(
            zip(
                stage.function.profile.configs,
                map(int, stage.function.profile.time_us),
                strict=True,
            )
        )
        for name, stage in application.stages.items()
    }
    first, *others = tables.values()
    common = [config for config in first if all(config in table for table in others)]
    if common:
        totals = [sum(table[config] for table in tables.values()) for config in common]
        lengths = {
            name: math.fsum(
                table[config] / total for config, total in zip(common, totals, strict=True)
            )
            / len(common)
            for name, table in tables.items()
        }
    else:
        means = {name: sum(table.values()) / len(table) for name, table in tables.items()}
        lengths = {name: mean / math.fsum(means.values()) for name, mean in means.items()}
    return {name: max(1, round(length * _SCALE)) for name, length in lengths.items()}


class Quotas:
    """How one application's SLO is shared among its function groups."""

    def __init__(
        self,
        groups: Sequence[tuple[str, ...]],
        shares: Mapping[str, Fraction],
        follower: Mapping[str, str],
    ) -> None:
        """`follower` is the successor whose rest of the pipeline has the largest share."""
        self.groups = tuple(groups)
        self.shares = dict(shares)
        self.group_of = {stage: group for group in groups for stage in group}
        to_come: dict[str, Fraction] = {}

        def still_to_come(stage: str) -> Fraction:
            if stage not in to_come:
                rest = still_to_come(follower[stage]) if stage in follower else Fraction(0)
                to_come[stage] = shares[stage] + rest
            return to_come[stage]

        self._part = {
            stage: sum((shares[s] for s in self.rest_of_group(stage)), Fraction(0))
            / still_to_come(stage)
            for stage in shares
        }
        self._ends = {stage: 1 - still_to_come(stage) + shares[stage] for stage in shares}

    @staticmethod
    def of(application: Application, group_size: int) -> "Quotas":
        lengths = normalised_lengths(application)
        shares = _handed_down(application.series, lengths, application.successors)
        rest: dict[str, Fraction] = {}
        follower: dict[str, str] = {}
        for stage in reversed(application.stages):
            followers = application.successors[stage]
            if followers:
                follower[stage] = max(followers, key=rest.__getitem__)
            rest[stage] = shares[stage] + (rest[follower[stage]] if followers else 0)
        return Quotas(_groups(application.series, group_size), shares, follower)

    def rest_of_group(self, stage: str) -> tuple[str, ...]:
        group = self.group_of[stage]
        return group[group.index(stage) :]

    def budget_us(self, stage: str, left_us: int) -> int:
        """What the rest of the stage's group may use of the time left to the deadline."""
        part = self._part[stage]
        return left_us * part.numerator // part.denominator

    def quotas_us(self, slo_us: int) -> dict[tuple[str, ...], int]:
        """Each group's quota when nothing has been late; along a path they sum to the SLO at most.

        Each is the difference of two rounded points in time, so a chain's quotas add up to exactly
        the SLO.
        """
        quotas = {}
        for group in self.groups:
            end = self._ends[group[-1]]
            start = end - sum((self.shares[stage] for stage in group), Fraction(0))
            quotas[group] = math.floor(slo_us * end) - math.floor(slo_us * start)
        return quotas


def _handed_down(
    series: Series,
    lengths: Mapping[str, int],
    successors: Mapping[str, Sequence[str]],
    part: Fraction = Fraction(1),
) -> dict[str, Fraction]:
    """Each stage's share of the SLO when `part` of it goes to this series."""
    total = _length(series, lengths, successors)
    shares: dict[str, Fraction] = {}
    for block in series:
        own = part * Fraction(_length((block,), lengths, successors), total)
        match block:
            case str():
                shares[block] = own
            case Parallel():
                for branch in block.branches:
                    shares |= _handed_down(branch, lengths, successors, own)
            case Tangle():
                through = path_lengths(block.stages, lengths, successors)
                shares |= {s: own * Fraction(lengths[s], through[s]) for s in block.stages}
    return shares


def _length(
    series: Series, lengths: Mapping[str, int], successors: Mapping[str, Sequence[str]]
) -> int:
    """The longest way through a series (the paper's ANL of a reduced node)."""
    total = 0
    for block in series:
        match block:
            case str():
                total += lengths[block]
            case Parallel():
                total += max(_length(branch, lengths, successors) for branch in block.branches)
            case Tangle():
                total += max(path_lengths(block.stages, lengths, successors).values())
    return total


def path_lengths(
    stages: Sequence[str], lengths: Mapping[str, int], successors: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """For each of some stages (in topological order), the longest path among them through it."""
    onward: dict[str, int] = {}
    for stage in reversed(stages):
        after = [onward[s] for s in successors[stage] if s in onward]
        onward[stage] = lengths[stage] + max(after, default=0)
    so_far = dict.fromkeys(stages, 0)
    for stage in stages:
        for follower in successors[stage]:
            if follower in so_far:
                reached = so_far[stage] + lengths[stage]
                so_far[follower] = max(so_far[follower], reached)
    return {stage: so_far[stage] + onward[stage] for stage in stages}


def _groups(series: Series, group_size: int) -> list[tuple[str, ...]]:
    """Runs of consecutive stages, at most `group_size` long; reduced blocks stay apart."""
    groups: list[tuple[str, ...]] = []
    run: list[str] = []
    for block in (*series, None):
        if isinstance(block, str) and len(run) < group_size:
            run.append(block)
            continue
        if run:
            groups.append(tuple(run))
        run = [block] if isinstance(block, str) else []
        match block:
            case Parallel():
                for branch in block.branches:
                    groups += _groups(branch, group_size)
            case Tangle():
                groups += [(stage,) for stage in stages_of((block,))]
            case _:
                pass
    return groups
