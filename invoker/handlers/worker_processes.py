"""Worker processes, each with one call at a time.

Each is an executor of its own: of several processes in one executor none could be ended without
the others, and with them what they do for somebody else.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from esg.runtime.tether import tie_to


class WorkerDied(Exception):
    """A worker ended in the middle of a call."""


class OutOfTime(Exception):
    """A call took too long; its worker was ended."""


class Workers:
    """At most `size` processes, each started when it is first needed. `ended` counts those that
    were lost with a call, by why; another one is started in the place of each."""

    def __init__(self, size: int) -> None:
        self.ended = {"died": 0, "timeout": 0, "cancelled": 0}
        self._turns = asyncio.Semaphore(size)
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: list[ProcessPoolExecutor] = []
        self._closed = False

    async def call(self, limit_s: float, work: Callable[..., Any], *arguments: Any) -> Any:
        """What `work` gives. Waiting for a worker takes nothing of the time that it has.

        A call that is given up, or out of time, ends its worker: nothing else stops a process that
        computes, and one that never comes back would be missing for good.
        """
        async with self._turns:
            if self._closed:
                raise WorkerDied
            worker = self._idle.pop() if self._idle else _new_worker()
            self._busy.append(worker)
            usable, why = False, "cancelled"
            try:
                answer = asyncio.get_running_loop().run_in_executor(worker, work, *arguments)
                answer.add_done_callback(_heard)
                done, _ = await asyncio.wait({answer}, timeout=limit_s)
                if not done:
                    why = "timeout"
                    raise OutOfTime
                usable = not isinstance(answer.exception(), BrokenExecutor)
                if not usable:
                    why = "died"
                    raise WorkerDied
                return answer.result()
            finally:
                self._busy.remove(worker)
                if usable and not self._closed:
                    self._idle.append(worker)
                else:
                    self.ended[why] += not self._closed
                    _end(worker)

    def close(self) -> None:
        """End them, whatever they are doing: one that never returns would otherwise keep this
        process from ending."""
        self._closed = True
        for worker in (*self._idle, *self._busy):
            _end(worker)
        self._idle.clear()


def _new_worker() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin, initargs=(os.getpid(),))


def _end(worker: ProcessPoolExecutor) -> None:
    for process in list((worker._processes or {}).values()):
        process.kill()
    worker.shutdown(wait=False)


def _heard(answer: asyncio.Future[Any]) -> None:
    """What comes of a call that nobody waits for any more is no news."""
    if not answer.cancelled():
        answer.exception()


def _begin(parent: int) -> None:
    """In a new worker: it ends with the invoker, and Ctrl-C is for the invoker alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie_to(parent)
