"""Baselines: what the rival policies share (paper, section "Comparison Counterparts").

Every policy visits the queues in the same way. INFless and FaST-GShare look at one function at a
time, and neither says how an application's SLO becomes a function's; the paper gives both the rule
of GrandSLAm: a stage may take the share of the SLO that its mean service time has of all of them.

    stage budget = SLO x mean of the stage / sum of the means

The mean is over all configs of the profile. For a DAG the sum is over the longest path by means, so
that the budgets along any path add up to the SLO at most. The budget is a constant of stage and
SLO: a stage that is behind time gets no less, and the others no more.

Orion and Aquatope decide for the whole pipeline ahead of time. When fewer jobs are waiting than a
planned batch needs, they run what is there.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Stage
from esg.core.catalog.profile import Profile
from esg.core.search.plan import Plan, Step
from esg.core.state.state import Queue


def round_robin(queues: Iterable[Queue]) -> list[Queue]:
    """Round-robin: the queue that was visited longest ago comes first; ties by name."""
    return sorted(queues, key=lambda queue: (queue.visit, queue.name))


def stage_shares(application: Application) -> dict[str, Fraction]:
    """Each stage's share of the SLO.

    Two stages in a row that take 100 and 300 us on average have a quarter and three quarters:

    >>> from esg.core.catalog.model import Function
    >>> from esg.core.catalog.profile import Prices
    >>> from esg.core.catalog.config import Config
    >>> def function(name: str, *times_us: int) -> Function:
    ...     table = {Config(1, vcpus, 1): time for vcpus, time in enumerate(times_us, 1)}
    ...     profile = Profile.of(name, table, Prices())
    ...     return Function(name=name, profile=profile, cold_start_us=0, input_bytes=0, memory_mb=1)
    >>> stages = [Stage("a", function("a", 120, 80)), Stage("b", function("b", 300), ("a",))]
    >>> stage_shares(Application.of("app", stages))
    {'a': Fraction(1, 4), 'b': Fraction(3, 4)}
    """
    means: dict[str, Fraction] = {}
    ends: dict[str, Fraction] = {}
    for name, stage in application.stages.items():
        times_us = stage.function.profile.time_us
        means[name] = Fraction(int(times_us.sum()), len(times_us))
        start = max((ends[before] for before in stage.after), default=Fraction(0))
        ends[name] = start + means[name]
    longest = max(ends.values())
    return {name: mean / longest for name, mean in means.items()}


def budget_us(share: Fraction, slo_us: int) -> int:
    """A stage's budget, rounded down: whole microseconds that are certainly within the share."""
    return slo_us * share.numerator // share.denominator


def lone_plans(stage: Stage) -> tuple[Plan, ...]:
    """For each config of a stage, in the order of its profile, the plan that ends with it."""
    profile = stage.function.profile
    rows = zip(
        profile.configs, profile.time_us.tolist(), profile.job_cost_pusd.tolist(), strict=True
    )
    return tuple(Plan(stage.name, config, time_us, cost) for config, time_us, cost in rows)


def by_speed(plan: Plan) -> tuple[int, int, Config]:
    """A sort key: the faster plan first, of equally fast ones the cheaper."""
    return plan.time_us, plan.job_cost_pusd, plan.config


def batches(profile: Profile) -> list[int]:
    """The batch sizes that a profile has, in rising order."""
    return sorted({config.batch for config in profile.configs})


def with_what_is_there(profile: Profile, planned: Config, waiting: int) -> Config:
    """The planned config, with as large a batch as the waiting jobs can fill; the minimum config if
    the profile has no such batch with as many vCPUs and vGPUs.

    >>> from esg.core.catalog.profile import Prices
    >>> cells = [Config(1, 1, 1), Config(2, 4, 1), Config(4, 4, 1), Config(8, 4, 1)]
    >>> profile = Profile.of("f", dict.fromkeys(cells, 1000), Prices())
    >>> for waiting in (9, 7, 3, 1):
    ...     print(with_what_is_there(profile, Config(8, 4, 1), waiting))
    8/4/1
    4/4/1
    2/4/1
    1/1/1
    """
    most = min(planned.batch, waiting)
    alike = [c for c in profile.configs if c[1:] == planned[1:] and c.batch <= most]
    return max(alike, default=profile.minimum)


def plan_onward(application: Application, stage: str, configs: Mapping[str, Config]) -> Plan:
    """A stage and those after it that have a config, with the time and cost they predict."""
    onward = application.onward[stage]
    ends_us: dict[str, int] = {}
    cost_pusd = 0
    steps: list[Step] = []
    for name, where in application.stages.items():
        if name in onward and name in configs:
            profile = where.function.profile
            index = profile.index(configs[name])
            start_us = max((ends_us[b] for b in where.after if b in ends_us), default=0)
            ends_us[name] = start_us + int(profile.time_us[index])
            cost_pusd += int(profile.job_cost_pusd[index])
            steps.append(Step(name, configs[name]))
    return Plan(stage, configs[stage], max(ends_us.values()), cost_pusd, tuple(steps[1:]))
