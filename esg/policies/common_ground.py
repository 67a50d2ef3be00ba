"""What the rival policies share (paper, section "Comparison Counterparts").

Every policy visits the queues in the same way. INFless and FaST-GShare look at one function at a
time, and neither says how an application's SLO becomes a function's; the paper gives both the rule
of GrandSLAm: a stage may take the share of the SLO that its mean service time has of all of them.

    stage budget = SLO x mean of the stage / sum of the means

The mean is over all configs of the profile. For a DAG the sum is over the longest path by means, so
that the budgets along any path add up to the SLO at most. The budget is a constant of stage and
SLO: a stage that is behind time gets no less, and the others no more.
"""

from collections.abc import Iterable
from fractions import Fraction

from esg.catalog import Application, Stage
from esg.profile import Profile
from esg.search.plan import Plan
from esg.state import Queue


def round_robin(queues: Iterable[Queue]) -> list[Queue]:
    """Whoever was visited longest ago comes first; ties by name."""
    return sorted(queues, key=lambda queue: (queue.visit, queue.name))


def stage_shares(application: Application) -> dict[str, Fraction]:
    """Each stage's share of the SLO.

    Two stages in a row that take 100 and 300 us on average have a quarter and three quarters:

    >>> from esg.catalog import Function
    >>> from esg.profile import Config, Prices
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


def by_speed(plan: Plan) -> tuple[int, int, tuple[int, int, int]]:
    """A sort key: the faster plan first, of equally fast ones the cheaper."""
    return plan.time_us, plan.job_cost_pusd, plan.config


def batches(profile: Profile) -> list[int]:
    """The batch sizes that a profile has, in rising order."""
    return sorted({config.batch for config in profile.configs})
