"""The loop: a heap of what happens next, around a real scheduler and real pools.

Nothing here decides anything. Orders of the scheduler go to the pools, reports of the pools go to
the scheduler, and `durations` says how long everything in between takes, and how it ends. Things
that happen at the same microsecond happen in the order in which they were foreseen; arrivals, which
nobody foresees, come last.

Three things can be made as bad as they are in life: how messages travel (`wire`), where outputs are
(`outputs`), and which nodes are there (`start`, `stop`). Left alone, messages arrive at once, data
is wherever it is needed, and every node stays.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol, assert_never, get_args

from esg.core.catalog.phases import Phases
from esg.core.durations import Durations
from esg.core.messages.commands import (
    AcceptApplication,
    AdmitRequest,
    AnswerRequest,
    Command,
    CorrectProfiles,
    DiscardData,
    DropInstance,
    InvokerOrder,
    PublishData,
    RecallStanding,
    RefuseApplication,
    RefuseRequest,
    StartTask,
    StopTask,
    WarmInstance,
)
from esg.core.messages.events import Event, InvokerNews, MissingInput, ProfilesCorrected, Woke
from esg.core.messages.node import (
    AbortTask,
    EnterSlices,
    ExecuteTask,
    ExecutionEnded,
    FunctionReloaded,
    LoadModel,
    ModelUnloaded,
    PoolCommand,
    PoolEvent,
    ReplaceModel,
    TaskLeftSlices,
    TaskPrepared,
    TellScheduler,
    UnloadModel,
)
from esg.core.messages.task_order import TaskOrder
from esg.core.pool.pool import Pool
from esg.units import NEVER_US

Observer = Callable[[int, Event, list[Command]], None]
DataOrder = PublishData | DiscardData
Action = Callable[[], None]


Answer = AdmitRequest | AnswerRequest | RefuseRequest | AcceptApplication | RefuseApplication
ANSWERS: frozenset[type] = frozenset(get_args(Answer))
"""Orders that change nothing here: nobody waits for an answer."""

DATA_ORDERS: frozenset[type] = frozenset(get_args(DataOrder))
"""Nor do these, while data is wherever it is needed: a transfer is part of its reader's run."""


class Brain(Protocol):
    """What is driven here: a scheduler, or one that is being watched."""

    def handle(self, now_us: int, event: Event) -> list[Command]: ...

    @property
    def next_wake(self) -> int | None: ...


class Wire(Protocol):
    """How messages travel. It calls `World.deliver` and `World.tell` when one has arrived."""

    def send(self, at_us: int, order: InvokerOrder) -> None:
        """An order for a node, ready to leave at that time."""
        ...

    def report(self, invoker: str, event: InvokerNews) -> None:
        """News from a node, now."""
        ...


class Outputs(Protocol):
    """Where what the stages made is."""

    def missing(self, order: TaskOrder) -> tuple[MissingInput, ...]:
        """The inputs of a task that cannot be had where it runs."""
        ...

    def keep(self, order: TaskOrder, failed: Collection[str]) -> None:
        """A task has made its outputs, apart from those for some requests."""
        ...

    def obey(self, order: DataOrder) -> None: ...


@dataclass(slots=True, eq=False)
class _Node:
    """One process of a node. `alarm_us` is when its brain will be woken, `sent_us` when the latest
    order leaves that was given while it was there. `ahead` has the phases that tasks have before
    them, and their ends, `had` the models that were ever loaded there."""

    pool: Pool
    ahead: dict[str, tuple[Phases, ExecutionEnded]] = field(default_factory=dict)
    alarm_us: int = 0
    sent_us: int = 0
    ended: bool = False
    had: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.had.update(name for part in self.pool.slices for name in part.models)


