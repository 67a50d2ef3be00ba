"""How a task is carried out: inputs, CPU part, slices, CPU part, outputs.

A task in phases has its slices for the part in the middle only: it says when it comes to that, and
waits for its turn (`turns`). One of which no job is left by then does not wait.

A batch is split into as many portions as the task has slices, which are run at the same time. What
goes wrong with one job is that job's failure alone:

    - a job whose handler fails does not go to the model; if the handler turns its input down, that
      is final, as it would be so everywhere;
    - a portion that fails is tried again on another of the task's slices;
    - if that fails as well, and not for want of an answer or a model, its jobs are tried one by
      one: it may be the input of just one of them that the model cannot bear.

Only what concerns all jobs, such as an input that cannot be had, fails the task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from esg.core.catalog.phases import DRIVING_VCPUS
from esg.core.messages.events import JobFailure, MissingInput
from esg.core.messages.task_order import AwaitedJob, Input, JobOrder, TaskOrder
from esg.core.sessions.brought import Brought
from esg.errors import Fault
from esg.invoker.emulated.cpu_parts import EmulatedCpuParts, key_of
from esg.invoker.gathering import together
from esg.invoker.handlers.handler import Bytes, CpuParts, InvalidInput, JobError
from esg.invoker.slices.client import ModelGone, NoAnswer, SliceClient, SliceGone, split
from esg.invoker.slices.infer_request import Row
from esg.invoker.tensors.arrays import Tensors, alike
from esg.invoker.tensors.job_parts import FunctionParts
from esg.invoker.turns import Turn
from esg.runtime.settings import InvokerSettings
from esg.storage.errors import Missing
from esg.storage.node_store import NodeStore
from esg.units import US_PER_S

T = TypeVar("T")
Job = Tensors | Row
"""What a model is given for a job: a handler's arrays, or the inputs as they are."""
Made = Tensors | bytes | Fault


class Executed(NamedTuple):
    """Which jobs of a task have no output, and why; and the small results that come along with its
    report. All other outputs are stored."""

    failed: tuple[JobFailure, ...]
    brought: Brought


