"""The ends of tasks: their jobs are done, or come back, and what they held is free.

How long they took says something about profiles, stages and nodes.
"""

from esg.core.catalog.config import Config
from esg.core.catalog.model import Stage
from esg.core.catalog.phases import Phases, TaskMode
from esg.core.estimation.drift import corrections_due, observe
from esg.core.estimation.stage_speed import observe_run
from esg.core.messages.commands import CorrectProfiles, DiscardData, StopTask
from esg.core.messages.events import TaskFailed, TaskFinished
from esg.core.messages.task_order import Output
from esg.core.scheduler.books import Books
from esg.core.scheduler.handovers import Handovers
from esg.core.scheduler.lifecycle import Lifecycle
from esg.core.scheduler.quarantine import Quarantine
from esg.core.scheduler.retries import Retries
from esg.core.scheduler.standing_orders import StandingOrders
from esg.core.state.state import Task
from esg.names import queue_name
from esg.units import PPM


class Tasks:
    """Closes the books on tasks that have ended."""

    def __init__(
        self,
        books: Books,
        lifecycle: Lifecycle,
        standing: StandingOrders,
        handovers: Handovers,
        quarantine: Quarantine,
        retries: Retries,
    ) -> None:
        self._catalog = books.catalog
        self._planned = books.planned
        self._state = books.state
        self._lifecycle = lifecycle
        self._standing = standing
        self._handovers = handovers
        self._quarantine = quarantine
        self._retries = retries
        self._emit = books.emit
        self._follow_profiles = books.settings.follow_profiles
        self._phased = books.settings.tasks is TaskMode.PHASED

    def finished(self, now_us: int, event: TaskFinished) -> None:
        """A task has ended well: its jobs are done, apart from those that failed by themselves."""
        task = self.end(event.task, event.invoker)
        loading_us, ended_us, following = event.loading_us, now_us, None
        if event.continued:
            if task is not None:  # a while ago: such reports are in no hurry
                ended_us = min(now_us, task.started_us + loading_us + event.running_us)
                following = self._standing.begin(task, event.continued, ended_us)
            if following is None:
                self._stop_unknown(now_us, event, task)
        if task is None or not task.requests:
            return
        node = self._state.nodes[task.invoker]
        stage = self._planned.applications[task.application].stages[task.stage]
        for index in event.slices or task.slices:
            if 0 <= index < len(node.slices):
                node.mark_used(index, stage.function.name, ended_us)
        waited_us, on_slices_us = loading_us, (0, 0)
        whole_us = loading_us + event.running_us
        if event.phases is None or not self._phased:
            cost_pusd = self._catalog.prices.task_cost_pusd(task.config, whole_us)
        else:
            # on its node, for models, or for vCPUs or slices that others were not done with
            waited_us = max(0, whole_us - event.phases.total_us)
            cost_pusd = self._phased_cost_pusd(task, event.phases, waited_us)
            left_us = max(task.started_us, ended_us - event.phases.after_us)
            on_slices_us = max(task.started_us, left_us - event.phases.slices_us), left_us
        failures = {f.request: f for f in event.failed} if event.failed else {}
        # a task some of whose jobs never got to the model says nothing about how long such tasks
        # take: whoever sends nonsense could make plans wrong for everyone
        if not any(failure.final for failure in event.failed):
            working_us = max(0, ended_us - task.started_us - waited_us)
            took_us = ended_us - task.started_us - loading_us  # plans had better expect waits, too
            self._note_pace(task, stage, took_us, working_us, now_us)
            if self._follow_profiles and not loading_us:
                self._compare_with_profile(now_us, task, working_us)
        share_pusd = round(cost_pusd / len(task.requests))
        for name in task.requests:
            request = self._lifecycle.wants(name, task)
            if failure := failures.get(name):
                self._retries.job_failed(now_us, task, failure)
            elif request is None:
                self._emit(DiscardData(invoker=task.invoker, request=name, results=True))
            else:
                if failed_on := request.runs[task.stage].failed_on:
                    self._quarantine.done_elsewhere(failed_on, task.invoker, now_us)
                self._lifecycle.finish_job(
                    request, task, share_pusd, now_us, ended_us, on_slices_us, following
                )
        if following is not None:
            self._lifecycle.stop_if_unwanted(following.name)

    def failed(self, now_us: int, event: TaskFailed) -> None:
        """A task gave no results: all its jobs come back; inputs that were missing are made
        again."""
        task = self.end(event.task, event.invoker)
        if task is None or not task.requests:
            return
        node = self._state.nodes[task.invoker]
        function = self.function_of(task)
        for index in task.slices:
            resident = node.slices[index].residents.get(function)
            if resident is not None and not resident.ready:
                node.forget(index, function)
        after = self._catalog.applications[task.application].stages[task.stage].after
        for missing in event.missing:
            request, source = self._lifecycle.wants(missing.request, task), missing.source
            if request is not None and isinstance(source, Output) and source.stage in after:
                self._lifecycle.lose_output(request, source.stage)
        # what one request misses is not held against the others of its batch
        named = [name for name in task.requests if any(m.request == name for m in event.missing)]
        for name in task.requests:
            blamed = not named or name in named
            reason = event.reason if blamed else None
            self._retries.give_back(now_us, task, name, reason, avoid=not event.missing)

    def end(self, name: str, invoker: str) -> Task | None:
        """Release what a task held; None if it was given up before (late reports are normal)."""
        task = self._state.tasks.get(name)
        if task is None or task.invoker != invoker:
            return None
        del self._state.tasks[name]
        self._standing.ended(name)
        held_vcpus = task.config.vcpus - task.vcpus_back
        self._state.nodes[invoker].release(name, held_vcpus, task.slices)
        self._state.releases += 1
        if task.prepared_us:
            self._handovers.left(task, self._state.now_us)
        return task

    def book_stray(
        self, now_us: int, name: str, invoker: str, vcpus: int, slices: tuple[int, ...]
    ) -> None:
        """A node runs a task that nobody ordered: it keeps what it holds until it has stopped."""
        node = self._state.nodes[invoker]
        if name in self._state.tasks or not node.can_give(vcpus, slices):
            return
        node.give(name, vcpus, slices)
        self._state.tasks[name] = Task(
            name=name,
            number=0,
            invoker=invoker,
            application="",
            stage="",
            config=Config(0, vcpus, len(slices)),
            slices=slices,
            requests=(),
            started_us=now_us,
        )

    def _stop_unknown(self, now_us: int, event: TaskFinished, ended: Task | None) -> None:
        """A node has gone on with something that the books do not know, as after a failure of the
        controller's machine; what it is run on, the task before it had. One that they know has been
        told of before."""
        known = self._state.tasks.get(event.continued)
        if known is not None and known.invoker == event.invoker:
            return
        self._emit(StopTask(invoker=event.invoker, task=event.continued))
        if ended is not None:
            vcpus, slices = ended.config.vcpus, ended.slices
            self.book_stray(now_us, event.continued, event.invoker, vcpus, slices)

    def function_of(self, task: Task) -> str:
        return self._catalog.applications[task.application].stages[task.stage].function.name

    def _phased_cost_pusd(self, task: Task, phases: Phases, waited_us: int) -> int:
        """What a task pays for what it held; while it waited, that was the vCPU that drives its
        slices."""
        paid = phases._replace(after_us=phases.after_us + waited_us)
        return self._catalog.prices.phased_cost_pusd(task.config, paid)

    def _note_pace(
        self, task: Task, stage: Stage, took_us: int, working_us: int, now_us: int
    ) -> None:
        """Compare how long a task took with what was planned for, and how fast its node worked with
        others."""
        queue = self._state.queues[queue_name(task.application, task.stage)]
        profile = stage.function.profile
        profiled_us = profile.time_us_of(task.config)
        if not task.remote:  # what has to be fetched says more about the network
            expected_us = profiled_us * queue.pace_ppm // PPM
            self._quarantine.observe_task(task.invoker, working_us, expected_us, now_us)
        input_bytes = stage.function.input_bytes
        observe_run(queue, profiled_us, took_us, profile.relative_std, task.remote, input_bytes)

    def _compare_with_profile(self, now_us: int, task: Task, took_us: int) -> None:
        """Note what a warm task took; if plans have been going by something else, have that
        changed."""
        stage = self._catalog.applications[task.application].stages[task.stage]
        function, config = stage.function.name, task.config
        profiled_us = stage.function.profile.time_us_of(config)
        measured = observe(
            self._state, now_us, function, config, profiled_us=profiled_us, took_us=took_us
        )
        corrections = corrections_due(self._state, now_us, function, measured)
        if corrections is not None:
            self._state.corrected_us = now_us
            self._emit(CorrectProfiles(corrections=corrections))
