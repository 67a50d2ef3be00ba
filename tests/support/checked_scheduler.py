"""A scheduler under observation: whatever it is told, its promises are checked afterwards.

`esg.core.scheduler.invariants` looks at the books. On top of that, a witness looks at what a user
or an invoker would notice: orders go to nodes that are there and can be carried out, nothing runs
twice, nothing is read that nobody keeps, and every request is answered once.
"""

import json

from esg.core.journal.format import JournalEntry, entry_line, orders_digest, read_entries
from esg.core.journal.replay import replay
from esg.core.messages.commands import (
    AcceptApplication,
    AdmitRequest,
    AnswerRequest,
    Command,
    CorrectProfiles,
    DiscardData,
    DropInstance,
    PublishData,
    RecallStanding,
    RefuseApplication,
    RefuseRequest,
    StartTask,
    StopTask,
    WarmInstance,
)
from esg.core.messages.events import Event
from esg.core.scheduler.invariants import AnswerBook, check
from esg.core.scheduler.scheduler import Scheduler
from esg.core.state.state import Phase, State


class Witness:
    """Checks every step of one scheduler and keeps its journal."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.book = AnswerBook()
        self.journal: list[JournalEntry] = []

    def handle(self, now_us: int, event: Event) -> list[Command]:
        commands = self.scheduler.handle(now_us, event)
        self.note(now_us, event, commands)
        return commands

    def note(self, now_us: int, event: Event, commands: list[Command]) -> None:
        """Check what has just been handled."""
        self.journal.append(JournalEntry(now_us, event, orders_digest(commands)))
        self.book.note(commands)
        inspect(self.scheduler, commands)

    def replay_into(self, fresh: Scheduler) -> None:
        """Tell a fresh scheduler the same story, from paper; it must act and end up the same."""
        lines = [entry_line(entry) for entry in self.journal]
        replay(fresh, read_entries(lines))
        assert as_text(fresh) == as_text(self.scheduler)


def inspect(scheduler: Scheduler, commands: list[Command]) -> None:
    """Whether all is well after an event that led to these orders."""
    check(scheduler)
    for command in commands:
        _check_order(scheduler.state, command)
    _check_inputs(scheduler)
    _check_kinds(scheduler)
    _check_nothing_runs_twice(scheduler.state)


def _check_order(state: State, command: Command) -> None:
    match command:
        case StartTask(order=order):
            assert len(order.jobs) == order.config.batch
            assert len(set(order.slices)) == order.config.vgpus
            draining = order.invoker in state.health.draining
            assert command.begun or not draining, f"{order.invoker} wants no new work"
            for job in order.jobs:
                assert job.inputs, f"{job.request} has nothing to work on"
                assert order.keep or job.publish, f"nobody wants what it makes for {job.request}"
        case StopTask() | RecallStanding() | WarmInstance() | DropInstance():
            order = command
        case PublishData() | DiscardData():
            order = command
        case (
            AdmitRequest()
            | AnswerRequest()
            | RefuseRequest()
            | AcceptApplication()
            | RefuseApplication()
            | CorrectProfiles()
        ):
            return
    assert order.invoker in state.nodes, f"{order}: nobody is there"


def _check_inputs(scheduler: Scheduler) -> None:
    """What is queued has inputs, and somebody has them."""
    state = scheduler.state
    for queue in state.queues.values():
        applications = scheduler.catalog.applications
        stage = applications[queue.application].stages[queue.stage]
        for job in queue.jobs:
            for before in stage.after:
                run = state.requests[job.request].runs[before]
                assert run.phase is Phase.DONE
                assert run.published or run.keeper in state.nodes, (
                    f"{queue.name} of {job.request} needs {before}, which nobody keeps"
                )


def _check_kinds(scheduler: Scheduler) -> None:
    """Plans know the slices that there are, and no others: unless a function can run on none."""
    nodes = scheduler.state.nodes.values()
    here = {part.kind for node in nodes for part in node.slices}
    for function in scheduler.planned.functions.values():
        planned = here.intersection(function.profile.kinds)
        assert not planned or planned == set(function.profile.kinds), (
            f"{function.name} is planned on {function.profile.kinds}, and there is {sorted(here)}"
        )


def _check_nothing_runs_twice(state: State) -> None:
    """A task runs for requests that wait for it; for others only until they have heard of it.

    Tests never use a request's name again, so a request that is there is the one it ran for.
    """
    for task in state.tasks.values():
        for name in task.requests:
            if name in state.requests:
                run = state.requests[name].runs[task.stage]
                assert run.phase is Phase.RUNNING, f"{task.name} runs for nothing"
                assert run.task == task.name, f"{name}/{task.stage} runs twice"


def as_text(scheduler: Scheduler) -> str:
    return json.dumps(scheduler.snapshot())
