"""Why a claim does not hold here, where the reason depends on what was run.

A reason that is reckoned cannot outlive the numbers that it was written for.
"""

from collections import Counter
from collections.abc import Sequence

from emulator.reproduce.experiments import COST, ORION_CUTOFFS_MS, Results, main
from emulator.reproduce.texts import signed, span
from emulator.scenario import SETTINGS
from esg.catalog import Application, Catalog, Stage
from esg.policies.common_ground import budget_us, by_speed, lone_plans, stage_shares
from esg.policies.infless import VCPU_WEIGHT, VGPU_WEIGHT
from esg.policies.orion import NODES_PER_MS, Aim, Pipeline
from esg.profile import Config

NO_MARGIN = "ESG plans for mean times and keeps no margin against noise, by design"


def beaten_in_settings(results: Results, rivals: dict[str, str]) -> str:
    """`rivals` has who hits more, by setting."""

    def more(policy: str, setting: str, key: str) -> float:
        return results.percent_over(main(setting, policy), main(setting, "esg"), key).mean

    cases = {f"{policy} in {setting}": (policy, setting) for setting, policy in rivals.items()}
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
    return results.mean(main(setting, policy), f"latency_ms.by_application.{application}.p50")


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
        Pipeline(app)
        .search(max(1, round(scale * app.alone_us)), Aim.AT_SLO, longest_ms * NODES_PER_MS)
        .effort
        for app in catalog.applications.values()
    ]
    met = {ms: sum(effort > ms * NODES_PER_MS for effort in efforts) for ms in ORION_CUTOFFS_MS}
    early = [f"{ms} ms ends {n} of {len(efforts)} searches early" for ms, n in met.items() if n]
    times_ms = [effort / NODES_PER_MS for effort in efforts]
    return (
        f"With our profiles a search makes {span(min(efforts), max(efforts), 0)} states, depending "
        f"on the application, and takes {span(min(times_ms), max(times_ms))} ms for them; "
        + (f"a cut-off of {', of '.join(early)}" if early else "no cut-off ends one early")
        + (", and the longer ones end none." if early and not met[longest_ms] else ".")
    )
