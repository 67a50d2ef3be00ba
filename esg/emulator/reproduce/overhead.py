"""How long a decision takes on this machine: the paper's overhead analysis.

CPU time, so that it does not matter what else the machine does (the search waits for nothing).
Questions as they occur: the first stage of a three-function group, with one to eight jobs waiting
for up to a third of the SLO. `benchmarks/search` goes further; this is enough for the claims.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import fmean
from time import thread_time
from typing import NamedTuple

from esg.core.catalog.model import Application, Catalog
from esg.core.metrics import percentiles
from esg.core.search import engine
from esg.emulator.scenario import SETTINGS
from esg.units import NEVER_PUSD

MEASURED = ((1, 5), (2, 5), (3, 1), (3, 5), (3, 20), (3, 80), (4, 5))
"""Which (group size, K) are timed; 3 and 5 are the paper's defaults."""

QUEUES = range(1, 9)
"""How many jobs may wait: up to the largest batch."""


class DecisionTimes(NamedTuple):
    """Milliseconds per decision, and the paths that one looks at, on average."""

    mean_ms: float
    p99_ms: float
    effort: float


@dataclass(frozen=True, slots=True)
class Overhead:
    """`search` is by (setting, group size, K)."""

    brute_force_ms: float
    search: dict[tuple[str, int, int], DecisionTimes]

    def p99_ms(self, group_size: int, k: int) -> float:
        """The slowest of the settings."""
        return max(times.p99_ms for times in self._of(group_size, k))

    def mean_ms(self, group_size: int, k: int) -> float:
        return fmean(times.mean_ms for times in self._of(group_size, k))

    def _of(self, group_size: int, k: int) -> list[DecisionTimes]:
        return [self.search[setting, group_size, k] for setting in SETTINGS]


def measure(
    catalog: Catalog,
    questions: int = 200,
    seed: int = 0,
    progress: Callable[[float], None] = lambda done: None,
) -> Overhead:
    """Time the search of the longest application, first group, in each setting.

    `progress` hears how many of `MEASURED` are done.
    """
    application = max(catalog.applications.values(), key=lambda a: len(a.stages))
    search: dict[tuple[str, int, int], DecisionTimes] = {}
    for done, (group_size, k) in enumerate(MEASURED, 1):
        for name, setting in SETTINGS.items():
            ask = _Asking(application, group_size, k, setting.slo_scale, Random(f"{seed}:{name}"))
            times_ms, efforts = zip(*(ask.timed() for _ in range(questions)), strict=True)
            search[name, group_size, k] = DecisionTimes(
                fmean(times_ms), percentiles(times_ms, 99)[0], fmean(efforts)
            )
        progress(done)
    return Overhead(_brute_force_ms(application), search)


class _Asking:
    """Questions to one search. What it tabulates once per queue length is not timed."""

    def __init__(
        self, application: Application, group_size: int, k: int, slo_scale: float, random: Random
    ) -> None:
        self._search = engine("astar", application, group_size=group_size)
        self._application = application
        self._k = k
        self._slo_us = slo_scale * application.alone_us
        self._random = random
        for queue in QUEUES:
            self._ask(queue, round(self._slo_us))

    def timed(self) -> tuple[float, int]:
        """Milliseconds, and effort."""
        left_us = round(self._slo_us * self._random.uniform(0.67, 1))
        queue = self._random.choice(QUEUES)
        began = thread_time()
        effort = self._ask(queue, left_us)
        return (thread_time() - began) * 1000, effort

    def _ask(self, queue: int, left_us: int) -> int:
        root = self._application.root
        return self._search.search(root, queue=queue, left_us=left_us, k=self._k).effort


def _brute_force_ms(application: Application) -> float:
    """All combinations of three functions' configs, one after the other, as a plain loop would."""
    profiles = [stage.function.profile for stage in application.stages.values()][:3]
    first, second, third = (
        list(zip(p.time_us.tolist(), p.job_cost_pusd.tolist(), strict=True)) for p in profiles
    )
    budget_us = sum(profile.time_us_of(profile.minimum) for profile in profiles)
    best = NEVER_PUSD
    began = thread_time()
    for time_a, cost_a in first:
        for time_b, cost_b in second:
            time_us, cost = time_a + time_b, cost_a + cost_b
            for time_c, cost_c in third:
                if time_us + time_c <= budget_us and cost + cost_c < best:
                    best = cost + cost_c
    return (thread_time() - began) * 1000
