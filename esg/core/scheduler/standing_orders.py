"""Standing orders: where nobody competes, a node goes on with the next stage by itself.

A lone request needs no decision between its stages: its plan has the configs of all of them, the
slices it holds have the models, and nobody else wants either. So its first order brings the next
ones along (`TaskOrder.then`), and the node goes on without asking. The books stay as they are until
it says so: what the first task holds is all that those after it may have, so nothing is promised
twice, whatever the scheduler decides meanwhile.

An order is given such a follow-up if

    - the policy agrees (`Offer.stands`), no queue waits for room, and the node is none that is in
      quarantine while others are not;
    - nothing else of the same application runs on the node, or waits at the next stage: there is
      nobody to be batched with;
    - the next stage follows from this one alone, and its planned config fits into what this one
      holds, on slices that have its model.

It holds for a time: as long as the deadline can be kept, almost certainly, with the configs that
were planned. A node that gets there later asks. It is recalled when a queue finds no room, when
another task of the application starts on the node, when one of its requests is not wanted any more
and when the node leaves. A recall may come too late, or never: then the books follow the node.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from esg.core.catalog.config import Config
from esg.core.catalog.model import Stage
from esg.core.catalog.phases import TaskMode
from esg.core.messages.commands import Decision, RecallStanding, StartTask
from esg.core.messages.task_order import JobOrder, Output, TaskOrder
from esg.core.policies.interface import Offer, QueueView
from esg.core.scheduler.books import Books
from esg.core.search.plan import Plan
from esg.core.state.candidates import preferred_nodes
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import BLOCKED, Request, Task
from esg.names import queue_name


class StandingOrders:
    """Gives them, follows them in the books, and recalls them."""

    def __init__(self, books: Books) -> None:
        self._catalog = books.planned
        self._state = books.state
        self._busy = books.busy
        self._shares = books.shares
        self._emit = books.emit
        self._phased = books.settings.tasks is TaskMode.PHASED

    def give(
        self,
        view: QueueView,
        offer: Offer,
        plan: Plan,
        task: Task,
        requests: list[Request],
    ) -> None:
        """Let a task that is about to be ordered have what may follow it."""
        if not offer.stands or not plan.rest or self._competes(task):
            return
        stages = view.application.stages
        times_us = [
            stages[step.stage].function.profile.time_us_of(step.config) for step in plan.steps
        ]
        left_us = min([request.deadline_us for request in requests]) - view.now_us
        followers: list[TaskOrder] = []
        stage, config = view.stage, task.config
        for place, step in enumerate(plan.rest, start=1):
            following = stages[step.stage]
            within_us = left_us - int(sum(times_us[place:]) * offer.stands)
            if (
                within_us < int(sum(times_us[:place]) * offer.stands)
                or view.application.successors[stage.name] != (following.name,)
                or following.after != (stage.name,)
                or not self._fits(following, step.config, config, task, requests)
            ):
                break
            order = self._order(task, following, step.config, requests, times_us[place], within_us)
            followers.append(order)
            stage, config = following, step.config
        for order in reversed(followers):
            task.then = replace(order, then=task.then)
        if followers:
            self._state.standing[task.name] = None

    def _competes(self, task: Task) -> bool:
        """Whether anybody else could want what the task holds, or join it."""
        state = self._state
        if any(queue.blocked for queue in self._busy.values()):
            return True
        if task.invoker in state.health.quarantined and preferred_nodes(state, ()) is not None:
            return True  # the next stage had better be elsewhere
        others = self._others_on(state.nodes[task.invoker], task)
        return any(other.application == task.application for other in others)

    def _others_on(self, node: NodeBooks, task: Task) -> list[Task]:
        tasks = self._state.tasks
        return [tasks[name] for name in node.tasks() if name != task.name]

    def _fits(
        self, stage: Stage, config: Config, held: Config, task: Task, requests: list[Request]
    ) -> bool:
        """Whether a stage can be run on what a task before it holds, for just these requests."""
        if config.vcpus > held.vcpus or config.vgpus > held.vgpus or config.kind != held.kind:
            return False
        if config.batch != len(requests):
            return False
        if self._state.queues[queue_name(task.application, stage.name)].jobs:
            return False
        node, function = self._state.nodes[task.invoker], stage.function.name
        for index in task.slices[: config.vgpus]:
            part = node.slices[index]
            resident = part.residents.get(function)
            if resident is None or not resident.ready or not part.usable:
                return False
        runs = [request.runs[stage.name] for request in requests]
        return all(run.phase is BLOCKED and not run.failed_on for run in runs)

    def _order(
        self,
        task: Task,
        stage: Stage,
        config: Config,
        requests: list[Request],
        predicted_us: int,
        within_us: int,
    ) -> TaskOrder:
        number = self._state.new_task()
        keep = bool(self._catalog.applications[task.application].successors[stage.name])
        inputs = tuple([Output(stage=before, invoker=task.invoker) for before in stage.after])
        return TaskOrder(
            task=f"t{number}",
            invoker=task.invoker,
            stage=stage.name,
            function=stage.function.name,
            config=config,
            slices=task.slices[: config.vgpus],
            jobs=tuple(
                [
                    JobOrder(request=r.name, inputs=inputs, publish=r.all_stages or not keep)
                    for r in requests
                ]
            ),
            keep=keep,
            predicted_us=predicted_us,
            within_us=within_us,
            phased=self._phased,
        )

    def begin(self, ended: Task, continued: str, now_us: int) -> Task | None:
        """A task has ended at this time, and given back what it held; the node says that it has
        gone on with this one. None if that was not the task's standing order."""
        order = ended.then
        if order is None or order.task != continued or continued in self._state.tasks:
            return None
        task = Task(
            name=order.task,
            number=int(order.task[1:]),
            invoker=ended.invoker,
            application=ended.application,
            stage=order.stage,
            config=order.config,
            slices=order.slices,
            requests=ended.requests,
            started_us=now_us,
            then=order.then,
            recalled=ended.recalled,
        )
        state = self._state
        state.tasks[task.name] = task
        node = state.nodes[task.invoker]
        node.give(task.name, task.config.vcpus, task.slices)
        if task.then is not None and not task.recalled:
            state.standing[task.name] = None
        requests = [state.requests[name] for name in task.requests if name in state.requests]
        if requests:
            stage = self._catalog.applications[task.application].stages[task.stage]
            vgpu_time_us = stage.function.profile.vgpu_us_of(order.config)
            self._shares.charge(task.application, requests, vgpu_time_us)
        decision = Decision(application=task.application, effort=0, missed=False)
        self._emit(StartTask(order=order, decision=decision, begun=True))
        return task

    def ended(self, task: str) -> None:
        """A task is over: nothing follows any more that could be recalled."""
        self._state.standing.pop(task, None)

    def recall(self, task: Task) -> None:
        if task.name in self._state.standing:
            del self._state.standing[task.name]
            task.recalled = True
            self._emit(RecallStanding(invoker=task.invoker, task=task.name))

    def recall_all(self) -> None:
        """Somebody waits for room."""
        self._recall([self._state.tasks[name] for name in self._state.standing])

    def recall_on(self, invoker: str) -> None:
        """A node is to have no new work."""
        standing = [self._state.tasks[name] for name in self._state.standing]
        self._recall([task for task in standing if task.invoker == invoker])

    def recall_beside(self, task: Task) -> None:
        """A task starts: those of the same application on its node may want to join it."""
        if self._state.standing:
            others = self._others_on(self._state.nodes[task.invoker], task)
            self._recall([other for other in others if other.application == task.application])

    def _recall(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self.recall(task)
