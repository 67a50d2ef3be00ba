"""The scheduling brain: facts in with their time, orders out.

    handle(now, event) -> [command, ...]        next_wake -> when to call again if nothing happens

A scheduler has one door and one alarm. It reads no clock and does nothing itself; whoever drives it
(the live controller, the emulator, a replay) carries its orders out and tells it what came of them.
The same events at the same times give the same orders, always.

What happens to a request, in order: `lifecycle` queues its jobs, `dispatch` visits the queues and
starts tasks where `policy` says, `warmth` loads models ahead of time, and this file lets each event
change the books. When applications come or go (`registry`), or profiles turn out to be wrong
(`drift`), those four are built anew around the same memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from esg.catalog import Application, Catalog
from esg.codec import decode, encode
from esg.commands import (
    Command,
    CorrectProfiles,
    DiscardData,
    Outcome,
    PublishData,
    RefuseApplication,
    RefuseRequest,
    StopTask,
)
from esg.corrected import corrected
from esg.dispatch import Dispatcher, RecheckSettings
from esg.drift import corrections_due, observe
from esg.errors import Bug, Rejected
from esg.events import (
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
    RunningTask,
    SliceInventory,
    TaskFailed,
    TaskFinished,
    Woke,
)
from esg.ledger import Seat
from esg.lifecycle import Lifecycle
from esg.overload import Overload, OverloadSettings
from esg.pace import observe_run
from esg.policy import Policy
from esg.profile import Config
from esg.registry import Registry, slo_refusal
from esg.setbacks import Setbacks, pause_us
from esg.spelling import one_of
from esg.state import NEVER_US, PPM, Phase, State, Task, queue_name
from esg.units import ms
from esg.warmth import PreWarmer, observe_cold_start


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """`max_attempts` is how often one stage of a request may fail before the request does, and
    `retry_pause_us` the time before its second retry (see `setbacks`);
    `follow_profiles` says whether plans follow what tasks really take (see `drift`);
    `fair_quantum_us` is how much vGPU time one application may be ahead of another while both wait
    (see `dispatch`), 0 if that is for the policy alone to decide."""

    recheck: RecheckSettings = field(default_factory=RecheckSettings)
    max_attempts: int = 3
    retry_pause_us: int = ms(20)
    prewarm: bool = True
    follow_profiles: bool = False
    overload: OverloadSettings = field(default_factory=OverloadSettings)
    fair_quantum_us: int = 0


@dataclass(frozen=True, slots=True)
class Footing:
    """What decisions stand on: the catalog as it is, with some corrections as it is planned with,
    and the policy made for that."""

    catalog: Catalog
    corrections: tuple[Correction, ...]
    planned: Catalog
    policy: Policy


class Scheduler:
    """One controller's brain.

    `policy_for` makes the same policy for another catalog; only with it can applications come and
    go, and profiles be corrected. Policies made with the same `PolicySettings` share what is dear
    to build.
    """

    def __init__(
        self,
        catalog: Catalog,
        policy: Policy,
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
        self._prepared: Footing | None = None
        if self._registry.catalog is catalog and not self.state.corrections:
            self._equip(Footing(catalog, (), catalog, policy))
        else:
            self._equip(self._footing(self._registry.catalog, self.state.corrections, catalog))

    def handle(self, now_us: int, event: Event) -> list[Command]:
        """Learn one fact; returns what to do about it, in order."""
        if now_us < self.state.now_us:
            raise Bug(f"time ran backwards, from {self.state.now_us} to {now_us}")
        self.state.now_us = now_us
        self._orders.clear()
        self._setbacks.forgive(now_us)
        self._learn(now_us, event)
        self._lifecycle.end_rests(now_us)
        self._overload.drop_hopeless(now_us)
        self._dispatcher.run(now_us)
        if self._prewarmer is not None:
            self._prewarmer.run_due(now_us)
        return self._orders.copy()

    @property
    def next_wake(self) -> int | None:
        """When to send `Woke` if nothing else happens before; always later than the last event."""
        wake_us = self.state.forgive_at_us
        for queue in self.state.queues.values():
            wake_us = min(wake_us, queue.wake_us())
        for rest in self.state.resting:
            wake_us = min(wake_us, rest.until_us)
        return None if wake_us >= NEVER_US else wake_us

    def prepare(self, corrections: tuple[Correction, ...]) -> None:
        """Build ahead what these corrections will need when they come into force.

        It changes nothing that anybody sees, only how long that event takes to be handled; so
        another thread may do it meanwhile.
        """
        self._prepared = self._footing(self._registry.catalog, corrections, self.planned)

    def snapshot(self) -> Any:
        """The whole memory as JSON's types; pass it to a new scheduler to go on from here."""
        return encode(self.state)

    @property
    def applications(self) -> Mapping[str, Application]:
        """What new requests can ask for, by plain name."""
        return self._registry.current

    def current(self, name: str) -> Application | None:
        """The version of an application that new requests get."""
        return self._registry.current.get(name)

    def version(self, name: str) -> int:
        """Which version that is; 0 if there is no such application."""
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

    def _footing(
        self, catalog: Catalog, corrections: tuple[Correction, ...], before: Catalog
    ) -> Footing:
        planned = corrected(catalog, corrections, before)
        return Footing(catalog, corrections, planned, self._policy_of(planned))

    def _equip(self, footing: Footing) -> None:
        """Build all that depends on the catalog, around the memory there is. What is promised goes
        by the catalog as it is, what is planned by its corrected profiles."""
        self.catalog = footing.catalog
        self.planned = planned = footing.planned
        self._current = self._registry.current
        self._fastest_us = {
            name: application.fastest_us()[application.root]
            for name, application in self._current.items()
        }
        current = [planned.applications[a.name] for a in self._current.values()]
        foresight = footing.policy.foresight
        prewarmer = PreWarmer(planned, current, self.state, self._emit, foresight=foresight)
        self._prewarmer = prewarmer if self._settings.prewarm else None
        self._lifecycle = Lifecycle(planned, self.state, self._emit, self._prewarmer)
        self._overload = Overload(planned, self.state, self._settings.overload, self._lifecycle.end)
        self._setbacks = Setbacks(
            planned, self.state, self._settings.max_attempts, self._lifecycle.end
        )
        self._dispatcher = Dispatcher(
            planned,
            self.state,
            footing.policy,
            self._emit,
            self._settings.recheck,
            self._settings.fair_quantum_us,
        )

    def _learn(self, now_us: int, event: Event) -> None:
        match event:
            case RequestArrived():
                self._request_arrived(now_us, event)
            case RequestCancelled():
                request = self.state.requests.get(event.request)
                if request is not None:
                    self._lifecycle.end(request, Outcome.CANCELLED, "cancelled", now_us)
            case InvokerJoined():
                self._invoker_joined(now_us, event)
            case InvokerReported():
                if event.invoker in self.state.seats:
                    seat = self.state.seats[event.invoker]
                    self._reconcile(now_us, seat, event.running, event.latest_task)
                    self._take_stock(now_us, seat, event.slices)
                    self.state.releases += 1  # models that came or went may make room
            case InvokerLeaving():
                if event.invoker in self.state.seats and event.invoker not in self.state.leaving:
                    self.state.leaving.append(event.invoker)
            case InvokerLost():
                self._invoker_lost(now_us, event.invoker)
            case TaskFinished():
                self._task_finished(now_us, event)
            case TaskFailed():
                self._task_failed(now_us, event)
            case InstanceReady():
                self._instance_ready(now_us, event)
            case InstanceGone():
                self._instance_gone(now_us, event)
            case Woke():
                pass  # what is due is done after every event
            case ApplicationRegistered() | ApplicationRetired():
                self._applications_changed(event)
            case ProfilesCorrected():
                self._profiles_corrected(event.corrections)
            case _:
                assert_never(event)

    def _applications_changed(self, event: ApplicationChange) -> None:
        try:
            draft = self._registry.draft(event)
            footing = self._footing(draft.catalog, self.state.corrections, self.planned)
        except Rejected as error:
            self._emit(RefuseApplication(application=event.application, reason=str(error)))
        else:
            self._registry.adopt(draft)
            self._equip(footing)

    def _profiles_corrected(self, corrections: tuple[Correction, ...]) -> None:
        catalog, prepared = self._registry.catalog, self._prepared
        self._prepared = None
        if (
            prepared is None
            or prepared.catalog is not catalog
            or prepared.corrections != corrections
        ):
            prepared = self._footing(catalog, corrections, self.planned)
        before, self.state.corrections = self.planned, corrections
        self._equip(prepared)
        for queue in self.state.queues.values():
            stages = [c.applications[queue.application].stages for c in (before, self.planned)]
            if stages[0][queue.stage].function is not stages[1][queue.stage].function:
                queue.pace_ppm = PPM  # it was the pace beside the profile as it was before

    def _compare_with_profile(self, now_us: int, task: Task, took_us: int) -> None:
        """Note what a warm task took; if plans have been going by something else, have that
        changed."""
        stage = self.catalog.applications[task.application].stages[task.stage]
        function, batch = stage.function.name, task.config.batch
        profiled_us = stage.function.profile.time_us_of(task.config)
        measured = observe(
            self.state, now_us, function, batch, profiled_us=profiled_us, took_us=took_us
        )
        corrections = corrections_due(self.state, now_us, function, measured)
        if corrections is not None:
            self.state.corrected_us = now_us
            self._emit(CorrectProfiles(corrections=corrections))

    def _request_arrived(self, now_us: int, event: RequestArrived) -> None:
        if event.request in self.state.requests:
            return  # said twice by someone who was not sure to have been heard
        application = self._current.get(event.application)
        if application is None:
            reason = one_of("application", event.application, self._current)
            self._emit(RefuseRequest(request=event.request, reason=reason))
            return
        slo_us = application.slo_us if event.slo_us is None else event.slo_us
        reason = slo_refusal(event.application, slo_us, self._fastest_us[event.application])
        if reason:
            self._emit(RefuseRequest(request=event.request, reason=reason))
            return
        away = self._overload.turned_away(event.application, application, slo_us)
        if away is not None:
            self._emit(
                RefuseRequest(
                    request=event.request, reason=away.reason, retry_after_us=away.retry_after_us
                )
            )
            return
        self._lifecycle.admit(event, application, slo_us, now_us)

    def _instance_ready(self, now_us: int, event: InstanceReady) -> None:
        seat = self.state.seats.get(event.invoker)
        if seat is None or not 0 <= event.slice < len(seat.slices):
            return
        self._found_loaded(seat, event.slice, event.function, now_us)
        if self._settings.follow_profiles and event.loading_us:
            observe_cold_start(self.state, event.function, event.loading_us)
        self.state.releases += 1  # a loaded model can make room, one that is loading cannot

    def _instance_gone(self, now_us: int, event: InstanceGone) -> None:
        seat = self.state.seats.get(event.invoker)
        if seat is None or not 0 <= event.slice < len(seat.slices):
            return
        resident = seat.slices[event.slice].residents.get(event.function)
        seat.forget(event.slice, event.function)
        self.state.releases += 1
        if resident is not None and not resident.ready:
            function = self.catalog.functions[event.function]
            self._setbacks.load_failed(seat, event.slice, function, event.reason, now_us)

    def _found_loaded(self, seat: Seat, index: int, function: str, now_us: int) -> None:
        """A model is there: the books follow, even if they had given it up."""
        part = seat.slices[index]
        if not part.usable:
            return
        if function in part.residents:
            seat.mark_ready(index, function, now_us)
        elif function in self.catalog.functions:
            memory_mb = self.catalog.functions[function].memory_mb
            if part.memory_free_mb >= memory_mb:
                seat.load(index, function, memory_mb, now_us, ready=True)

    def _task_finished(self, now_us: int, event: TaskFinished) -> None:
        task = self._end_task(event.task, event.invoker)
        if task is None or not task.requests:
            return
        seat = self.state.seats[task.invoker]
        function = self._function_of(task)
        for index in task.slices:
            seat.mark_used(index, function, now_us)
        held_us = event.loading_us + event.running_us
        cost_pusd = self.catalog.prices.task_cost_pusd(task.config, held_us)
        self._note_pace(task, now_us - task.started_us - event.loading_us, now_us)
        if self._settings.follow_profiles and not event.loading_us:
            self._compare_with_profile(now_us, task, now_us - task.started_us)
        share_pusd = round(cost_pusd / len(task.requests))
        failures = {failure.request: failure.reason for failure in event.failed}
        for name in task.requests:
            request = self._lifecycle.wants(name, task)
            if name in failures:
                self._give_back(now_us, task, name, failures[name])
            elif request is None:
                self._emit(DiscardData(invoker=task.invoker, request=name, results=True))
            else:
                self._lifecycle.finish_job(request, task, share_pusd, now_us)

    def _note_pace(self, task: Task, took_us: int, now_us: int) -> None:
        """Compare how long a task took with what was planned for, and with other nodes."""
        stage = self.planned.applications[task.application].stages[task.stage]
        queue = self.state.queues[queue_name(task.application, task.stage)]
        profile = stage.function.profile
        profiled_us = profile.time_us_of(task.config)
        runs = [
            self.state.requests[name].runs for name in task.requests if name in self.state.requests
        ]
        remote = sum(run[before].keeper != task.invoker for run in runs for before in stage.after)
        if not remote:  # what has to be fetched says more about the network
            expected_us = profiled_us * queue.pace_ppm // PPM
            self._setbacks.task_took(task.invoker, took_us, expected_us, now_us)
        observe_run(
            queue,
            profiled_us=profiled_us,
            took_us=took_us,
            remote=remote,
            relative_std=profile.relative_std,
        )

    def _task_failed(self, now_us: int, event: TaskFailed) -> None:
        task = self._end_task(event.task, event.invoker)
        if task is None or not task.requests:
            return
        seat = self.state.seats[task.invoker]
        function = self._function_of(task)
        for index in task.slices:
            resident = seat.slices[index].residents.get(function)
            if resident is not None and not resident.ready:
                seat.forget(index, function)
        after = self.catalog.applications[task.application].stages[task.stage].after
        for output in event.missing:
            request = self._lifecycle.wants(output.request, task)
            if request is not None and output.stage in after:
                self._lifecycle.lose_output(request, output.stage)
        # what one request misses is not held against the others of its batch
        named = [name for name in task.requests if any(o.request == name for o in event.missing)]
        for name in task.requests:
            blamed = not named or name in named
            self._give_back(now_us, task, name, event.reason if blamed else None)

    def _give_back(self, now_us: int, task: Task, name: str, reason: str | None) -> None:
        """Queue a lost task's job again. With a reason, it counts as one of its tries."""
        request = self._lifecycle.wants(name, task)
        if request is None:
            return
        run = request.runs[task.stage]
        if reason is None:
            self._lifecycle.return_job(request, task.stage, now_us)
            return
        run.attempts += 1
        if task.invoker not in run.failed_on:
            run.failed_on.append(task.invoker)
        function = self.catalog.functions[self._function_of(task)]
        if run.attempts >= self._settings.max_attempts or self._setbacks.loads_nowhere(function):
            times = "once" if run.attempts == 1 else f"{run.attempts} times"
            why = f"{task.stage} failed {times}, last: {reason}"
            self._lifecycle.end(request, Outcome.FAILED, why, now_us)
        else:
            pause = pause_us(self._settings.retry_pause_us, run.attempts)
            self._lifecycle.return_job(request, task.stage, now_us, pause)

    def _end_task(self, name: str, invoker: str) -> Task | None:
        """Release what a task held; None if it was given up before (late news are normal)."""
        task = self.state.tasks.get(name)
        if task is None or task.invoker != invoker:
            return None
        del self.state.tasks[name]
        self.state.seats[invoker].release(name, task.config, task.slices)
        self.state.releases += 1
        return task

    def _invoker_joined(self, now_us: int, event: InvokerJoined) -> None:
        memories_mb = [part.memory_mb for part in event.slices]
        seat = self.state.seats.get(event.invoker)
        if seat is not None and (
            seat.vcpus != event.vcpus or [part.memory_mb for part in seat.slices] != memories_mb
        ):
            self._invoker_lost(now_us, event.invoker)
            seat = None
        if seat is None:
            seat = Seat.of(event.invoker, event.vcpus, memories_mb)
            self.state.seats[event.invoker] = seat
        self._stays(event.invoker)
        self.state.releases += 1
        self._reconcile(now_us, seat, event.running, self.state.tasks_started)
        self.state.tasks_started = max(self.state.tasks_started, event.latest_task)
        self._forget_unheard_orders(seat, event.slices)
        self._take_stock(now_us, seat, event.slices)
        self._account_for(event.kept, event.invoker)
        self._publish_again(event.invoker)

    def _reconcile(
        self, now_us: int, seat: Seat, running: tuple[RunningTask, ...], latest_task: int
    ) -> None:
        """Compare what the books say runs there with what does.

        What nobody ordered is stopped, and keeps what it holds until it has been.
        """
        there = {found.task for found in running}
        here = [task for task in self.state.tasks.values() if task.invoker == seat.invoker]
        for task in here:
            if task.number <= latest_task and task.name not in there:
                self._end_task(task.name, seat.invoker)
                for request in task.requests:
                    self._give_back(now_us, task, request, None)
        known = {task.name for task in here}
        for found in running:
            if found.task not in known:
                self._emit(StopTask(invoker=seat.invoker, task=found.task))
                self._book_stray(now_us, seat, found)

    def _book_stray(self, now_us: int, seat: Seat, found: RunningTask) -> None:
        if found.task in self.state.tasks or not seat.can_give(found.vcpus, found.slices):
            return
        config = Config(0, found.vcpus, len(found.slices))
        seat.give(found.task, found.vcpus, found.slices)
        self.state.tasks[found.task] = Task(
            name=found.task,
            number=0,
            invoker=seat.invoker,
            application="",
            stage="",
            config=config,
            slices=found.slices,
            requests=(),
            started_us=now_us,
        )

    def _take_stock(self, now_us: int, seat: Seat, inventory: tuple[SliceInventory, ...]) -> None:
        """Compare which models the books say are loaded with which are."""
        for index, (part, found) in enumerate(zip(seat.slices, inventory, strict=False)):
            seat.set_usable(index, found.usable)
            for function in list(part.residents):
                if part.residents[function].ready and function not in found.resident:
                    seat.forget(index, function)
            for function in found.resident:
                self._found_loaded(seat, index, function, now_us)

    def _forget_unheard_orders(self, seat: Seat, inventory: tuple[SliceInventory, ...]) -> None:
        """A node that (re)joins loads what it says, and what its tasks wait for, but no more."""
        for index, (part, found) in enumerate(zip(seat.slices, inventory, strict=False)):
            task = self.state.tasks.get(part.holder)
            awaited = self._function_of(task) if task is not None and task.requests else ""
            for function in list(part.residents):
                expected = function in found.loading or function == awaited
                if not part.residents[function].ready and not expected:
                    seat.forget(index, function)

    def _account_for(self, kept: tuple[str, ...], invoker: str) -> None:
        """What a node keeps goes now, if its request has ended, or when it does."""
        for name in kept:
            request = self.state.requests.get(name)
            if request is None:
                self._emit(DiscardData(invoker=invoker, request=name))
            elif invoker not in request.kept_on:
                request.kept_on.append(invoker)

    def _publish_again(self, invoker: str) -> None:
        """An order to publish may have been lost while the node was away, and someone elsewhere
        waits for what it keeps."""
        for request in self.state.requests.values():
            successors = self.catalog.applications[request.application].successors
            for stage, run in request.runs.items():
                if run.keeper == invoker and run.published:
                    if any(request.runs[f].phase is Phase.RUNNING for f in successors[stage]):
                        order = PublishData(invoker=invoker, request=request.name, stage=stage)
                        self._emit(order)

    def _invoker_lost(self, now_us: int, invoker: str) -> None:
        if invoker not in self.state.seats:
            return
        lost = [task for task in self.state.tasks.values() if task.invoker == invoker]
        for task in lost:
            self._end_task(task.name, invoker)
        del self.state.seats[invoker]
        self._setbacks.forget_node(invoker)
        self._stays(invoker)
        for request in self.state.requests.values():
            self._lifecycle.lose_keeper(request, invoker)
        for task in lost:
            for name in task.requests:
                self._give_back(now_us, task, name, None)
        for request in list(self.state.requests.values()):
            self._lifecycle.resume(request, now_us)

    def _stays(self, invoker: str) -> None:
        """It is not leaving, or not any more."""
        if invoker in self.state.leaving:
            self.state.leaving.remove(invoker)

    def _function_of(self, task: Task) -> str:
        return self.catalog.applications[task.application].stages[task.stage].function.name
