"""A run as a picture: Chrome's trace format, for Perfetto or chrome://tracing.

One process per node, one thread per slice; each task is a bar on every slice it holds, for as long
as it does. Models that are loaded have tracks of their own, since that may go on beside a task: for
a task that had to wait for its model, `loading_ms` says how long. So have the CPU parts of tasks in
phases.
"""

import json
from typing import Any, TextIO

from esg.core.messages.commands import Command, StartTask
from esg.core.messages.events import Event, InstanceReady, InvokerJoined, TaskFailed, TaskFinished
from esg.core.messages.task_order import TaskOrder
from esg.units import to_ms


class ChromeTrace:
    """Observes a run and writes its bars as they end, so that memory stays bounded."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._running: dict[str, tuple[int, StartTask]] = {}
        self._process: dict[str, int] = {}
        self._first = True
        self._spans = 0
        file.write('{"displayTimeUnit":"ms","traceEvents":[')

    def observe(self, now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, InvokerJoined) and event.invoker not in self._process:
            number = self._process[event.invoker] = len(self._process) + 1
            self._name("process_name", number, 0, event.invoker)
            for index in range(len(event.slices)):
                self._name("thread_name", number, _track(index), f"slice {index}")
        elif isinstance(event, TaskFinished | TaskFailed) and event.task in self._running:
            self._bar(now_us, *self._running.pop(event.task), event)
        elif isinstance(event, InstanceReady) and event.loading_us:
            self._load(now_us, event)
        for command in commands:
            if isinstance(command, StartTask):
                self._running[command.order.task] = (now_us, command)

    def close(self) -> None:
        self._file.write("\n]}\n")

    def _load(self, now_us: int, event: InstanceReady) -> None:
        self._spans += 1
        common = {
            "name": f"load {event.function}",
            "cat": "load",
            "id": self._spans,
            "pid": self._process.get(event.invoker, 0),
            "tid": _track(event.slice),
        }
        begun_us = now_us - event.loading_us
        self._write({**common, "ph": "b", "ts": begun_us, "args": {"slice": event.slice}})
        self._write({**common, "ph": "e", "ts": now_us})

    def _bar(
        self, now_us: int, started_us: int, command: StartTask, end: TaskFinished | TaskFailed
    ) -> None:
        order, application = command.order, command.decision.application
        loading_us, slices = 0, order.slices
        from_us, until_us = started_us, now_us
        if isinstance(end, TaskFinished):
            loading_us, slices = end.loading_us, end.slices or order.slices
            if end.phases is not None:
                until_us -= end.phases.after_us
                from_us = until_us - end.phases.slices_us
                self._cpu_part(started_us, end.phases.before_us, order)
        for index in slices:
            self._write(
                {
                    "name": order.function,
                    "cat": application,
                    "ph": "X",
                    "ts": from_us,
                    "dur": until_us - from_us,
                    "pid": self._process.get(order.invoker, 0),
                    "tid": _track(index),
                    "args": {
                        "task": order.task,
                        "application": application,
                        "config": str(order.config),
                        "requests": [job.request for job in order.jobs],
                        "loading_ms": to_ms(loading_us),
                        "failed": isinstance(end, TaskFailed),
                    },
                }
            )

    def _cpu_part(self, from_us: int, took_us: int, order: TaskOrder) -> None:
        self._spans += 1
        common = {
            "name": f"prepare {order.function}",
            "cat": "cpu",
            "id": self._spans,
            "pid": self._process.get(order.invoker, 0),
            "tid": 0,
        }
        self._write({**common, "ph": "b", "ts": from_us, "args": {"task": order.task}})
        self._write({**common, "ph": "e", "ts": from_us + took_us})

    def _name(self, what: str, process: int, thread: int, name: str) -> None:
        self._write(
            {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
        )

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write("\n" if self._first else ",\n")
        self._first = False
        self._file.write(json.dumps(event, separators=(",", ":")))


def _track(slice: int) -> int:
    """The thread that stands for a slice: not 0, which some viewers take for none."""
    return slice + 1
