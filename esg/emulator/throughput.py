"""The highest rate that a cluster can sustain with deadlines kept, by its profiles alone.

A request takes vCPU time and vGPU time of the cluster; how much of each depends on its plan.
Whatever the plans are, at a rate r the work of a second must fit into the vCPUs and into the vGPUs
of a second, and so into any weighted mean of the two. With vCPUs weighted at w and vGPUs at 1 - w,
the plan that keeps the deadline and takes least of that mean is the cheapest one at prices in that
proportion, which the search finds. So

    r <= 1 / (the share of a second of the whole cluster that a request takes at least)

holds for every w, and the least of these bounds is the answer (the dual of a linear program). Where
slices are of several kinds, the weight of the vGPUs is shared among the kinds by what all slices of
each cost in the catalog; other shares might give a lower bound.

It knows nothing of waiting: only a schedule that fills batches without losing time, and has
everything busy all the time, would reach it. On the shipped catalog 1 % of requests is late from 88
to 92 % of it on with policy apex, and from 75 % on with esg: `esg capacity` finds that out by
emulation, in a minute instead of a fraction of a second.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from esg.core.catalog.model import Application
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import USUAL
from esg.emulator.optimum import cheapest_pusd
from esg.units import PUSD_PER_USD, US_PER_HOUR, US_PER_S

CLUSTER_USD_PER_HOUR = 100.0
"""What all of a cluster costs at weighted prices: any figure will do that leaves whole numbers
enough digits."""

LEAST_WEIGHT = 0.001
STEPS = 12
"""Of the search for a weight: each leaves two thirds of the range."""

MOST_APPLICATIONS = 40
"""Of a larger mix, as many are looked at, evenly spread: an estimate must not take seconds."""


@dataclass(frozen=True, slots=True)
class Size:
    """All of a cluster together; `kinds` has how many slices there are of each kind, unless all are
    usual ones."""

    vcpus: int
    vgpus: int
    kinds: Mapping[str, int] = field(default_factory=dict)


def most_per_s(mix: Mapping[Application, float], size: Size) -> float:
    """The bound for requests to these applications, by their weights. Their profiles should have
    only what a node can run."""
    if not size.vcpus or not size.vgpus:
        return 0.0
    step = -(-len(mix) // MOST_APPLICATIONS)
    seen = dict(list(mix.items())[::step])
    total = sum(seen.values())

    @cache
    def bound(weight: float) -> float:
        repriced = cache(lambda profile: profile.priced(_prices(weight, size, profile.prices)))
        share_h = sum(
            part / total * _least_share_h(application, repriced)
            for application, part in seen.items()
        )
        return US_PER_S / (share_h * US_PER_HOUR)

    low, high = LEAST_WEIGHT, 1 - LEAST_WEIGHT
    for _ in range(STEPS):  # one over a concave function has one valley
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if bound(left) < bound(right):
            high = right
        else:
            low = left
    return min(bound(low), bound(high), bound((low + high) / 2))


def _least_share_h(application: Application, repriced: Callable[[Profile], Profile]) -> float:
    """How many hours of the whole cluster, at weighted prices, a request takes at least."""
    weighted = application.with_profiles(repriced)
    usd = cheapest_pusd(weighted, application.slo_us) / PUSD_PER_USD
    return usd / CLUSTER_USD_PER_HOUR


def _prices(weight: float, size: Size, real: Prices) -> Prices:
    """`real` says what slices of other kinds cost in comparison."""
    kinds = size.kinds or {USUAL: size.vgpus}
    vgpus = real.usual_slices_of(kinds)
    usd_per_hour = CLUSTER_USD_PER_HOUR * (1 - weight) / vgpus
    return Prices(
        vcpu_usd_per_hour=CLUSTER_USD_PER_HOUR * weight / size.vcpus,
        vgpu_usd_per_hour=usd_per_hour,
        kinds_usd_per_hour={
            kind: usd_per_hour * real.usual_slices_of({kind: 1}) for kind in kinds if kind != USUAL
        },
    )
