"""Which runs the evaluation takes, and their results by name."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from esg.core.catalog.model import Catalog
from esg.core.messages.events import RequestArrived
from esg.core.policies.settings import Trained
from esg.core.policies.table import learns
from esg.emulator.scenario import SETTINGS, Scenario, Setting, applied, sized
from esg.emulator.sweep import (
    Estimate,
    Generated,
    RunOutcome,
    SweepRun,
    run_job,
    run_limits,
    sweep,
)
from esg.errors import Rejected
from esg.workload.plan import Extent, Workload

SYSTEMS: dict[str, tuple[str, ...]] = {
    "ESG": ("esg",),
    "INFless": ("infless", "infless-code", "infless-config-first"),
    "FaST-GShare": ("fast-gshare", "fast-gshare-lean"),
    "Orion": ("orion", "orion-at-slo"),
    "Aquatope": ("aquatope",),
}
"""The five systems of the paper, and the policies here that are readings of each."""

COST = "cost_usd_per_1k_requests"

K_VALUES = (1, 5, 20, 80)
GROUP_SIZES = (1, 2, 3, 4)
ORION_CUTOFFS_MS = (1, 10, 50, 100, 200)

ORION_TIMED = "orion-at-slo"
"""The reading whose search time is studied: it searches longest."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run: requests per run, and seeds."""

    requests: int
    seeds: int


QUICK = Size(requests=500, seeds=3)
FULL = Size(requests=4000, seeds=5)

Train = Callable[[Catalog], Trained]


@dataclass(slots=True)
class Results:
    """All outcomes, by the name of the run; each has one per seed."""

    size: Size
    outcomes: dict[str, list[RunOutcome]] = field(default_factory=dict)

    def add(self, found: Iterable[RunOutcome]) -> None:
        for outcome in found:
            self.outcomes.setdefault(outcome.label, []).append(outcome)

    def values(self, label: str, key: str) -> list[float]:
        """One figure of a run, per seed; `key` may go into nested tables with dots. A figure of
        nothing, such as the hit rate where all is refused, is 0."""
        return [float(_dig(outcome.summary, key) or 0) for outcome in self.outcomes[label]]

    def estimate(self, label: str, key: str) -> Estimate:
        return Estimate.of(self.values(label, key))

    def mean(self, label: str, key: str) -> float:
        return fmean(self.values(label, key))

    def relative(self, label: str, base: str, key: str) -> Estimate:
        """One figure as a multiple of another run's, seed by seed: both met the same weather."""
        pairs = list(zip(self.values(label, key), self.values(base, key), strict=True))
        if not all(theirs for _, theirs in pairs):
            return Estimate(math.inf, 0.0)
        return Estimate.of([mine / theirs for mine, theirs in pairs])

    def percent_over(self, label: str, base: str, key: str) -> Estimate:
        found = self.relative(label, base, key)
        return Estimate(100 * (found.mean - 1), 100 * found.margin)

    def difference(self, label: str, base: str, key: str) -> Estimate:
        """Between two runs, seed by seed."""
        pairs = zip(self.values(label, key), self.values(base, key), strict=True)
        return Estimate.of([mine - theirs for mine, theirs in pairs])

    def reading(self, system: str) -> str:
        """The reading of a system that does best here, so that no rival is weaker than need be:
        the highest hit rate over the three settings, then the lowest cost."""

        def merit(policy: str) -> tuple[float, float]:
            labels = [main(name, policy) for name in SETTINGS]
            hits = fmean(self.mean(label, "slo_hit_rate") for label in labels)
            costs = fmean(self.mean(label, COST) for label in labels)
            return round(hits, 4), -costs

        return max(SYSTEMS[system], key=merit)


def _dig(summary: dict[str, Any], key: str) -> Any:
    value: Any = summary
    for part in key.split("."):
        value = value[part]
    return value


def main(setting: str, policy: str) -> str:
    """The name of a run of the main comparison."""
    return f"{setting}/{policy}"


