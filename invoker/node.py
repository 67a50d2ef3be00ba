"""One worker node, live: a `Pool` that decides, and around it the hands that do.

Orders of the controller and facts from the slices go to the pool; what it asks for is carried out
here, each thing as a coroutine of its own that ends by telling the pool what came of it; a task in
phases also does so on its way (`turns`). Data is moved by `storage`, tasks are carried out by
`execution`, models and inference are Triton's.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, assert_never

from esg.core.messages.commands import DiscardData, InvokerOrder, PublishData
from esg.core.messages.events import InvokerNews, JobFailure, TaskFinished, Woke
from esg.core.messages.node import (
    AbortTask,
    EnterSlices,
    ExecuteTask,
    ExecutionEnded,
    LoadModel,
    ModelLoaded,
    ModelUnloaded,
    PoolCommand,
    PoolEvent,
    ReplaceModel,
    SliceBack,
    SliceLost,
    TellScheduler,
    UnloadModel,
)
from esg.core.messages.task_order import TaskOrder
from esg.core.pool.pool import Pool
from esg.core.sessions.brought import NOTHING, Brought
from esg.errors import Fault, Rejected
from esg.invoker.emulated.cpu_parts import EmulatedCpuParts
from esg.invoker.execution import Executed, Execution, MissingInputs
from esg.invoker.gathering import together
from esg.invoker.handlers.handler import CpuParts
from esg.invoker.reloads import FunctionReloads
from esg.invoker.slices.client import SliceClient, SliceGone
from esg.invoker.tensors.job_parts import FunctionParts
from esg.invoker.turns import Turn
from esg.runtime.logs import about
from esg.runtime.settings import InvokerSettings
from esg.storage.node_store import NodeStore
from esg.units import US_PER_S

log = logging.getLogger(__name__)

INDEX_S = 1.0
"""How long a task that failed waits for its slices to say which models they have."""
T = TypeVar("T")


class Node:
    """`report` gets the pool's news for the controller, and what comes along. `handlers` names the
    CPU parts of the functions that have one, `lacking` says why some functions cannot be loaded
    here, and `refresh` looks again whether one can be. `emulated` has CPU parts for emulated
    slices, and `parts` the functions whose inputs and outputs are more than blobs."""

    def __init__(
        self,
        pool: Pool,
        slices: Sequence[SliceClient],
        store: NodeStore,
        cpu: CpuParts,
        settings: InvokerSettings,
        *,
        clock_us: Callable[[], int],
        report: Callable[[InvokerNews, Brought], None],
        handlers: Mapping[str, str],
        lacking: Mapping[str, str] | None = None,
        refresh: Callable[[str], str] = lambda _: "",
        emulated: EmulatedCpuParts | None = None,
        parts: Mapping[str, FunctionParts] | None = None,
    ) -> None:
        self.pool = pool
        self.store = store
        self.lost = [asyncio.Event() for _ in slices]
        """Set when a slice was found to be gone: whoever watches it sees to its return."""
        self._slices = slices
        self._servings = [0] * len(slices)
        """How often each slice was lost: what its earlier server did is no news of this one."""
        self._lacking = {} if lacking is None else lacking
        self._settings = settings
        self._execution = Execution(
            slices,
            store,
            cpu,
            settings,
            handlers,
            self.slice_lost,
            self._model_lost,
            emulated,
            parts or {},
        )
        self._reloads = FunctionReloads(
            slices, cpu, handlers, refresh, settings.load_timeout_s, self._tell
        )
        self._clock_us = clock_us
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._executing: dict[str, asyncio.Task[Executed]] = {}
        self._turns: dict[str, Turn] = {}  # of those in phases
        self._brought: Brought = NOTHING  # by the task whose end the pool is just told
        self._under_way: set[asyncio.Task[Any]] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()

    def order(self, order: InvokerOrder) -> None:
        """What the controller wants."""
        if isinstance(order, PublishData):
            self._begin(self._publish(order))
        elif isinstance(order, DiscardData):
            self._begin(self._discard(order))
        else:
            self._tell(order)

    def reload(self, function: str, ended: Callable[[str], None]) -> None:
        """Have a function run with what is on disk now (see `invoker.reloads`); `ended` hears why
        that could not be, or nothing."""
        self._begin(self._reload(function, ended))

    def found(self, loaded: ModelLoaded) -> None:
        """A model that is on a slice though nobody asked for it."""
        self._tell(loaded)

    def slice_lost(self, index: int, reason: str) -> None:
        """A slice's server is gone."""
        if not self.lost[index].is_set():
            log.warning("slice lost", extra=about(slice=index, reason=reason))
            self.lost[index].set()
            self._servings[index] += 1
            self._tell(SliceLost(slice=index, reason=reason))

    def slice_back(self, index: int, resident: Sequence[str]) -> None:
        """It is there again, with these models."""
        log.info("slice back", extra=about(slice=index))
        self.lost[index].clear()
        self._tell(SliceBack(slice=index))
        for function in resident:
            self.found(ModelLoaded(slice=index, function=function))

    async def start_afresh(self) -> None:
        """Stop every task and forget all data; its link says nothing about that."""
        for task in list(self.pool.running):
            self._tell(ExecutionEnded(task=task, failure="given up"))
        running = list(self._executing.values())  # and those that have begun in their place
        for execution in running:
            execution.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self.store.clear()
        self._changed.set()

    async def finish(self) -> None:
        """Wait until nothing runs here, and nobody needs anything that is kept here."""
        while self._under_way or self.pool.running or self.store.local.usage()[0]:
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Give up whatever is under way."""
        while self._under_way:  # what ends may have the pool begin something else
            for task in self._under_way:
                task.cancel()
            await asyncio.wait(self._under_way)
        if self._alarm is not None:
            self._alarm.cancel()

    def _tell(self, event: PoolEvent) -> None:
        for command in self.pool.handle(self._clock_us(), event):
            self._carry_out(command)
        self._set_alarm()

    def _carry_out(self, command: PoolCommand) -> None:
        match command:
            case ExecuteTask(order=order):
                self._execute(order)
            case EnterSlices(task=task, slices=slices):
                if task in self._turns:
                    self._turns[task].give(slices)
            case AbortTask(task=task):
                if task in self._executing:
                    self._executing[task].cancel()
            case LoadModel(slice=index, function=function):
                self._begin(self._load(index, function))
            case UnloadModel(slice=index, function=function):
                self._begin(self._unload(index, function))
            case ReplaceModel():
                self._reloads.free(command)
            case TellScheduler(event=event):
                self._report(event, self._brought if isinstance(event, TaskFinished) else NOTHING)
            case _:
                assert_never(command)

    def _begin(
        self,
        work: Coroutine[Any, Any, T],
        ended: Callable[[asyncio.Task[T]], None] | None = None,
    ) -> asyncio.Task[T]:
        """Have something done; `ended` hears how it went."""
        task = self._loop.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(ended or _log_failure)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        self._changed.set()

    # ---- tasks

    def _execute(self, order: TaskOrder) -> None:
        turn = None
        if order.phased:
            turn = self._turns[order.task] = Turn(order.task, self._tell)
        # A callback, because a coroutine that is cancelled before its first step never runs at all
        self._executing[order.task] = self._begin(
            self._execution.run(order, turn),
            lambda execution: self._executed(order, execution, turn),
        )

    def _executed(
        self, order: TaskOrder, execution: asyncio.Task[Executed], turn: Turn | None
    ) -> None:
        """Tell the pool how a task ended."""
        del self._executing[order.task]
        if turn is not None:
            del self._turns[order.task]
        if execution.cancelled():
            self._tell(ExecutionEnded(task=order.task, failure="stopped"))
            return
        error = execution.exception()
        if error is None:
            failed, self._brought = execution.result()
            self._tell(ExecutionEnded(task=order.task, failed=failed))
            self._brought = NOTHING
            # an input that was turned down says nothing about the node
            if unexpected := tuple(failure for failure in failed if not failure.final):
                slices = order.slices if turn is None else turn.slices
                self._look_again(order, slices, unexpected)
            return
        known = isinstance(error, Fault | Rejected)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        log.warning(
            "task failed",
            extra=about(
                task=order.task, reason=reason, requests=[job.request for job in order.jobs]
            ),
            exc_info=None if known else error,
        )
        missing = error.missing if isinstance(error, MissingInputs) else ()
        self._tell(ExecutionEnded(task=order.task, failure=reason, missing=missing))

    def _look_again(
        self, order: TaskOrder, slices: tuple[int, ...], failed: tuple[JobFailure, ...]
    ) -> None:
        """Jobs failed: perhaps because their model is not where it should be, though the slice
        had other words for it."""
        log.warning(
            "jobs failed",
            extra=about(
                task=order.task,
                requests=[failure.request for failure in failed],
                reason=failed[0].reason,
            ),
        )
        for index in slices:
            self._begin(self._check_resident(index))

    # ---- data

    async def _publish(self, order: PublishData) -> None:
        try:
            await self.store.publish(order.request, order.stage)
        except Fault as error:
            # Its consumer waits in vain, fails with what it misses, and the scheduler sees to it
            log.warning(
                "could not publish",
                extra=about(request=order.request, stage=order.stage, reason=str(error)),
            )

    async def _discard(self, order: DiscardData) -> None:
        try:
            await self.store.discard(order.request, results=order.results)
        except Fault as error:
            # What could not be deleted in Redis expires there
            log.warning("could not discard", extra=about(request=order.request, reason=str(error)))

    # ---- models

    async def _load(self, index: int, function: str) -> None:
        serving = self._servings[index]
        failure = ""
        try:
            if function in self._lacking:
                raise Fault(self._lacking[function])
            await self._slices[index].load(function, self._settings.load_timeout_s)
        except Fault as error:
            failure = str(error)
            log.warning("load failed", extra=about(slice=index, function=function, reason=failure))
            if isinstance(error, SliceGone) and serving == self._servings[index]:
                self.slice_lost(index, failure)
        if serving != self._servings[index]:
            return
        if failure:
            self._tell(ModelUnloaded(slice=index, function=function, failure=failure))
        else:
            self._tell(ModelLoaded(slice=index, function=function))

    async def _unload(self, index: int, function: str) -> None:
        serving = self._servings[index]
        try:
            await self._slices[index].unload(function)
        except Fault as error:
            # Its memory may still be taken; the slice refuses what does not fit, and that is heard
            log.warning(
                "unload failed", extra=about(slice=index, function=function, reason=str(error))
            )
        if serving == self._servings[index]:
            self._tell(ModelUnloaded(slice=index, function=function))

    async def _reload(self, function: str, ended: Callable[[str], None]) -> None:
        try:
            await self._reloads.reload(function)
        except Exception as error:
            known = isinstance(error, Fault | Rejected)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            log.warning(
                "not reloaded",
                extra=about(function=function, reason=reason),
                exc_info=None if known else error,
            )
            ended(reason)
        else:
            ended("")

    async def _model_lost(self, index: int, function: str) -> None:
        """A slice has not got a model that it was believed to have. Whoever tries again must find
        that out by no more failures: so the pool hears of it first, and of all others that are gone
        from this node, unless their slices keep us waiting."""
        self._forget(index, function)
        with suppress(TimeoutError):
            async with asyncio.timeout(INDEX_S):
                await together([self._check_resident(other) for other in range(len(self._slices))])

    async def _check_resident(self, index: int) -> None:
        """A server that was started again without our knowing has no models; one that is about to
        end has none either, and would fail whatever is tried again before its end is noticed."""
        serving = self._servings[index]
        part = self.pool.slices[index]
        believed = [function for function in part.models if part.has(function)]
        try:
            resident = await self._slices[index].resident()
        except Fault as error:
            if isinstance(error, SliceGone) and serving == self._servings[index]:
                self.slice_lost(index, str(error))
            return  # if it is silent, whoever watches the slice will notice
        if serving == self._servings[index]:
            for function in believed:
                if function not in resident:
                    self._forget(index, function)

    def _forget(self, index: int, function: str) -> None:
        """A model is gone that nobody has ordered to go."""
        if self.pool.slices[index].has(function):
            reason = f"slice {index} has lost it"
            log.warning("model lost", extra=about(slice=index, function=function))
            self._tell(ModelUnloaded(slice=index, function=function, failure=reason))

    # ---- time

    def _set_alarm(self) -> None:
        if self._alarm is None and self.pool.next_wake is not None:
            delay_s = max(0, self.pool.next_wake - self._clock_us()) / US_PER_S
            self._alarm = self._loop.call_later(delay_s, self._woke)

    def _woke(self) -> None:
        self._alarm = None
        if self.pool.next_wake is not None and self.pool.next_wake <= self._clock_us():
            self._tell(Woke())
        else:
            self._set_alarm()


def _log_failure(task: asyncio.Task[Any]) -> None:
    """The end of work that should not fail: whatever can go wrong with it is dealt with there."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a piece of work failed", exc_info=error)
