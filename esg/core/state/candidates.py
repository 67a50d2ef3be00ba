"""Candidate nodes of a job: which are preferred, and which are eligible at all, given their health
and where the job has failed before."""

from collections.abc import Sequence

from esg.core.catalog.model import Function
from esg.core.state.indexed_nodes import IndexedNodes
from esg.core.state.node_books import SliceBooks
from esg.core.state.state import State

FAILURES_ON_ONE_NODE = 2
"""So often may a job fail on one node, while there are others that could run it. One failure may be
bad luck; a second means that something is wrong with the node for this job, and a node that fails
fast, and so is always free, must not use up all of a job's attempts. So it is less than
`SchedulerSettings.max_attempts` is by default."""


def could_run(function: Function, part: SliceBooks) -> bool:
    """Whether a slice is in order, large enough, and of a kind that the profile knows."""
    return (
        part.usable and part.memory_mb >= function.memory_mb and part.kind in function.profile.kinds
    )


def preferred_nodes(state: State, failed_on: Sequence[str]) -> IndexedNodes | None:
    """The nodes to try first for a job, if there are any that had better not be."""
    nodes = state.open_nodes()
    better = nodes.without([*state.health.quarantined, *failed_on])
    return better if 0 < len(better) < len(nodes) else None


def eligible_nodes(state: State, failed_on: Sequence[str], function: Function) -> IndexedNodes:
    """The nodes that come into question for a job at all: all that are open, but not those where it
    has failed too often, while there are others that could ever run it."""
    nodes = state.open_nodes()
    ruled_out = [name for name in failed_on if failed_on.count(name) >= FAILURES_ON_ONE_NODE]
    if not ruled_out:
        return nodes
    left = nodes.without(ruled_out)
    able = any(
        could_run(function, part) and not part.quarantines(function.name)
        for node in left.values()
        for part in node.slices
    )
    return left if able else nodes
