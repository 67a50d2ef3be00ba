"""The loop: a heap of what happens next, around a real scheduler and real pools.

Nothing here decides anything. Orders of the scheduler go to the pools, reports of the pools go to
the scheduler, and `nature` says how long everything in between takes, and how it ends. Things that
happen at the same microsecond happen in the order in which they were foreseen.

Three things can be made as bad as they are in life: how messages travel (`wire`), where outputs are
(`outputs`), and which nodes are there (`start`, `stop`). Left alone, messages arrive at once, data
is wherever it is needed, and every node stays.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol, assert_never

from emulator.nature import Nature
from esg.commands import (
    AnswerRequest,
    Command,
    CorrectProfiles,
    DiscardData,
    DropInstance,
    PublishData,
    RefuseApplication,
    RefuseRequest,
    StartTask,
    StopTask,
    WarmInstance,
)
from esg.events import Event, ProfilesCorrected, StageOutput, Woke
from esg.pool import Pool
from esg.pool_messages import (
    AbortTask,
    ExecuteTask,
    LoadModel,
    ModelUnloaded,
    PoolCommand,
    PoolEvent,
    Report,
    TaskEnded,
    UnloadModel,
)
from esg.state import NEVER_US

Observer = Callable[[int, Event, list[Command]], None]
DataOrder = PublishData | DiscardData
Order = StartTask | StopTask | WarmInstance | DropInstance | DataOrder
Action = Callable[[], None]


class Brain(Protocol):
    """What is driven here: a scheduler, or one that is being watched."""

    def handle(self, now_us: int, event: Event) -> list[Command]: ...

    @property
    def next_wake(self) -> int | None: ...


class Wire(Protocol):
    """How messages travel. It calls `World.deliver` and `World.tell` when one has arrived."""

    def send(self, at_us: int, order: Order) -> None:
        """An order for a node, ready to leave at that time."""
        ...

    def report(self, invoker: str, event: Event) -> None:
        """News from a node, now."""
        ...


class Outputs(Protocol):
    """Where what the stages made is."""

    def missing(self, order: StartTask) -> tuple[StageOutput, ...]:
        """The inputs of a task that cannot be had where it runs."""
        ...

    def keep(self, order: StartTask, failed: Collection[str]) -> None:
        """A task has made its outputs, apart from those for some requests."""
        ...

    def obey(self, order: DataOrder) -> None: ...


class World:
    """Virtual time. `observe` sees every event the scheduler handled, with its orders."""

    def __init__(
        self,
        scheduler: Brain,
        pools: Mapping[str, Pool],
        nature: Nature,
        *,
        outputs: Outputs | None = None,
        charge_us: Callable[[StartTask], int] = lambda _: 0,
        observe: Observer | None = None,
    ) -> None:
        self.now_us = 0
        self.pools = dict(pools)
        self.wire: Wire | None = None
        self._scheduler = scheduler
        self._nature = nature
        self._outputs = outputs
        self._charge_us = charge_us
        self._observe = observe
        # what happens, and to whom: to a pool, to this world, or to the scheduler (None)
        self._heap: list[tuple[int, int, Any, Pool | World | None]] = []
        self._at_once: deque[tuple[Any, Pool | World | None]] = deque()
        self._ticket = count()
        self._alarm_us: dict[Pool | None, int] = {}
        self._sent_us: dict[str, int] = {}
        self._aborted: set[str] = set()

    def tell(self, at_us: int, event: Event) -> None:
        """Something will happen that the scheduler hears of."""
        self._push(at_us, event, None)

    def at(self, at_us: int, action: Action) -> None:
        """Something will be done to this world."""
        self._push(at_us, action, self)

    def start(self, pool: Pool) -> None:
        """A node's process begins."""
        self.pools[pool.invoker] = pool
        self._set_alarm(pool, pool.next_wake)

    def stop(self, invoker: str) -> None:
        """A node's process ends; whatever was under way in it does not happen."""
        self.pools.pop(invoker, None)

    def deliver(self, order: Order) -> None:
        """An order has arrived at its node, if that is there."""
        pool = self.pools.get(order.invoker)
        if pool is None:
            return
        if isinstance(order, PublishData | DiscardData):
            if self._outputs is not None:
                self._outputs.obey(order)
        else:
            self._to_pool(pool, order)

    def look_again(self) -> None:
        """The scheduler may have another alarm than after its latest event."""
        self._set_alarm(None, self._scheduler.next_wake)

    def to_pool(self, invoker: str, event: PoolEvent) -> None:
        """Something happens on a node that nobody ordered."""
        self._to_pool(self.pools[invoker], event)

    def run(self, arrivals: Iterable[tuple[int, Event]] = ()) -> None:
        """Until nothing happens any more. Arrivals, in order of time, are drawn as they come."""
        for pool in self.pools.values():
            self._set_alarm(pool, pool.next_wake)
        heap, at_once, coming = self._heap, self._at_once, iter(arrivals)
        upcoming = next(coming, None)
        while at_once or heap or upcoming is not None:
            next_us = self.now_us if at_once else heap[0][0] if heap else NEVER_US
            if upcoming is not None and upcoming[0] <= next_us:
                self._push(*upcoming, None)
                if isinstance(upcoming[1], ProfilesCorrected):
                    self._nature.correct(upcoming[1].corrections)
                upcoming = next(coming, None)
            if at_once:
                what, whom = at_once.popleft()
            else:
                self.now_us, _, what, whom = heappop(heap)
            if whom is None:
                self._to_scheduler(what)
            elif isinstance(whom, Pool):
                self._to_pool(whom, what)
            else:
                what()

    def _push(self, at_us: int, what: Any, whom: "Pool | World | None") -> None:
        if at_us == self.now_us and (not self._heap or self._heap[0][0] > at_us):
            self._at_once.append((what, whom))  # two thirds of all need no place in line
        else:
            heappush(self._heap, (at_us, next(self._ticket), what, whom))

    def _to_scheduler(self, event: Event) -> None:
        if type(event) is Woke and not self._is_due(None, self._scheduler.next_wake):
            return
        commands = self._scheduler.handle(self.now_us, event)
        for command in commands:
            self._perform(command)
        if self._observe is not None:
            self._observe(self.now_us, event, commands)
        wake_us = self._scheduler.next_wake
        if wake_us != self._alarm_us.get(None):
            self._set_alarm(None, wake_us)

    def _to_pool(self, pool: Pool, event: PoolEvent) -> None:
        if self.pools.get(pool.invoker) is not pool:
            return  # its process has ended
        if type(event) is Woke and not self._is_due(pool, pool.next_wake):
            return
        if type(event) is TaskEnded and not event.failure:
            if event.task in self._aborted:
                self._aborted.discard(event.task)
                return
            if self._outputs is not None and event.task in pool.running:
                failed = [failure.request for failure in event.failed]
                self._outputs.keep(pool.running[event.task].order, failed)
        for command in pool.handle(self.now_us, event):
            self._carry_out(pool, command)
        if pool.next_wake != self._alarm_us.get(pool):
            self._set_alarm(pool, pool.next_wake)

    def _perform(self, command: Command) -> None:
        match command:
            case StartTask():
                self._send(self.now_us + self._charge_us(command), command)
            case PublishData() | DiscardData() if self.wire is None:
                self.deliver(command)  # has no weight here: a transfer is part of its reader's run
            case AnswerRequest() | RefuseRequest() | RefuseApplication():
                pass  # nobody waits for an answer here
            case StopTask() | WarmInstance() | DropInstance() | PublishData() | DiscardData():
                self._send(self.now_us, command)
            case CorrectProfiles(corrections=corrections):
                self.tell(self.now_us, ProfilesCorrected(corrections=corrections))
            case _:
                assert_never(command)

    def _send(self, at_us: int, order: Order) -> None:
        """To a node, in order: what was decided later does not overtake a slower decision."""
        at_us = max(at_us, self._sent_us.get(order.invoker, 0))
        self._sent_us[order.invoker] = at_us
        if self.wire is not None:
            self.wire.send(at_us, order)
        elif order.invoker in self.pools:
            self._push(at_us, order, self.pools[order.invoker])

    def _carry_out(self, pool: Pool, command: PoolCommand) -> None:
        now_us, nature = self.now_us, self._nature
        match command:
            case ExecuteTask():
                self._execute(pool, command.order)
            case Report():
                if self.wire is None:
                    self._push(now_us, command.event, None)
                else:
                    self.wire.report(pool.invoker, command.event)
            case AbortTask(task=task):
                self._aborted.add(task)
                stopped = TaskEnded(task=task, failure="stopped")
                self._push(now_us + nature.settings.abort_us, stopped, pool)
            case LoadModel(slice=index, function=function):
                took_us, end = nature.load(now_us, pool.invoker, index, function)
                self._push(now_us + took_us, end, pool)
            case UnloadModel(slice=index, function=function):
                gone = ModelUnloaded(slice=index, function=function)
                self._push(now_us + nature.settings.unload_us, gone, pool)
            case _:
                assert_never(command)

    def _execute(self, pool: Pool, order: StartTask, *, waited: bool = False) -> None:
        missing = self._outputs.missing(order) if self._outputs is not None else ()
        if not missing:
            took_us, end = self._nature.run(self.now_us, order)
            self._push(self.now_us + took_us, end, pool)
        elif waited:
            failure = f"inputs are missing: {missing[0].request}/{missing[0].stage}"
            end = TaskEnded(task=order.task, failure=failure, missing=missing)
            self._push(self.now_us, end, pool)
        else:  # they may be on their way
            later_us = self.now_us + self._nature.settings.fetch_timeout_us
            self.at(later_us, partial(self._execute, pool, order, waited=True))

    def _set_alarm(self, whom: Pool | None, wake_us: int | None) -> None:
        """Have a brain woken, unless it will be by then anyway."""
        if wake_us is not None and not self.now_us < self._alarm_us.get(whom, 0) <= wake_us:
            self._alarm_us[whom] = wake_us
            self._push(max(wake_us, self.now_us), Woke(), whom)

    def _is_due(self, whom: Pool | None, wake_us: int | None) -> bool:
        """Alarms that were overtaken by other events are let pass; the next one is set again."""
        due = wake_us is not None and wake_us <= self.now_us
        if not due:
            self._set_alarm(whom, wake_us)
        return due
