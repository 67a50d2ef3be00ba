"""The worth of a model on a slice: how much loading it saves there, per second and megabyte.

When memory is short, what goes is what is least likely to be missed, and soonest loaded again
(greedy-dual eviction, by frequency, cost and size), not what has not been used for longest: a model
that takes twenty seconds to load and is called every minute is worth more than one that takes three
and has just been used.

    worth = time to load it again x calls per second / instances / memory

It is loaded from the memory of the node that has had it, which is faster than from disk. A call
comes once per average interval; once it is overdue, as seldom as it has not come. Of many instances
one more or less matters little.
"""

from esg.core.catalog.model import Catalog, Function
from esg.core.estimation.load_times import expected_load_us
from esg.core.state.state import Queue, State
from esg.names import queue_name
from esg.units import US_PER_S


class ModelWorth:
    """The worth of every function's model, by what its queues have seen."""

    def __init__(self, catalog: Catalog, state: State) -> None:
        self._functions = catalog.functions
        self._state = state
        self._queues: dict[str, list[Queue]] = {name: [] for name in catalog.functions}
        for application in catalog.applications.values():
            for stage in application.stages.values():
                queue = state.queues[queue_name(application.name, stage.name)]
                self._queues[stage.function.name].append(queue)

    def of(self, name: str) -> float:
        """In microseconds of loading per second and megabyte; nothing of what is not known."""
        function = self._functions.get(name)
        if function is None:
            return 0.0
        load_us = expected_load_us(self._state, function, again=True)
        calls_per_s = sum(map(self._calls_per_s, self._queues[name]))
        return load_us * calls_per_s / self._instances(function) / function.memory_mb

    def _calls_per_s(self, queue: Queue) -> float:
        seen = queue.arrivals
        if seen.latest_us < 0:
            return 0.0
        silent_us = self._state.now_us - seen.latest_us
        return US_PER_S / max(1, seen.average_us, silent_us)

    def _instances(self, function: Function) -> int:
        nodes, kinds = self._state.open_nodes(), function.profile.kinds
        return max(1, nodes.count_instances(function.name, function.memory_mb, kinds))
