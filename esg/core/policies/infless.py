"""INFless: throughput per resource, on the node that it fills best (paper, "Comparison
Counterparts").

Each function by itself: the SLO is cut into fixed stage budgets (`baselines`), and nothing that
happened to a request before matters. For a queue of n jobs and a stage budget T:

    1. the batch is the largest there is for n jobs; if nothing of that size will do, half of it,
       and so on down to 1;
    2. a config will do if its time t is at most T for a single job, T/2 for a batch: the other half
       of the budget is for the batch to form;
    3. and if jobs come fast enough to fill it: a batch of b must form in the T - t that are left,
       so the queue's arrival rate must be at least b / (T - t);
    4. every config that will do is scored on every node that has room for it, and the highest score
       wins. There is no locality in it.

The score weighs vCPUs and vGPUs by their computing power and has two readings, both policies here:

    infless       throughput per weight that the config takes  /  fraction of the node left free
    infless-code  throughput                                   /  fraction of the node left free

The first is the published idea, the second what the public code computes. A worked example: a node
with 4 vCPUs and 2 vGPUs, all free, weighs 4 x 64 + 2 x 2029 = 4314. A job takes 100 ms with (1, 1)
and 80 ms with (4, 2), as vCPUs and vGPUs; r is the throughput per second, w the weight.

            r      w     left     left/4314   infless                       infless-code
    (1, 1)  10.0   2093  2221     0.515       10.0 / 2093 / 0.515 = 0.009   10.0 / 0.515 = 19
    (4, 2)  12.5   4314  0 -> 1   0.00023     12.5 / 4314 / 0.00023 = 12.5  12.5 / 0.00023 = 53925

Caveats. The fraction left free is a divisor, so both readings love whatever fills a node: on empty
nodes every job gets a node of its own. The paper observes the same of its INFless, which prefers to
use up an invoker and is the dearest of all, but less of it. A third reading (`CONFIG_FIRST`) lets
throughput per weight alone choose the config, and the fraction left free only the node. And with
budgets near the time of a single job, as in the paper's settings, no batch is ever within T/2, so
that INFless hardly batches.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from esg.core.catalog.config import Config
from esg.core.catalog.model import Catalog, Stage
from esg.core.catalog.profile import Prices
from esg.core.policies.baselines import (
    batches,
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

VCPU_WEIGHT, VGPU_WEIGHT = 64, 2029
"""FLOPS-like: 64 per vCPU, and 142 per 1 % of a GPU's SMs, of which a vGPU has 100/7."""

BUDGET_PARTS_OF_A_BATCH = 2
"""A batch larger than one may take this part of the budget (1/2); the rest is for forming it."""

WINDOW_FROM_BATCH = 2
"""The smallest batch that the arrival rate must justify. For a single job the published bound is
one job per second whatever the config: it could only refuse all configs alike, and a job that is
there must run."""

LEAST_LEFT = 1
"""The weight that counts as left free on a node that a config fills exactly, instead of nothing.
Less than any real remainder: such a fit beats almost all others, and two such fits still compare by
throughput."""

NODES_PER_MS = 1_000
"""Configs that are looked at in a millisecond, scoring them on 16 nodes included."""


class Reading(StrEnum):
    """What the score compares: throughput per weight (or alone, as coded), over the fraction left
    free, among all pairs of config and node (or among the nodes, for one config at a time)."""

    PER_WEIGHT = "per weight"
    AS_CODED = "as coded"
    CONFIG_FIRST = "config first"


class _Column:
    """The configs of a stage with one batch, fastest first."""

    def __init__(self, plans: Iterable[Plan], reading: Reading, prices: Prices) -> None:
        self._plans = sorted(plans, key=by_speed)
        self._prices = prices
        self._reading = reading
        self._offers: dict[int, tuple[Plan, ...]] = {}
        self.times_us = [plan.time_us for plan in self._plans]

    def within(self, limit_us: int) -> tuple[Plan, ...]:
        """The plans that take at most this long, in the order of the score's numerator."""
        count = bisect_right(self.times_us, limit_us)
        if count not in self._offers:
            plans = self._plans[:count]
            if self._reading is not Reading.AS_CODED:
                plans.sort(key=self._per_weight)
            self._offers[count] = tuple(plans)
        return self._offers[count]

    def _per_weight(self, plan: Plan) -> tuple[float, tuple[int, int, Config]]:
        return plan.time_us * _weight(self._prices, plan.config), by_speed(plan)


class _Menu:
    """What there is to choose from at one stage."""

    def __init__(self, stage: Stage, share: Fraction, reading: Reading) -> None:
        profile = stage.function.profile
        plans = lone_plans(stage)
        self.share = share
        self.sizes = batches(profile)
        self.columns = {
            batch: _Column(
                (plan for plan in plans if plan.config.batch == batch), reading, profile.prices
            )
            for batch in self.sizes
        }
        self.fastest = {
            batch: min((plan for plan in plans if plan.config.batch <= batch), key=by_speed)
            for batch in self.sizes
        }
        self.vcpus = np.array([plan.config.vcpus for plan in plans], dtype=np.int64)
        self.vgpus = np.array([plan.config.vgpus for plan in plans], dtype=np.int64)
        self.kinds = profile.kinds
        self.kind = np.array([self.kinds.index(plan.config.kind) for plan in plans], dtype=np.int64)
        prices = self.prices = profile.prices
        self.weights = np.array([_weight(prices, plan.config) for plan in plans])
        self.merits = np.array([plan.config.batch for plan in plans]) / profile.time_us
        if reading is not Reading.AS_CODED:
            self.merits = self.merits / self.weights

    def largest(self, batch: int) -> int:
        """The largest batch size there is, up to this one; 0 if there is none."""
        place = bisect_right(self.sizes, batch)
        return self.sizes[place - 1] if place else 0


