"""The loop: a heap of what happens next, around a real scheduler and real pools.

Nothing here decides anything. Orders of the scheduler go to the pools, reports of the pools go to
the scheduler, and `nature` says how long everything in between takes. Things that happen at the
same microsecond happen in the order in which they were foreseen.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Protocol, assert_never

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
from esg.events import Event, ProfilesCorrected, Woke
from esg.pool import Pool
from esg.pool_messages import (
    AbortTask,
    ExecuteTask,
    LoadModel,
    ModelLoaded,
    ModelUnloaded,
    PoolCommand,
    PoolEvent,
    Report,
    TaskEnded,
    UnloadModel,
)

Observer = Callable[[int, Event, list[Command]], None]


class Brain(Protocol):
    """What is driven here: a scheduler, or one that is being watched."""

    def handle(self, now_us: int, event: Event) -> list[Command]: ...

    @property
    def next_wake(self) -> int | None: ...


class World:
    """Virtual time. `observe` sees every event the scheduler handled, with its orders."""

    def __init__(
        self,
        scheduler: Brain,
        pools: Mapping[str, Pool],
        nature: Nature,
        *,
        charge_us: Callable[[StartTask], int] = lambda _: 0,
        observe: Observer | None = None,
    ) -> None:
        self.now_us = 0
        self._scheduler = scheduler
        self._pools = dict(pools)
        self._nature = nature
        self._charge_us = charge_us
        self._observe = observe
        self._heap: list[tuple[int, int, Event | PoolEvent, str | None]] = []
        self._ticket = count()
        self._alarm_us: dict[str | None, int] = {}
        self._sent_us: dict[str, int] = {}
        self._aborted: set[str] = set()

    def tell(self, at_us: int, event: Event) -> None:
        """Something will happen that the scheduler hears of."""
        self._push(at_us, event, None)

    def run(self, arrivals: Iterable[tuple[int, Event]] = ()) -> None:
        """Until nothing happens any more. Arrivals, in order of time, are drawn as they come."""
        for pool in self._pools.values():
            self._set_alarm(pool.invoker, pool.next_wake)
        coming = iter(arrivals)
        upcoming = next(coming, None)
        while self._heap or upcoming is not None:
            if upcoming is not None and (not self._heap or upcoming[0] <= self._heap[0][0]):
                self._push(*upcoming, None)
                if isinstance(upcoming[1], ProfilesCorrected):
                    self._nature.correct(upcoming[1].corrections)
                upcoming = next(coming, None)
            at_us, _, event, whom = heappop(self._heap)
            self.now_us = at_us
            if whom is None:
                self._to_scheduler(event)  # type: ignore[arg-type]
            else:
                self._to_pool(self._pools[whom], event)  # type: ignore[arg-type]

    def _push(self, at_us: int, event: Event | PoolEvent, whom: str | None) -> None:
        heappush(self._heap, (at_us, next(self._ticket), event, whom))

    def _to_scheduler(self, event: Event) -> None:
        if isinstance(event, Woke) and not self._is_due(None, self._scheduler.next_wake):
            return
        commands = self._scheduler.handle(self.now_us, event)
        for command in commands:
            self._perform(command)
        if self._observe is not None:
            self._observe(self.now_us, event, commands)
        self._set_alarm(None, self._scheduler.next_wake)

    def _to_pool(self, pool: Pool, event: PoolEvent) -> None:
        if isinstance(event, Woke) and not self._is_due(pool.invoker, pool.next_wake):
            return
        if isinstance(event, TaskEnded) and event.task in self._aborted and not event.failure:
            self._aborted.discard(event.task)
            return
        for command in pool.handle(self.now_us, event):
            self._carry_out(pool, command)
        self._set_alarm(pool.invoker, pool.next_wake)

    def _perform(self, command: Command) -> None:
        match command:
            case StartTask():
                self._send(self.now_us + self._charge_us(command), command)
            case StopTask() | WarmInstance() | DropInstance():
                self._send(self.now_us, command)
            case PublishData() | DiscardData():
                pass  # data has no weight here; its transfer is part of the consumer's run
            case AnswerRequest() | RefuseRequest() | RefuseApplication():
                pass  # nobody waits for an answer here
            case CorrectProfiles(corrections=corrections):
                self.tell(self.now_us, ProfilesCorrected(corrections=corrections))
            case _:
                assert_never(command)

    def _send(self, at_us: int, order: StartTask | StopTask | WarmInstance | DropInstance) -> None:
        """To a node, in order: what was decided later does not overtake a slower decision."""
        at_us = max(at_us, self._sent_us.get(order.invoker, 0))
        self._sent_us[order.invoker] = at_us
        self._push(at_us, order, order.invoker)

    def _carry_out(self, pool: Pool, command: PoolCommand) -> None:
        now_us, whom = self.now_us, pool.invoker
        match command:
            case ExecuteTask(order=order):
                self._push(now_us + self._nature.run_us(order), TaskEnded(task=order.task), whom)
            case AbortTask(task=task):
                self._aborted.add(task)
                self._push(now_us, TaskEnded(task=task, failure="stopped"), whom)
            case LoadModel(slice=index, function=function):
                took_us = self._nature.load_us(whom, index, function)
                self._push(now_us + took_us, ModelLoaded(slice=index, function=function), whom)
            case UnloadModel(slice=index, function=function):
                took_us = self._nature.settings.unload_us
                self._push(now_us + took_us, ModelUnloaded(slice=index, function=function), whom)
            case Report(event=event):
                self._push(now_us, event, None)
            case _:
                assert_never(command)

    def _set_alarm(self, whom: str | None, wake_us: int | None) -> None:
        """Have a brain woken, unless it will be by then anyway."""
        if wake_us is not None and not self.now_us < self._alarm_us.get(whom, 0) <= wake_us:
            self._alarm_us[whom] = wake_us
            self._push(wake_us, Woke(), whom)

    def _is_due(self, whom: str | None, wake_us: int | None) -> bool:
        """Alarms that were overtaken by other events are let pass; the next one is set again."""
        due = wake_us is not None and wake_us <= self.now_us
        if not due:
            self._set_alarm(whom, wake_us)
        return due
