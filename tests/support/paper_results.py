"""Results that nobody measured, in which everything is as the paper says."""

from collections.abc import Iterator
from typing import Any

from esg.core.catalog.model import Catalog
from esg.emulator.reproduce.claims.analysis import PLAN_MISSES
from esg.emulator.reproduce.experiments import (
    GROUP_SIZES,
    K_VALUES,
    ORION_CUTOFFS_MS,
    SYSTEMS,
    Results,
    Size,
    main,
)
from esg.emulator.reproduce.overhead import MEASURED, DecisionTimes, Overhead
from esg.emulator.scenario import SETTINGS
from esg.emulator.sweep import RunOutcome

HIT_RATES = {"ESG": 0.98, "INFless": 0.7, "FaST-GShare": 0.65, "Orion": 0.6, "Aquatope": 0.55}
COSTS = {"ESG": 1.0, "INFless": 2.0, "FaST-GShare": 1.6, "Orion": 1.1, "Aquatope": 1.2}
SHARES_OF_SLO = {"ESG": 0.9, "INFless": 0.5, "FaST-GShare": 1.3, "Orion": 0.95, "Aquatope": 0.97}


def results_as_in_the_paper(catalog: Catalog) -> Results:
    results = Results(Size(requests=100, seeds=2))
    for label, summary in _summaries(catalog):
        series = {name: ([10, 20, 30], [1000, 2000, 3000]) for name in catalog.applications}
        results.add(RunOutcome(label, seed, _copied(summary), series) for seed in range(2))
    return results


def overhead_as_in_the_paper() -> Overhead:
    extra_ms = {setting: number for number, setting in enumerate(SETTINGS)}
    return Overhead(
        brute_force_ms=7258,
        search={
            (setting, group_size, k): DecisionTimes(
                (1000 if group_size > 3 else 3) + k / 20 + extra_ms[setting] / 10,
                9,
                50 + extra_ms[setting],
            )
            for setting in SETTINGS
            for group_size, k in MEASURED
        },
    )


def put(results: Results, label: str, key: str, value: float) -> None:
    """Change one figure of a run, whatever the seed."""
    *path, last = key.split(".")
    for outcome in results.outcomes[label]:
        table = outcome.summary
        for part in path:
            table = table[part]
        assert last in table
        table[last] = value


def _summaries(catalog: Catalog) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, setting in enumerate(SETTINGS):
        for system, readings in SYSTEMS.items():
            for policy in readings:
                summary = _summary(catalog, system, slo_scale=SETTINGS[setting].slo_scale)
                if policy in PLAN_MISSES:
                    summary["plan_miss_rate"] = PLAN_MISSES[policy][number] / 100 + 0.01
                yield main(setting, policy), summary
        yield main(setting, "esg-astar"), _summary(catalog, "ESG")
        yield main(setting, "apex"), _summary(catalog, "ESG")
        limits = {"slo_hit_rate": 1.0, "cost_usd_per_1k_requests": 0.9}
        yield main(setting, "limits"), limits
    for k in K_VALUES:
        yield f"k/{k}", _summary(catalog, "ESG", cost=1 - k / 10_000)
    for size in GROUP_SIZES:
        yield f"group/{size}", _summary(catalog, "ESG")
    yield "ablation/none", _summary(catalog, "ESG")
    yield "ablation/no-gpu-sharing", _summary(catalog, "ESG", hit_rate=0.5, p50_ms=2000)
    yield "ablation/no-batching", _summary(catalog, "ESG", cost=1.2)
    for cutoff_ms in ORION_CUTOFFS_MS:
        yield f"orion/{cutoff_ms}/none", _summary(catalog, "Orion", hit_rate=0.9)
        yield f"orion/{cutoff_ms}/counted", _summary(catalog, "Orion")


def _summary(
    catalog: Catalog,
    system: str,
    *,
    slo_scale: float = 1.0,
    hit_rate: float | None = None,
    cost: float | None = None,
    p50_ms: float = 1000,
) -> dict[str, Any]:
    hit_rate = HIT_RATES[system] if hit_rate is None else hit_rate
    cost = COSTS[system] if cost is None else cost
    longest = max(catalog.applications.values(), key=lambda a: len(a.stages)).name
    medians_ms = {}
    for name, application in catalog.applications.items():
        share = 1.4 if (system, name) == ("INFless", longest) else SHARES_OF_SLO[system]
        median_ms = share * slo_scale * application.alone_us / 1000
        medians_ms[name] = {"p50": median_ms, "p90": 1.1 * median_ms, "p99": 1.2 * median_ms}
    return {
        "slo_hit_rate": hit_rate,
        "cost_usd_per_1k_requests": cost,
        "latency_ms": {"p50": p50_ms, "p90": 1100, "p99": 1200, "by_application": medians_ms},
        "hit_rate_by_application": dict.fromkeys(catalog.applications, hit_rate),
        "cost_usd_per_1k_by_application": dict.fromkeys(catalog.applications, cost),
        "plan_miss_rate": 0.0,
        "mean_batch": 1.5,
    }


def _copied(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _copied(value) if isinstance(value, dict) else value for name, value in table.items()
    }
