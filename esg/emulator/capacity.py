"""Capacity: the highest rate of requests at which enough of them are in time, by bisection.

A rate holds if the mean of the hit rate over seeds is at least the target; every rate and policy
has the same seeds. Rates are doubled until one does not hold (or halved until one does), and then
the gap between the highest that held and the lowest that did not is halved until it is narrow.
That finds the edge if a higher rate is never easier; close to the edge, noise may decide.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from esg.core.catalog.model import Catalog
from esg.emulator.scenario import Scenario
from esg.emulator.sweep import RunOutcome, Source, SweepRun, run_job, sweep

FIRST, LOWEST, HIGHEST = 8.0, 0.1, 100_000.0
"""Rates per second: where a search begins, and where it gives up."""

DIGITS = 3
"""Of a rate: what people can tell apart."""


def rounded(rate: float) -> float:
    """
    >>> rounded(123.456), rounded(0.12345)
    (123.0, 0.123)
    """
    return float(f"{rate:.{DIGITS}g}")


def rate_text(rate: float) -> str:
    """A rate as an option has it.

    >>> rate_text(100_000.0), rate_text(0.125), rate_text(12.5)
    ('100000/s', '0.125/s', '12.5/s')
    """
    return f"{rate:.4f}".rstrip("0").rstrip(".") + "/s"


@dataclass(slots=True)
class RateSearch:
    """A bisection as a state machine: `next_rate` is to be tried, until it is None.

    >>> search = RateSearch(within=0.1)
    >>> while (rate := search.next_rate) is not None:
    ...     search.add(rate, holds=rate <= 50)
    >>> search.held, search.failed
    (48.0, 52.0)
    """

    within: float
    held: float | None = None
    failed: float | None = None

    @property
    def next_rate(self) -> float | None:
        if self.held is None:
            return FIRST if self.failed is None else self._below(self.failed)
        if self.failed is None:
            return None if self.held >= HIGHEST else min(HIGHEST, 2 * self.held)
        middle = rounded((self.held + self.failed) / 2)
        narrow = self.failed - self.held <= self.within * self.held
        return None if narrow or not self.held < middle < self.failed else middle

    @staticmethod
    def _below(rate: float) -> float | None:
        return None if rate <= LOWEST else max(LOWEST, rounded(rate / 2))

    def add(self, rate: float, *, holds: bool) -> None:
        if holds:
            self.held = rate
        else:
            self.failed = rate


@dataclass(slots=True)
class Capacity:
    """A policy's search, and the summaries of its runs by their rates, one for each seed."""

    search: RateSearch
    runs: dict[float, list[dict[str, Any]]] = field(default_factory=dict)

    def hit_rate(self, rate: float) -> float:
        """The mean over seeds. A run in which nothing was due has none in time."""
        return fmean(run["slo_hit_rate"] or 0.0 for run in self.runs[rate])


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityQuestion:
    """What is asked: on this cluster, with these seeds, which rate does each policy hold?

    `load` gives the requests at a rate, such as 12.5/s.
    """

    catalog: Catalog
    scenario: Scenario
    policies: Sequence[str]
    seeds: Sequence[int]
    load: Callable[[str], Source]
    target: float
    within: float


def find_capacity(
    question: CapacityQuestion,
    executor: Executor,
    progress: Callable[[Mapping[str, Capacity]], None] = lambda found: None,
) -> dict[str, Capacity]:
    """The capacity of every policy; all of them try a rate in a round. `progress` hears of what is
    known after each."""
    found = {name: Capacity(RateSearch(question.within)) for name in question.policies}
    while True:
        rates = {name: one.search.next_rate for name, one in found.items()}
        tried = {name: rate for name, rate in rates.items() if rate is not None}
        if not tried:
            return found
        jobs = [
            _run(question, policy, rate, seed)
            for policy, rate in tried.items()
            for seed in question.seeds
        ]
        outcomes = sweep(jobs, run=_summarised, executor=executor)
        for policy, rate in tried.items():
            one = found[policy]
            one.runs[rate] = [each.summary for each in outcomes if each.label == policy]
            one.search.add(rate, holds=one.hit_rate(rate) >= question.target)
        progress(found)


def _run(question: CapacityQuestion, policy: str, rate: float, seed: int) -> SweepRun:
    scenario = replace(question.scenario, policy=policy, seed=seed)
    return SweepRun(policy, question.catalog, scenario, question.load(rate_text(rate)))


def _summarised(job: SweepRun) -> RunOutcome:
    """A run, without its latencies, which can be many."""
    return replace(run_job(job), series={})
