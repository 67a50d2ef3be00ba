"""Dispatch: visit the AFW queues, plan, place and start, or come back later (paper, "Overview").

One pass goes through the queues that have work, in the policy's order, one task per visit, until
every queue is empty, held, or on the recheck list. A queue gets on that list when none of its
plans fits anywhere. It is tried again after every event that gave resources back, and by an alarm
if none comes; each such try is one round. From the third round on the minimum config will do, so
that progress is certain.

The paper retries the list after every queue it has handled. Within one pass resources are only
taken, so a second try in the same pass could never succeed; trying once per pass is the same.

With fair sharing, which is ours, the policy's order is not the whole truth while a queue waits for
room: a client that was given more vGPU time than another, by a quantum or more, comes after it, and
so does an application among those of one client (`shares`). So a flood of requests delays others by
a quantum at most.
"""

from collections.abc import Iterable
from operator import attrgetter

from msgspec.structs import replace

from esg.core.catalog.model import Stage
from esg.core.catalog.phases import TaskMode
from esg.core.estimation.model_worth import ModelWorth
from esg.core.messages.commands import (
    Decision,
    DropInstance,
    PublishData,
    StartTask,
)
from esg.core.messages.task_order import Input, JobOrder, Output, Payload, TaskOrder
from esg.core.policies.interface import Hold, Offer, Placement, Policy, QueueView
from esg.core.policies.placement import locality_first
from esg.core.scheduler.books import Books
from esg.core.scheduler.handovers import Handovers
from esg.core.scheduler.lifecycle import Lifecycle
from esg.core.scheduler.standing_orders import StandingOrders
from esg.core.search.plan import Plan
from esg.core.state.candidates import eligible_nodes, preferred_nodes
from esg.core.state.indexed_nodes import IndexedNodes
from esg.core.state.state import Queue, Request, Task
from esg.errors import Bug
from esg.units import NEVER_US

PAYLOAD = (Payload(),)
"""The input of a first stage."""


