"""The scheduler against a world that does anything, in any order.

The machine keeps the truth about a few small nodes: what they run, have loaded and are loading.
It tells the scheduler true news, late news and garbage. Whatever happens, the promises that a
`Witness` checks hold after every step, the books agree with the truth about models, and once the
nodes are back and everything runs to its end, every request has been answered exactly once.
"""

import json
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from esg.core.catalog.model import Application
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.commands import (
    Command,
    DropInstance,
    RefuseApplication,
    RefuseRequest,
    StartTask,
    WarmInstance,
)
from esg.core.messages.events import (
    ApplicationRegistered,
    ApplicationRetired,
    Correction,
    Event,
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    InvokerLost,
    InvokerReported,
    MissingInput,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
    RunningTask,
    SliceInventory,
    StageSpec,
    TaskFailed,
    TaskFinished,
    Woke,
)
from esg.core.messages.task_order import Output, TaskOrder
from esg.core.policies.table import policy_maker
from esg.core.scheduler.scheduler import Scheduler
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import PPM, ms
from tests.support.checked_scheduler import Witness
from tests.support.small_catalog import SMALL, in_phases

NODES = ("i0", "i1", "i2")
VCPUS, VGPUS, MEMORY_MB = 4, 2, 700
NAMES = (*sorted(SMALL.applications), "fresh", "newer")
CLIENTS = ("", "alice", "bob")
CHAINS = (("resize",), ("detect", "label"), ("resize", "depth", "label"))


policy_for = policy_maker("esg")
POLICY = policy_for(SMALL)
PHASED = in_phases(SMALL)
PHASED_POLICY = policy_for(PHASED)

nodes = st.sampled_from(NODES)
picks = st.integers(0, 99)


def fastest_us(application: Application) -> int:
    return application.fastest_us()[application.root]


@dataclass
class Node:
    """The truth about one node, while it is there."""

    kinds: tuple[str, ...] = (USUAL,) * VGPUS
    running: dict[str, TaskOrder] = field(default_factory=dict)
    loaded: list[set[str]] = field(default_factory=lambda: [set() for _ in range(VGPUS)])
    loading: list[set[str]] = field(default_factory=lambda: [set() for _ in range(VGPUS)])

    def inventory(self) -> tuple[SliceInventory, ...]:
        return tuple(
            SliceInventory(memory_mb=MEMORY_MB, resident=tuple(sorted(models)), kind=kind)
            for models, kind in zip(self.loaded, self.kinds, strict=True)
        )


