"""Why a claim does not hold here, where the reason depends on what was run.

A reason that is reckoned cannot outlive the numbers that it was written for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.policies.baselines import budget_us, by_speed, lone_plans, stage_shares
from esg.core.policies.infless import VCPU_WEIGHT, VGPU_WEIGHT
from esg.core.policies.orion import NODES_PER_MS, Aim, OrionPipeline
from esg.emulator.reproduce.experiments import (
    COST,
    ORION_CUTOFFS_MS,
    ORION_TIMED,
    Results,
    main,
    median_key,
)
from esg.emulator.reproduce.standings import are_level
from esg.emulator.reproduce.texts import rate, signed, span
from esg.emulator.scenario import SETTINGS
from esg.emulator.sweep import Estimate
from esg.units import US_PER_MS

HITS = "slo_hit_rate"

NO_MARGIN = "ESG plans for mean times and keeps no margin against noise, by design"


BY_DESIGN = {
    "INFless": "which gives every stage a fixed share of the SLO",
    "FaST-GShare": "which gives every stage a fixed share of the SLO",
    "Orion": "which plans for the 95th percentile",
    "Aquatope": "whose configs are learnt",
}


def short_of_the_range(
    results: Results, catalog: Catalog, gains: Mapping[str, Estimate], low: float, high: float
) -> str:
    """`gains` has by how many percent ESG's hit rate in strict-light is higher than a system's; the
    paper has `low` to `high`."""
    sentences, short, not_behind = [], [], False
    for system, gain in gains.items():
        policy = results.reading(system)
        labels = (main("strict-light", policy), main("strict-light", "esg"))
        level = are_level(results, *labels, HITS)
        place = "level with ESG" if level else _place(gain, low, high)
        text = f"{policy}, {BY_DESIGN[system]}, is {place}"
        if gain.mean < low:
            found = _spends_and_gets(results, catalog, *labels)
            text += f"; it {found}" if found else ""
            short.append(policy)
            not_behind |= level or gain.mean < 0
        sentences.append(f"{text}.")
    if not_behind:
        used = _most_of_the_slo(results, catalog)
        sentences.append(f"{NO_MARGIN}: its median is up to {100 * used:.0f} % of the SLO.")
    sentences.append(_what_the_lead_takes(results, short, low))
    sentences.append("The paper's profiles are not public; ours are modelled.")
    return " ".join(sentences)


def _place(gain: Estimate, low: float, high: float) -> str:
    """Where a rival is, if ESG's gain over it is this.

    >>> _place(Estimate(51, 10), 36, 61), _place(Estimate(-2, 3), 36, 61)
    ("behind ESG, within the paper's range", 'ahead of ESG (within the margin)')
    """
    if gain.mean > high:
        return "further behind ESG than the paper's range"
    if gain.mean >= low:
        return "behind ESG, within the paper's range"
    unclear = " (within the margin)" if gain.is_unclear else ""
    if gain.mean < 0:
        return f"ahead of ESG{unclear}"
    return f"behind ESG{unclear}, but by less than the paper's range"


def _spends_and_gets(results: Results, catalog: Catalog, label: str, esg: str) -> str:
    """As far as it is clear of the margins, and not shown as 0 %."""
    parts = []
    cost = results.percent_over(label, esg, COST)
    if abs(cost.mean) > max(cost.margin, 0.5):
        parts.append(f"costs {abs(cost.mean):.0f} % {'more' if cost.mean > 0 else 'less'} than ESG")
    gaps = [results.difference(label, esg, median_key(name)) for name in catalog.applications]
    faster = sum(gap.mean < -gap.margin for gap in gaps)
    if faster:
        parts.append(f"is faster at the median with {faster} of {len(gaps)} applications")
    return " and ".join(parts)


def _most_of_the_slo(results: Results, catalog: Catalog) -> float:
    """That ESG's median takes in strict-light, with any application."""
    scale = SETTINGS["strict-light"].slo_scale
    return max(
        _median_ms(results, "strict-light", "esg", name) * US_PER_MS / (scale * app.alone_us)
        for name, app in catalog.applications.items()
    )


def _what_the_lead_takes(results: Results, policies: Sequence[str], low: float) -> str:
    """Nobody hits more than all, so a rival that hits often cannot be beaten by much."""
    most = 1 / (1 + low / 100)
    rates = {p: results.mean(main("strict-light", p), HITS) for p in ("esg", *policies)}
    above = [
        f"{policy} hits {rate(rates[policy])} %" for policy in policies if rates[policy] > most
    ]
    here = " and ".join(above) or f"ESG itself hits {rate(rates['esg'])} %"
    return f"To be {low:g} % ahead takes a rival that hits {rate(most)} % at most; here {here}."


def beaten_in_settings(results: Results, rivals: Sequence[tuple[str, str]]) -> str:
    """`rivals` are settings, and the policies that hit more there."""

    def more(policy: str, setting: str, key: str) -> float:
        return results.percent_over(main(setting, policy), main(setting, "esg"), key).mean

    cases = {f"{policy} in {setting}": (policy, setting) for setting, policy in rivals}
    extra = {who: more(*case, COST) for who, case in cases.items()}
    faster = all(more(*case, "latency_ms.p50") < 0 for case in cases.values())
    if min(extra.values()) <= 0 or not faster:
        return f"{NO_MARGIN}."
    spent = ", ".join(f"{who} {signed(percent)} %" for who, percent in extra.items())
    return f"{NO_MARGIN}; where another hits more, it spends more ({spent}) and is faster for that."