def median_key(application: str) -> str:
    """The key of an application's median latency (see `Results.values`)."""
    return f"latency_ms.by_application.{application}.p50"


def jobs(catalog: Catalog, size: Size, train: Train) -> Iterator[SweepRun]:
    """Every run that is needed, cheapest to explain first."""
    strict, heavy = "strict-light", "relaxed-heavy"
    for name, setting in SETTINGS.items():
        trained = train(applied(catalog, _scenario(catalog, setting)))
        for readings in SYSTEMS.values():
            for policy in readings:
                learnt = {"trained": trained} if learns(policy) else {}
                label = main(name, policy)
                yield from _runs(label, catalog, setting, size, policy=policy, **learnt)
        yield from _runs(main(name, "esg-astar"), catalog, setting, size, engine="astar")
        yield from _runs(main(name, "apex"), catalog, setting, size, policy="apex")
    for k in K_VALUES:
        yield from _runs(f"k/{k}", catalog, SETTINGS[strict], size, k=k, engine="astar")
    for group_size in GROUP_SIZES:
        yield from _runs(
            f"group/{group_size}", catalog, SETTINGS[strict], size,
            engine="astar", group_size=group_size,
        )  # fmt: skip
    yield from _runs("ablation/none", catalog, SETTINGS[heavy], size)
    yield from _runs("ablation/no-gpu-sharing", catalog, SETTINGS[heavy], size, gpu_sharing=False)
    yield from _runs("ablation/no-batching", catalog, SETTINGS[heavy], size, batching=False)
    for cutoff_ms in ORION_CUTOFFS_MS:
        for overhead in ("none", "counted"):
            yield from _runs(
                f"orion/{cutoff_ms}/{overhead}", catalog, SETTINGS[strict], size,
                policy=ORION_TIMED, orion_cutoff_ms=cutoff_ms, overhead=overhead,
            )  # fmt: skip


def check_size(catalog: Catalog, size: Size) -> None:
    """Figures per application need at least one request of each, in every run."""
    for setting in SETTINGS.values():
        for job in _runs("", catalog, setting, size):
            missing = set(catalog.applications)
            for _, event in job.load.arrivals(list(catalog.applications), job.scenario.seed):
                if isinstance(event, RequestArrived):
                    missing.discard(event.application)
                if not missing:
                    break
            else:
                raise Rejected(
                    f"--requests is {size.requests}, and none of them is for {min(missing)!r} "
                    f"at the {setting.rate} rate with seed {job.scenario.seed}; ask for more"
                )


def limit_jobs(catalog: Catalog, size: Size) -> Iterator[SweepRun]:
    for name, setting in SETTINGS.items():
        yield from _runs(main(name, "limits"), catalog, setting, size)


def run_all(
    planned: Sequence[SweepRun],
    limits: Sequence[SweepRun],
    size: Size,
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[float], None] = lambda done: None,
) -> Results:
    """`progress` hears how many of the jobs are done by now, with parts of those under way."""
    results, before = Results(size), 0

    def watch(shares: Sequence[float]) -> None:
        progress(before + sum(shares))

    for run, some in ((run_job, planned), (run_limits, limits)):
        results.add(
            sweep(
                some,
                run=run,
                executor=executor,
                workers=workers,
                watch=watch,
            )
        )
        before += len(some)
    return results


def _scenario(catalog: Catalog, setting: Setting, **changes: Any) -> Scenario:
    return Scenario(
        **sized(catalog.cluster),
        slo_scale=setting.slo_scale,
        **changes,
    )


def _runs(
    label: str, catalog: Catalog, setting: Setting, size: Size, **changes: Any
) -> Iterator[SweepRun]:
    load = Generated(Workload(rate=setting.rate, requests=size.requests))
    extent = Extent(requests=size.requests)
    for seed in range(size.seeds):
        scenario = _scenario(catalog, setting, seed=seed, **changes)
        yield SweepRun(label, catalog, scenario, load, extent=extent)
