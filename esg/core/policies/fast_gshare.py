"""FaST-GShare: most throughput per GPU share, packed tightly (paper, "Comparison Counterparts").

Each function by itself, within a fixed stage budget T (`baselines`). Of the configs that take
at most T and whose batch the waiting jobs fill, the one with the highest efficiency is preferred,

    efficiency = (batch / time) / vGPUs

and of equally efficient ones the one with fewer vCPUs. All others follow in that order, for when
there is no room. The node is the best fit: the fewest vGPUs left over, then the fewest vCPUs (the
system packs rectangles of space and time; without time quotas the best rectangle is that). There
is no locality in it.

A worked example with T = 100 ms and two jobs waiting:

    config      time    efficiency
    (1, 1, 1)   50 ms   20 jobs a second
    (2, 1, 1)   80 ms   25, preferred
    (2, 1, 2)   60 ms   33 / 2 = 17
    (4, 1, 1)  100 ms   40, but there are not four jobs

Caveat: FaST-GShare does not manage CPUs, and in its efficiency they count for nothing. Read to the
letter, a config with more vCPUs is a little faster and hence a little more efficient: the preferred
config takes a node's whole CPU for one vGPU, and the other six stay idle. The `lean` reading gives
each pair of batch and vGPUs no more vCPUs than it needs to keep the budget, and compares those.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog, Stage
from esg.core.catalog.profile import Prices
from esg.core.policies.baselines import (
    budget_us,
    by_speed,
    lone_plans,
    round_robin,
    stage_shares,
)
from esg.core.policies.interface import Offer, Placement, QueueView
from esg.core.policies.placement import can_take
from esg.core.search.plan import Plan
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Queue

NODES_PER_MS = 5_000
"""Configs that are looked at in a millisecond, placement included."""


class _Menu:
    """What there is to choose from at one stage."""

    def __init__(self, stage: Stage, share: Fraction, *, lean: bool) -> None:
        profile = stage.function.profile
        self.share = share
        self._lean = lean
        self.max_batch = profile.max_batch
        by_efficiency = partial(_by_efficiency, profile.prices)
        self._plans = sorted(lone_plans(stage), key=by_efficiency)
        self._times_us = sorted(plan.time_us for plan in self._plans)
        self._counts = [profile.count_up_to(batch) for batch in range(profile.max_batch + 1)]
        self._offers: dict[tuple[int, int], Offer] = {}

    def offer(self, waiting: int, limit_us: int) -> Offer:
        """The configs within the limit, best first. If there are none, the published system leaves
        open what happens; here the fastest config runs that the waiting jobs can fill."""
        batch = min(waiting, self.max_batch)
        # How many times are within the limit says which they are: there are few such offers
        key = batch, bisect_right(self._times_us, limit_us)
        if key not in self._offers:
            able = [plan for plan in self._plans if plan.config.batch <= batch]
            plans = [plan for plan in able if plan.time_us <= limit_us]
            if self._lean:
                plans = _leanest(plans)
            plans = plans or [min(able, key=by_speed)]
            self._offers[key] = Offer(tuple(plans), self._counts[batch])
        return self._offers[key]


class FastGShare:
    """FaST-GShare, in either reading of what vCPUs are worth."""

    prewarm_all_stages = False

    def __init__(self, catalog: Catalog, *, lean: bool = False) -> None:
        self.search_steps_per_ms = NODES_PER_MS
        self._menus: dict[tuple[str, str], _Menu] = {}
        for application in catalog.applications.values():
            shares = stage_shares(application)
            for name, stage in application.stages.items():
                self._menus[application.name, name] = _Menu(stage, shares[name], lean=lean)

    def order(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        return round_robin(queues)

    def decide(self, view: QueueView) -> Offer:
        menu = self._menus[view.application.name, view.stage.name]
        return menu.offer(len(view.jobs), budget_us(menu.share, view.slo_us))

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        """The first plan for which there is room, where it leaves the least over; ties by name."""
        function = view.stage.function
        tightest = sorted(
            (node for node in nodes.values() if node.vgpus_free),
            key=lambda node: (node.vgpus_free, node.vcpus_free, node.invoker),
        )
        refused: set[tuple[int, int, str]] = set()
        for plan in offer.plans:
            config = plan.config
            size = config.vcpus, config.vgpus, config.kind
            if size in refused:
                continue
            for node in tightest:
                if can_take(node, config, function.name, function.memory_mb):
                    return Placement(plan, node)
            refused.add(size)
        return None


def _by_efficiency(prices: Prices, plan: Plan) -> tuple[Fraction, int, Config]:
    """A sort key: the most efficient plan first, then fewer vCPUs, then the smaller config. Slices
    of another kind count as many usual ones as they cost."""
    config = plan.config
    vgpus = Fraction(prices.usual_slices(config)) if config.kind else config.vgpus
    return -Fraction(config.batch) / (plan.time_us * vgpus), config.vcpus, config


def _leanest(plans: Sequence[Plan]) -> list[Plan]:
    """Of the plans with the same batch and vGPUs, those with the fewest vCPUs."""
    fewest: dict[tuple[int, int, str], int] = {}
    for plan in plans:
        key, vcpus = _without_vcpus(plan.config), plan.config.vcpus
        fewest[key] = min(fewest.get(key, vcpus), vcpus)
    return [p for p in plans if p.config.vcpus == fewest[_without_vcpus(p.config)]]


def _without_vcpus(config: Config) -> tuple[int, int, str]:
    return config.batch, config.vgpus, config.kind
