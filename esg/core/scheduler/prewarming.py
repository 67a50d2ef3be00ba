"""EWMA pre-warming: models are loaded where they will be needed (paper, on methodology).

An exponentially weighted moving average of the time between arrivals at each AFW queue predicts
the next one; the model should be loaded by then. When calls come faster than one instance can
serve them, more are needed: the queue's work per unit of time, by Little's law, at the minimum
config. Pre-warming fills free memory only; it never makes another model go.

A policy may want all stages pre-warmed: a call of an application announces one to each of its
later stages, so all of its models are loaded at the first call, and not one after the other as the
first requests get to them. Instances are then spread evenly over the nodes, and there are several
for each that is kept busy: a task needs a slice that has its model and is free.
"""

from collections.abc import Iterable
from typing import NamedTuple

from esg.core.catalog.model import Application, Function
from esg.core.estimation.load_times import expected_load_us
from esg.core.messages.commands import WarmInstance
from esg.core.policies.placement import homes
from esg.core.scheduler.books import Books
from esg.core.state.indexed_nodes import IndexedNodes
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Queue
from esg.names import queue_name
from esg.units import NEVER_US

HEADROOM = 4
"""How many instances there are for each that the predicted calls keep busy, if a policy wants all
stages pre-warmed."""


class _Demand(NamedTuple):
    """A queue whose calls ask for a function, the one where they come in, and what one takes."""

    queue: Queue
    root: Queue
    service_us: int


class PreWarmer:
    """Decides which models to load ahead of time.

    `current` are the applications that new requests may ask for: no calls are foreseen for others.
    """

    def __init__(
        self,
        books: Books,
        current: Iterable[Application],
        *,
        prewarm_all_stages: bool = False,
    ) -> None:
        self._catalog = catalog = books.planned
        self._prewarm_all_stages = prewarm_all_stages
        self._state = books.state
        self._emit = books.emit
        queues = books.state.queues
        self._functions = {
            queue_name(application.name, stage.name): stage.function
            for application in catalog.applications.values()
            for stage in application.stages.values()
        }
        self._waiting = {name: q for name, q in queues.items() if q.warm_at_us < NEVER_US}
        self.next_us = self._first_us()
        """When loading must begin next."""
        self._demands: dict[str, list[_Demand]] = {name: [] for name in catalog.functions}
        for application in current:
            root = queues[queue_name(application.name, application.root)]
            for stage in application.stages.values():
                queue = queues[queue_name(application.name, stage.name)]
                profile = stage.function.profile
                demand = _Demand(queue, root, profile.time_us_of(profile.minimum))
                self._demands[stage.function.name].append(demand)

    def schedule_prewarm(self, queue: Queue, now_us: int) -> None:
        """After an arrival: when must loading begin, so that the next one finds a warm model?"""
        if self._prewarm_all_stages:
            application = self._catalog.applications[queue.application]
            if queue.stage == application.root:
                nodes = self._state.open_nodes()
                for stage in application.stages.values():
                    self._spread(stage.function, nodes, now_us)
            return
        function = self._functions[queue.name]
        load_us = expected_load_us(self._state, function, again=False)
        start_us = now_us + queue.arrivals.average_us - load_us
        if start_us > now_us:
            queue.warm_at_us = start_us
            self._waiting[queue.name] = queue
            self.next_us = self._first_us()
        else:
            self._warm(queue, function, now_us)

    def _first_us(self) -> int:
        return min([queue.warm_at_us for queue in self._waiting.values()], default=NEVER_US)

    def run_due(self, now_us: int) -> None:
        """Begin loading what must be begun by now."""
        for queue in self._state.queues.values():  # in an order that a restored state has, too
            if queue.warm_at_us <= now_us:
                self._warm(queue, self._functions[queue.name], now_us)

    def _warm(self, queue: Queue, function: Function, now_us: int) -> None:
        """Load as many instances as are predicted to be missing, nearest to home first."""
        if queue.warm_at_us < NEVER_US:
            queue.warm_at_us = NEVER_US
            del self._waiting[queue.name]
            self.next_us = self._first_us()
        nodes = self._state.open_nodes()
        missing = self._wanted(function) - _count(nodes, function)
        if missing <= 0:
            return
        for node in self._nearest(queue):
            missing -= self._load_on(node, function, missing, now_us)
            if missing <= 0:
                return

    def _spread(self, function: Function, nodes: IndexedNodes, now_us: int) -> None:
        """Load as many instances as are foreseen, each on the node that has fewest of them."""
        missing = self._foreseen(function) - _count(nodes, function)
        while missing > 0:
            kinds = function.profile.kinds
            node = nodes.fewest_instances(function.name, function.memory_mb, kinds)
            if node is None:
                return
            missing -= self._load_on(node, function, 1, now_us)

    def _foreseen(self, function: Function) -> int:
        """What every call of an application will ask of this function, with headroom; one at least,
        for the call that has just come."""
        work = 0
        for _, root, service_us in self._demands[function.name]:
            if root.arrivals.average_us:
                work -= -HEADROOM * service_us // root.arrivals.average_us
        return max(1, work)

    def _load_on(self, node: NodeBooks, function: Function, count: int, now_us: int) -> int:
        """Load instances, on those slices first that have the fewest models: a slice runs one task
        at a time, so models that share it wait for each other."""
        loaded = 0
        emptiest = sorted(enumerate(node.slices), key=lambda one: (len(one[1].residents), one[0]))
        for index, part in emptiest:
            if loaded == count:
                break
            known = part.kind in function.profile.kinds
            if known and part.can_load(function.name, function.memory_mb):
                node.load(index, function.name, function.memory_mb, now_us)
                self._emit(WarmInstance(invoker=node.invoker, slice=index, function=function.name))
                loaded += 1
        return loaded

    def _wanted(self, function: Function) -> int:
        """Instances that the predicted calls keep busy, at least one for each of its queues whose
        interval is known."""
        wanted = 0
        for queue, _, service_us in self._demands[function.name]:
            if queue.arrivals.average_us:
                wanted -= -service_us // queue.arrivals.average_us
        return wanted

    def _nearest(self, queue: Queue) -> list[NodeBooks]:
        """The nodes with slices that have not got the model. Data stays near the home of the
        application's first stage, and so should models."""
        root = self._catalog.applications[queue.application].root
        function = self._functions[queue.name].name
        nodes = self._state.open_nodes()
        ranked = [nodes[name] for name in homes(queue_name(queue.application, root), nodes)]
        return [node for node in ranked if node.instances.get(function, 0) < len(node.slices)]


def _count(nodes: IndexedNodes, function: Function) -> int:
    """How many instances there are."""
    return nodes.count_instances(function.name, function.memory_mb, function.profile.kinds)
