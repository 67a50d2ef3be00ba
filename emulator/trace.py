"""A run as a picture: Chrome's trace format, for Perfetto or chrome://tracing.

One process per node, one thread per slice; each task is a bar on every slice it holds.
"""

import json
from typing import Any, TextIO

from esg.commands import Command, StartTask
from esg.events import Event, InvokerJoined, TaskFailed, TaskFinished


class ChromeTrace:
    """Observes a run and writes its bars as they end, so that memory stays bounded."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._running: dict[str, tuple[int, StartTask]] = {}
        self._process: dict[str, int] = {}
        self._first = True
        file.write('{"displayTimeUnit":"ms","traceEvents":[')

    def observe(self, now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, InvokerJoined) and event.invoker not in self._process:
            number = self._process[event.invoker] = len(self._process) + 1
            self._name("process_name", number, 0, event.invoker)
            for index in range(len(event.slices)):
                self._name("thread_name", number, index, f"slice {index}")
        elif isinstance(event, TaskFinished | TaskFailed) and event.task in self._running:
            self._bar(now_us, *self._running.pop(event.task), failed=isinstance(event, TaskFailed))
        for command in commands:
            if isinstance(command, StartTask):
                self._running[command.task] = (now_us, command)

    def close(self) -> None:
        self._file.write("\n]}\n")

    def _bar(self, now_us: int, started_us: int, order: StartTask, *, failed: bool) -> None:
        for index in order.slices:
            self._write(
                {
                    "name": order.function,
                    "cat": order.application,
                    "ph": "X",
                    "ts": started_us,
                    "dur": now_us - started_us,
                    "pid": self._process.get(order.invoker, 0),
                    "tid": index,
                    "args": {
                        "task": order.task,
                        "application": order.application,
                        "config": str(order.config),
                        "requests": [job.request for job in order.jobs],
                        "failed": failed,
                    },
                }
            )

    def _name(self, what: str, process: int, thread: int, name: str) -> None:
        self._write(
            {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
        )

    def _write(self, event: dict[str, Any]) -> None:
        self._file.write("\n" if self._first else ",\n")
        self._first = False
        self._file.write(json.dumps(event, separators=(",", ":")))
