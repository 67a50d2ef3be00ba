"""The policy interface: what a policy is shown, and what it decides.

A policy answers three questions: in what order are the queues visited, what is offered for a queue
(plans, best first, or a time until which to hold it), and which plan goes to which invoker. It is
a function of what it is shown and remembers nothing itself: what must be remembered from one stage
to the next travels with the jobs (`Job.planned`, if `Offer.travels`), so that a snapshot of the
state is enough.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, final

from msgspec import Struct

from esg.core.catalog.model import Application, Stage
from esg.core.search.plan import Plan
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Job, Queue, Request, State


class QueueView(Struct, gc=False):
    """One AFW queue with work in it, at one moment. To look at, not to change."""

    now_us: int
    application: Application
    stage: Stage
    queue: Queue
    state: State

    @property
    def jobs(self) -> Sequence[Job]:
        """In the order in which they go: those of a client, oldest request first (`Queue`). Never
        empty."""
        return self.queue.jobs

    @property
    def requests(self) -> Mapping[str, Request]:
        return self.state.requests

    @property
    def slo_us(self) -> int:
        """The end-to-end SLO of the first job's request."""
        request = self.requests[self.queue.jobs[0].request]
        return request.deadline_us - request.arrived_us

    def left_us(self, count: int | None = None) -> int:
        """The time to the nearest deadline among the first jobs: as many as could go together."""
        jobs = self.queue.jobs
        if len(jobs) == 1:
            return jobs[0].deadline_us - self.now_us
        batch = self.stage.function.profile.max_batch if count is None else count
        return min([job.deadline_us for job in jobs[:batch]]) - self.now_us

    def keepers(self, batch: int) -> list[str]:
        """The invokers that keep inputs of the first `batch` jobs, most inputs first."""
        return self.keepers_of(self.queue.jobs[:batch])

    def keepers_of(self, jobs: Sequence[Job]) -> list[str]:
        """The invokers that keep inputs of these jobs, most inputs first."""
        counts: dict[str, int] = {}
        requests, after = self.state.requests, self.stage.after
        if len(after) == 1 and len(jobs) == 1:  # most often
            return [requests[jobs[0].request].runs[after[0]].keeper]
        for job in jobs:
            runs = requests[job.request].runs
            for before in after:
                keeper = runs[before].keeper
                counts[keeper] = counts.get(keeper, 0) + 1
        return sorted(counts, key=counts.__getitem__, reverse=True) if counts else []

    def failed_on(self, job: Job) -> tuple[str, ...]:
        """The invokers where one of the jobs has failed before, each as often as it has."""
        return self.state.requests[job.request].runs[self.stage.name].failed_on


class Offer(Struct, gc=False):
    """Plans for the current queue, best first.

    `effort` is what they took to find. `missed` says that a plan made at an earlier stage could
    not be followed, because fewer jobs are waiting than its batch needs. `picks` are the places in
    the queue of the jobs that the plans are for, in the order in which a batch takes them; without
    any, it takes the first. `travels` says that later stages are to find the rest of the plan
    with the jobs (`Job.planned`). `stands` says that a node may go on with the rest of a plan by
    itself (see `scheduler.standing_orders`) while there is this many times the time left that
    profiles say it takes; 0 is never: every stage is decided by itself.
    """

    plans: Sequence[Plan]
    effort: int = 0
    missed: bool = False
    picks: tuple[int, ...] = ()
    travels: bool = False
    stands: float = 0.0

    def first(self, jobs: Sequence[Job]) -> Job:
        """The job of a queue that goes in any case."""
        return jobs[self.picks[0] if self.picks else 0]


@final
class Hold(Struct, gc=False):
    """Wait for more jobs, at most until then (strictly later than now)."""

    until_us: int


class Placement(Struct, gc=False):
    """A plan and where it goes: on these slices, if they were found already (`NodeBooks.pick`)."""

    plan: Plan
    node: NodeBooks
    slices: list[int] | None = None


class Policy(Protocol):
    """A policy. `policies/esg.py` is the first implementation and the example to follow.

    `search_steps_per_ms` says how much of its effort takes a millisecond: how an emulator turns
    `Offer.effort`, which is counted, into time. Measure it (`make bench`), do not guess.
    `prewarm_all_stages` says whether models are loaded for all stages of an application that is
    called, or for each stage as calls get to it (see `prewarming`).
    """

    search_steps_per_ms: int
    prewarm_all_stages: bool

    def order(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        """The queues with work, in the order in which they are visited."""
        ...

    def decide(self, view: QueueView) -> Offer | Hold:
        """What to do with a queue."""
        ...

    def place(
        self, view: QueueView, offer: Offer, nodes: Mapping[str, NodeBooks]
    ) -> Placement | None:
        """One of the plans and an invoker that has room for it, or None."""
        ...
