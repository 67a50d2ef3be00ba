"""Invariants of a scheduler's books, checked from outside, after every event in tests."""

from collections import Counter

from esg.core.catalog.model import Function
from esg.core.catalog.slice_kinds import counts
from esg.core.messages.commands import AdmitRequest, AnswerRequest, Command, RefuseRequest
from esg.core.scheduler.scheduler import Scheduler
from esg.core.state.candidates import could_run
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Phase, State
from esg.errors import Bug
from esg.names import plain_name, queue_name, versioned
from esg.units import NEVER_US


def check(scheduler: Scheduler) -> None:
    """Raise a `Bug` that says which promise is broken."""
    state = scheduler.state
    _check_resources(state)
    _check_standing(state)
    _check_handovers(state)
    _check_models(state)
    _check_indexes(scheduler)
    _check_jobs(state)
    _check_traffic(state)
    _check_applications(scheduler)
    _check_wake(scheduler)


class AnswerBook:
    """Every request is admitted and answered, or refused, and each at most once."""

    def __init__(self) -> None:
        self.answers: dict[str, AnswerRequest | RefuseRequest] = {}
        self._admitted: set[str] = set()

    def note(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, AdmitRequest):
                if command.request in self._admitted:
                    raise Bug(f"{command.request} was admitted twice")
                self._admitted.add(command.request)
            if isinstance(command, AnswerRequest | RefuseRequest):
                if command.request in self.answers:
                    raise Bug(f"{command.request} was answered twice")
                if isinstance(command, AnswerRequest) != (command.request in self._admitted):
                    raise Bug(f"{command.request} was not admitted, or refused after it was")
                self.answers[command.request] = command


def _check_resources(state: State) -> None:
    """What is free and what tasks hold add up to what there is."""
    for node in state.nodes.values():
        tasks = [task for task in state.tasks.values() if task.invoker == node.invoker]
        held_vcpus = sum(task.config.vcpus - task.vcpus_back for task in tasks)
        if node.vcpus_free < 0 or node.vcpus_free + held_vcpus != node.vcpus:
            raise Bug(
                f"{node.invoker}: {node.vcpus_free} vCPUs free and {held_vcpus} held "
                f"of {node.vcpus}"
            )
        here = [
            (i, name) for i, p in enumerate(node.slices) for name in (p.ahead, p.holder) if name
        ]
        expected = [(i, task.name) for task in tasks for i in task.slices]
        free = dict.fromkeys(node.kinds(), 0)
        for part in node.slices:
            free[part.kind] += part.usable and not part.holder
        books = node.vgpus_free, node.free_of
        if sorted(here) != sorted(expected) or books != (sum(free.values()), free):
            raise Bug(f"{node.invoker}: slices are held by {here}, tasks say {expected}")
        if node.promised != sum(bool(part.ahead) for part in node.slices):
            raise Bug(f"{node.invoker}: {node.promised} slices are promised, and others say so")
        for task in tasks:
            if len(task.slices) != task.config.vgpus or len(task.requests) != task.config.batch:
                raise Bug(f"{task.name} does not have what its config {task.config} says")
            ordered = bool(task.requests)  # others hold whatever their node says
            if ordered and any(node.slices[i].kind != task.config.kind for i in task.slices):
                raise Bug(f"{task.name} is on slices of another kind than its config {task.config}")
            if task.vcpus_back and not task.prepared_us <= state.now_us:
                raise Bug(f"{task.name} has given vCPUs back before its CPU part can be over")
    for task in state.tasks.values():
        if task.invoker not in state.nodes:
            raise Bug(f"{task.name} runs on {task.invoker}, which is not there")


def _check_standing(state: State) -> None:
    """What may follow a task takes no more than it holds, for the same requests; and all of it can
    be recalled."""
    standing = {task.name for task in state.tasks.values() if task.then and not task.recalled}
    if standing != state.standing.keys():
        raise Bug(f"{sorted(standing)} have standing orders, counted as {[*state.standing]}")
    for task in state.tasks.values():
        held, slices, order = task.config, task.slices, task.then
        while order is not None:
            config = order.config
            inside = config.vcpus <= held.vcpus and set(order.slices) <= set(slices)
            inside = inside and config.kind == held.kind
            if not inside or tuple(job.request for job in order.jobs) != task.requests:
                raise Bug(f"{order.task} is to follow {task.name}, and wants more than that holds")
            held, slices, order = config, order.slices, order.then


