"""The lifecycle of requests: through their stages, and back when something is lost.

A job is in exactly one place: blocked (its inputs are not all made), resting (it has failed, and
pauses), queued, running, or done. These functions move it along and keep each client's lane of an
AFW queue in the order of the requests' arrival, so that work which comes back after a failure takes
the place it had.
"""

from esg.core.catalog.model import Application
from esg.core.estimation.ewma import observe_interval
from esg.core.messages.commands import (
    AdmitRequest,
    AnswerRequest,
    DiscardData,
    StageReport,
    StopTask,
)
from esg.core.messages.events import RequestArrived
from esg.core.messages.outcome import Outcome
from esg.core.scheduler.admission import drop_at_us, observe_done, observe_gone, saving_us
from esg.core.scheduler.books import Books
from esg.core.scheduler.prewarming import PreWarmer
from esg.core.scheduler.standing_orders import StandingOrders
from esg.core.search.plan import Step
from esg.core.state.state import (
    BLOCKED,
    DONE,
    QUEUED,
    RESTING,
    RUNNING,
    Job,
    Queue,
    Request,
    Rest,
    StageRun,
    Task,
)
from esg.errors import Bug
from esg.names import plain_name, queue_name

NEED_INPUTS = (BLOCKED, RESTING, QUEUED)


