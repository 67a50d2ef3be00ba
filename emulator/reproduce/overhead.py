"""How long a decision takes, by the clock: the paper's overhead analysis.

Questions as they occur: the first stage of a three-function group, with one to eight jobs waiting
for up to a third of the SLO. `benchmarks/search.py` goes further; this is enough for the claims.
"""

from dataclasses import dataclass
from random import Random
from time import perf_counter

import numpy as np

from emulator.scenario import SETTINGS
from esg.catalog import Application, Catalog
from esg.search import engine


@dataclass(frozen=True, slots=True)
class Overhead:
    """Milliseconds per decision. `search_ms` is by (setting, group size, k)."""

    brute_force_ms: float
    search_ms: dict[tuple[str, int, int], tuple[float, float]]

    def p99_ms(self, group_size: int, k: int) -> float:
        """The slowest of the settings."""
        return max(
            p99 for (_, g, kk), (_, p99) in self.search_ms.items() if (g, kk) == (group_size, k)
        )

    def mean_ms(self, group_size: int, k: int) -> float:
        found = [
            mean for (_, g, kk), (mean, _) in self.search_ms.items() if (g, kk) == (group_size, k)
        ]
        return float(np.mean(found))


def measure(catalog: Catalog, questions: int = 200, seed: int = 0) -> Overhead:
    """Time the search of the longest application, first group, in each setting."""
    application = max(catalog.applications.values(), key=lambda a: len(a.stages))
    search_ms: dict[tuple[str, int, int], tuple[float, float]] = {}
    for group_size, k in ((3, 1), (3, 5), (3, 80), (4, 5)):
        search = engine("astar", application, group_size=group_size)
        for name, setting in SETTINGS.items():
            random = Random(f"{seed}:{name}")
            times_ms = []
            for _ in range(questions):
                left_us = round(setting.slo_scale * application.alone_us * random.uniform(0.67, 1))
                queue = random.randint(1, 8)
                began = perf_counter()
                search.search(application.root, queue=queue, left_us=left_us, k=k)
                times_ms.append((perf_counter() - began) * 1000)
            search_ms[name, group_size, k] = (
                float(np.mean(times_ms)),
                float(np.percentile(times_ms, 99)),
            )
    return Overhead(_brute_force_ms(application), search_ms)


def _brute_force_ms(application: Application) -> float:
    """All combinations of three functions' configs, one after the other, as a plain loop would."""
    profiles = [stage.function.profile for stage in application.stages.values()][:3]
    first, second, third = (
        list(zip(p.time_us.tolist(), p.job_cost_pusd.tolist(), strict=True)) for p in profiles
    )
    budget_us = sum(profile.time_us_of(profile.minimum) for profile in profiles)
    best = 2**62
    began = perf_counter()
    for time_a, cost_a in first:
        for time_b, cost_b in second:
            time_us, cost = time_a + time_b, cost_a + cost_b
            for time_c, cost_c in third:
                if time_us + time_c <= budget_us and cost + cost_c < best:
                    best = cost + cost_c
    return (perf_counter() - began) * 1000
