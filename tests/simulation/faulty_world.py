"""A world in which things go wrong, and data has to be somewhere.

On top of `emulator.World`: nodes crash and come back empty, restart before anyone notices, or
cannot be reached for a while; tasks and loads fail; and the outputs of stages are kept, published
and discarded as ordered, so that a task whose inputs are not where it was told fails.

All bad luck is keyed by name and seed, so a seed is a story.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify
from random import Random
from typing import Any

from emulator.nature import Nature
from emulator.world import World
from esg.commands import (
    Command,
    DiscardData,
    DropInstance,
    PublishData,
    StartTask,
    StopTask,
    WarmInstance,
)
from esg.events import InvokerLost, StageOutput, TaskFailed
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
)
from esg.scheduler import Scheduler
from esg.units import ms
from tests.witness import Witness

ORDERS = (StartTask, StopTask, WarmInstance, DropInstance)
Output = tuple[str, str]
"""Request and stage."""


@dataclass(frozen=True)
class Crash:
    """A node is gone with all it has, and this is noticed."""

    invoker: str


@dataclass(frozen=True)
class Restart:
    """A node is there, empty; if it was there before, nobody noticed that it had gone."""

    invoker: str


@dataclass(frozen=True)
class Unreachable:
    """A node is given up, but goes on with what it does."""

    invoker: str


@dataclass(frozen=True)
class ReachableAgain:
    invoker: str


@dataclass(frozen=True)
class Inventory:
    """A node reports, as it does from time to time."""

    invoker: str


@dataclass(frozen=True)
class Expiry:
    """Whatever has been published, except results, is gone."""


Mishap = Crash | Restart | Unreachable | ReachableAgain | Inventory | Expiry


class FaultyWorld(World):
    """`bad_luck` is the share of tasks and of loads that fail; `abort_us` is what it takes until
    a task that was stopped is over."""

    def __init__(
        self,
        scheduler: Scheduler,
        witness: Witness,
        nature: Nature,
        make_pool: Callable[[str], Pool],
        nodes: tuple[str, ...],
        *,
        seed: int,
        bad_luck: float = 0.0,
        abort_us: int = 0,
        charge_us: Callable[[StartTask], int] = lambda _: 0,
    ) -> None:
        pools = {node: make_pool(node) for node in nodes}
        super().__init__(scheduler, pools, nature, charge_us=charge_us, observe=witness.note)
        self.pools = self._pools
        self.reports: list[Any] = []
        self.kept: dict[str, set[Output]] = {node: set() for node in nodes}
        self.published: set[Output] = set()
        self._results: set[Output] = set()
        self._make_pool = make_pool
        self._seed = seed
        self._bad_luck = bad_luck
        self._abort_us = abort_us
        self._orders: dict[str, StartTask] = {}
        for pool in pools.values():
            self.tell(0, pool.joined())

    def mishap(self, at_us: int, what: Mishap) -> None:
        self._push(at_us, what, None)  # type: ignore[arg-type]

    def _to_scheduler(self, event: Any) -> None:
        match event:
            case Crash(invoker):
                self._forget_node(invoker)
                super()._to_scheduler(InvokerLost(invoker=invoker))
            case Restart(invoker):
                self._forget_node(invoker)
                self.pools[invoker] = self._make_pool(invoker)
                super()._to_scheduler(self.pools[invoker].joined())
            case Unreachable(invoker):
                self._drop_under_way(invoker, ORDERS)
                super()._to_scheduler(InvokerLost(invoker=invoker))
            case ReachableAgain(invoker):
                if invoker in self.pools:  # what it had said before is heard before
                    self._drop_under_way(invoker, ORDERS)
                    self._push(self.now_us, self.pools[invoker].joined(), None)
            case Inventory(invoker):
                if invoker in self.pools:
                    self._push(self.now_us, self.pools[invoker].report(), None)
            case Expiry():
                self.published = self.published & self._results
            case _:
                super()._to_scheduler(event)

    def _forget_node(self, invoker: str) -> None:
        """With it goes everything that was under way to it or in it."""
        self.pools.pop(invoker, None)
        self.kept[invoker] = set()
        self._alarm_us.pop(invoker, None)
        self._drop_under_way(invoker, (object,))

    def _drop_under_way(self, invoker: str, kinds: tuple[type, ...]) -> None:
        self._heap = [
            entry for entry in self._heap if entry[3] != invoker or not isinstance(entry[2], kinds)
        ]
        heapify(self._heap)

    def _perform(self, command: Command) -> None:
        match command:
            case PublishData():
                output = (command.request, command.stage)
                if output in self.kept[command.invoker]:
                    self.published.add(output)
            case DiscardData():
                kept = self.kept[command.invoker]
                kept -= {output for output in kept if output[0] == command.request}
            case _:
                super()._perform(command)

    def _carry_out(self, pool: Pool, command: PoolCommand) -> None:
        match command:
            case ExecuteTask(order=order):
                missing = tuple(self._missing(order))
                if missing:
                    end = TaskEnded(task=order.task, failure="no input", missing=missing)
                    self._push(self.now_us + ms(1), end, pool.invoker)
                elif self._unlucky(order.task):
                    end = TaskEnded(task=order.task, failure="bad luck")
                    self._push(self.now_us + self._nature.run_us(order) // 2, end, pool.invoker)
                else:
                    self._orders[order.task] = order
                    super()._carry_out(pool, command)
            case LoadModel(slice=index, function=function) if self._unlucky(
                f"{pool.invoker}/{index}/{function}/{self.now_us}"
            ):
                gone = ModelUnloaded(slice=index, function=function, failure="bad luck")
                self._push(self.now_us + ms(20), gone, pool.invoker)
            case AbortTask(task=task):
                self._aborted.add(task)
                end = TaskEnded(task=task, failure="stopped")
                self._push(self.now_us + self._abort_us, end, pool.invoker)
            case Report(event=event):
                self.reports.append(event)
                super()._carry_out(pool, command)
            case _:
                super()._carry_out(pool, command)

    def _to_pool(self, pool: Pool, event: PoolEvent) -> None:
        if isinstance(event, TaskEnded) and not event.failure and event.task not in self._aborted:
            self._keep_outputs(pool, self._orders.pop(event.task))
        super()._to_pool(pool, event)

    def _keep_outputs(self, pool: Pool, order: StartTask) -> None:
        outputs = {(job.request, order.stage) for job in order.jobs}
        self.kept[pool.invoker] |= outputs
        if order.publish:
            self.published |= outputs
            self._results |= outputs

    def _missing(self, order: StartTask) -> list[StageOutput]:
        """The inputs that are not where the order says."""
        return [
            StageOutput(request=job.request, stage=source.stage)
            for job in order.jobs
            for source in job.inputs
            if source.stage
            and (job.request, source.stage)
            not in (self.kept[order.invoker] if source.invoker == order.invoker else self.published)
        ]

    def _unlucky(self, key: str) -> bool:
        return Random(f"{self._seed}:{key}").random() < self._bad_luck


def refusals(world: FaultyWorld) -> list[TaskFailed]:
    """What pools would not do because they did not have the room that the scheduler thought."""
    return [
        event
        for event in world.reports
        if isinstance(event, TaskFailed) and "not free" in event.reason
    ]
