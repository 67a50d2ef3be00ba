"""The whole evaluation, from a catalog to verdicts, and who came out first in what."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from esg.core.catalog.model import Catalog
from esg.emulator.reproduce.claims import judge
from esg.emulator.reproduce.claims.claim import Claim
from esg.emulator.reproduce.experiments import (
    COST,
    SYSTEMS,
    Results,
    Size,
    Train,
    check_size,
    jobs,
    limit_jobs,
    main,
    run_all,
)
from esg.emulator.reproduce.overhead import MEASURED, Overhead, measure
from esg.emulator.reproduce.standings import standing
from esg.emulator.reproduce.texts import rate
from esg.emulator.scenario import SETTINGS
from esg.emulator.sweep import RunOutcome, SweepRun
from esg.units import US_PER_S, to_ms


@dataclass(frozen=True, slots=True)
class Study:
    """A study's results: everything that a report needs. `training` says how Aquatope learnt,
    `command` how to do the same again."""

    catalog: Catalog
    results: Results
    overhead: Overhead
    claims: list[Claim]
    training: str
    command: str

    @property
    def reproduced(self) -> int:
        return sum(claim.reproduced for claim in self.claims)


@dataclass(slots=True)
class StudyPlan:
    """What is to be run. Making one trains Aquatope; `steps` are what progress will count up to."""

    catalog: Catalog
    size: Size
    runs: list[SweepRun]
    limits: list[SweepRun]

    @staticmethod
    def of(catalog: Catalog, size: Size, train: Train) -> "StudyPlan":
        check_size(catalog, size)
        runs = list(jobs(catalog, size, train))
        return StudyPlan(catalog, size, runs, list(limit_jobs(catalog, size)))

    @property
    def steps(self) -> int:
        return len(MEASURED) + len(self.runs) + len(self.limits)


def conduct(
    plan: StudyPlan,
    *,
    training: str,
    command: str,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[float], None] = lambda steps: None,
) -> Study:
    """Time the search, while nothing else runs here; then run everything, and judge.

    `progress` hears how many of the plan's steps are done by now.
    """
    overhead = measure(plan.catalog, progress=progress)
    results = run_all(
        plan.runs,
        plan.limits,
        plan.size,
        executor=executor,
        workers=workers,
        progress=lambda done: progress(len(MEASURED) + done),
    )
    claims = judge(results, overhead, plan.catalog)
    return Study(plan.catalog, results, overhead, claims, training, command)


@dataclass(frozen=True, slots=True)
class Win:
    """Who is first in a setting, and who is level with them.

    `figure` is the best one's, and then those that differ from it: nobody gets a better one.
    """

    setting: str
    contest: str
    systems: tuple[str, ...]
    figure: str


def wins(results: Results) -> Iterator[Win]:
    """Where each one wins, every system with its best reading."""
    contests: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("highest hit rate", "slo_hit_rate", lambda value: f"{rate(value)} %"),
        ("lowest cost", COST, lambda value: f"{value:.3f} USD per 1k"),
        ("lowest p99 latency", "latency_ms.p99", lambda value: f"{value:.0f} ms"),
    )
    for setting in SETTINGS:
        for contest, key, shown in contests:
            found = standing(results, setting, key, lowest=key != "slo_hit_rate")
            figures = {
                system: shown(results.mean(main(setting, results.reading(system)), key))
                for system in (found.best, *found.level)
            }
            best = figures[found.best]
            others = [f"{system} {text}" for system, text in figures.items() if text != best]
            yield Win(setting, contest, found.level, "; ".join([best, *others]))


FIGURES = (
    "slo_hit_rate",
    COST,
    "latency_ms.p50",
    "latency_ms.p90",
    "latency_ms.p99",
    "plan_miss_rate",
    "mean_batch",
    "cold_starts",
    "local_transfers",
    "remote_transfers",
    "vgpu_utilisation",
    "search_effort",
    "decision_ms",
)


def document(study: Study) -> dict[str, Any]:
    """The study as JSON, every figure with the margin of its 95 % interval.

    `latency_series` is what the latency figure plots, in short: a line that climbs is a queue that
    grows.
    """
    results = study.results
    return {
        "size": asdict(results.size),
        "settings": {name: asdict(setting) for name, setting in SETTINGS.items()},
        "readings": {system: results.reading(system) for system in SYSTEMS},
        "results": {label: _figures(results, label) for label in results.outcomes},
        "latency_series": {
            policy: _series(results.outcomes[main("relaxed-heavy", policy)][0])
            for readings in SYSTEMS.values()
            for policy in readings
        },
        "wins": [asdict(win) for win in wins(results)],
        "claims": [
            {
                "section": claim.section,
                "claim": claim.text,
                "paper": claim.paper,
                "ours": claim.ours,
                "verdict": claim.verdict,
                "why": claim.why,
            }
            for claim in study.claims
        ],
        "overhead": {
            "brute_force_ms": study.overhead.brute_force_ms,
            "search": [
                {"setting": setting, "group_size": group_size, "k": k, **times._asdict()}
                for (setting, group_size, k), times in study.overhead.search.items()
            ],
        },
        "training": study.training,
        "command": study.command,
    }


def _figures(results: Results, label: str) -> dict[str, Any]:
    summary = results.outcomes[label][0].summary
    keys = [key for key in FIGURES if key.split(".")[0] in summary]
    for table in ("hit_rate_by_application", "cost_usd_per_1k_by_application"):
        keys += [f"{table}.{name}" for name in summary.get(table, {})]
    latencies = summary.get("latency_ms", {}).get("by_application", {})
    for name, percentiles in latencies.items():
        keys += [f"latency_ms.by_application.{name}.{percentile}" for percentile in percentiles]
    return {key: asdict(results.estimate(label, key)) for key in keys}


PARTS = 4


def _series(outcome: RunOutcome) -> dict[str, Any]:
    """Of each application, in relaxed-heavy with the first seed."""
    return {
        name: {
            "answered": len(latency_us),
            "last_answered_s": max(answered_us, default=0) / US_PER_S,
            "median_ms_by_quarter": [to_ms(round(median(part))) for part in _parts(latency_us)],
        }
        for name, (answered_us, latency_us) in outcome.series.items()
    }


def _parts(values: Sequence[int]) -> Iterator[Sequence[int]]:
    """Equal ones, in order; fewer if there are few values.

    >>> list(_parts([1, 2, 3, 4, 5]))
    [[1], [2], [3], [4, 5]]
    """
    for part in range(PARTS):
        begin, end = (len(values) * place // PARTS for place in (part, part + 1))
        if begin < end:
            yield values[begin:end]
