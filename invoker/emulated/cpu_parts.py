"""The CPU parts of tasks in phases on a node whose slices are emulated: their time, and no more.

A function's profile has the time of all its parts. An emulated slice takes all of it for a task
that holds everything to its end; of one in phases it takes its own part (`esg_phased`, see `task`),
and what comes before and after is waited for here. The noise is the one that the slice draws:
whatever is slow about a task, each of its parts is as slow.
"""

import time

from esg.core.catalog.model import Catalog
from esg.core.catalog.phases import Phases
from esg.core.durations import Durations
from esg.core.messages.task_order import TaskOrder
from esg.invoker.emulated.alarm import Alarm

_NS_PER_US = 1_000


class EmulatedCpuParts:
    """Waits for as many at a time as there are tasks."""

    def __init__(self, catalog: Catalog, durations: Durations) -> None:
        self._functions = catalog.functions
        self._durations = durations
        self._alarms: list[Alarm] = []
        self._spare: list[Alarm] = []

    def phases(self, order: TaskOrder) -> Phases:
        """How long each phase is of a task whose inputs are there."""
        profiled_us = self._functions[order.function].profile.time_us_of(order.config)
        working_us = self._durations.work_us(order.function, key_of(order), profiled_us)
        return self._durations.phases(order, working_us)

    async def take(self, duration_us: int) -> None:
        """Let a CPU part pass that takes so long."""
        if not duration_us:
            return
        moment_ns = time.monotonic_ns() + _NS_PER_US * duration_us
        alarm = self._spare.pop() if self._spare else self._another()
        try:
            await alarm.until(moment_ns)
        finally:
            self._spare.append(alarm)

    def close(self) -> None:
        for alarm in self._alarms:
            alarm.close()

    def _another(self) -> Alarm:
        self._alarms.append(Alarm())
        return self._alarms[-1]


def key_of(order: TaskOrder) -> str:
    """What the noise of a task is drawn by, wherever a part of it is emulated."""
    return f"{order.jobs[0].request}/{order.stage}"