class Infless:
    """INFless, in any reading of its score."""

    prewarm_all_stages = False

    def __init__(self, catalog: Catalog, reading: Reading) -> None:
        self.search_steps_per_ms = NODES_PER_MS
        self._reading = reading
        self._menus: dict[tuple[str, str], _Menu] = {}
        for application in catalog.applications.values():
            shares = stage_shares(application)
            for name, stage in application.stages.items():
                self._menus[application.name, name] = _Menu(stage, shares[name], reading)

    def order(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        return round_robin(queues)

    def decide(self, view: QueueView) -> Offer:
        """All configs of the batch that will do. If none does for any batch, the published system
        leaves open what happens; here the fastest config runs that the waiting jobs can fill."""
        menu = self._menus[view.application.name, view.stage.name]
        budget = budget_us(menu.share, view.slo_us)
        largest = batch = menu.largest(len(view.jobs))
        effort = 0
        while batch:
            column = menu.columns[batch]
            effort += len(column.times_us)
            plans = column.within(_limit_us(budget, batch, view.queue.arrivals.average_us))
            if plans:
                return Offer(plans, effort)
            batch = menu.largest(batch // 2)
        return Offer((menu.fastest[largest],), effort)

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        able = [nodes[name] for name in sorted(nodes) if nodes[name].vgpus_free]
        if not able:
            return None
        if self._reading is not Reading.CONFIG_FIRST:
            return self._highest(view, offer.plans, able)
        found = (self._highest(view, (plan,), able) for plan in offer.plans)
        return next((placement for placement in found if placement is not None), None)

    def _highest(
        self, view: QueueView, plans: Sequence[Plan], nodes: Sequence[NodeBooks]
    ) -> Placement | None:
        """The pair of plan and node with the highest score; of equals, the plan that was offered
        first, then the invoker whose name comes first."""
        menu = self._menus[view.application.name, view.stage.name]
        function = view.stage.function
        rows = [function.profile.index(plan.config) for plan in plans]
        scores = _scores(menu, rows, nodes)
        while True:
            row, column = divmod(int(scores.argmax()), len(nodes))
            if scores[row, column] <= 0:
                return None
            plan, node = plans[row], nodes[column]
            if can_take(node, plan.config, function.name, function.memory_mb):
                return Placement(plan, node)
            # Its slices have no memory for the model: neither for this plan nor for a wider one
            alike = menu.kind[rows] == menu.kinds.index(plan.config.kind)
            scores[alike & (menu.vgpus[rows] >= plan.config.vgpus), column] = 0


def _weight(prices: Prices, config: Config) -> float:
    """Slices of another kind weigh as many usual ones as they cost."""
    return VCPU_WEIGHT * config.vcpus + VGPU_WEIGHT * prices.usual_slices(config)


def _limit_us(budget: int, batch: int, interval_us: int) -> int:
    """The longest time with which a config of this batch will do: rules 2 and 3.

    The arrival rate is 1 / interval, so b / (T - t) <= rate is t <= T - b x interval. An interval
    of 0 is one that is not known yet, or jobs that come all at once: then nothing speaks against
    a batch, and the jobs for it are there.

    >>> _limit_us(1000, 1, 400), _limit_us(1000, 2, 100), _limit_us(1000, 2, 400)
    (1000, 500, 200)
    """
    limit_us = budget if batch == 1 else budget // BUDGET_PARTS_OF_A_BATCH
    if batch >= WINDOW_FROM_BATCH:
        limit_us = min(limit_us, budget - batch * interval_us)
    return limit_us


def _scores(menu: _Menu, rows: Sequence[int], nodes: Sequence[NodeBooks]) -> NDArray[np.float64]:
    """A score for every plan (row) and node (column); 0 where there is no room."""
    vcpus_free = np.array([node.vcpus_free for node in nodes])
    free_of = np.array([[node.free_of.get(kind, 0) for node in nodes] for kind in menu.kinds])
    usual = [menu.prices.usual_slices(Config(1, 1, 1, kind)) for kind in menu.kinds]
    weigh = dict(zip(menu.kinds, usual, strict=True))
    slices = np.array([sum(weigh.get(p.kind, 0) for p in node.slices) for node in nodes])
    capacity = VCPU_WEIGHT * np.array([node.vcpus for node in nodes]) + VGPU_WEIGHT * slices
    free = VCPU_WEIGHT * vcpus_free + VGPU_WEIGHT * (np.array(usual) @ free_of)
    left = free - menu.weights[rows, np.newaxis]
    fits = (menu.vcpus[rows, np.newaxis] <= vcpus_free) & (
        menu.vgpus[rows, np.newaxis] <= free_of[menu.kind[rows]]
    )
    fraction_left = np.maximum(left, LEAST_LEFT) / capacity
    scores: NDArray[np.float64] = np.where(fits, menu.merits[rows, np.newaxis] / fraction_left, 0.0)
    return scores