@dataclass(frozen=True, slots=True)
class Execution:
    """The hands that carry tasks out. `lost` is told of slices that turn out to be gone, and
    `unloaded` of those that have not got a model, before the task ends because of it. Where slices
    are emulated, functions without a handler have `emulated` CPU parts. `parts` has the functions
    whose inputs and outputs are more than blobs."""

    slices: Sequence[SliceClient]
    store: NodeStore
    cpu: CpuParts
    settings: InvokerSettings
    handlers: Mapping[str, str]
    lost: Callable[[int, str], None]
    unloaded: Callable[[int, str], Awaitable[None]]
    emulated: EmulatedCpuParts | None = None
    parts: Mapping[str, FunctionParts] = field(default_factory=dict)

    async def run(self, order: TaskOrder, turn: Turn | None = None) -> Executed:
        """A task in phases waits for its `turn`; any other has its slices already."""
        inputs: Sequence[Any] = await self._inputs(order)
        parts = self.parts.get(order.function)
        if parts is not None:
            inputs = [
                _read(parts, job, blobs) for job, blobs in zip(order.jobs, inputs, strict=True)
            ]
        handler = self.handlers.get(order.function, "")
        vcpus = order.config.vcpus
        prepared = inputs
        if handler:
            prepared = await _onward(
                inputs,
                lambda good: self.cpu.prepare(handler, good, vcpus, function=order.function),
            )
        if turn is None:
            made = await _onward(prepared, lambda good: self._infer(order, good))
        else:
            made = await _onward(prepared, lambda good: self._in_turn(order, turn, good))
            vcpus = DRIVING_VCPUS
        if handler:
            pairs = [
                m if isinstance(m, JobError) else (m, i) for m, i in zip(made, inputs, strict=True)
            ]
            outputs = await _onward(
                pairs,
                lambda good: self.cpu.finish(
                    handler,
                    good,
                    vcpus,
                    function=order.function,
                    named=parts is not None and parts.named,
                ),
            )
        else:
            outputs = made
        if parts is not None:
            outputs = [_written(parts, output) for output in outputs]
        results = list(zip(order.jobs, outputs, strict=True))
        good = [(j, o) for j, o in results if not isinstance(o, JobError)]
        brought = {j.request: bytes(o) for j, o in good if comes_along(j, o)}
        await self._keep(order, [(j, o) for j, o in good if j.request not in brought])
        failed = tuple(
            JobFailure(request=j.request, reason=str(o), final=isinstance(o, InvalidInput))
            for j, o in results
            if isinstance(o, JobError)
        )
        return Executed(failed, brought)

    async def _keep(self, order: TaskOrder, outputs: Sequence[tuple[JobOrder, bytes]]) -> None:
        """All outputs or none: of a task without results nobody would ever discard any."""
        stage = order.stage
        try:
            sent = [
                self.store.send(job.request, stage, output)
                for job, output in outputs
                if not self._keep_here(order, job, output)
            ]
            if sent:
                await together(sent)
        except BaseException:
            withdrawn = [self.store.withdraw(job.request, order.stage) for job, _ in outputs]
            await asyncio.gather(*withdrawn, return_exceptions=True)
            raise

    def _keep_here(self, order: TaskOrder, job: JobOrder, output: bytes) -> bool:
        """As far as nobody has to wait for it: whether that is all."""
        return self.store.keep_here(
            job.request,
            order.stage,
            output,
            local=order.keep,
            publish=job.publish,
            waited_for=isinstance(job, AwaitedJob),
        )

    async def _inputs(self, order: TaskOrder) -> list[list[Bytes]]:
        """All inputs of all jobs, fetched at the same time."""
        wanted = [(job.request, source) for job in order.jobs for source in job.inputs]
        limit_s = self.settings.fetch_timeout_s
        found = [self._here(request, source) for request, source in wanted]
        away = [position for position, content in enumerate(found) if content is None]
        fetches = [self.store.fetch(*wanted[position], limit_s) for position in away]
        if len(fetches) == 1:
            found[away[0]] = await _result_of(fetches[0])
        elif fetches:
            fetched = await asyncio.gather(*fetches, return_exceptions=True)
            for position, content in zip(away, fetched, strict=True):
                found[position] = content
        missing = tuple(
            MissingInput(request=request, source=source)
            for (request, source), content in zip(wanted, found, strict=True)
            if isinstance(content, Missing)
        )
        if missing:
            raise MissingInputs(missing)
        contents = iter([_content(item) for item in found])
        return [[next(contents) for _ in job.inputs] for job in order.jobs]

    def _here(self, request: str, source: Input) -> Bytes | BaseException | None:
        """An input that is on this node; most are, and need no coroutine."""
        try:
            return self.store.here(request, source)
        except Fault as error:
            return error

    async def _infer(self, order: TaskOrder, jobs: Sequence[Job]) -> list[Made]:
        """The batch in as many portions as there are slices, all at once."""
        portions = split(jobs, len(order.slices))
        works = [
            self._portion(order, index, portion)
            for index, portion in zip(order.slices, portions, strict=False)
        ]
        return [outcome for portion in await together(works) for outcome in portion]

    async def _in_turn(self, order: TaskOrder, turn: Turn, jobs: Sequence[Job]) -> list[Made]:
        """The same for a task in phases: on the slices that it gets, and for as long as it needs
        them, between CPU parts if those are emulated, too."""
        emulated = None if self.handlers.get(order.function) else self.emulated
        if emulated is None:
            return await self._on_slices(order, turn, jobs)
        phases = emulated.phases(order)
        await emulated.take(phases.before_us)
        made = await self._on_slices(order, turn, jobs)
        await emulated.take(phases.after_us)
        return made

    async def _on_slices(self, order: TaskOrder, turn: Turn, jobs: Sequence[Job]) -> list[Made]:
        given = replace(order, slices=await turn.begin())
        made = await self._infer(given, jobs)
        turn.end()
        return made

    async def _portion(self, order: TaskOrder, index: int, jobs: Sequence[Job]) -> list[Made]:
        """Jobs that are alike share a call."""
        outcomes: list[Made] = [Fault("not run")] * len(jobs)
        for positions in alike(jobs):
            made = await self._run(order, index, [jobs[position] for position in positions])
            for position, outcome in zip(positions, made, strict=True):
                outcomes[position] = outcome
        return outcomes

    async def _run(self, order: TaskOrder, index: int, jobs: Sequence[Job]) -> Sequence[Made]:
        others = [other for other in order.slices if other != index]
        for place in (index, *others[:1]):
            try:
                return await self._call(order, place, jobs)
            except Fault as error:
                fault = error
        if isinstance(fault, NoAnswer | ModelGone) or len(jobs) == 1:
            return [fault] * len(jobs)
        return [await self._alone(order, place, job) for job in jobs]

    async def _alone(self, order: TaskOrder, index: int, job: Job) -> Made:
        try:
            return (await self._call(order, index, [job]))[0]
        except Fault as fault:
            return fault

    async def _call(self, order: TaskOrder, index: int, jobs: Sequence[Any]) -> Sequence[Made]:
        parameters: dict[str, int | str] = {
            "esg_batch": order.config.batch,
            "esg_vcpus": order.config.vcpus,
            "esg_vgpus": order.config.vgpus,
            "esg_key": key_of(order),
        }
        handler, parts = self.handlers.get(order.function), self.parts.get(order.function)
        if order.phased and (handler or self.emulated is not None):
            parameters["esg_phased"] = 1  # its CPU parts are not for a slice to emulate
        limit_s = order.predicted_us / US_PER_S + self.settings.infer_timeout_s
        part = self.slices[index]
        arrays = handler or (parts is not None and parts.arrays)
        infer = part.infer if arrays else part.infer_plain
        try:
            return await infer(order.function, jobs, parameters=parameters, timeout_s=limit_s)
        except SliceGone as fault:
            self.lost(index, str(fault))
            raise
        except ModelGone:
            await self.unloaded(index, order.function)
            raise


