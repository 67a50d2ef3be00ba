"""ESG_Dispatch: which invoker runs a task (paper, section of that name).

    1. a first stage goes to its home invoker, a later one to the invoker that keeps its inputs;
    2. if there is no room, to another invoker where enough free slices have the model loaded;
    3. if there is none, to the cold invoker with the most free resources.

The home is found by rendezvous hashing: every invoker draws a number for the queue and the highest
wins, so that only the queues of a node that comes or goes move. Ties everywhere are decided by
name.

Caveat, as in the paper: step 1 asks for room, not for a warm model; keeping the home and the
predecessor warm is the pre-warmer's task.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from hashlib import blake2b

from esg.core.catalog.config import Config
from esg.core.policies.interface import Offer, Placement, QueueView
from esg.core.search.plan import Plan
from esg.core.state.indexed_nodes import IndexedNodes
from esg.core.state.node_books import NodeBooks
from esg.names import BETWEEN, plain_name, queue_name


@lru_cache(maxsize=65536)
def _draw(queue: str, invoker: str) -> int:
    # every version of an application is at home where its models are
    application, _, stage = queue.partition(BETWEEN)
    queue = queue_name(plain_name(application), stage)
    return int.from_bytes(blake2b(f"{queue}@{invoker}".encode(), digest_size=8).digest())


def ranked_homes(queue: str, invokers: Iterable[str]) -> list[str]:
    """All invokers, the queue's home first, then where it would go if that were gone.

    >>> homes = ranked_homes("app/stage", ["i0", "i1", "i2"])
    >>> ranked_homes("app/stage", [i for i in homes if i != homes[0]]) == homes[1:]
    True
    """
    return sorted(invokers, key=lambda invoker: (-_draw(queue, invoker), invoker))


def homes(queue: str, invokers: Iterable[str]) -> Iterator[str]:
    """The same one by one; of nodes that are indexed they are worked out once."""
    order = partial(ranked_homes, queue)
    if isinstance(invokers, IndexedNodes):
        return invokers.ordered(queue, order)
    return iter(order(invokers))


def home(queue: str, invokers: Iterable[str]) -> str:
    """The home invoker of a queue."""
    return next(homes(queue, invokers))


def locality_first(
    view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
) -> Placement | None:
    """The first plan that fits somewhere, at the best place for it."""
    if not nodes:
        return None
    first = [] if view.stage.after else [home(view.queue.name, nodes)]
    for plan in offer.plans:
        near = first or view.keepers(plan.config.batch)
        placement = _placement(view, plan, near, nodes)
        if placement is not None:
            return placement
    return None


def anywhere(view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]) -> Placement | None:
    """`locality_first` without its first step: warm invokers, then cold ones, wherever the data
    is."""
    for plan in offer.plans:
        placement = _placement(view, plan, (), nodes)
        if placement is not None:
            return placement
    return None


def _placement(
    view: QueueView, plan: Plan, near: Iterable[str], nodes: Mapping[str, NodeBooks]
) -> Placement | None:
    function, (_, vcpus, vgpus, kind) = view.stage.function, plan.config
    for invoker in near:
        node = nodes.get(invoker)
        if node is not None and node.has_free(vcpus, vgpus, kind):
            slices = node.pick(function.name, function.memory_mb, vgpus, kind)
            if slices is not None:
                return Placement(plan, node, slices)
    indexed = IndexedNodes.of(nodes)
    for node in indexed.roomiest_first(vcpus, vgpus, kind):
        warm = node.warm_free(function.name, vgpus, kind)
        if len(warm) == vgpus:
            return Placement(plan, node, warm)
    for node in indexed.roomiest_first(vcpus, vgpus, kind):
        slices = node.pick(function.name, function.memory_mb, vgpus, kind)
        if slices is not None:
            return Placement(plan, node, slices)
    return None


def can_take(node: NodeBooks, config: Config, function: str, memory_mb: int) -> bool:
    """Room for the config, and slices with memory for the model."""
    slices = config.vgpus, config.kind
    return node.fits(config) and node.pick(function, memory_mb, *slices) is not None
