"""Cases for Apex. A vCPU costs one picodollar per microsecond and a vGPU ten."""

from esg.core.catalog.model import Catalog
from esg.core.policies.apex.features import left_out
from esg.core.policies.apex.policy import Apex, BatchPlansCache
from esg.core.policies.interface import Hold, Offer, QueueView
from esg.core.state.node_books import NodeBooks
from tests.support.policy_cases import (
    make_node,
)

LEAN_AND_FAST = {(1, 1, 1): 100, (1, 2, 1): 95}
"""One vCPU is cheaper: 100 x 11 against 95 x 12."""


PAIRS = {(1, 1, 1): 100, (2, 1, 1): 120}
"""Alone a job pays 1100, as one of two 660 (in thousands of picodollars)."""


def apex(catalog: Catalog, *without: str) -> Apex:
    return Apex(catalog, BatchPlansCache(), without=left_out(without))


def offered(catalog: Catalog, one: QueueView, *without: str) -> Offer:
    decision = apex(catalog, *without).decide(one)
    assert isinstance(decision, Offer)
    return decision


def held_until_ms(catalog: Catalog, one: QueueView, *without: str) -> float | None:
    decision = apex(catalog, *without).decide(one)
    return decision.until_us / 1000 if isinstance(decision, Hold) else None


def trusted(one: QueueView) -> QueueView:
    """The same, where all stages have been seen often and take what their profiles say."""
    for queue in one.state.queues.values():
        queue.runs_seen = 1_000_000
    return one


def warm(name: str, *, vcpus: int = 4, vgpus: int = 2, function: str = "a") -> NodeBooks:
    node = make_node(name, vcpus=vcpus, vgpus=vgpus)
    for index in range(vgpus):
        node.load(index, function, 100, 0, ready=True)
    return node
