"""Which nodes come into question for a job, given where it has failed before."""

from collections.abc import Mapping

from esg.core.catalog.model import Function
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Job, State


def rather_elsewhere(state: State, job: Job) -> Mapping[str, NodeBooks] | None:
    """The nodes to try first for a job, if there are any that had better not be."""
    nodes = state.open_nodes()
    better = {n: s for n, s in nodes.items() if n not in state.slow and n not in job.avoid}
    return better if 0 < len(better) < len(nodes) else None


def not_a_third_time(state: State, job: Job, function: Function) -> Mapping[str, NodeBooks]:
    """The nodes that come into question for a job at all: all that are open, but not those where it
    has failed twice, while there are others that could ever run it."""
    nodes = state.open_nodes()
    if len(set(job.avoid)) == len(job.avoid):
        return nodes
    left = {name: node for name, node in nodes.items() if job.avoid.count(name) < 2}
    able = any(
        part.usable and part.memory_mb >= function.memory_mb and not part.quarantines(function.name)
        for node in left.values()
        for part in node.slices
    )
    return left if able else nodes
