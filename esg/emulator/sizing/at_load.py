"""How much of a load a cluster could have in time: the ceiling that capacity makes.

The floor and the ceiling of `esg.emulator.optimum` know nothing of capacity. Here the requests that
came share what the cluster has from the first arrival to the last deadline: vCPU time and slice
time, in full batches, without waiting (`fluid_bound`). Where even prices by capacity leave room,
all can be in time, and nothing needs to be solved.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from esg.core.catalog.dag import Block, Parallel, Series, Tangle
from esg.core.catalog.model import Application, Catalog
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.messages.events import Event, RequestArrived
from esg.emulator.sizing.plan_columns import PlanColumns, Resources
from esg.units import US_PER_S


def possible_share(catalog: Catalog, arrivals: Iterable[tuple[int, Event]]) -> float | None:
    """The share of the requests that could be in time on the cluster of the catalog. None where it
    is not known: with deadlines of their own, where applications, profiles or nodes change, and
    where a pipeline is not series-parallel.

    Requests whose deadline nothing keeps do not count, as they are refused.
    """
    came: Counter[str] = Counter()
    last_us = 0
    for at_us, event in arrivals:
        if not isinstance(event, RequestArrived) or event.slo_us is not None:
            return None
        came[event.application] += 1
        last_us = at_us
    seen = on_its_cluster(catalog).applications
    if any(_tangled(seen[name].series) for name in came if name in seen):
        return None
    mix = {
        application: came[name]
        for name, application in seen.items()
        if came[name] and application.fastest_us()[application.root] <= application.slo_us
    }
    if not mix:
        return None
    window_s = (last_us + max(application.slo_us for application in mix)) / US_PER_S
    return _share(mix, Resources.of(catalog.cluster).for_seconds(window_s), catalog)


def _share(mix: Mapping[Application, int], resources: Resources, catalog: Catalog) -> float:
    kinds = catalog.cluster.kinds()
    have = resources.vector(kinds)
    columns = PlanColumns(list(mix), kinds).cheapest(1 / have)
    needed = sum(
        count * column.takes
        for count, column in zip(mix.values(), columns, strict=True)
        if column is not None
    )
    if (needed <= have).all():
        return 1.0
    from esg.emulator.sizing.fluid_bound import FluidModel  # the solver takes a while to load

    total = sum(mix.values())
    model = FluidModel({application: float(n) for application, n in mix.items()}, kinds)
    return min(1.0, model.most_in_time(resources, total).bound / total)


def _tangled(series: Series) -> bool:
    return any(_is_tangled(block) for block in series)


def _is_tangled(block: Block) -> bool:
    match block:
        case Tangle():
            return True
        case Parallel():
            return any(map(_tangled, block.branches))
        case str():
            return False