class World:
    """Virtual time. `observe` sees every event the scheduler handled, with its orders."""

    def __init__(
        self,
        scheduler: Brain,
        pools: Mapping[str, Pool],
        durations: Durations,
        *,
        outputs: Outputs | None = None,
        charge_us: Callable[[StartTask], int] = lambda _: 0,
        observe: Observer | None = None,
    ) -> None:
        self.now_us = 0
        self.wire: Wire | None = None
        self._nodes = {invoker: _Node(pool) for invoker, pool in pools.items()}
        self._scheduler = scheduler
        self._nature = durations
        self._outputs = outputs
        self._weightless = ANSWERS if outputs is not None else ANSWERS | DATA_ORDERS
        self._charge_us = charge_us
        self._observe = observe
        # what happens, and to whom: to a node, to this world, or to the scheduler (None)
        self._heap: list[tuple[int, int, Any, _Node | World | None]] = []
        self._at_once: deque[tuple[Any, _Node | World | None]] = deque()
        self._ticket = count()
        self._alarm_us = 0
        self._aborted: set[str] = set()

    @property
    def pools(self) -> Mapping[str, Pool]:
        """The brains of the nodes that are there."""
        return {invoker: node.pool for invoker, node in self._nodes.items()}

    def tell(self, at_us: int, event: Event) -> None:
        """Something will happen that the scheduler hears of."""
        self._push(at_us, event, None)

    def at(self, at_us: int, action: Action) -> None:
        """Something will be done to this world."""
        self._push(at_us, action, self)

    def start(self, pool: Pool) -> None:
        """A node's process begins, in the place of the one before it."""
        self.stop(pool.invoker)
        node = self._nodes[pool.invoker] = _Node(pool)
        self._set_alarm(node, pool.next_wake)

    def stop(self, invoker: str) -> None:
        """A node's process ends; whatever was under way in it does not happen."""
        node = self._nodes.pop(invoker, None)
        if node is not None:
            node.ended = True

    def deliver(self, order: InvokerOrder) -> None:
        """An order has arrived at its node, if that is there."""
        node = self._nodes.get(order.invoker)
        if node is None:
            return
        if isinstance(order, PublishData | DiscardData):
            if self._outputs is not None:
                self._outputs.obey(order)
        else:
            self._to_node(node, order)

    def look_again(self) -> None:
        """The scheduler may have another alarm than after its latest event."""
        self._set_alarm(None, self._scheduler.next_wake)

    def to_pool(self, invoker: str, event: PoolEvent) -> None:
        """Something happens on a node that nobody ordered."""
        self._to_node(self._nodes[invoker], event)

    def run(self, arrivals: Iterable[tuple[int, Event]] = ()) -> None:
        """Until nothing happens any more. Arrivals, in order of time, are drawn as they come."""
        for node in self._nodes.values():
            self._set_alarm(node, node.pool.next_wake)
        for at_us, event in arrivals:
            self._run_until(at_us)
            self.now_us = at_us
            if isinstance(event, ProfilesCorrected):
                self._nature.correct(event.corrections)
            self._to_scheduler(event)
        self._run_until(NEVER_US)

    def _run_until(self, end_us: int) -> None:
        heap, at_once = self._heap, self._at_once
        while True:
            if at_once:
                what, whom = at_once.popleft()
            elif heap and heap[0][0] <= end_us:
                self.now_us, _, what, whom = heappop(heap)
            else:
                return
            if whom is None:
                self._to_scheduler(what)
            elif isinstance(whom, _Node):
                self._to_node(whom, what)
            else:
                what()

    def _push(self, at_us: int, what: Any, whom: "_Node | World | None") -> None:
        if at_us == self.now_us and (not self._heap or self._heap[0][0] > at_us):
            self._at_once.append((what, whom))  # needs no place in line
        else:
            heappush(self._heap, (at_us, next(self._ticket), what, whom))

    def _to_scheduler(self, event: Event) -> None:
        scheduler, now_us = self._scheduler, self.now_us
        if type(event) is Woke and not self._is_due(None, scheduler.next_wake):
            return
        commands = scheduler.handle(now_us, event)
        for command in commands:
            if type(command) not in self._weightless:
                self._perform(command)
        if self._observe is not None:
            self._observe(now_us, event, commands)
        wake_us = scheduler.next_wake
        if wake_us is not None and wake_us != self._alarm_us:
            self._set_alarm(None, wake_us)

    def _to_node(self, node: _Node, event: PoolEvent) -> None:
        if node.ended:
            return
        pool = node.pool
        if type(event) is Woke and not self._is_due(node, pool.next_wake):
            return
        if type(event) is ExecutionEnded and not event.failure:
            if event.task in self._aborted:
                self._aborted.discard(event.task)
                return
            if self._outputs is not None and event.task in pool.running:
                failed = [failure.request for failure in event.failed]
                self._outputs.keep(pool.running[event.task].order, failed)
        for command in pool.handle(self.now_us, event):
            self._carry_out(node, command)
        if pool.next_wake != node.alarm_us:
            self._set_alarm(node, pool.next_wake)

    def _perform(self, command: Command) -> None:
        match command:  # what is ordered most often comes first
            case StartTask():
                if not command.begun:
                    self._send(self.now_us + self._charge_us(command), command.order)
            case PublishData() | DiscardData() if self.wire is None:
                self.deliver(command)
            case StopTask() | RecallStanding() | WarmInstance() | DropInstance():
                self._send(self.now_us, command)
            case PublishData() | DiscardData():
                self._send(self.now_us, command)
            case CorrectProfiles(corrections=corrections):
                self.tell(self.now_us, ProfilesCorrected(corrections=corrections))
            case _:
                if not isinstance(command, Answer):  # which is weightless, and does not get here
                    assert_never(command)

    def _send(self, at_us: int, order: InvokerOrder) -> None:
        """To a node, in order: what was decided later does not overtake a slower decision."""
        node = self._nodes.get(order.invoker)
        if node is not None:
            if at_us < node.sent_us:
                at_us = node.sent_us
            node.sent_us = at_us
        if self.wire is not None:
            self.wire.send(at_us, order)
        elif node is not None:
            self._push(at_us, order, node)

    def _carry_out(self, node: _Node, command: PoolCommand) -> None:
        now_us, durations = self.now_us, self._nature
        match command:
            case ExecuteTask():
                self._execute(node, command.order)
            case EnterSlices(task=task):
                phases, end = node.ahead.pop(task)
                left_us = now_us + phases.slices_us
                self._push(left_us, TaskLeftSlices(task=task), node)
                self._push(left_us + phases.after_us, end, node)
            case TellScheduler():
                if self.wire is None:
                    self._push(now_us, command.event, None)
                else:
                    self.wire.report(node.pool.invoker, command.event)
            case AbortTask(task=task):
                if node.ahead.pop(task, None) is None:
                    self._aborted.add(task)
                stopped = ExecutionEnded(task=task, failure="stopped")
                self._push(now_us + durations.settings.abort_us, stopped, node)
            case LoadModel(slice=index, function=function):
                again = function in node.had
                node.had.add(function)
                name = node.pool.invoker
                took_us, loaded = durations.load(now_us, name, index, function, again=again)
                self._push(now_us + took_us, loaded, node)
            case UnloadModel(slice=index, function=function):
                gone = ModelUnloaded(slice=index, function=function)
                self._push(now_us + durations.settings.unload_us, gone, node)
            case ReplaceModel(function=function):  # an emulated model has no code that changes
                self._push(now_us, FunctionReloaded(function=function), node)
            case _:
                assert_never(command)

    def _execute(self, node: _Node, order: TaskOrder, *, waited: bool = False) -> None:
        missing = self._outputs.missing(order) if self._outputs is not None else ()
        if not missing:
            took_us, end = self._nature.run(self.now_us, order)
            if order.phased and not end.failure:
                phases = self._nature.phases(order, took_us)
                node.ahead[order.task] = phases, end
                self._push(self.now_us + phases.before_us, TaskPrepared(task=order.task), node)
            else:
                self._push(self.now_us + took_us, end, node)
        elif waited:
            failure = f"missing inputs: {missing[0]}"
            end = ExecutionEnded(task=order.task, failure=failure, missing=missing)
            self._push(self.now_us, end, node)
        else:  # they may be on their way
            later_us = self.now_us + self._nature.settings.fetch_timeout_us
            self.at(later_us, partial(self._execute, node, order, waited=True))

    def _set_alarm(self, whom: _Node | None, wake_us: int | None) -> None:
        """Have a brain woken, unless it will be by then anyway."""
        alarm_us = self._alarm_us if whom is None else whom.alarm_us
        if wake_us is not None and not self.now_us < alarm_us <= wake_us:
            if whom is None:
                self._alarm_us = wake_us
            else:
                whom.alarm_us = wake_us
            self._push(max(wake_us, self.now_us), Woke(), whom)

    def _is_due(self, whom: _Node | None, wake_us: int | None) -> bool:
        """Alarms that were overtaken by other events are let pass; the next one is set again."""
        due = wake_us is not None and wake_us <= self.now_us
        if not due:
            self._set_alarm(whom, wake_us)
        return due
