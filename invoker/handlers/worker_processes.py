"""Worker processes, each with one call at a time.

Each is an executor of its own: of several processes in one executor none could be ended without
the others, and with them what they do for somebody else.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import asynccontextmanager
from multiprocessing import get_context
from typing import Any

from esg.runtime.tether import tie_to


class WorkerDied(Exception):
    """A worker ended in the middle of a call."""


class OutOfTime(Exception):
    """A call took too long; its worker was ended."""


def _nothing() -> None:
    pass


class Workers:
    """At most `size` processes, each started when it is first needed, with a call of `set_up`.
    `ended` counts those that were lost with a call, by why; another one is started in the place of
    each."""

    def __init__(self, size: int, set_up: Callable[[], None] = _nothing) -> None:
        self._set_up = set_up
        self.ended = {"died": 0, "timeout": 0, "cancelled": 0}
        self._turns = asyncio.Semaphore(size)
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: list[ProcessPoolExecutor] = []
        self._generation = 0
        self._closed = False

    async def call(self, limit_s: float, work: Callable[..., Any], *arguments: Any) -> Any:
        """What `work` gives. Waiting for a worker takes nothing of the time that it has.

        A call that is given up, or out of time, ends its worker: nothing else stops a process that
        computes, and one that never comes back would be missing for good.
        """
        async with self._turns:
            if self._closed:
                raise WorkerDied
            worker = self._idle.pop() if self._idle else _new_worker(self._set_up)
            self._busy.append(worker)
            generation, usable, why = self._generation, False, "cancelled"
            try:
                answer = await _answer(worker, limit_s, work, *arguments)
                usable, why = True, ""
            except OutOfTime:
                why = "timeout"
                raise
            except WorkerDied:
                why = "died"
                raise
            else:
                return answer.result()
            finally:
                self._busy.remove(worker)
                if usable and generation == self._generation and not self._closed:
                    self._idle.append(worker)
                else:
                    if why and not self._closed:
                        self.ended[why] += 1
                    _end(worker)

    @asynccontextmanager
    async def renewed(
        self, set_up: Callable[[], None], limit_s: float, check: Callable[..., Any], *arguments: Any
    ) -> AsyncIterator[Callable[[], None]]:
        """A new worker with another set-up, in which `check` was called; what that raises is raised
        here. What this gives puts such workers in the place of all others: those that are idle end,
        the others after their call. If that is not called, nothing has changed."""
        worker = _new_worker(set_up)
        self._busy.append(worker)
        taken = False

        def take_over() -> None:
            nonlocal taken
            if not (taken or self._closed):
                taken = True
                self._generation += 1
                self._set_up = set_up
                for old in self._idle:
                    _end(old)
                self._idle[:] = [worker]

        try:
            (await _answer(worker, limit_s, check, *arguments)).result()
            yield take_over
        finally:
            self._busy.remove(worker)
            if not taken:
                _end(worker)

    def close(self) -> None:
        """End them, whatever they are doing: one that never returns would otherwise keep this
        process from ending."""
        self._closed = True
        for worker in (*self._idle, *self._busy):
            _end(worker)
        self._idle.clear()


async def _answer(
    worker: ProcessPoolExecutor, limit_s: float, work: Callable[..., Any], *arguments: Any
) -> asyncio.Future[Any]:
    """What a worker has to say in time, be it an error."""
    answer = asyncio.get_running_loop().run_in_executor(worker, work, *arguments)
    answer.add_done_callback(_heard)
    done, _ = await asyncio.wait({answer}, timeout=limit_s)
    if not done:
        raise OutOfTime
    if isinstance(answer.exception(), BrokenExecutor):
        raise WorkerDied
    return answer


def _new_worker(set_up: Callable[[], None]) -> ProcessPoolExecutor:
    given = (os.getpid(), set_up)
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin, initargs=given)


def _end(worker: ProcessPoolExecutor) -> None:
    for process in list((worker._processes or {}).values()):
        process.kill()
    worker.shutdown(wait=False)


def _heard(answer: asyncio.Future[Any]) -> None:
    """What comes of a call that nobody waits for any more is no news."""
    if not answer.cancelled():
        answer.exception()


def _begin(parent: int, set_up: Callable[[], None]) -> None:
    """In a new worker: it ends with the invoker, and Ctrl-C is for the invoker alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie_to(parent)
    set_up()
