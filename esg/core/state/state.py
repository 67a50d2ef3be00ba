"""The state: all that a scheduler remembers, as plain values that can be written and read back.

Nothing outside the records of this package is memory; engines and policies
are functions of it. References between records are by name, never by object, so a snapshot is a
tree and a restored state equals the one that was saved.
"""

from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from itertools import chain
from typing import ClassVar, NamedTuple

from msgspec import field

from esg.core.catalog.config import Config
from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.codec import Message, Record
from esg.core.messages.commands import StageReport
from esg.core.messages.events import ApplicationRegistered, Correction
from esg.core.messages.task_order import TaskOrder
from esg.core.search.plan import Step
from esg.core.state.health import NodeHealth
from esg.core.state.indexed_nodes import IndexedNodes, NodeIndex
from esg.core.state.node_books import NodeBooks
from esg.units import NEVER_US, PPM


class Phase(StrEnum):
    """Where one job is: exactly one of these at any time."""

    BLOCKED = "blocked"  # waits for earlier stages
    RESTING = "resting"  # has failed, and waits for a moment
    QUEUED = "queued"  # in its AFW queue
    RUNNING = "running"  # in a task
    DONE = "done"


BLOCKED, RESTING, QUEUED, RUNNING, DONE = Phase  # quicker to look up than through their class


class StageRun(Record):
    """One request's work at one stage."""

    phase: Phase = Phase.BLOCKED
    ready_us: int = 0
    task: str = ""
    attempts: int = 0
    failed_on: tuple[str, ...] = ()  # invokers, each as often as it has
    planned: tuple[Step, ...] = ()
    keeper: str = ""  # the invoker that keeps the output, once done
    published: bool = False
    report: StageReport | None = None


class Request(Record):
    """An admitted request, until it is answered."""

    name: str
    application: str
    number: int
    arrived_us: int
    deadline_us: int
    runs: dict[str, StageRun]
    client: str = ""  # whose share it is given vGPU time from
    all_stages: bool = False  # what every stage makes is part of the result
    cost_pusd: int = 0
    kept_on: list[str] = field(default_factory=list)  # every invoker that was left something


class Job(Record):
    """A queued piece of work, as policies see it. `planned` are the steps that the plan of the
    stage before it foresaw, from this stage on, if that plan travels
    (`policies.interface.Offer`)."""

    request: str
    number: int
    ready_us: int
    deadline_us: int
    planned: tuple[Step, ...] = ()
    client: str = ""


class Handover(NamedTuple):
    """When a task in phases is expected to need something no longer (see `handovers`)."""

    at_us: int
    task: str


class Rest(Record):
    """A job that waits for a moment before it is tried again."""

    request: str
    stage: str
    until_us: int


class IntervalEstimate(Record):
    """How often something happens, from when it did (see `estimation.ewma.observe_interval`)."""

    latest_us: int = -1  # when it happened last; below 0 if it never has
    together: int = 0  # how often at that very instant: jobs of a batch go on together
    average_us: int = 0  # the moving average of the time in between; 0 while it is not known


class Queue(Record):
    """The AFW queue of one stage of one application; jobs in the order in which they go.

    The jobs of a client stand together, its *lane*, in the order of their requests; `lanes` says
    how many each has, the first lane first. A queue is *blocked* while it is on the recheck list:
    none of its plans fitted anywhere.
    """

    name: str
    application: str
    stage: str
    jobs: list[Job] = field(default_factory=list)
    lanes: dict[str, int] = field(default_factory=dict)  # by client; none is empty
    visit: int = 0
    hold_until_us: int = 0
    blocked: bool = False
    rounds: int = 0
    releases_seen: int = 0
    retry_at_us: int = NEVER_US
    arrivals: IntervalEstimate = field(default_factory=IntervalEstimate)  # of jobs
    warm_at_us: int = NEVER_US
    drop_at_us: int = NEVER_US  # when the first job may be past saving; see `admission`
    pace_ppm: int = PPM  # what tasks take over what their profile says, in millionths
    spread_ppm: int = -1  # how far from that they are on average; below 0 while nothing is known
    runs_seen: int = 0  # how many tasks that was learnt from
    remote_us: int = 0  # what inputs from other nodes add; 0 while nothing is known

    def wake_us(self) -> int:
        """When its jobs are to be looked at again, while it has some."""
        return min(self.retry_at_us if self.blocked else self.hold_until_us, self.drop_at_us)

    def leave_recheck_list(self) -> None:
        self.blocked = False
        self.rounds = 0
        self.retry_at_us = NEVER_US

    def put(self, job: Job) -> None:
        """Give a job its place in its client's lane; a new lane is the last."""
        if not self.jobs:  # most often
            self.jobs.append(job)
            self.lanes[job.client] = 1
            return
        start, end = self._lane(job.client)
        place = end
        if start < end and self.jobs[end - 1].number > job.number:
            place = self._place(job.number, start, end)
        self.jobs.insert(place, job)
        self.lanes[job.client] = end - start + 1

    def remove(self, client: str, number: int) -> None:
        """Take the job of this request out."""
        del self.jobs[self._place(number, *self._lane(client))]
        self._shorten(client)

    def take(self, count: int, picks: Sequence[int] = ()) -> list[Job]:
        """Take so many jobs out: those at these places, or else the first."""
        jobs = self.jobs
        if count >= len(jobs) and not picks:  # most often
            self.jobs = []
            self.lanes.clear()
            return jobs
        if picks:
            taken = [*map(jobs.__getitem__, picks[:count])]
            for place in sorted(picks[:count], reverse=True):
                del jobs[place]
        else:
            taken = jobs[:count]
            del jobs[:count]
        for job in taken:
            self._shorten(job.client)
        return taken

    def arrange(self, clients: Sequence[str]) -> None:
        """Let the lanes stand in this order."""
        if clients != [*self.lanes]:
            lanes = {client: self.jobs[slice(*self._lane(client))] for client in clients}
            self.jobs = [*chain.from_iterable(lanes.values())]
            self.lanes = {client: len(lane) for client, lane in lanes.items()}

    def _lane(self, client: str) -> tuple[int, int]:
        """Where a client's lane begins and ends, or would."""
        start = 0
        for other, count in self.lanes.items():
            if other == client:
                return start, start + count
            start += count
        return start, start

    def _place(self, number: int, start: int, end: int) -> int:
        return bisect_left(self.jobs, number, start, end, key=lambda job: job.number)

    def _shorten(self, client: str) -> None:
        self.lanes[client] -= 1
        if not self.lanes[client]:
            del self.lanes[client]


