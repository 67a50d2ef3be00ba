"""The cheapest plans of a pipeline, by trying everything.

The independent judge of the search engines: it knows no bounds, staircases or reductions, and
imports nothing of what it judges. A table says what each config of a stage takes and costs; a DAG
says which stages each stage waits for.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

Config = tuple[int, int, int, str]
"""Batch, vCPUs, vGPUs, and the kind of these."""

C = TypeVar("C", bound=Config)

After = Mapping[str, Sequence[str]]
"""The stages that each stage waits for, in topological order."""


class BestPlan(NamedTuple):
    """Ordered as plans are preferred: by cost, then by time."""

    cost: int
    time_us: int
    configs: tuple[Config, ...]


class Best(NamedTuple):
    feasible: bool
    plans: list[BestPlan]


def longest_path(after: After, durations: Mapping[str, int]) -> int:
    """When the last stage ends if each starts as soon as those before it have ended.

    >>> longest_path({"a": (), "b": ("a",), "c": ("a",)}, {"a": 1, "b": 2, "c": 3})
    4
    """
    ends: dict[str, int] = {}
    for stage, waits_for in after.items():
        ends[stage] = durations[stage] + max((ends[before] for before in waits_for), default=0)
    return max(ends.values())


def from_stage(after: After, stage: str) -> dict[str, tuple[str, ...]]:
    """The part of a DAG that begins with a stage: itself and all that waits for it.

    >>> from_stage({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}, "b")
    {'b': (), 'd': ('b',)}
    """
    part: dict[str, tuple[str, ...]] = {stage: ()}
    for other, waits_for in after.items():
        inside = tuple(before for before in waits_for if before in part)
        if inside:
            part[other] = inside
    return part


def best_plans(
    tables: Mapping[str, Mapping[C, tuple[int, int]]],
    after: After,
    *,
    queue: int,
    budget_us: int,
    k: int,
) -> Best:
    """The k cheapest plans in time, each with another config for the first stage.

    A table has the time and the cost of each config of a stage.
    Only the first stage's batch is limited by the queue. Of plans of one cost, the faster one. If
    none is in time: the one fastest plan, and of several the cheapest.
    """
    first = next(iter(after))
    choices = [
        [config for config in tables[stage] if stage != first or config[0] <= queue]
        for stage in after
    ]
    everything = []
    for configs in product(*choices):
        cells = {stage: tables[stage][config] for stage, config in zip(after, configs, strict=True)}
        time_us = longest_path(after, {stage: time for stage, (time, _) in cells.items()})
        everything.append(BestPlan(sum(cost for _, cost in cells.values()), time_us, configs))
    in_time = [plan for plan in everything if plan.time_us <= budget_us]
    if not in_time:
        return Best(False, [min(everything, key=lambda plan: (plan.time_us, plan.cost))])
    best: dict[Config, BestPlan] = {}
    for plan in sorted(in_time):
        best.setdefault(plan.configs[0], plan)
    return Best(True, list(best.values())[:k])
