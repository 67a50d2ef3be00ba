"""Which nodes come into question for a job, given where it has failed before."""

from collections.abc import Mapping

from esg.core.catalog.model import Function
from esg.core.state.node_books import Seat
from esg.core.state.state import Job, State


def rather_elsewhere(state: State, job: Job) -> Mapping[str, Seat] | None:
    """The nodes to try first for a job, if there are any that had better not be."""
    seats = state.open_seats()
    better = {n: s for n, s in seats.items() if n not in state.slow and n not in job.avoid}
    return better if 0 < len(better) < len(seats) else None


def not_a_third_time(state: State, job: Job, function: Function) -> Mapping[str, Seat]:
    """The nodes that come into question for a job at all: all that are open, but not those where it
    has failed twice, while there are others that could ever run it."""
    seats = state.open_seats()
    if len(set(job.avoid)) == len(job.avoid):
        return seats
    left = {name: seat for name, seat in seats.items() if job.avoid.count(name) < 2}
    able = any(
        part.usable and part.memory_mb >= function.memory_mb and not part.spares(function.name)
        for seat in left.values()
        for part in seat.slices
    )
    return left if able else seats