def _check_handovers(state: State) -> None:
    """What tasks in phases hand over is foreseen, and nobody is promised what a task keeps."""
    due = Counter(handover.task for handover in state.handovers)
    for task in state.tasks.values():
        slices = [state.nodes[task.invoker].slices[index] for index in task.slices]
        ahead = [part.ahead == task.name for part in slices]
        if any(ahead) and (not task.prepared_us or task.then):
            raise Bug(f"{task.name} keeps its slices, and they are promised")
        if task.prepared_us and not due[task.name] and not all(ahead):
            waits = any(part.ahead and part.holder == task.name for part in slices)
            if not waits:
                raise Bug(f"{task.name} will never hand its slices over")
    if any(handover.at_us <= state.now_us for handover in state.handovers):
        raise Bug("a handover that was due has not been carried out")


def _check_models(state: State) -> None:
    """Models fit into their slices' memory, and are counted right."""
    for node in state.nodes.values():
        count: Counter[str] = Counter()
        for index, part in enumerate(node.slices):
            count.update(list(part.residents))
            used_mb = sum(resident.memory_mb for resident in part.residents.values())
            if part.memory_free_mb < 0 or part.memory_free_mb + used_mb != part.memory_mb:
                raise Bug(f"{node.invoker} slice {index}: memory does not add up")
            if part.residents and not part.usable:
                raise Bug(f"{node.invoker} slice {index}: models on a slice that is out of order")
        if dict(count) != node.instances:
            raise Bug(f"{node.invoker}: {dict(count)} instances, counted as {node.instances}")


def _check_indexes(scheduler: Scheduler) -> None:
    """Indexes say what a look at every node would."""
    state = scheduler.state
    index = state.open_nodes().index
    for function in scheduler.catalog.functions.values():  # from now on, if not before
        kinds = function.profile.kinds
        for kind in kinds:
            index.free_of(kind)
            index.warm(function.name, kind)
            index.next_warm(function.name, kind)
        index.loadable(function.name, function.memory_mb, kinds)
    index.usable()
    if index.nodes is not state.nodes or not all(one.is_true() for one in index.rankings()):
        raise Bug("an index of nodes is not what their books say")


def _check_jobs(state: State) -> None:
    """Every job is in exactly one place, and every place knows its jobs."""
    queued: Counter[tuple[str, str]] = Counter()
    for queue in state.queues.values():
        place = {client: rank for rank, client in enumerate(queue.lanes)}
        if Counter(job.client for job in queue.jobs) != queue.lanes:
            raise Bug(f"{queue.name}: lanes of {queue.lanes} are not what its jobs say")
        order = [(place[job.client], job.number) for job in queue.jobs]
        if order != sorted(order):
            raise Bug(f"{queue.name}: jobs are out of order")
        for job in queue.jobs:
            request = state.requests.get(job.request)
            if request is None or request.application != queue.application:
                raise Bug(f"{queue.name}: a job of {job.request}, which does not belong there")
            if request.client != job.client:
                raise Bug(f"{queue.name}: {job.request} is in the lane of {job.client!r}")
            queued[job.request, queue.stage] += 1
    resting = Counter((rest.request, rest.stage) for rest in state.resting)
    if any(rest.request not in state.requests for rest in state.resting):
        raise Bug(f"{dict(resting)} are resting, and some of them have ended")
    for request in state.requests.values():
        for stage, run in request.runs.items():
            places = queued[request.name, stage]
            if places != (run.phase is Phase.QUEUED):
                raise Bug(f"{request.name}/{stage} is {run.phase} and {places} times in a queue")
            if resting[request.name, stage] != (run.phase is Phase.RESTING):
                raise Bug(f"{request.name}/{stage} is {run.phase}, and that is not what it does")
            task = state.tasks.get(run.task)
            inside = task is not None and request.name in task.requests and task.stage == stage
            if (run.phase is Phase.RUNNING) != (inside and run.phase is not Phase.DONE):
                raise Bug(f"{request.name}/{stage} is {run.phase}, and its task is {run.task!r}")
        if all(run.phase is Phase.DONE for run in request.runs.values()):
            raise Bug(f"{request.name} is done and was not answered")
        if all(run.phase in (Phase.BLOCKED, Phase.DONE) for run in request.runs.values()):
            raise Bug(f"{request.name} waits for nothing")