class SchedulerMachine(RuleBasedStateMachine):
    catalog, policy = SMALL, POLICY

    def __init__(self, settings: SchedulerSettings | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.witness = Witness(self.scheduler(None))
        self.now_us = 0
        self.requests = 0
        self.nodes: dict[str, Node] = {}

    def scheduler(self, snapshot: object) -> Scheduler:
        return Scheduler(
            self.catalog, self.policy, self.settings, snapshot=snapshot, policy_for=policy_for
        )

    def new_node(self, name: str) -> Node:
        """One that has nothing but its slices."""
        return Node()

    def is_possible(self, found: Application, slo_us: int) -> bool:
        """Whether an application can be done so fast."""
        return slo_us >= fastest_us(found)

    def tell(self, event: Event) -> list[Command]:
        """Let something happen, and let the nodes do as they are told."""
        commands = self.witness.handle(self.now_us, event)
        for command in commands:
            match command:
                case StartTask(order=order):
                    node = self.nodes[order.invoker]
                    assert order.task not in node.running
                    node.running[order.task] = order
                    for index in order.slices:
                        if order.function not in node.loaded[index]:
                            node.loading[index].add(order.function)
                case WarmInstance():
                    self.nodes[command.invoker].loading[command.slice].add(command.function)
                case DropInstance():
                    self.nodes[command.invoker].loaded[command.slice].remove(command.function)
                case _:
                    pass
        return commands

    def pick_task(self, pick: int) -> tuple[str, TaskOrder]:
        """Some running task, and where it runs."""
        tasks = [
            (name, order) for name, node in self.nodes.items() for order in node.running.values()
        ]
        return tasks[pick % len(tasks)]

    def some_task_runs(self) -> bool:
        return any(node.running for node in self.nodes.values())

    @initialize(applications=st.lists(st.sampled_from(["photo", "scene"]), max_size=4))
    def a_day_begins(self, applications: list[str]) -> None:
        """With something to do for two nodes, as is usual."""
        self.a_node_joins_or_starts_anew("i0")
        self.a_node_joins_or_starts_anew("i1")
        for application in applications:
            self.requests_arrive(application, None, 1, "")

    # Time and requests.

    @rule(passed_us=st.sampled_from([1, ms(1), ms(5), ms(20), ms(100), ms(1000)]))
    def time_passes(self, passed_us: int) -> None:
        wake_us = self.witness.scheduler.next_wake
        until_us = self.now_us + passed_us
        while wake_us is not None and wake_us <= until_us:
            self.now_us = wake_us
            self.tell(Woke())
            wake_us = self.witness.scheduler.next_wake
        self.now_us = until_us

    @rule()
    def the_alarm_goes_off(self) -> None:
        wake_us = self.witness.scheduler.next_wake
        if wake_us is not None:
            self.now_us = wake_us
            self.tell(Woke())

    @rule(
        application=st.sampled_from(NAMES),
        slo_us=st.sampled_from([None, ms(80), ms(200), ms(2000)]),
        count=st.integers(1, 3),
        client=st.sampled_from(CLIENTS),
    )
    def requests_arrive(
        self, application: str, slo_us: int | None, count: int, client: str
    ) -> None:
        for _ in range(count):
            self.requests += 1
            name = f"r{self.requests}"
            self.tell(
                RequestArrived(request=name, application=application, slo_us=slo_us, client=client)
            )
            refused = isinstance(self.witness.book.answers.get(name), RefuseRequest)
            found = self.witness.scheduler.current(application)
            possible = found is not None and self.is_possible(found, slo_us or found.slo_us)
            assert refused != possible

    @rule(pick=picks)
    def a_request_is_said_again(self, pick: int) -> None:
        waiting = list(self.witness.scheduler.state.requests)
        if waiting:
            self.tell(RequestArrived(request=waiting[pick % len(waiting)], application="scan"))

    @rule(pick=picks)
    def a_request_is_cancelled(self, pick: int) -> None:
        self.tell(RequestCancelled(request=f"r{pick % (self.requests + 2)}"))

    # Applications.

    @rule(name=st.sampled_from(NAMES), chain=st.sampled_from(CHAINS), scale=st.sampled_from([1, 5]))
    def an_application_is_registered(self, name: str, chain: tuple[str, ...], scale: int) -> None:
        before = self.witness.scheduler.version(name)
        stages = [
            StageSpec(name=stage, function=stage, after=chain[:index][-1:])
            for index, stage in enumerate(chain)
        ]
        self.tell(
            ApplicationRegistered(application=name, stages=tuple(stages), slo_scale=float(scale))
        )
        found = self.witness.scheduler.current(name)
        assert found is not None
        assert tuple(found.stages) == chain
        assert self.witness.scheduler.version(name) > before

    @rule(name=st.sampled_from(NAMES))
    def an_application_is_retired(self, name: str) -> None:
        known = self.witness.scheduler.current(name) is not None
        event = ApplicationRetired(application=name)
        refused = [c for c in self.tell(event) if isinstance(c, RefuseApplication)]
        assert bool(refused) != known
        assert self.witness.scheduler.current(name) is None

    @rule(name=st.sampled_from(NAMES))
    def an_application_makes_no_sense(self, name: str) -> None:
        self.tell(Woke())  # what is due by now has nothing to do with it
        before = self.witness.scheduler.snapshot() | {"now_us": self.now_us}
        spec = StageSpec(name="resize", function="resize", after=("resize",))
        (order,) = self.tell(ApplicationRegistered(application=name, stages=(spec,)))
        assert isinstance(order, RefuseApplication)
        assert self.witness.scheduler.snapshot() == before

    # Profiles.

    @rule(
        functions=st.lists(st.sampled_from(sorted(SMALL.functions)), max_size=2, unique=True),
        pace_ppm=st.sampled_from([250_000, PPM, 1_700_000, 4_000_000]),
    )
    def profiles_turn_out_to_be_wrong(self, functions: list[str], pace_ppm: int) -> None:
        """Plans change, and what was promised does not: see `requests_arrive`."""
        corrections = [Correction(function=f, batch=1, pace_ppm=pace_ppm) for f in functions]
        self.tell(ProfilesCorrected(corrections=tuple(corrections)))
        planned = self.witness.scheduler.planned.functions
        for name in functions:
            profiled, now = SMALL.functions[name].profile, planned[name].profile
            assert (now.time_us * PPM == profiled.time_us * pace_ppm).all()

    # Nodes.

    @rule(name=nodes)
    def a_node_joins_or_starts_anew(self, name: str) -> None:
        self.join(name, self.new_node(name))

    @rule(name=nodes, survivors=st.integers(0, 3), stray=st.booleans())
    def a_node_comes_back(self, name: str, survivors: int, stray: bool) -> None:
        """With its models and some of its tasks, or even one that nobody knows."""
        node = self.nodes.get(name)
        if node is not None:
            for task in list(node.running)[survivors:]:
                self.end_loads_of(node, node.running.pop(task), done=False)
            strays = ("t9999",) if stray else ()
            node.loading = [
                {m for m in models if self.is_waited_for(node, index, m)}
                for index, models in enumerate(node.loading)
            ]
            self.join(name, node, strays)
            for task in strays:
                self.tell(TaskFailed(task=task, invoker=name, reason="stopped"))

    def join(self, name: str, node: Node, strays: tuple[str, ...] = ()) -> None:
        self.nodes[name] = node
        self.tell(
            InvokerJoined(
                invoker=name,
                vcpus=VCPUS,
                slices=node.inventory(),
                running=tuple(RunningTask(task=task) for task in (*node.running, *strays)),
            )
        )

    def is_waited_for(self, node: Node, index: int, function: str) -> bool:
        return any(
            index in order.slices and order.function == function for order in node.running.values()
        )

    @rule(name=nodes)
    def a_node_is_lost(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.tell(InvokerLost(invoker=name))

    @rule(name=nodes, behind=st.booleans())
    def a_node_reports(self, name: str, behind: bool) -> None:
        """Perhaps from before it heard of its latest task."""
        node = self.nodes.get(name) or self.new_node(name)
        running = list(node.running)
        latest = self.witness.scheduler.state.tasks_started
        if behind and running:
            latest = int(running.pop()[1:]) - 1
        self.tell(
            InvokerReported(
                invoker=name,
                slices=node.inventory(),
                running=tuple(RunningTask(task=task) for task in running),
                latest_task=latest,
            )
        )

    # Tasks.

    @rule(pick=picks, took_us=st.sampled_from([0, ms(10), ms(100)]))
    def a_task_finishes(self, pick: int, took_us: int) -> None:
        if self.some_task_runs():
            self.finish(*self.pick_task(pick), took_us)

    def finish(self, name: str, order: TaskOrder, took_us: int) -> None:
        del self.nodes[name].running[order.task]
        self.end_loads_of(self.nodes[name], order, done=True)
        self.tell(
            TaskFinished(task=order.task, invoker=name, loading_us=took_us, running_us=took_us)
        )

    @rule(pick=picks, missing=st.sets(st.integers(0, 5)), garbage=st.booleans())
    def a_task_fails(self, pick: int, missing: set[int], garbage: bool) -> None:
        """Because inputs are missing, it says; not all that it says need make sense."""
        if not self.some_task_runs():
            return
        name, order = self.pick_task(pick)
        del self.nodes[name].running[order.task]
        self.end_loads_of(self.nodes[name], order, done=False)
        inputs = [
            MissingInput(request=job.request, source=source)
            for job in order.jobs
            for source in job.inputs
        ]
        gone = [output for number, output in enumerate(inputs) if number in missing]
        if garbage:
            gone += [
                MissingInput(request=request, source=Output(stage=stage, invoker=name))
                for request, stage in (
                    ("r1", "resize"),
                    (order.jobs[0].request, order.stage),
                    ("r9999", "poetry"),
                )
            ]
        self.tell(TaskFailed(task=order.task, invoker=name, reason="it broke", missing=tuple(gone)))

    def end_loads_of(self, node: Node, order: TaskOrder, *, done: bool) -> None:
        """A task that finished had its model; for one that failed, loading is given up."""
        for index in order.slices:
            if order.function in node.loading[index]:
                node.loading[index].remove(order.function)
                if done:
                    node.loaded[index].add(order.function)

    # Models.

    @rule(pick=picks, failed=st.booleans())
    def a_model_is_loaded(self, pick: int, failed: bool) -> None:
        """Or could not be; then whoever waited for it fails too."""
        loads = [
            (name, index, model)
            for name, node in self.nodes.items()
            for index, models in enumerate(node.loading)
            for model in sorted(models)
        ]
        if not loads:
            return
        name, index, model = loads[pick % len(loads)]
        node = self.nodes[name]
        node.loading[index].remove(model)
        if not failed:
            node.loaded[index].add(model)
            self.tell(InstanceReady(invoker=name, slice=index, function=model))
            return
        self.tell(InstanceGone(invoker=name, slice=index, function=model, reason="broken"))
        for task, order in list(node.running.items()):
            if index in order.slices and order.function == model:
                del node.running[task]
                self.end_loads_of(node, order, done=False)
                self.tell(TaskFailed(task=task, invoker=name, reason=f"no {model}"))

    @rule(pick=picks)
    def a_model_is_unloaded(self, pick: int) -> None:
        """Because nothing used it."""
        idle = [
            (name, index, model)
            for name, node in self.nodes.items()
            for index, models in enumerate(node.loaded)
            for model in sorted(models)
            if not self.is_waited_for(node, index, model)
        ]
        if idle:
            name, index, model = idle[pick % len(idle)]
            self.nodes[name].loaded[index].remove(model)
            self.tell(InstanceGone(invoker=name, slice=index, function=model, reason="idle"))

    # Nonsense, and news that come late.

    @rule(pick=picks, name=nodes)
    def what_is_said_makes_no_sense(self, pick: int, name: str) -> None:
        """News of a task that is over, or never was, or runs elsewhere; and worse."""
        task = f"t{pick}"
        if name not in self.nodes or task not in self.nodes[name].running:
            self.tell(TaskFinished(task=task, invoker=name, loading_us=0, running_us=0))
            self.tell(TaskFailed(task=task, invoker=name, reason="it broke"))
        for invoker, index, function in (
            (name, VGPUS, "detect"),
            (name, 0, "poetry"),
            ("i9", 0, ""),
        ):
            self.tell(InstanceReady(invoker=invoker, slice=index, function=function))
            self.tell(InstanceGone(invoker=invoker, slice=index, function=function))
        self.tell(InvokerLost(invoker="i9"))
        self.tell(Woke())
        self.requests += 1
        self.tell(RequestArrived(request=f"r{self.requests}", application="poetry"))

    # The scheduler itself.

    @rule()
    def the_scheduler_is_restored_from_a_snapshot(self) -> None:
        text = json.dumps(self.witness.scheduler.snapshot())
        self.witness.scheduler = self.scheduler(json.loads(text))
        assert json.dumps(self.witness.scheduler.snapshot()) == text

    @invariant()
    def the_books_agree_with_the_truth(self) -> None:
        nodes = self.witness.scheduler.state.nodes
        assert set(nodes) == set(self.nodes)
        for name, node in self.nodes.items():
            assert {
                task.name
                for task in self.witness.scheduler.state.tasks.values()
                if task.invoker == name
            } == set(node.running)
            for part, loaded, loading in zip(
                nodes[name].slices, node.loaded, node.loading, strict=True
            ):
                assert {f for f, resident in part.residents.items() if resident.ready} == loaded
                assert {
                    f for f, resident in part.residents.items() if not resident.ready
                } == loading

    def teardown(self) -> None:
        """All nodes are there, and nothing fails any more."""
        for name in NODES:
            if name not in self.nodes:
                self.join(name, self.new_node(name))
        for _ in range(100 + 20 * self.requests):
            if self.some_task_runs():
                self.now_us += ms(10)
                self.finish(*self.pick_task(0), took_us=ms(10))
            elif any(models for node in self.nodes.values() for models in node.loading):
                self.a_model_is_loaded(0, failed=False)
            elif self.witness.scheduler.state.requests:
                self.the_alarm_goes_off()
        state = self.witness.scheduler.state
        assert not state.requests
        assert not state.tasks
        answered = set(self.witness.book.answers)
        assert answered == {f"r{n}" for n in range(1, self.requests + 1)}
        for node in state.nodes.values():
            assert (node.vcpus_free, node.vgpus_free) == (VCPUS, VGPUS)
        self.witness.replay_into(self.scheduler(None))


class SharingMachine(SchedulerMachine):
    """The same, with vGPU time shared between clients."""

    def __init__(self) -> None:
        super().__init__(SchedulerSettings(fair_quantum_us=ms(50)))


class PhasedMachine(SchedulerMachine):
    """The same, with tasks in phases: handovers are due while they run, as expected or not."""

    catalog, policy = PHASED, PHASED_POLICY

    def __init__(self) -> None:
        super().__init__(SchedulerSettings(tasks=TaskMode.PHASED))


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestSharingMachine = SharingMachine.TestCase
TestSharingMachine.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestPhasedMachine = PhasedMachine.TestCase
TestPhasedMachine.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