class Task(Record):
    """A batch of jobs that runs on a node; without requests, one that was found there."""

    name: str
    number: int
    invoker: str
    application: str
    stage: str
    config: Config
    slices: tuple[int, ...]
    requests: tuple[str, ...]
    started_us: int
    remote: int = 0  # inputs that come from other nodes
    vcpus_back: int = 0  # of those that its config has, given back before its end
    prepared_us: int = 0  # when its first phase is expected to end; 0 if it has none
    slices_us: int = 0  # how long it is expected to be on its slices
    leaves_us: int = 0  # when it is expected to leave them
    then: TaskOrder | None = None  # its standing order
    recalled: bool = False  # it was; the node may have gone on before it heard of that


class Share(Record):
    """How many requests somebody has under way, and the vGPU time that they were given (see
    `shares`)."""

    under_way: int = 0
    vgpu_time_used_us: int = 0


class Traffic(Share):
    """A client's requests for one application, all of its versions; and how often they have been
    answered lately while others of them waited (see `admission`)."""

    answers: IntervalEstimate = field(default_factory=IntervalEstimate)
    backlogged: bool = False  # others were waiting at the latest answer
    counted: int = 0  # how many answers the mean is of
    counted_us: int = 0  # and how long they took, one after the other


class Client(Share):
    """All requests of one client, by the plain names of their applications."""

    traffic: dict[str, Traffic] = field(default_factory=dict)


class ApplicationVersions(Message, frozen=True):
    """How an application that changed at run time stands: its latest version, and whether that
    is still to be had."""

    version: int
    retired: bool = False


class Registrations(Message, frozen=True):
    """What changed about the applications since the catalog was read (see `registry`).

    `versions` are those that are in force or in use, by their versioned names. Never changed in
    place: a new one takes its place.
    """

    standings: dict[str, ApplicationVersions] = field(default_factory=dict)
    versions: dict[str, ApplicationRegistered] = field(default_factory=dict)


class Measured(Record):
    """What the latest tasks of one function took with one batch size on one kind of slices, in
    millionths of their profile, the newest last; and how many there were in all."""

    batch: int
    tasks: int = 0
    latest_us: int = 0
    paces_ppm: list[int] = field(default_factory=list)
    kind: str = USUAL

    @property
    def of(self) -> tuple[int, str]:
        """What it is about."""
        return self.batch, self.kind


class State(Record, dict=True, gc=True):
    """The whole memory of one scheduler."""

    _everywhere: ClassVar[IndexedNodes | None] = None  # made when it is needed, not written down

    now_us: int = 0
    tasks_started: int = 0
    requests_admitted: int = 0
    visits: int = 0
    releases: int = 0
    requests: dict[str, Request] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    nodes: dict[str, NodeBooks] = field(default_factory=dict)
    clients: dict[str, Client] = field(default_factory=dict)  # all are "" where nobody has a name
    standing: dict[str, None] = field(default_factory=dict)  # tasks with an order not recalled
    resting: list[Rest] = field(default_factory=list)
    handovers: list[Handover] = field(default_factory=list)  # a heap
    health: NodeHealth = field(default_factory=NodeHealth)
    registrations: Registrations = field(default_factory=Registrations)
    measured: dict[str, list[Measured]] = field(default_factory=dict)  # by function
    corrections: tuple[Correction, ...] = ()  # in force: plans go by them
    corrected_us: int = 0  # when corrections were last ordered
    cold_starts_us: dict[str, int] = field(default_factory=dict)  # measured, by function
    reloads_us: dict[str, int] = field(default_factory=dict)  # on nodes that had it before

    def open_nodes(self) -> IndexedNodes:
        """The nodes that may be given work: all but those that drain."""
        everywhere = self._everywhere
        if everywhere is None or everywhere.index.nodes is not self.nodes:
            everywhere = IndexedNodes(NodeIndex(self.nodes, watch=True))
            self.__dict__["_everywhere"] = everywhere
        draining = self.health.draining
        return everywhere.without(draining) if draining else everywhere

    def new_task(self) -> int:
        """The number of the next task: the one after the last, but none that a node says it runs
        without having been told to."""
        self.tasks_started += 1
        while f"t{self.tasks_started}" in self.tasks:
            self.tasks_started += 1
        return self.tasks_started

    def add_node(self, node: NodeBooks) -> None:
        self.nodes[node.invoker] = node
        self.__dict__.pop("_everywhere", None)

    def remove_node(self, invoker: str) -> None:
        del self.nodes[invoker]
        self.__dict__.pop("_everywhere", None)
