"""The scheduler, a deterministic state machine: events in with their time, commands out.

    handle(now, event) -> [command, ...]        next_wake -> when to call again if nothing happens

A scheduler has one door and one alarm. It reads no clock and does nothing itself; its driver (the
live controller, the emulator, a replay) carries its orders out and tells it what came of them.
The same events at the same times give the same orders, always.

What happens to a request, in order: `admission` lets it in or not, `lifecycle` queues its jobs,
`dispatch` visits the queues and starts tasks where the policy says, `prewarming` loads models ahead
of time; `tasks` and `nodes` let what comes back change the books. What went wrong is tried again
(`retries`), and not where it would go wrong again (`quarantine`). When applications come or go
(`registry`), or profiles turn out to be wrong (`drift`), all of them are built anew around the same
memory.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from esg.core.catalog.model import Application, Catalog, with_tasks
from esg.core.catalog.on_kinds import OnKinds, runs_nowhere
from esg.core.estimation.corrected import corrected
from esg.core.estimation.stage_speed import forget_pace
from esg.core.messages.codec import decode, encode
from esg.core.messages.commands import (
    AcceptApplication,
    Command,
    RefusalKind,
    RefuseApplication,
    RefuseRequest,
)
from esg.core.messages.events import (
    ApplicationChange,
    ApplicationRegistered,
    ApplicationRetired,
    Correction,
    Event,
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    InvokerLeaving,
    InvokerLost,
    InvokerReported,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
    RequestWanted,
    TaskFailed,
    TaskFinished,
    Woke,
)
from esg.core.messages.outcome import Outcome
from esg.core.policies.interface import Policy
from esg.core.policies.table import policy_maker
from esg.core.scheduler.admission import AdmissionControl, Rejection
from esg.core.scheduler.books import Books
from esg.core.scheduler.dispatch import Dispatcher
from esg.core.scheduler.handovers import Handovers
from esg.core.scheduler.lifecycle import Lifecycle
from esg.core.scheduler.nodes import Nodes
from esg.core.scheduler.prewarming import PreWarmer
from esg.core.scheduler.quarantine import Quarantine
from esg.core.scheduler.registry import Registry, check_slo, slo_rejection
from esg.core.scheduler.retries import Retries
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.scheduler.shares import Shares
from esg.core.scheduler.standing_orders import StandingOrders
from esg.core.scheduler.tasks import Tasks
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import State
from esg.errors import Bug, Rejected
from esg.suggest import did_you_mean
from esg.units import NEVER_US

NODES_COME_AND_GO = (InvokerJoined, InvokerLeaving, InvokerLost)
"""Events after which slices may be of other kinds."""

TASKS_AHEAD = 1_000_000
"""Far more tasks than can be ordered before a journal is on disk."""


@dataclass(frozen=True, slots=True)
class PlanningBasis:
    """What decisions stand on: the catalog with what it says of the kinds of slices that there are,
    with some corrections as it is planned with, and the policy made for that. `whole` is the
    catalog with all that it says of slices."""

    whole: Catalog
    kinds: frozenset[str]
    catalog: Catalog
    corrections: tuple[Correction, ...]
    planned: Catalog
    policy: Policy


class Scheduler:
    """The state machine of one controller.

    `policy_for` makes the same policy for another catalog; only with it can applications and kinds
    of slices come and go, and profiles be corrected. Without a `policy` it makes the first one.
    """

    def __init__(
        self,
        catalog: Catalog,
        policy: Policy | None,
        settings: SchedulerSettings | None = None,
        *,
        snapshot: Any = None,
        policy_for: Callable[[Catalog], Policy] | None = None,
    ) -> None:
        self._settings = settings or SchedulerSettings()
        self._orders: list[Command] = []
        self.state = State() if snapshot is None else decode(State, snapshot)
        self._policy_for = policy_for
        self._registry = Registry(catalog, self.state)
        self._prepared: PlanningBasis | None = None
        self._on_kinds = OnKinds(self._kinds(catalog))
        whole, corrections = self._registry.catalog, self.state.corrections
        planned = self._on_kinds.of(whole)
        if planned is catalog and not corrections and policy is not None:
            kinds = self._on_kinds.kinds
            self._rebuild(PlanningBasis(whole, kinds, catalog, (), catalog, policy))
        else:
            self._rebuild(self._planning_basis(whole, corrections, planned))

    def handle(self, now_us: int, event: Event) -> list[Command]:
        """Learn one fact; returns what to do about it, in order."""
        state = self.state
        if now_us < state.now_us:
            raise Bug(f"time ran backwards, from {state.now_us} to {now_us}")
        state.now_us = now_us
        self._orders = []
        if state.health.quarantined or now_us >= state.health.reload_at_us:
            self._quarantine.release_expired(now_us)
        self._learn(now_us, event)
        if type(event) in NODES_COME_AND_GO:
            self._nodes_changed()
        if state.resting:
            self._lifecycle.end_rests(now_us)
        if state.handovers:
            self._handovers.run_due(now_us)
        if self._admission.drops:
            self._admission.shed_expired(now_us)
        self._dispatcher.run(now_us)
        if self._prewarmer is not None and now_us >= self._prewarmer.next_us:
            self._prewarmer.run_due(now_us)
        return self._orders

    def begin_epoch(self, epoch: int) -> None:
        """Number tasks from here on, unless that is so already."""
        self.state.tasks_started = max(self.state.tasks_started, epoch)

    @property
    def next_wake(self) -> int | None:
        """When to send `Woke` if nothing else happens before; always later than the last event."""
        wake_us = self.state.health.reload_at_us
        if self.state.handovers and any(queue.blocked for queue in self._busy.values()):
            wake_us = min(wake_us, self._handovers.next_us())
        if self._prewarmer is not None and self._prewarmer.next_us < wake_us:
            wake_us = self._prewarmer.next_us
        for queue in self._busy.values():
            if (queue_us := queue.wake_us()) < wake_us:
                wake_us = queue_us
        for rest in self.state.resting:
            wake_us = min(wake_us, rest.until_us)
        return None if wake_us >= NEVER_US else wake_us

    def prepare(self, corrections: tuple[Correction, ...]) -> None:
        """Build ahead what these corrections will need when they come into force.

        It changes nothing that can be seen, only how long that event takes to be handled; so
        another thread may do it meanwhile.
        """
        self._prepared = self._planning_basis(self._registry.catalog, corrections, self.planned)

    def snapshot(self) -> Any:
        """The whole memory as JSON's types; pass it to a new scheduler to go on from here."""
        return encode(self.state)

    @property
    def whole_catalog(self) -> Catalog:
        """With all that it says of slices, whether there are any of these or not."""
        return self._registry.catalog

    @property
    def applications(self) -> Mapping[str, Application]:
        """What new requests can ask for, by plain name."""
        return self._current

    def current(self, name: str) -> Application | None:
        """The version of an application that new requests get, with what is said of the slices that
        there are."""
        return self._current.get(name)

    def version(self, name: str) -> int:
        """The number of that version; 0 if there is no such application."""
        return self._registry.version(name)

    def _emit(self, command: Command) -> None:
        self._orders.append(command)

    def _policy_of(self, catalog: Catalog) -> Policy:
        if self._policy_for is None:
            raise Rejected(
                "applications and profiles cannot change here: this scheduler was not told how to "
                "make its policy for another catalog; give it `policy_for`"
            )
        return self._policy_for(catalog)

    def _planning_basis(
        self, whole: Catalog, corrections: tuple[Correction, ...], before: Catalog
    ) -> PlanningBasis:
        on_kinds = self._on_kinds  # another thread may be here (`prepare`)
        catalog = on_kinds.of(whole)
        planned = corrected(catalog, corrections, before)
        policy = self._policy_of(planned)
        return PlanningBasis(whole, on_kinds.kinds, catalog, corrections, planned, policy)

    def _kinds(self, catalog: Catalog) -> frozenset[str]:
        """The kinds of slices to plan with: those of the nodes there are; while there is none,
        those of the catalog's cluster."""
        return _kinds_of(self.state.nodes.values()) or frozenset(catalog.cluster.kinds())

    def _nodes_changed(self) -> None:
        """Plan with the kinds of slices that there are now, if that makes a difference."""
        whole = self._registry.catalog
        kinds = self._kinds(whole)
        if kinds != self._on_kinds.kinds:
            self._on_kinds, self._prepared = OnKinds(kinds), None
            planned = corrected(self._on_kinds.of(whole), self.state.corrections, self.planned)
            before = self.planned.applications
            if any(before[name] is not found for name, found in planned.applications.items()):
                self._rebuild(self._planning_basis(whole, self.state.corrections, self.planned))
        self._find_nowhere()

    def _rebuild(self, basis: PlanningBasis) -> None:
        """Build all that depends on the catalog, around the memory there is. What is promised goes
        by the catalog as it is, what is planned by its corrected profiles."""
        self.catalog = basis.catalog
        self.policy = policy = basis.policy
        self.planned = planned = basis.planned
        self._current = {
            name: basis.catalog.applications[application.name]
            for name, application in self._registry.current.items()
        }
        self._find_nowhere()
        self._fastest_us = {
            name: application.fastest_us()[application.root]
            for name, application in self._current.items()
        }
        current = [planned.applications[a.name] for a in self._current.values()]
        self._busy = {name: queue for name, queue in self.state.queues.items() if queue.jobs}
        emit, settings = self._emit, self._settings
        shares = Shares(self.state, settings.fair_quantum_us)
        books = Books(basis.catalog, planned, self.state, self._busy, shares, emit, settings)
        prewarmer = PreWarmer(books, current, prewarm_all_stages=policy.prewarm_all_stages)
        self._prewarmer = prewarmer if settings.prewarm else None
        standing = StandingOrders(books)
        self._lifecycle = lifecycle = Lifecycle(books, standing, self._prewarmer)
        self._admission = AdmissionControl(books, lifecycle.end)
        self._quarantine = quarantine = Quarantine(books)
        retries = Retries(books, lifecycle)
        self._handovers = handovers = Handovers(books)
        self._tasks = Tasks(books, lifecycle, standing, handovers, quarantine, retries)
        self._nodes = Nodes(books, lifecycle, self._tasks, standing, quarantine, retries)
        self._dispatcher = Dispatcher(books, lifecycle, standing, handovers, policy)

    def _find_nowhere(self) -> None:
        """Which applications have functions that no slice can run, of nodes that take new work."""
        kinds = _kinds_of(self.state.open_nodes().values()) or self._on_kinds.kinds
        here = OnKinds(kinds)
        rejections = {n: self._runs_nowhere(a, here) for n, a in self._current.items()}
        self._nowhere = {n: found for n, found in rejections.items() if found is not None}

    def _runs_nowhere(self, application: Application, here: OnKinds) -> Rejection | None:
        catalog = self._registry.catalog
        for function in application.functions():
            if not here.able(function, catalog):
                reason = runs_nowhere(catalog, function, here.kinds)
                return Rejection(RefusalKind.IMPOSSIBLE, f"{application.name}: {reason}")
        return None

    def _learn(self, now_us: int, event: Event) -> None:
        match event:  # what happens most often comes first
            case TaskFinished():
                self._tasks.finished(now_us, event)
            case RequestArrived():
                self._request_arrived(now_us, event)
            case Woke() | RequestWanted():
                pass  # what is due is done after every event
            case RequestCancelled():
                request = self.state.requests.get(event.request)
                if request is not None:
                    self._lifecycle.end(request, Outcome.CANCELLED, "cancelled", now_us)
            case InvokerJoined():
                self._nodes.joined(now_us, event)
            case InvokerReported():
                self._nodes.reported(now_us, event)
            case InvokerLeaving():
                self._nodes.leaving(event.invoker)
            case InvokerLost():
                self._nodes.lost(now_us, event.invoker)
            case TaskFailed():
                self._tasks.failed(now_us, event)
            case InstanceReady():
                self._nodes.instance_ready(now_us, event)
            case InstanceGone():
                self._nodes.instance_gone(now_us, event)
            case ApplicationRegistered() | ApplicationRetired():
                self._applications_changed(event)
            case ProfilesCorrected():
                self._profiles_corrected(event.corrections)
            case _:
                assert_never(event)

    def _applications_changed(self, event: ApplicationChange) -> None:
        name = event.application
        try:
            draft = self._registry.draft(event)
            basis = self._planning_basis(draft.catalog, self.state.corrections, self.planned)
            if name in draft.current:
                check_slo(basis.catalog.applications[draft.current[name].name], name)
        except Rejected as error:
            unknown = isinstance(event, ApplicationRetired) and name not in self._current
            kind = RefusalKind.UNKNOWN_APPLICATION if unknown else RefusalKind.INVALID
            self._emit(RefuseApplication(application=name, kind=kind, reason=str(error)))
        else:
            self._registry.adopt(draft)
            self._rebuild(basis)
            self._emit(AcceptApplication(application=name, version=self.version(name)))

    def _profiles_corrected(self, corrections: tuple[Correction, ...]) -> None:
        catalog, prepared = self._registry.catalog, self._prepared
        self._prepared = None
        if (
            prepared is None
            or prepared.whole is not catalog
            or prepared.kinds != self._on_kinds.kinds
            or prepared.corrections != corrections
        ):
            prepared = self._planning_basis(catalog, corrections, self.planned)
        before, self.state.corrections = self.planned, corrections
        self._rebuild(prepared)
        for queue in self.state.queues.values():
            stages = [c.applications[queue.application].stages for c in (before, self.planned)]
            if stages[0][queue.stage].function is not stages[1][queue.stage].function:
                forget_pace(queue)  # it was beside the profile as it was before

    def _request_arrived(self, now_us: int, event: RequestArrived) -> None:
        if event.request in self.state.requests:
            return  # said twice by someone who was not sure to have been heard
        rejection = self._admit_or_reject(now_us, event)
        if rejection is not None:
            self._emit(
                RefuseRequest(
                    request=event.request,
                    application=event.application,
                    kind=rejection.kind,
                    reason=rejection.reason,
                    retry_after_us=rejection.retry_after_us,
                )
            )

    def _admit_or_reject(self, now_us: int, event: RequestArrived) -> Rejection | None:
        name = event.application
        application = self._current.get(name)
        if application is None:
            reason = did_you_mean("application", name, self._current)
            return Rejection(RefusalKind.UNKNOWN_APPLICATION, reason)
        slo_us = application.slo_us if event.slo_us is None else event.slo_us
        rejection = self._nowhere.get(name) or slo_rejection(name, slo_us, self._fastest_us[name])
        rejection = rejection or self._admission.rejection(event.client, name, application, slo_us)
        if rejection is None:
            self._lifecycle.admit(event, application, slo_us, now_us)
        return rejection


def _kinds_of(nodes: Iterable[NodeBooks]) -> frozenset[str]:
    return frozenset({kind for node in nodes for kind in node.kinds()})


def build_scheduler(
    catalog: Catalog, settings: SchedulerSettings, snapshot: Any = None, *, epoch: int = 0
) -> Scheduler:
    """The scheduler that some settings ask for, with the policy that they name; it goes on from a
    snapshot if there is one, and gives tasks numbers above `epoch`."""
    catalog = with_tasks(catalog, settings.tasks)
    policy_for = policy_maker(settings.policy, settings)
    scheduler = Scheduler(catalog, None, settings, snapshot=snapshot, policy_for=policy_for)
    scheduler.begin_epoch(epoch)
    return scheduler


def next_epoch(state: State) -> int:
    """The epoch of a process that goes on from a state. If the machine of the one before it failed,
    nodes may run tasks that its journal does not know: their numbers are not used again."""
    return state.tasks_started + TASKS_AHEAD
