"""How far any policy could get: a floor for the cost and a ceiling for the hit rate.

The floor is the cheapest plan that keeps the deadline when resources are unlimited and every batch
is full. The ceiling lets every request run alone, at once, on warm models, with the fastest config
of every stage, in the same weather (see `durations`) that the policies meet. No policy reaches
both.

Caveats: a policy that gives up deadlines can be cheaper than the floor, which keeps them; and in a
batch the weather is that of its oldest request, so that others can have better luck than alone.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.durations import Durations
from esg.core.estimation.corrected import corrected
from esg.core.messages.events import (
    ApplicationRegistered,
    ApplicationRetired,
    Correction,
    Event,
    ProfilesCorrected,
    RequestArrived,
)
from esg.core.messages.task_order import JobOrder, Output, Payload, TaskOrder
from esg.core.metrics import Served
from esg.core.scheduler.registry import Registry
from esg.core.search.frontier import Frontier
from esg.core.state.state import State
from esg.errors import Rejected


@dataclass(frozen=True, slots=True)
class OptimumBounds:
    """Over the mix of applications that came; None if none of the requests could be served.
    `possible_at_this_load` is a ceiling of the hit rate, too: that of the cluster's capacity, where
    it is known (see `sizing.at_load`)."""

    cost_usd_per_1k_requests: float | None
    slo_hit_rate: float | None
    possible_at_this_load: float | None = None


def limits(
    catalog: Catalog, arrivals: Iterable[tuple[int, Event]], durations: Durations
) -> OptimumBounds:
    """The limits for these arrivals; `catalog` is the one that the policies see.

    A request that no policy can serve is refused as invalid, and does not count. Applications that
    come and go, and functions that turn out to take another time than profiled, are taken as the
    scheduler takes them: it promises by the profile, and pays what it takes.
    """
    floor_pusd = cache(cheapest_pusd)
    fastest_us = cache(lambda application: application.fastest_us()[application.root])
    registry, planned = Registry(catalog, State()), catalog
    corrections: tuple[Correction, ...] = ()
    served = Served()
    for _, event in arrivals:
        match event:
            case ApplicationRegistered() | ApplicationRetired():
                with suppress(Rejected):  # as the scheduler would refuse it
                    registry.adopt(registry.draft(event))
                    planned = corrected(registry.catalog, corrections, planned)
            case ProfilesCorrected():
                durations.correct(event.corrections)
                corrections = event.corrections
                planned = corrected(registry.catalog, corrections, planned)
            case RequestArrived():
                promised = registry.current.get(event.application)
                if promised is None:
                    continue
                slo_us = promised.slo_us if event.slo_us is None else event.slo_us
                if slo_us >= fastest_us(promised):
                    application = planned.applications[promised.name]
                    took_us = alone_at_full_speed_us(application, event.request, durations)
                    cost_pusd = floor_pusd(application, slo_us)
                    served.count("done", in_time=took_us <= slo_us, cost_pusd=cost_pusd)
            case _:
                pass
    return OptimumBounds(served.cost_usd_per_1k, served.hit_rate)


def cheapest_pusd(application: Application, slo_us: int) -> int:
    """The least a job can cost within an SLO, if it always finds company for its batch."""
    batch = application.stages[application.root].function.profile.max_batch
    search = Frontier(application)
    answer = search.search(application.root, queue=batch, left_us=slo_us, k=1)
    return answer.plans[0].job_cost_pusd


def alone_at_full_speed_us(application: Application, request: str, durations: Durations) -> int:
    """How long this very request takes when nothing is in its way."""
    ends: dict[str, int] = {}
    for stage in application.stages.values():
        start = max((ends[before] for before in stage.after), default=0)
        ends[stage.name] = start + durations.run_us(_fastest_order(application, stage, request))
    return max(ends.values())


def _fastest_order(application: Application, stage: Stage, request: str) -> TaskOrder:
    profile = stage.function.profile
    index = int(profile.time_us.argmin())
    sources = tuple(Output(stage=before, invoker="here") for before in stage.after)
    return TaskOrder(
        task="t0",
        invoker="here",
        stage=stage.name,
        function=stage.function.name,
        config=profile.configs[index],
        slices=(),
        jobs=(JobOrder(request=request, inputs=sources or (Payload(),)),),
        keep=False,
        predicted_us=int(profile.time_us[index]),
    )
