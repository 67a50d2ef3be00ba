"""ESG_Dispatch: which invoker runs a task (paper, section of that name).

    1. a first stage goes to its home invoker, a later one to the invoker that keeps its inputs;
    2. if there is no room, to another invoker where enough free slices have the model loaded;
    3. if there is none, to the cold invoker with the most free resources.

The home is found by rendezvous hashing: every invoker draws a number for the queue and the highest
wins, so that only the queues of a node that comes or goes move. Ties everywhere are decided by
name.

Caveat, as in the paper: step 1 asks for room, not for warmth; keeping the home and the predecessor
warm is the pre-warmer's task.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b

from esg.core.catalog.model import plain_name
from esg.core.catalog.profile import Config
from esg.core.policies.interface import Case, Offer, Placement
from esg.core.search.plan import Plan
from esg.core.state.node_books import Seat
from esg.core.state.state import queue_name


@lru_cache(maxsize=65536)
def _draw(queue: str, invoker: str) -> int:
    # every version of an application is at home where its models are
    application, _, stage = queue.partition("/")
    queue = queue_name(plain_name(application), stage)
    return int.from_bytes(blake2b(f"{queue}@{invoker}".encode(), digest_size=8).digest())


def ranked_homes(queue: str, invokers: Iterable[str]) -> list[str]:
    """All invokers, the queue's home first, then where it would go if that were gone.

    >>> homes = ranked_homes("app/stage", ["i0", "i1", "i2"])
    >>> ranked_homes("app/stage", [i for i in homes if i != homes[0]]) == homes[1:]
    True
    """
    return sorted(invokers, key=lambda invoker: (-_draw(queue, invoker), invoker))


@lru_cache(maxsize=4096)
def home(queue: str, invokers: tuple[str, ...]) -> str:
    """The home invoker of a queue."""
    return max(invokers, key=lambda invoker: (_draw(queue, invoker), invoker))


def locality_first(case: Case, offer: Offer, seats: Mapping[str, Seat]) -> Placement | None:
    """The first plan that fits somewhere, at the best place for it."""
    if not seats:
        return None
    homes = [] if case.stage.after else [home(case.queue.name, tuple(seats))]
    for plan in offer.plans:
        near = homes or case.keepers(plan.config.batch)
        placement = _placement(case, plan, near, seats)
        if placement is not None:
            return placement
    return None


def anywhere(case: Case, offer: Offer, seats: Mapping[str, Seat]) -> Placement | None:
    """The same without its first step: warm invokers, then cold ones, wherever the data is."""
    for plan in offer.plans:
        placement = _placement(case, plan, (), seats)
        if placement is not None:
            return placement
    return None


def _placement(
    case: Case, plan: Plan, near: Iterable[str], seats: Mapping[str, Seat]
) -> Placement | None:
    function, (_, vcpus, vgpus) = case.stage.function, plan.config
    for invoker in near:
        seat = seats.get(invoker)
        if seat is not None and seat.vcpus_free >= vcpus and seat.vgpus_free >= vgpus:
            slices = seat.pick(function.name, function.memory_mb, vgpus)
            if slices is not None:
                return Placement(plan, seat, slices)
    able = _roomiest_first(seats, vcpus, vgpus)
    for seat in able:
        warm = seat.warm_free(function.name, vgpus)
        if len(warm) == vgpus:
            return Placement(plan, seat, warm)
    for seat in able:
        slices = seat.pick(function.name, function.memory_mb, vgpus)
        if slices is not None:
            return Placement(plan, seat, slices)
    return None


def _roomiest_first(seats: Mapping[str, Seat], vcpus: int, vgpus: int) -> list[Seat]:
    """Those with so much room: the one with the most free vGPUs first, then vCPUs."""
    able = [
        (-seat.vgpus_free, -seat.vcpus_free, name)
        for name, seat in seats.items()
        if seat.vcpus_free >= vcpus and seat.vgpus_free >= vgpus
    ]
    return [seats[name] for _, _, name in sorted(able)]


def can_take(seat: Seat, config: Config, function: str, memory_mb: int) -> bool:
    """Room for the config, and slices with memory for the model."""
    return seat.fits(config) and seat.pick(function, memory_mb, config.vgpus) is not None
