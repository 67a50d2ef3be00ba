"""Claims about plans, searches, K and the ablations: the sections after the first."""

from collections.abc import Iterator

from esg.core.catalog.model import Catalog
from esg.emulator.reproduce.claims.claim import (
    ABLATION,
    ANALYSIS,
    OVERHEAD,
    SENSITIVITY,
    SIMILAR_PERCENT,
    Claim,
)
from esg.emulator.reproduce.experiments import (
    COST,
    K_VALUES,
    ORION_CUTOFFS_MS,
    ORION_TIMED,
    Results,
    main,
)
from esg.emulator.reproduce.overhead import Overhead
from esg.emulator.reproduce.reasons import orion_loses_little
from esg.emulator.reproduce.texts import change, number, points, rate_of
from esg.emulator.scenario import SETTINGS

SLIGHTLY_PERCENT = 0.1

PLAN_MISSES = {"orion-at-slo": (9.6, 27.32, 51.68), "aquatope": (85.5, 59.85, 58.72)}
"""The paper's table: percent of plans that miss, in the three settings. For Orion we take the
reading that plans batches at all."""


def plan_misses(results: Results) -> Iterator[Claim]:
    """More misses than the paper's are beyond it in ESG's favour."""
    reasons = {
        "orion-at-slo": "Orion's own order (lowest P95 first) stops at the first state within the "
        "SLO and never raises a batch; this is the reading that aims at the SLO, which batches "
        "only where the deadline leaves time.",
        "aquatope": "What it learns depends on the profiles: where large batches hardly pay or "
        "miss the SLO, it learns small ones, which are there more often.",
    }
    for policy, paper in PLAN_MISSES.items():
        labels = [main(setting, policy) for setting in SETTINGS]
        ours = [100 * results.mean(label, "plan_miss_rate") for label in labels]
        reproduced = all(mine >= theirs for mine, theirs in zip(ours, paper, strict=True))
        yield Claim(
            ANALYSIS,
            f"Plans of {policy} that cannot be followed, in the three settings",
            " / ".join(f"{value:g} %" for value in paper),
            " / ".join(f"{rate_of(results, label, 'plan_miss_rate')} %" for label in labels),
            reproduced,
            reasons[policy],
        )


def orion_trade_off(results: Results, catalog: Catalog) -> Claim:
    drops = {
        ms: points(results, f"orion/{ms}/none", f"orion/{ms}/counted") for ms in ORION_CUTOFFS_MS
    }
    worst = max(drop.mean for drop in drops.values())
    return Claim(
        ANALYSIS,
        "Orion's hit rate drops dramatically when its search time counts (strict-light)",
        "yes (we ask for 20 points)",
        f"drop of {ORION_TIMED}, which searches longest: "
        + ", ".join(f"{ms} ms: {number(results, drop)}" for ms, drop in drops.items())
        + " points",
        worst >= 20,
        "" if worst >= 20 else orion_loses_little(catalog),
    )


def search_times(overhead: Overhead) -> Iterator[Claim]:
    """The paper's times are of its own machine; ours of the one at hand."""
    slow = "CPU time on this machine; a slower one takes longer."
    p99_ms = overhead.p99_ms(3, 5)
    yield Claim(
        OVERHEAD,
        "A decision over three functions of 256 configs takes less than",
        "10 ms",
        f"{p99_ms:.2f} ms at p99, slowest setting",
        p99_ms < 10,
        slow,
    )
    ratio = overhead.brute_force_ms / overhead.mean_ms(3, 5)
    yield Claim(
        OVERHEAD,
        "Brute force over the same is orders of magnitude slower",
        "7258 ms, some 1000 times",
        f"{overhead.brute_force_ms:.0f} ms, {ratio:.0f} times",
        ratio >= 100,
        "Both are CPU time on this machine.",
    )
    times = [overhead.search[setting, 3, 5] for setting in SETTINGS]
    efforts = [each.effort for each in times]
    rising = efforts == sorted(efforts)  # times that are this short depend on the moment
    yield Claim(
        OVERHEAD,
        "The more relaxed the setting, the longer a decision takes",
        "yes",
        " / ".join(f"{effort:.0f}" for effort in efforts)
        + " paths looked at, "
        + " / ".join(f"{each.mean_ms:.2f}" for each in times)
        + " ms",
        rising,
        "With sharper bounds the search looks at few paths in any setting.",
    )
    one, eighty = overhead.mean_ms(3, 1), overhead.mean_ms(3, 80)
    reproduced = one <= eighty <= 8
    yield Claim(
        SENSITIVITY,
        "From K = 1 to 80 a decision takes longer",
        "3 to 8 ms",
        f"{one:.2f} to {eighty:.2f} ms",
        reproduced,
        slow
        if one <= eighty
        else "Here it takes less: the search visits few paths whatever K is, so that the order of "
        "its times is left to chance.",
    )
    four = overhead.mean_ms(4, 5)
    yield Claim(
        SENSITIVITY,
        "With groups of 4 functions a decision takes at most",
        "1201 ms",
        f"{four:.2f} ms",
        four <= 1201,
        slow,
        "Beyond the paper in ESG's favour: sharper bounds make larger groups affordable.",
    )


def k(results: Results) -> Claim:
    first, last = f"k/{K_VALUES[0]}", f"k/{K_VALUES[-1]}"
    cost = results.percent_over(last, first, COST)
    latency = results.percent_over(last, first, "latency_ms.p50")
    reproduced = cost.mean <= -SLIGHTLY_PERCENT and abs(latency.mean) <= SIMILAR_PERCENT
    return Claim(
        SENSITIVITY,
        "From K = 1 to 80 the cost falls slightly and the latency stays (strict-light)",
        f"yes (we ask for {SLIGHTLY_PERCENT} % of cost, within {SIMILAR_PERCENT} % of latency)",
        f"cost {change(results, cost, 2)} %, median latency {change(results, latency, 2)} %",
        reproduced,
        "Under light load the first plan nearly always fits, so the others are hardly used.",
    )


def ablation(results: Results) -> Iterator[Claim]:
    label, base = "ablation/no-gpu-sharing", "ablation/none"
    hits = points(results, label, base)
    latency = results.percent_over(label, base, "latency_ms.p50")
    reproduced = hits.mean < 0 < latency.mean
    yield Claim(
        ABLATION,
        "Without GPU sharing, waits are longer and the hit rate is lower (relaxed-heavy)",
        "yes",
        f"hit rate {change(results, hits)} points, median latency {change(results, latency, 0)} %",
        reproduced,
        "One GPU per task and sixteen GPUs were enough for what came, so that nobody had to "
        "wait long.",
    )
    label = "ablation/no-batching"
    hits, cost = points(results, label, base), results.percent_over(label, base, COST)
    reproduced = hits.mean >= -0.5 and cost.mean > 0.5
    yield Claim(
        ABLATION,
        "Without batching, the hit rate is not lower and the cost is higher (relaxed-heavy)",
        "yes",
        f"hit rate {change(results, hits)} points, cost {change(results, cost)} %",
        reproduced,
        "ESG never holds a queue to let a batch form, and here resources free up faster than "
        f"queues fill: its mean batch is {results.mean(base, 'mean_batch'):.2f}.",
    )
