"""Placement of a group's task: near its inputs, near its cohort, and on no cold slice in haste.

A plan for several jobs is worth what it says only if all of them go to the same node. So a node is
asked for room for the whole group first: for one task if the plan is a batch of them all, or for
as many as the plan splits them into. Only if no plan has a place for all is one looked for that has
a place for some. At the last stage, who has to leave the inputs need not stay with the others.

    1. the node that keeps the inputs, or where others of the group's cohort have just been started;
    2. if another node is cheaper, the transfer and its risk included, that one;
    3. of several, the one with most left over: the next stage will want to stay there.

Where tasks run in phases, a slice may be free that somebody is on (`scheduler.handovers`). Such
ones are second choice, those first that will be left soonest; to wait there is to be late by that.

Loading a model takes longer than most deadlines allow, and a task pays for its slices meanwhile. So
a task waits for a slice that has its model, while there are any; it loads one itself only if there
are none, or if it has waited for as long as that takes.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from esg.core.catalog.config import Config
from esg.core.catalog.model import Function
from esg.core.catalog.phases import TaskMode
from esg.core.estimation.stage_speed import remote_us
from esg.core.policies.apex.risk import Price
from esg.core.policies.interface import Offer, Placement, QueueView
from esg.core.search.frontier import RankedPlans
from esg.core.search.plan import Plan
from esg.core.state.candidates import eligible_nodes
from esg.core.state.indexed_nodes import IndexedNodes
from esg.core.state.node_books import NodeBooks


class Rooms:
    """What nodes have for one function: free vCPUs, and free slices with its model."""

    def __init__(self, nodes: Mapping[str, NodeBooks], function: Function) -> None:
        self._nodes = IndexedNodes.of(nodes)
        self._function = function.name
        self._kinds = function.profile.kinds
        self._phased = function.profile.mode is TaskMode.PHASED

    def at(self, invoker: str) -> "Room | None":
        """The room of one node; None if it is not there."""
        node = self._nodes.get(invoker)
        if node is None:
            return None
        return Room(node, {k: node.count_warm_free(self._function, k) for k in self._kinds})

    def roomiest(self, config: Config, tasks: int) -> NodeBooks | None:
        """The node with most left over, of those with room for so many tasks; or else the one where
        there will be first."""
        vcpus, vgpus = tasks * config.vcpus, tasks * config.vgpus
        found = self._nodes.roomiest_warm(self._function, vcpus, vgpus, config.kind)
        if found is None and self._phased:
            found = self._nodes.soonest_warm(self._function, vcpus, vgpus, config.kind)
        return found

    def any(self) -> bool:
        return any(self.roomiest(Config(1, 1, 1, kind), 1) is not None for kind in self._kinds)


class Room(Struct):
    """A node, and how many free slices of each kind with the model it has."""

    node: NodeBooks
    vgpus: dict[str, int]

    def takes(self, config: Config, tasks: int) -> bool:
        free = self.vgpus[config.kind]
        return self.node.vcpus_free >= tasks * config.vcpus and free >= tasks * config.vgpus


class _Found(Struct):
    cost_pusd: int
    plan: Plan
    node: NodeBooks


def nearby(
    view: QueueView,
    offer: Offer,
    rooms: Rooms,
    near: str,
    price: Price,
) -> Placement | None:
    """A warm place for one of the plans."""
    jobs = len(offer.picks) or 1
    room = rooms.at(near)
    here = None if room is None else _at(view, room, offer.plans, jobs, price)
    found = here
    if here is None or here.plan is not offer.plans[0]:  # nothing is cheaper than that
        if not view.application.successors[view.stage.name]:
            jobs = 1  # nothing is batched after the last stage
        found = _elsewhere(view, offer.plans, rooms, jobs, here, price)
    return None if found is None else Placement(found.plan, found.node)


def _tasks(jobs: int, config: Config) -> int:
    return -(-jobs // config.batch)


def _at(
    view: QueueView, room: Room, plans: Iterable[Plan], jobs: int, price: Price
) -> _Found | None:
    """The first plan for all jobs that this node has room for, or else for some. What it costs is
    without the risk to be late, unless it has to wait: with it, jobs leave their inputs for so
    little that more are."""
    for_some = None
    for plan in plans:
        if not room.takes(plan.config, 1):
            continue
        wait_us = _wait_us(view, plan, room.node)
        price_pusd = price(plan, wait_us)
        if price_pusd is None:
            continue
        found = _Found(price_pusd if wait_us else plan.job_cost_pusd, plan, room.node)
        if room.takes(plan.config, _tasks(jobs, plan.config)):
            return found
        for_some = for_some or found
    return for_some


def _elsewhere(
    view: QueueView,
    plans: Iterable[Plan],
    rooms: Rooms,
    jobs: int,
    best: _Found | None,
    price: Price,
) -> _Found | None:
    """The first plan for all jobs on the node with most left over, if that is cheaper than what was
    found so far."""
    if not rooms.any():
        return best
    for_some, cheapest_first = None, isinstance(plans, RankedPlans)
    transfer_us = remote_us(view.queue, view.stage.function.input_bytes) if view.stage.after else 0
    for plan in plans:
        if best is not None and plan.job_cost_pusd >= best.cost_pusd:
            if cheapest_first:
                break
            continue
        late_us = transfer_us * plan.config.batch
        price_pusd = price(plan, late_us)
        if price_pusd is None:
            continue
        cost_pusd = price_pusd + _transfer_pusd(view, plan.config, late_us)
        if best is not None and cost_pusd >= best.cost_pusd:
            continue
        node = rooms.roomiest(plan.config, _tasks(jobs, plan.config))
        if node is not None:
            wait_us = _wait_us(view, plan, node)
            if wait_us:
                price_pusd = price(plan, late_us + wait_us)
                if price_pusd is None:
                    continue
                cost_pusd = price_pusd + _transfer_pusd(view, plan.config, late_us)
            if best is None or cost_pusd < best.cost_pusd:
                best = _Found(cost_pusd, plan, node)
        elif best is None and for_some is None:
            node = rooms.roomiest(plan.config, 1)
            for_some = None if node is None else _Found(cost_pusd, plan, node)
    return best or for_some


def _wait_us(view: QueueView, plan: Plan, node: NodeBooks) -> int:
    """How long a plan's task would wait for its slices, when its CPU part is over."""
    if not node.promised:
        return 0
    function, config = view.stage.function, plan.config
    needed_us = view.now_us + function.profile.phases_of(config).before_us
    warm = node.warm_free(function.name, config.vgpus, config.kind)
    return max(0, max([node.left_us(index) for index in warm], default=0) - needed_us)


def _transfer_pusd(view: QueueView, config: Config, late_us: int) -> int:
    """What holding the config for that much longer costs a job."""
    if not late_us:
        return 0
    profile = view.stage.function.profile
    index = profile.index(config)
    return int(profile.job_cost_pusd[index]) * late_us // int(profile.time_us[index])


def cold(view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]) -> Placement | None:
    """A place on the roomiest node that can load the model, if there is no point in waiting."""
    function = view.stage.function
    job = offer.first(view.jobs)
    # on a node that is quarantined, too, but not where this job will never run again
    able = eligible_nodes(view.state, view.failed_on(job), function)
    kinds = function.profile.kinds
    exists = able.count_instances(function.name, function.memory_mb, kinds) > 0
    if exists and view.now_us - job.ready_us <= function.cold_start_us:
        return None
    for plan in offer.plans:
        (_, vcpus, vgpus, kind), indexed = plan.config, IndexedNodes.of(nodes)
        for node in indexed.roomiest_first(vcpus, vgpus, kind):
            if node.pick(function.name, function.memory_mb, vgpus, kind) is not None:
                return Placement(plan, node)
    return None