def beaten_with_applications(
    results: Results, catalog: Catalog, cases: Sequence[tuple[str, str, str]]
) -> str:
    """`cases` are settings, applications, and the policies that hit more there."""
    long = {name for name, app in catalog.applications.items() if _ends_with_a_long_stage(app)}
    parts = []
    ending = list(dict.fromkeys(name for _, name, _ in cases if name in long))
    if ending:
        parts.append(
            f"Applications that end with one long stage ({', '.join(ending)}) leave ESG no later "
            "stage in which to make up for a slow run."
        )
    others = [case for case in cases if case[1] not in long]
    if others:
        faster = all(
            _median_ms(results, setting, policy, name) < _median_ms(results, setting, "esg", name)
            for setting, name, policy in others
        )
        names = ", ".join(dict.fromkeys(name for _, name, _ in others))
        parts.append(
            f"{NO_MARGIN} ({names})"
            + ("; the other is faster at the median than ESG has to be." if faster else ".")
        )
    return " ".join(parts)


def _ends_with_a_long_stage(application: Application) -> bool:
    """Half of the time or more, each stage with its minimum config."""
    inner = {before for stage in application.stages.values() for before in stage.after}
    profiles = [s.function.profile for n, s in application.stages.items() if n not in inner]
    last_us = max(profile.time_us_of(profile.minimum) for profile in profiles)
    return 2 * last_us >= application.alone_us


def _median_ms(results: Results, setting: str, policy: str, application: str) -> float:
    return results.mean(main(setting, policy), median_key(application))


def infless_is_not_fastest(results: Results, catalog: Catalog, policy: str) -> str:
    """Of the reading that is shown."""
    if policy == "infless-config-first":
        what = _config_first(catalog)
    else:
        what = (
            f"{policy} likes whatever fills a node: its large configs are fast, but they leave "
            "others no room"
        )
    heavy, light = (main(s, policy) for s in ("relaxed-heavy", "strict-light"))
    slower = results.relative(heavy, light, "latency_ms.p50").mean
    if slower <= 1.05:
        return f"{what}."
    return (
        f"{what}, and under heavy load requests queue: the median is {slower:.1f} times that under "
        "light load."
    )


def _config_first(catalog: Catalog) -> str:
    scale = SETTINGS["relaxed-heavy"].slo_scale
    preferred = Counter(
        _most_throughput_per_weight(stage, budget_us(shares[name], round(scale * app.alone_us)))
        for app in catalog.applications.values()
        for shares in [stage_shares(app)]
        for name, stage in app.stages.items()
    )
    (config, count), cluster = preferred.most_common(1)[0], catalog.cluster
    at_once = min(cluster.vcpus // config.vcpus, cluster.vgpus // config.vgpus)
    return (
        "infless-config-first takes the config with the most throughput per weight, in which vCPUs "
        f"count for little: at {count} of {preferred.total()} stages that is batch {config.batch} "
        f"with {config.vcpus} vCPUs and {config.vgpus} vGPU{'s' * (config.vgpus > 1)}. A node with "
        f"{cluster.vcpus} vCPUs and {cluster.vgpus} vGPUs runs {at_once} such tasks at a time"
    )


def _most_throughput_per_weight(stage: Stage, limit_us: int) -> Config:
    """For a single job, as nearly all are with budgets as short as these."""
    plans = [plan for plan in lone_plans(stage) if plan.config.batch == 1]
    within = [plan for plan in plans if plan.time_us <= limit_us]

    def weight(config: Config) -> int:
        return VCPU_WEIGHT * config.vcpus + VGPU_WEIGHT * config.vgpus

    best = min(
        within, key=lambda p: (p.time_us * weight(p.config), by_speed(p)), default=None
    ) or min(plans, key=by_speed)
    return best.config


def orion_loses_little(catalog: Catalog) -> str:
    """How long the searches of the reading that is shown are, and which cut-offs they meet."""
    scale, longest_ms = SETTINGS["strict-light"].slo_scale, max(ORION_CUTOFFS_MS)
    efforts = [
        OrionPipeline(app)
        .search(max(1, round(scale * app.alone_us)), Aim.AT_SLO, longest_ms * NODES_PER_MS)
        .effort
        for app in catalog.applications.values()
    ]
    met = {ms: sum(effort > ms * NODES_PER_MS for effort in efforts) for ms in ORION_CUTOFFS_MS}
    early = [f"{ms} ms ends {n} of {len(efforts)} searches early" for ms, n in met.items() if n]
    times_ms = [effort / NODES_PER_MS for effort in efforts]
    return (
        f"With our profiles a search of {ORION_TIMED} makes {span(min(efforts), max(efforts), 0)} "
        f"states, depending on the application, and takes "
        f"{span(min(times_ms), max(times_ms))} ms for them; "
        + (f"a cut-off of {', of '.join(early)}" if early else "no cut-off ends one early")
        + (", and the longer ones end none." if early and not met[longest_ms] else ".")
    )