class MissingInputs(Fault):
    """Inputs that could not be had; the scheduler has them made again."""

    def __init__(self, missing: tuple[MissingInput, ...]) -> None:
        super().__init__(f"missing inputs: {', '.join(map(str, missing))}")
        self.missing = missing


async def _onward(
    jobs: Sequence[T | JobError], work: Callable[[list[T]], Coroutine[Any, Any, Sequence[Any]]]
) -> list[Any]:
    """Work on the jobs that have come to no harm; each keeps its place."""
    good = [job for job in jobs if not isinstance(job, JobError)]
    results = iter(await work(good) if good else ())
    return [job if isinstance(job, JobError) else next(results) for job in jobs]


def _read(parts: FunctionParts, job: JobOrder, blobs: Sequence[Bytes]) -> Any:
    try:
        return parts.read(job.inputs, blobs)
    except (Fault, InvalidInput) as error:
        return error


def _written(parts: FunctionParts, made: Any) -> bytes | JobError:
    if isinstance(made, JobError):
        return made
    try:
        return parts.write(made)
    except Fault as error:
        return error


def comes_along(job: JobOrder, output: Bytes) -> bool:
    """Whether an output is sent with the report, and so kept nowhere."""
    return isinstance(job, AwaitedJob) and 0 < job.bring_bytes >= len(output)


async def _result_of(fetch: Coroutine[Any, Any, Bytes]) -> Bytes | BaseException:
    try:
        return await fetch
    except Fault as error:
        return error


def _content(found: Bytes | BaseException | None) -> Bytes:
    if isinstance(found, BaseException):
        raise found
    assert found is not None
    return found
