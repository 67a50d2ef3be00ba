"""The health of nodes and slices: what speaks against giving them work, and for how long.

Everything that does is one of these, each a circuit breaker that opens and closes by itself:

    what                  kept in                  opened by               closed
    a node drains         NodeHealth.draining      InvokerLeaving          when it joins anew
    a node is             NodeHealth.quarantined   `quarantine`: it is     after ten seconds
      quarantined                                  slow, or fails what
                                                   others can do
    a slice is lost       SliceBooks.usable        a node's inventory      by an inventory
    a model does not      SliceBooks.failed_loads  `quarantine`            after a while, twice as
      load on a slice                                                      long for every failure
    a job fails on        StageRun.failed_on       `retries`               when its stage is done
      a node

A draining node and a lost slice get no work at all, and a slice no model that does not load there.
A quarantined node, and one where a job has failed, come last: they get work while no other node has
room for it, but for jobs that have failed there again (`candidates`).
"""

from msgspec import field

from esg.core.messages.codec import Record
from esg.units import NEVER_US


class NodeHealth(Record):
    """What is known about nodes, by invoker; only of nodes that are there."""

    draining: list[str] = field(default_factory=list)  # they want no new work
    quarantined: dict[str, int] = field(default_factory=dict)  # until when
    pace_ppm: dict[str, int] = field(default_factory=dict)  # averages; see `estimation`
    reload_at_us: int = NEVER_US  # when the next model may be tried again where it did not load

    def forget(self, invoker: str) -> None:
        """A node is gone; if it comes back, it begins anew."""
        self.pace_ppm.pop(invoker, None)
        self.quarantined.pop(invoker, None)
        self.keep(invoker)

    def keep(self, invoker: str) -> None:
        """A node is not draining, or not any more."""
        if invoker in self.draining:
            self.draining.remove(invoker)


class FailedLoads(Record):
    """How often in a row a function's model could not be loaded on a slice, and until when that is
    not tried again; 0 if it may be."""

    count: int = 0
    until_us: int = 0
