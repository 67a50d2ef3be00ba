"""Retries: whether a job that gave no result is tried again, and when; `candidates` says where.

A job that failed is tried again at once, and after that with pauses that grow (exponential
back-off); and if there is room elsewhere, not on a node where it has failed before. After
`max_attempts` failures of one stage its request fails, and so does everyone who waits for a model
when every slice has failed as often to load it. Jobs of a node that is lost have not failed. An
input that its function turns down is not tried again, and speaks against no node.
"""

from esg.backoff import Backoff
from esg.core.catalog.model import Function
from esg.core.messages.events import JobFailure
from esg.core.messages.outcome import Outcome
from esg.core.scheduler.books import Books
from esg.core.scheduler.lifecycle import Lifecycle
from esg.core.state.candidates import could_run
from esg.core.state.state import Job, Task
from esg.units import seconds

LONGEST_PAUSE_US = seconds(10)


def pause_us(first_us: int, failures: int) -> int:
    """How long a job waits after so many failures; `first_us` is after the second one.

    >>> [pause_us(20, failures) for failures in (1, 2, 3, 4)]
    [0, 20, 40, 80]
    """
    if failures < 2:
        return 0
    return Backoff(first_us, LONGEST_PAUSE_US).pause(failures - 2)


class Retries:
    """Decides what becomes of jobs that gave no result."""

    def __init__(self, books: Books, lifecycle: Lifecycle) -> None:
        self._catalog = books.catalog
        self._state = books.state
        self._lifecycle = lifecycle
        self._settings = books.settings

    def job_failed(self, now_us: int, task: Task, failure: JobFailure) -> None:
        """One job of a task gave no result, though the task did."""
        if not failure.final:
            self.give_back(now_us, task, failure.request, failure.reason)
            return
        request = self._lifecycle.wants(failure.request, task)
        if request is not None:
            why = f"{task.stage}: {failure.reason}"
            self._lifecycle.end(request, Outcome.INVALID, why, now_us)

    def give_back(
        self, now_us: int, task: Task, name: str, reason: str | None, *, avoid: bool = True
    ) -> None:
        """Queue a lost task's job again. With a reason, it counts as one of its attempts, and
        another node is tried, unless that could do no better."""
        request = self._lifecycle.wants(name, task)
        if request is None:
            return
        if reason is None:
            self._lifecycle.return_job(request, task.stage, now_us)
            return
        run = request.runs[task.stage]
        run.attempts += 1
        if avoid:
            run.failed_on += (task.invoker,)
        function = self._catalog.applications[task.application].stages[task.stage].function
        if run.attempts >= self._settings.max_attempts or self._loads_nowhere(function):
            times = "once" if run.attempts == 1 else f"{run.attempts} times"
            why = f"{task.stage} failed {times}, last: {reason}"
            self._lifecycle.end(request, Outcome.FAILED, why, now_us)
        else:
            pause = pause_us(self._settings.retry_pause_us, run.attempts)
            self._lifecycle.return_job(request, task.stage, now_us, pause)

    def load_failed(self, function: Function, reason: str, now_us: int) -> None:
        """If there is no slice left to load this model on, the requests that wait for it fail."""
        if self._loads_nowhere(function):
            why = f"{function.name} could not be loaded anywhere, last: {reason}"
            for job in self._waiting_for(function):
                if job.request in self._state.requests:
                    request = self._state.requests[job.request]
                    self._lifecycle.end(request, Outcome.FAILED, why, now_us)

    def _loads_nowhere(self, function: Function) -> bool:
        """Whether every slice that is large enough has failed to load it, again and again."""
        able = [
            part.failed_loads.get(function.name)
            for node in self._state.open_nodes().values()
            for part in node.slices
            if could_run(function, part)
        ]
        limit = self._settings.max_attempts
        return bool(able) and all(f is not None and f.count >= limit for f in able)

    def _waiting_for(self, function: Function) -> list[Job]:
        applications = self._catalog.applications
        return [
            job
            for queue in self._state.queues.values()
            if applications[queue.application].stages[queue.stage].function.name == function.name
            for job in queue.jobs
        ]