def _check_traffic(state: State) -> None:
    """Requests are counted right."""
    requests = state.requests.values()
    count = Counter((r.client, plain_name(r.application)) for r in requests)
    counted = {
        (client, name): traffic.under_way
        for client, own in state.clients.items()
        for name, traffic in own.traffic.items()
    }
    if dict(count) != {key: number for key, number in counted.items() if number}:
        raise Bug(f"{dict(count)} requests are under way, counted as {counted}")
    for client, own in state.clients.items():
        if own.under_way != sum(traffic.under_way for traffic in own.traffic.values()):
            raise Bug(f"{client!r} has {own.under_way} requests, and its applications others")


def _check_applications(scheduler: Scheduler) -> None:
    """Every version that is needed is there, with its queues, and no job waits in others."""
    state, applications = scheduler.state, scheduler.catalog.applications
    standings = state.registrations.standings
    for name, current in scheduler.applications.items():
        version = standings[name].version if name in standings else 1
        if current is not applications.get(versioned(name, version)):
            raise Bug(f"{name}: version {version} is not the one that new requests get")
        if scheduler.version(name) != version:
            raise Bug(f"{name}: version {version} is called {scheduler.version(name)}")
    for name, standing in standings.items():
        if standing.retired == (name in scheduler.applications):
            raise Bug(f"{name}: {standing}, and new requests see something else")
    for key in state.registrations.versions:
        if plain_name(key) not in standings or key not in applications:
            raise Bug(f"{key} is registered and cannot be found")
    needed = [request.application for request in state.requests.values()]
    needed += [task.application for task in state.tasks.values() if task.requests]
    for key in needed:
        if key not in applications:
            raise Bug(f"{key} is in use and was forgotten")
    expected = {queue_name(a.name, stage) for a in applications.values() for stage in a.stages}
    if state.queues.keys() != expected:
        raise Bug(f"queues of no application, or none: {state.queues.keys() ^ expected}")


def _check_wake(scheduler: Scheduler) -> None:
    """The alarm is in the future, and where the state says; a queue with work will be woken by
    something."""
    state, next_wake = scheduler.state, scheduler.next_wake
    if next_wake is not None and next_wake <= state.now_us:
        raise Bug(f"the next wake-up at {next_wake} is not after {state.now_us}")
    due_us = [state.health.reload_at_us]
    due_us += [queue.warm_at_us for queue in state.queues.values()]
    due_us += [queue.wake_us() for queue in state.queues.values() if queue.jobs]
    due_us += [rest.until_us for rest in state.resting]
    if any(queue.blocked for queue in state.queues.values() if queue.jobs):
        due_us += [handover.at_us for handover in state.handovers]
    if (NEVER_US if next_wake is None else next_wake) != min(due_us):
        raise Bug(f"the next wake-up is at {next_wake}, and {min(due_us)} is the time for it")
    if next_wake is not None or state.tasks or _is_loading(state):
        return
    for queue in state.queues.values():
        stage = scheduler.catalog.applications[queue.application].stages[queue.stage]
        nodes = state.open_nodes().values()
        if queue.jobs and any(_could_run(stage.function, node) for node in nodes):
            raise Bug(f"{queue.name} has {len(queue.jobs)} jobs and nothing will wake it")


def _is_loading(state: State) -> bool:
    return any(
        not resident.ready
        for node in state.nodes.values()
        for part in node.slices
        for resident in part.residents.values()
    )


def _could_run(function: Function, node: NodeBooks) -> bool:
    """Whether a smallest config fits a node that has nothing else to do."""
    able = counts(part.kind for part in node.slices if could_run(function, part))
    smallest = [function.profile.minimum_of(kind) for kind in function.profile.kinds]
    return any(node.vcpus >= c.vcpus and able.get(c.kind, 0) >= c.vgpus for c in smallest)