class Lifecycle:
    """Moves requests along. No other part changes a job's phase, or which queues are busy."""

    def __init__(self, books: Books, standing: StandingOrders, prewarmer: PreWarmer | None) -> None:
        self._catalog = catalog = books.planned
        self._state = books.state
        self._busy = books.busy
        self._emit = books.emit
        self._shares = books.shares
        self._standing = standing
        self._prewarmer = prewarmer
        self._last = {
            name: tuple([stage for stage, after in application.successors.items() if not after])
            for name, application in catalog.applications.items()
        }
        self._saving_us = saving_us(catalog)

    def admit(
        self, event: RequestArrived, application: Application, slo_us: int, now_us: int
    ) -> None:
        """Take a request in; its first job is ready."""
        self._state.requests_admitted += 1
        request = Request(
            name=event.request,
            application=application.name,
            number=self._state.requests_admitted,
            arrived_us=now_us,
            deadline_us=now_us + slo_us,
            runs={stage: StageRun() for stage in application.stages},
            client=self._shares.payer(event.client),
            all_stages=event.all_stages,
        )
        self._state.requests[event.request] = request
        self._emit(
            AdmitRequest(
                request=request.name,
                application=request.application,
                deadline_us=request.deadline_us,
            )
        )
        self._shares.count_in(request.client, plain_name(application.name))
        queue = self._queue_up(request, application.root, now_us)
        self._note_call(queue, now_us)

    def start_jobs(
        self, queue: Queue, batch: int, picks: tuple[int, ...], task: str, planned: tuple[Step, ...]
    ) -> list[Request]:
        """Let a batch of jobs run in this task: the first of their queue, or those that were
        picked. Returns their requests."""
        jobs = queue.take(batch, picks)
        if len(jobs) < batch:
            raise Bug(f"{queue.name}: a batch of {batch} from {len(jobs)} jobs")
        if not queue.jobs:
            del self._busy[queue.name]
        requests = [self._state.requests[job.request] for job in jobs]
        for request in requests:
            run = request.runs[queue.stage]
            run.phase = RUNNING
            run.task = task
            run.planned = planned
        return requests

    def finish_job(
        self,
        request: Request,
        task: Task,
        cost_pusd: int,
        now_us: int,
        ended_us: int,
        on_slices_us: tuple[int, int],
        following: Task | None,
    ) -> None:
        """One job of a task that has ended at `ended_us` is done: the stages that waited for it may
        start. If the node has gone on with one of them, it is in the task `following`."""
        application = self._catalog.applications[request.application]
        run = request.runs[task.stage]
        followers = application.successors[task.stage]
        run.phase = DONE
        run.keeper = task.invoker
        # results were published as they were made
        run.published = request.all_stages or not followers
        if task.invoker not in request.kept_on:
            request.kept_on.append(task.invoker)
        run.report = StageReport(
            stage=task.stage,
            task=task.name,
            invoker=task.invoker,
            config=task.config,
            ready_us=run.ready_us,
            started_us=task.started_us,
            finished_us=ended_us,
            cost_pusd=cost_pusd,
            slices_from_us=on_slices_us[0],
            slices_until_us=on_slices_us[1],
        )
        request.cost_pusd += cost_pusd
        for follower in followers:
            next_run = request.runs[follower]
            # an output that was made a second time finds followers that did not need it
            if next_run.phase is BLOCKED and self._inputs_made(application, request, follower):
                if run.planned:
                    next_run.planned = self._planned_from(run.planned, application.name, follower)
                if following is None:
                    queue = self._queue_up(request, follower, now_us)
                else:
                    queue = self._go_on(request, follower, following)
                self._note_call(queue, now_us)
        for other in reversed(request.runs.values()):  # a last stage is the last to be done
            if other.phase is not DONE:
                return
        self.end(request, Outcome.DONE, "", now_us)

    def _go_on(self, request: Request, stage: str, task: Task) -> Queue:
        """A job runs that never was in its queue."""
        run = request.runs[stage]
        run.phase = RUNNING
        run.ready_us = task.started_us
        run.task = task.name
        return self._state.queues[queue_name(request.application, stage)]

    def _planned_from(
        self, steps: tuple[Step, ...], application: str, stage: str
    ) -> tuple[Step, ...]:
        onward = self._catalog.applications[application].onward[stage]
        return tuple(step for step in steps if step.stage in onward)

    def return_job(self, request: Request, stage: str, now_us: int, pause_us: int = 0) -> None:
        """A job comes back from a task that gave no result; it keeps its place in line, unless it
        has to pause."""
        run = request.runs[stage]
        run.phase = BLOCKED
        run.task = ""
        if pause_us:
            run.phase = RESTING
            self._state.resting.append(Rest(request.name, stage, now_us + pause_us))
        self.resume(request, now_us)

    def end_rests(self, now_us: int) -> None:
        """Jobs that have paused for long enough are tried again."""
        over = [rest for rest in self._state.resting if rest.until_us <= now_us]
        for rest in over:
            self._state.resting.remove(rest)
            request = self._state.requests[rest.request]
            request.runs[rest.stage].phase = BLOCKED
            self.resume(request, now_us)

    def lose_output(self, request: Request, stage: str) -> None:
        """What a stage made is nowhere to be found. `resume` sees to what that means."""
        run = request.runs[stage]
        run.keeper = ""
        run.published = False

    def lose_keeper(self, request: Request, invoker: str) -> None:
        """A node is gone with all it kept; only what was published is left."""
        for run in request.runs.values():
            if run.keeper == invoker:
                run.keeper = ""
        if invoker in request.kept_on:
            request.kept_on.remove(invoker)

    def resume(self, request: Request, now_us: int) -> None:
        """Redo whatever is needed again: from the last stages whose output still exists."""
        application = self._catalog.applications[request.application]
        for stage in reversed(application.stages):
            run = request.runs[stage]
            if run.phase is DONE and not run.keeper and not run.published:
                followers = application.successors[stage]
                waiting = [request.runs[follower].phase for follower in followers]
                if not followers or any(phase in NEED_INPUTS for phase in waiting):
                    run.phase = BLOCKED
        self._settle(request, now_us)

    def end(self, request: Request, outcome: Outcome, reason: str, now_us: int) -> None:
        """Answer a request and forget it, with everything that was kept or queued for it."""
        del self._state.requests[request.name]
        traffic = self._shares.count_out(request.client, plain_name(request.application))
        done, results = outcome is Outcome.DONE, self._results(request)
        if done:
            took_us, waiting = now_us - request.arrived_us, self._like_it_wait(request)
            observe_done(traffic, now_us, took_us=took_us, waiting=waiting)
        else:
            self._give_up(request)
            observe_gone(traffic)
        self._emit(
            AnswerRequest(
                request=request.name,
                application=request.application,
                outcome=outcome,
                reason=reason,
                arrived_us=request.arrived_us,
                deadline_us=request.deadline_us,
                slo_met=done and now_us <= request.deadline_us,
                cost_pusd=request.cost_pusd,
                stages=tuple([run.report for run in request.runs.values() if run.report]),
                results=results if done else (),
            )
        )
        in_vain = not done and any(request.runs[stage].phase is DONE for stage in results)
        for invoker in request.kept_on:
            self._emit(DiscardData(invoker=invoker, request=request.name, results=in_vain))

    def _give_up(self, request: Request) -> None:
        for stage, run in request.runs.items():
            if run.phase is QUEUED:
                self._leave_queue(request, stage)
            elif run.phase is RUNNING:
                self.stop_if_unwanted(run.task)
            elif run.phase is RESTING:
                self._leave_rest(request, stage)

    def _results(self, request: Request) -> tuple[str, ...]:
        """The stages whose outputs were asked for."""
        return tuple(request.runs) if request.all_stages else self._last[request.application]

    def wants(self, request: str, task: Task) -> Request | None:
        """The request, if it still waits for this very task."""
        found = self._state.requests.get(request)
        if found is not None:
            run = found.runs.get(task.stage)
            if run is not None and run.phase is RUNNING and run.task == task.name:
                return found
        return None

    def _settle(self, request: Request, now_us: int) -> None:
        """Bring the queues in line with which inputs exist."""
        application = self._catalog.applications[request.application]
        for stage, run in request.runs.items():
            made = self._inputs_made(application, request, stage)
            if run.phase is QUEUED and not made:
                self._leave_queue(request, stage)
                run.phase = BLOCKED
            elif run.phase is RESTING and not made:
                self._leave_rest(request, stage)
                run.phase = BLOCKED
            elif run.phase is BLOCKED and made:
                self._queue_up(request, stage, now_us)

    def _inputs_made(self, application: Application, request: Request, stage: str) -> bool:
        runs = request.runs
        for before in application.stages[stage].after:  # noqa: SIM110  `all` takes three times as long
            if runs[before].phase is not DONE:
                return False
        return True

    def _queue_up(self, request: Request, stage: str, now_us: int) -> Queue:
        run = request.runs[stage]
        run.phase = QUEUED
        run.ready_us = now_us
        run.task = ""
        queue = self._state.queues[queue_name(request.application, stage)]
        job = Job(
            request.name,
            request.number,
            now_us,
            request.deadline_us,
            run.planned,
            request.client,
        )
        queue.put(job)
        queue.hold_until_us = 0
        self._busy[queue.name] = queue
        if queue.name in self._saving_us:
            drop_us = drop_at_us(job, self._saving_us[queue.name])
            queue.drop_at_us = min(queue.drop_at_us, drop_us)
        return queue

    def _like_it_wait(self, request: Request) -> bool:
        """Whether others of the same client and application wait."""
        name = plain_name(request.application)
        for queue in self._busy.values():
            if request.client in queue.lanes and plain_name(queue.application) == name:
                return True
        return False

    def _note_call(self, queue: Queue, now_us: int) -> None:
        """A job came for the first time; jobs that come back say nothing about the next call."""
        observe_interval(queue.arrivals, now_us)
        if self._prewarmer is not None:
            self._prewarmer.schedule_prewarm(queue, now_us)

    def _leave_queue(self, request: Request, stage: str) -> None:
        queue = self._state.queues[queue_name(request.application, stage)]
        queue.remove(request.client, request.number)
        if not queue.jobs:
            queue.leave_recheck_list()
            del self._busy[queue.name]

    def _leave_rest(self, request: Request, stage: str) -> None:
        rests = self._state.resting
        self._state.resting = [r for r in rests if (r.request, r.stage) != (request.name, stage)]

    def stop_if_unwanted(self, name: str) -> None:
        """Order a task to be stopped if no request wants it any more; if some do, nothing follows
        for those that do not."""
        task = self._state.tasks.get(name)  # its own failure may be why the request ends
        if task is None:
            return
        wanted = [self.wants(request, task) is not None for request in task.requests]
        if not any(wanted):
            self._emit(StopTask(invoker=task.invoker, task=name))
        elif not all(wanted):
            self._standing.recall(task)
