"""One worker node, live: a `Pool` that decides, and around it the hands that do.

Orders of the controller and facts from the slices go to the pool; what it asks for is carried out
here, each thing as a coroutine of its own that ends by telling the pool what came of it. Data is
moved by `storage`, models and inference are Triton's.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, assert_never

from esg.catalog import Catalog
from esg.commands import DiscardData, PublishData, StartTask
from esg.errors import Fault, Rejected
from esg.events import StageOutput, Woke
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
from esg.units import US_PER_S
from invoker.cpu import Bytes, CpuParts
from invoker.slices import Slice, split
from invoker.together import together
from mesh.logs import about
from mesh.settings import InvokerSettings
from mesh.wire import InvokerNews, InvokerOrder
from storage.errors import Missing
from storage.node import NodeStore

log = logging.getLogger(__name__)


class Node:
    """`report` gets the pool's news for the controller."""

    def __init__(
        self,
        catalog: Catalog,
        pool: Pool,
        slices: Sequence[Slice],
        store: NodeStore,
        cpu: CpuParts,
        settings: InvokerSettings,
        *,
        clock_us: Callable[[], int],
        report: Callable[[InvokerNews], None],
    ) -> None:
        self.pool = pool
        self.store = store
        self._catalog = catalog
        self._slices = slices
        self._cpu = cpu
        self._settings = settings
        self._clock_us = clock_us
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._executing: dict[str, asyncio.Task[None]] = {}
        self._under_way: set[asyncio.Task[None]] = set()
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

    def found(self, loaded: ModelLoaded) -> None:
        """A model that is on a slice though nobody asked for it."""
        self._tell(loaded)

    async def start_afresh(self) -> None:
        """Stop every task and forget all data, without a word about it: nobody waits for it."""
        report, self._report = self._report, lambda _: None
        try:
            running = list(self._executing.values())
            for task in list(self.pool.running):
                self._tell(TaskEnded(task=task, failure="given up"))
            for execution in running:
                execution.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self.store.clear()
            self._changed.set()
        finally:
            self._report = report

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
            case AbortTask(task=task):
                if task in self._executing:
                    self._executing[task].cancel()
            case LoadModel(slice=index, function=function):
                self._begin(self._load(index, function))
            case UnloadModel(slice=index, function=function):
                self._begin(self._unload(index, function))
            case Report(event=event):
                self._report(event)  # type: ignore[arg-type]  # a pool has no other news
            case _:
                assert_never(command)

    def _begin(
        self,
        work: Coroutine[Any, Any, None],
        ended: Callable[[asyncio.Task[None]], None] | None = None,
    ) -> asyncio.Task[None]:
        """Have something done; `ended` hears how it went."""
        task = self._loop.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(ended or _log_failure)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._changed.set()

    # ---- tasks

    def _execute(self, order: StartTask) -> None:
        # A callback, because a coroutine that is cancelled before its first step never runs at all
        self._executing[order.task] = self._begin(
            self._run(order), lambda execution: self._executed(order, execution)
        )

    def _executed(self, order: StartTask, execution: asyncio.Task[None]) -> None:
        """Tell the pool how a task ended."""
        del self._executing[order.task]
        if execution.cancelled():
            self._tell(TaskEnded(task=order.task, failure="stopped"))
            return
        error = execution.exception()
        if error is None:
            self._tell(TaskEnded(task=order.task))
            return
        known = isinstance(error, MissingInputs | Fault | Rejected)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        log.warning(
            "task failed",
            extra=about(
                task=order.task, reason=reason, requests=[job.request for job in order.jobs]
            ),
            exc_info=None if known else error,
        )
        missing = error.outputs if isinstance(error, MissingInputs) else ()
        self._tell(TaskEnded(task=order.task, failure=reason, missing=missing))

    async def _run(self, order: StartTask) -> None:
        rows: Sequence[Sequence[Bytes]] = await self._inputs(order)
        handler = self._catalog.functions[order.function].handler
        vcpus = order.config.vcpus
        if handler:
            rows = await self._cpu.prepare(handler, rows, vcpus)
        outputs = await self._infer(order, rows)
        if handler:
            outputs = await self._cpu.finish(handler, outputs, vcpus)
        await self._keep(order, outputs)

    async def _keep(self, order: StartTask, outputs: Sequence[bytes]) -> None:
        """All outputs or none: of a task without results nobody would ever discard any."""
        try:
            await together(
                [
                    self.store.keep(job.request, order.stage, output, publish=publish)
                    for job, output in zip(order.jobs, outputs, strict=True)
                    for publish in dict.fromkeys((order.publish, order.publish or job.publish))
                ]
            )
        except BaseException:
            withdrawn = [self.store.withdraw(job.request, order.stage) for job in order.jobs]
            await asyncio.gather(*withdrawn, return_exceptions=True)
            raise

    async def _inputs(self, order: StartTask) -> list[list[Bytes]]:
        """All inputs of all jobs, fetched at the same time."""
        wanted = [
            StageOutput(request=job.request, stage=source.stage)
            for job in order.jobs
            for source in job.inputs
        ]
        keepers = [source.invoker for job in order.jobs for source in job.inputs]
        limit_s = self._settings.fetch_timeout_s
        fetches = [
            self.store.fetch(output.request, output.stage, keeper, limit_s)
            for output, keeper in zip(wanted, keepers, strict=True)
        ]
        if len(fetches) == 1:
            found: list[Bytes | BaseException] = [await _result_of(fetches[0])]
        else:
            found = list(await asyncio.gather(*fetches, return_exceptions=True))
        missing = tuple(
            output
            for output, content in zip(wanted, found, strict=True)
            if isinstance(content, Missing)
        )
        if missing:
            raise MissingInputs(missing)
        contents = iter([_content(item) for item in found])
        return [[next(contents) for _ in job.inputs] for job in order.jobs]

    async def _infer(self, order: StartTask, rows: Sequence[Sequence[Bytes]]) -> list[bytes]:
        """The batch in as many portions as there are slices, all at once."""
        parameters: dict[str, int | str] = {
            "esg_batch": order.config.batch,
            "esg_vcpus": order.config.vcpus,
            "esg_vgpus": order.config.vgpus,
            "esg_key": f"{order.jobs[0].request}/{order.stage}",
        }
        limit_s = order.predicted_us / US_PER_S + self._settings.infer_timeout_s
        portions = split(rows, len(order.slices))
        calls = [
            self._slices[index].infer(
                order.function, portion, parameters=parameters, timeout_s=limit_s
            )
            for index, portion in zip(order.slices, portions, strict=False)
        ]
        return [output for portion in await together(calls) for output in portion]

    # ---- data

    async def _publish(self, order: PublishData) -> None:
        try:
            await self.store.publish(order.request, order.stage)
        except (Missing, Fault) as error:
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
        try:
            await self._slices[index].load(function)
        except Fault as error:
            log.warning(
                "load failed", extra=about(slice=index, function=function, reason=str(error))
            )
            self._tell(ModelUnloaded(slice=index, function=function, failure=str(error)))
        else:
            self._tell(ModelLoaded(slice=index, function=function))

    async def _unload(self, index: int, function: str) -> None:
        try:
            await self._slices[index].unload(function)
        except Fault as error:
            # Its memory may still be taken; the slice refuses what does not fit, and that is heard
            log.warning(
                "unload failed", extra=about(slice=index, function=function, reason=str(error))
            )
        self._tell(ModelUnloaded(slice=index, function=function))

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


def _log_failure(task: asyncio.Task[None]) -> None:
    """The end of work that should not fail: whatever can go wrong with it is dealt with there."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a piece of work failed", exc_info=error)


class MissingInputs(Exception):
    """Inputs that could not be had."""

    def __init__(self, outputs: tuple[StageOutput, ...]) -> None:
        names = ", ".join(f"{o.stage or 'payload'} of {o.request}" for o in outputs)
        super().__init__(f"missing inputs: {names}")
        self.outputs = outputs


async def _result_of(fetch: Coroutine[Any, Any, Bytes]) -> Bytes | BaseException:
    try:
        return await fetch
    except (Missing, Fault) as error:
        return error


def _content(found: Bytes | BaseException) -> Bytes:
    if isinstance(found, BaseException):
        raise found
    return found
