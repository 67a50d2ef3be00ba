"""The workers of a run, seen from the process that started them: begin, listen, stop.

Everything that takes time is bounded here: how long workers may need to get ready, and how long the
last answers are waited for.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import assert_never

from esg.errors import Fault
from esg.loadgen.send import now_us
from esg.loadgen.worker import (
    GIVE_UP,
    STOP,
    Assignment,
    Begin,
    Broken,
    Line,
    Message,
    Ready,
    WorkerEnded,
    WorkerReport,
    work,
)
from esg.units import US_PER_S

READY_S = 900.0
"""A long trace is read before the first request, by every worker."""
END_S = 10.0
HEAD_START_US = 100_000
"""From the order to begin to the beginning: so long may the slowest worker take to hear it."""
TICK_S = 0.1
STOP_WAIT_S = 10.0
"""How long answers are waited for after a `stop`."""


class WorkerPool:
    """Worker processes for some assignments; `tell` hears every report.

    `wait_s` bounds the wait for the last answers, after the last request.
    """

    def __init__(
        self, assignments: list[Assignment], tell: Callable[[WorkerReport], None], wait_s: float
    ) -> None:
        self._assignments = assignments
        self._tell = tell
        self._wait_s = wait_s
        self._news: list[Connection] = []
        self._orders: dict[Connection, Connection] = {}
        self._processes: list[BaseProcess] = []
        self._latest: dict[Connection, Message | None] = {}
        self._counts: dict[Connection, tuple[int, int]] = {}
        self._last_sent_us = 0
        self._stops = 0
        self._began_us: int | None = None
        self._sent_us: int | None = None
        self._ended_us: int | None = None

    @property
    def sent(self) -> int:
        return sum(sent for sent, _ in self._counts.values())

    @property
    def in_flight(self) -> int:
        return sum(in_flight for _, in_flight in self._counts.values())

    @property
    def stopped(self) -> bool:
        return self._stops > 0

    @property
    def sending(self) -> bool:
        """Whether the last request is still to come."""
        return self._sent_us is None

    @property
    def elapsed_s(self) -> float:
        """From the beginning until now, or until the end."""
        return _seconds(self._began_us, self._ended_us or now_us())

    @property
    def sending_s(self) -> float:
        """From the beginning until now, or until the last request was sent."""
        return _seconds(self._began_us, self._sent_us or now_us())

    def stop(self) -> None:
        """Send no more, but wait a while for what is in flight; the second time: do not wait.

        Only takes a note, so it may be called out of a signal's handler.
        """
        self._stops += 1

    def run(self, tick: Callable[[], None] = lambda: None) -> None:
        """Run all workers to their end; `tick` is called every now and then. A worker that breaks
        down is a `Fault` and ends them all."""
        with self._started():
            self._get_ready()
            self._began_us = now_us() + HEAD_START_US
            self._order(Begin(self._began_us))
            self._go_on(tick)
            self._ended_us = now_us()

    def _get_ready(self) -> None:
        limit = monotonic() + READY_S
        while not all(self._latest.values()):
            self._listen()
            if self._stops:
                raise KeyboardInterrupt
            if monotonic() > limit:
                raise Fault(f"loadgen's workers were not ready after {READY_S:g} s")

    def _go_on(self, tick: Callable[[], None]) -> None:
        obeyed = 0
        limit: float | None = None
        while not all(isinstance(message, WorkerEnded) for message in self._latest.values()):
            self._listen()
            tick()
            if self._sent_us is None and not self._sending():
                self._sent_us = self._last_sent_us or now_us()
            if self._stops > obeyed:
                self._order(STOP if obeyed == 0 and self._stops == 1 else GIVE_UP)
                obeyed = self._stops
                limit = monotonic() + min(self._wait_s, STOP_WAIT_S)
            elif limit is None and self._sent_us is not None:
                limit = monotonic() + self._wait_s
            elif limit is not None and monotonic() > limit:
                self._order(GIVE_UP)
                limit += END_S

    def _sending(self) -> bool:
        return any(
            isinstance(message, Ready) or (isinstance(message, WorkerReport) and message.sending)
            for message in self._latest.values()
        )

    def _listen(self) -> None:
        for pipe in wait(self._news, TICK_S):
            assert isinstance(pipe, Connection)
            if isinstance(self._latest[pipe], WorkerEnded):
                self._news.remove(pipe)
                continue
            try:
                message: Message = pipe.recv()
            except (EOFError, OSError):
                raise Fault("one of loadgen's workers was killed") from None
            self._latest[pipe] = message
            self._hear(pipe, message)

    def _hear(self, pipe: Connection, message: Message) -> None:
        match message:
            case WorkerReport():
                self._counts[pipe] = message.sent, message.in_flight
                self._last_sent_us = max(self._last_sent_us, message.last_sent_us)
                self._tell(message)
            case Broken():
                raise Fault(f"one of loadgen's workers broke down: {message.why}")
            case Ready() | WorkerEnded():
                pass
            case _:
                assert_never(message)

    def _order(self, order: Begin | str) -> None:
        for pipe, latest in self._latest.items():
            if not isinstance(latest, WorkerEnded):
                with suppress(BrokenPipeError):  # it is gone, and we shall hear that
                    self._orders[pipe].send(order)

    @contextmanager
    def _started(self) -> Iterator[None]:
        try:
            with _ctrl_c_blocked():
                for assignment in self._assignments:
                    self._start(assignment)
            yield
        finally:
            for pipe in (*self._orders.keys(), *self._orders.values()):
                pipe.close()
            for process in self._processes:
                if process.pid is not None:
                    process.join(END_S)
                    process.kill()
                    process.join()

    def _start(self, assignment: Assignment) -> None:
        """A process of its own, not a fork: gRPC does not survive a fork."""
        context = get_context("spawn")
        heard, ordering = context.Pipe(duplex=False)
        news, telling = context.Pipe(duplex=False)
        line = Line(heard, telling)
        self._news.append(news)
        self._orders[news] = ordering
        self._latest[news] = None
        process = context.Process(target=work, args=(assignment, line), daemon=True)
        self._processes.append(process)
        process.start()
        heard.close()
        telling.close()


def _seconds(began_us: int | None, now_us: int) -> float:
    return 0.0 if began_us is None else max(0, now_us - began_us) / US_PER_S


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Ctrl-C blocked, which processes that are started meanwhile inherit: it is this one that tells
    them to stop.

    Python's own helper comes first: whatever starts it unblocks Ctrl-C, and that would be our first
    worker.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
