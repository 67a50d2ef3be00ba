"""A durations in which tasks and loads fail, and nodes are slow for a while.

All bad luck is keyed by name and seed, as the noise is, so a seed is a story.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from esg.core.catalog.model import Catalog
from esg.core.durations import Durations, DurationSettings
from esg.core.messages.events import JobFailure
from esg.core.messages.node import ExecutionEnded, ModelLoaded, ModelUnloaded
from esg.core.messages.task_order import TaskOrder
from esg.units import ms

FAILED_LOAD_US = ms(20)
"""What it takes until a load has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """Whatever a node begins in this time takes so many times as long."""

    invoker: str
    from_us: int
    until_us: int
    factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Luck:
    """The shares of tasks, of single jobs and of loads that fail, of requests whose payload no
    function can use, and the functions whose models load nowhere."""

    task_failures: float = 0.0
    job_failures: float = 0.0
    invalid_inputs: float = 0.0
    load_failures: float = 0.0
    unloadable: tuple[str, ...] = ()
    slow: Sequence[Slowness] = field(default=())


class Misfortune(Durations):
    def __init__(
        self, catalog: Catalog, seed: int, luck: Luck, settings: DurationSettings | None = None
    ) -> None:
        super().__init__(catalog, seed, settings)
        self._luck = luck

    def run(self, now_us: int, order: TaskOrder) -> tuple[int, ExecutionEnded]:
        took_us = self.run_us(order) * self._slowness(now_us, order.invoker)
        if self.draw(order.task) < self._luck.task_failures:
            return max(1, took_us // 2), ExecutionEnded(task=order.task, failure="bad luck")
        failures = (self._failure(order.task, job.request) for job in order.jobs)
        failed = tuple(failure for failure in failures if failure is not None)
        return took_us, ExecutionEnded(task=order.task, failed=failed)

    def _failure(self, task: str, request: str) -> JobFailure | None:
        if self.draw(f"input of {request}") < self._luck.invalid_inputs:
            return JobFailure(request=request, reason="no picture", final=True)
        if self.draw(f"{task}/{request}") < self._luck.job_failures:
            return JobFailure(request=request, reason="bad luck")
        return None

    def load(
        self, now_us: int, invoker: str, index: int, function: str, *, again: bool = False
    ) -> tuple[int, ModelLoaded | ModelUnloaded]:
        unlucky = self.draw(f"{invoker}/{index}/{function}/{now_us}") < self._luck.load_failures
        if unlucky or function in self._luck.unloadable:
            gone = ModelUnloaded(slice=index, function=function, failure="bad luck")
            return FAILED_LOAD_US, gone
        took_us, end = super().load(now_us, invoker, index, function, again=again)
        return took_us * self._slowness(now_us, invoker), end

    def _slowness(self, now_us: int, invoker: str) -> int:
        return max(
            (
                slow.factor
                for slow in self._luck.slow
                if slow.invoker == invoker and slow.from_us <= now_us < slow.until_us
            ),
            default=1,
        )