class Dispatcher:
    """Turns queued jobs into tasks."""

    def __init__(
        self,
        books: Books,
        lifecycle: Lifecycle,
        standing: StandingOrders,
        handovers: Handovers,
        policy: Policy,
    ) -> None:
        self._catalog = books.planned
        self._state = books.state
        self._busy = books.busy
        self._emit = books.emit
        self._lifecycle = lifecycle
        self._standing = standing
        self._handovers = handovers
        self._policy = policy
        self._settings = books.settings
        self._worth = ModelWorth(books.catalog, books.state)
        self._phased = books.settings.tasks is TaskMode.PHASED
        self._shares = books.shares

    def run(self, now_us: int) -> None:
        """One pass over everything that is due."""
        due = self._due(self._busy.values(), now_us)
        while due:
            nodes = self._state.open_nodes()
            for queue in due if len(due) == 1 else self._in_turn(due, now_us):
                if nodes.has_room():  # if not, there is no point in planning
                    self._visit(queue, now_us, nodes)
                else:
                    queue.rounds += queue.blocked
                    self._put_on_recheck_list(queue, now_us)
            due = self._due(due, now_us)

    def _in_turn(self, due: list[Queue], now_us: int) -> list[Queue]:
        """The policy's order, and while room is short, a fair one."""
        # in an order that a restored state has, too, whatever ties the policy leaves
        order = self._policy.order(sorted(due, key=attrgetter("name")), now_us)
        fair = self._settings.fair_quantum_us
        if not fair or not any(q.blocked for q in self._busy.values()):
            return order
        return self._shares.in_turn(order)

    def _due(self, queues: Iterable[Queue], now_us: int) -> list[Queue]:
        due = []
        for queue in queues:
            if not queue.jobs:
                continue
            if queue.blocked:
                if self._state.releases > queue.releases_seen or now_us >= queue.retry_at_us:
                    due.append(queue)
            elif queue.hold_until_us <= now_us:
                due.append(queue)
        return due

    def _visit(self, queue: Queue, now_us: int, nodes: IndexedNodes) -> None:
        self._state.visits = queue.visit = self._state.visits + 1
        if len(queue.lanes) > 1:
            self._shares.arrange(queue)
        application = self._catalog.applications[queue.application]
        view = QueueView(now_us, application, application.stages[queue.stage], queue, self._state)
        decision = self._policy.decide(view)
        if type(decision) is Hold:
            if decision.until_us <= now_us:
                raise Bug(f"{queue.name} is to be held until {decision.until_us}, which has passed")
            queue.hold_until_us = decision.until_us
            queue.leave_recheck_list()
            return
        placement, settings = self._place(view, decision, nodes), self._settings
        if placement is None and queue.blocked:
            queue.rounds += 1
            if queue.rounds >= settings.recheck_rounds:
                decision = replace(decision, plans=_minimum(view.stage))
                placement = self._place(view, decision, nodes)
        if placement is None:
            self._put_on_recheck_list(queue, now_us)
            if queue.retry_at_us >= NEVER_US and locality_first(view, decision, nodes) is not None:
                # there is room, and the policy waits for something better: it is asked again
                rounds, interval_us = settings.recheck_rounds, settings.recheck_interval_us
                queue.retry_at_us = now_us + rounds * interval_us
        else:
            if queue.blocked:
                queue.leave_recheck_list()
            self._start(view, decision, placement)

    def _place(self, view: QueueView, offer: Offer, nodes: IndexedNodes) -> Placement | None:
        """Where the policy says; first among the nodes that nothing speaks against."""
        state, failed_on = self._state, view.failed_on(offer.first(view.queue.jobs))
        if not state.health.quarantined and not failed_on:
            return self._policy.place(view, offer, nodes)
        better = preferred_nodes(state, failed_on)
        if better is not None:
            placement = self._policy.place(view, offer, better)
            if placement is not None:
                return placement
        rest = eligible_nodes(state, failed_on, view.stage.function)
        return self._policy.place(view, offer, rest)

    def _put_on_recheck_list(self, queue: Queue, now_us: int) -> None:
        """The alarm only drives the rounds; once they are over, something must be given back."""
        if not queue.blocked and self._state.standing:
            self._standing.recall_all()
        queue.blocked = True
        queue.releases_seen = self._state.releases
        waiting = queue.rounds < self._settings.recheck_rounds
        queue.retry_at_us = now_us + self._settings.recheck_interval_us if waiting else NEVER_US

    def _start(self, view: QueueView, offer: Offer, placement: Placement) -> None:
        plan, node, queue = placement.plan, placement.node, view.queue
        state, config, function = self._state, plan.config, view.stage.function
        number = state.new_task()
        name = f"t{number}"
        planned = plan.steps if offer.travels else ()
        requests = self._lifecycle.start_jobs(queue, config.batch, offer.picks, name, planned)
        slices = placement.slices
        needs = function.name, function.memory_mb, config
        taken = node.take(name, *needs, view.now_us, slices, self._worth.of)
        state.tasks[name] = task = Task(
            name=name,
            number=number,
            invoker=node.invoker,
            application=queue.application,
            stage=queue.stage,
            config=config,
            slices=taken.slices,
            requests=tuple([request.name for request in requests]),
            started_us=view.now_us,
        )
        predicted_us = function.profile.time_us_of(config)
        self._shares.charge(queue.application, requests, function.profile.vgpu_us_of(config))
        for index, other in taken.dropped:
            self._emit(DropInstance(invoker=node.invoker, slice=index, function=other))
        keep = bool(view.application.successors[queue.stage])
        self._standing.recall_beside(task)
        self._standing.give(view, offer, plan, task, requests)
        jobs = self._job_orders(requests, view.stage.after, task, are_results=not keep)
        spare_us = 0
        if self._phased:
            left_us = min([request.deadline_us for request in requests]) - view.now_us
            spare_us = max(0, left_us - plan.time_us)
            if task.then is None:  # otherwise all of it is kept for what follows
                residents = [node.slices[index].residents[function.name] for index in taken.slices]
                cold = not all(resident.ready for resident in residents)
                predicted_us += self._handovers.begin(task, view.stage, queue, cold=cold)
        self._emit(
            StartTask(
                order=TaskOrder(
                    task=name,
                    invoker=node.invoker,
                    stage=queue.stage,
                    function=function.name,
                    config=config,
                    slices=taken.slices,
                    jobs=jobs,
                    keep=keep,
                    predicted_us=predicted_us,
                    then=task.then,
                    phased=self._phased,
                    spare_us=spare_us,
                ),
                decision=Decision(
                    application=queue.application, effort=offer.effort, missed=offer.missed
                ),
            )
        )

    def _job_orders(
        self, requests: Iterable[Request], after: tuple[str, ...], task: Task, *, are_results: bool
    ) -> tuple[JobOrder, ...]:
        """What the jobs read, and have that brought to where they run."""
        orders = []
        for request in requests:
            publish = are_results or request.all_stages
            inputs = self._inputs(request, after, task) if after else PAYLOAD
            orders.append(JobOrder(request=request.name, inputs=inputs, publish=publish))
        return tuple(orders)

    def _inputs(self, request: Request, after: Iterable[str], task: Task) -> tuple[Input, ...]:
        inputs = []
        for before in after:
            source = request.runs[before]
            output = Output(stage=before, invoker=source.keeper)
            inputs.append(output)
            if not output.is_local_to(task.invoker):
                task.remote += 1
                if not source.published:
                    source.published = True
                    self._emit(
                        PublishData(invoker=output.invoker, request=request.name, stage=before)
                    )
        return tuple(inputs)


def _minimum(stage: Stage) -> tuple[Plan, ...]:
    """The configs that ensure progress: the smallest on slices of each kind."""
    profile = stage.function.profile
    return tuple(
        Plan(stage.name, config, profile.time_us_of(config), profile.job_cost_pusd_of(config))
        for config in map(profile.minimum_of, profile.kinds)
    )
