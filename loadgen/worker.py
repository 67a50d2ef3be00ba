"""A worker process of a load: it has every n-th arrival, and tells what it saw as it goes.

It does as little as it can beside sending, so that requests go out in time: counting, writing and
showing are the business of the process that started it (`worker_pool`).

    worker: Ready            pool: Begin
    worker: Report ...       pool: STOP, or GIVE_UP, or neither
    worker: Report, Ended    (or Broken, at any time)
"""

import asyncio
import gc
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection

import uvloop

from esg.client import AsyncClient
from esg.loadgen.inference import InferSink
from esg.loadgen.record import UNANSWERED, SentRecord, record_of
from esg.loadgen.send import LoadSpec, RequestSink, Sender, SentRequest
from esg.loadgen.target import Protocol
from esg.workload.arrivals import Arrival
from esg.workload.payloads import Pictures
from esg.workload.plan import Workload

REPORT_S = 0.1
STOP, GIVE_UP = "stop", "give up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The assignment of a worker; `number` counts from 0. At most `most_held` requests may be in
    flight or not reported yet: what would be more is not sent."""

    gateway: str
    plan: Workload
    applications: list[str]
    pictures: Pictures
    prefix: str
    number: int
    workers: int
    most_held: int
    protocol: Protocol = Protocol.ESG
    slo_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    pass


@dataclass(frozen=True, slots=True)
class Begin:
    """The instant that arrivals count from, by the machine's clock."""

    at_us: int


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A report of a worker: what is new since the last one; the first four are as of now.
    `last_sent_us` is by the machine's clock, 0 before the first."""

    sending: bool
    sent: int
    last_sent_us: int
    in_flight: int
    records: list[SentRecord]
    unsent: Counter[str]


@dataclass(frozen=True, slots=True)
class Broken:
    why: str


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    pass


Message = Ready | WorkerReport | Broken | WorkerEnded


@dataclass(frozen=True, slots=True)
class Line:
    """The line from a worker to its pool and back: two pipes, because one that a loop listens to
    does not block any more, and cannot be written to as if it did."""

    orders: Connection
    news: Connection


def work(assignment: Assignment, line: Line) -> None:
    """Run a worker process. Ctrl-C is for the one that started it, which tells us what to do. A
    terminal sends it to all of them; until here it was blocked (`worker_pool`)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(BrokenPipeError, ConnectionResetError):  # nobody is left to tell
        try:
            uvloop.run(_work(assignment, line))
            line.news.send(WorkerEnded())
        except Exception as error:
            line.news.send(Broken(str(error) or type(error).__name__))


class _GivenUp(Exception):
    """Leaves a stream without waiting for its answers."""


async def _work(assignment: Assignment, line: Line) -> None:
    arrivals = assignment.plan.arrivals(assignment.applications)
    mine = islice(arrivals, assignment.number, None, assignment.workers)
    load = LoadSpec(
        payload=assignment.pictures.taken(assignment.number + 1, assignment.workers),
        prefix=assignment.prefix,
        first=assignment.number + 1,
        step=assignment.workers,
        slo_ms=assignment.slo_ms,
    )
    if assignment.protocol is Protocol.OIP:
        slos_ms = dict.fromkeys(assignment.applications, assignment.slo_ms or 0.0)
        async with InferSink(assignment.gateway, slos_ms) as sink:
            await _Worker(sink, load, line, assignment.most_held).run(mine)
        return
    async with AsyncClient(assignment.gateway) as client:
        await client.list_applications()  # so that the first request finds a connection
        with suppress(_GivenUp):
            async with client.stream() as stream:
                worker = _Worker(stream, load, line, assignment.most_held)
                await worker.run(mine)
                if worker.gave_up:
                    raise _GivenUp


class _Worker:
    """A worker: a sender on one side, the pool on the other."""

    def __init__(self, stream: RequestSink, load: LoadSpec, line: Line, most_held: int) -> None:
        self._line = line
        self._most_held = most_held
        self._began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._records: list[SentRecord] = []
        self._unsent: Counter[str] = Counter()
        self._sender = Sender(stream, load, self._observe, room=self._room, skip=self._skip)
        self._done = False
        self.gave_up = False

    async def run(self, arrivals: Iterator[Arrival]) -> None:
        loop, orders = asyncio.get_running_loop(), self._line.orders.fileno()
        loop.add_reader(orders, self._hear)
        self._line.news.send(Ready())
        gc.collect()
        gc.freeze()  # what has been made by now stays, and need not be looked at again
        began_us = await self._began
        reporting = loop.create_task(self._report())
        try:
            await self._sender.run(arrivals, began_us)
        finally:
            self._done = True
            loop.remove_reader(orders)
            await reporting

    def _hear(self) -> None:
        try:
            order = self._line.orders.recv()
        except (EOFError, OSError):
            order = GIVE_UP  # the pool is gone
            asyncio.get_running_loop().remove_reader(self._line.orders.fileno())
        if isinstance(order, Begin):
            self._began.set_result(order.at_us)
        elif order == STOP:
            self._sender.stop()
        else:
            self.gave_up = True
            self._sender.give_up(UNANSWERED)
        if not self._began.done():
            self._began.set_result(0)

    def _observe(self, answered: SentRequest) -> None:
        self._records.append(record_of(answered))

    def _room(self) -> bool:
        return self._sender.in_flight + len(self._records) < self._most_held

    def _skip(self, arrival: Arrival) -> None:
        self._unsent[arrival.application] += 1

    async def _report(self) -> None:
        last = False
        while not last:
            await asyncio.sleep(REPORT_S)
            last = self._done
            # In a thread, because the pipe may be full: sending must go on
            await asyncio.to_thread(self._line.news.send, self._news())

    def _news(self) -> WorkerReport:
        sender = self._sender
        report = WorkerReport(
            sender.sending,
            sender.sent,
            sender.last_sent_us,
            sender.in_flight,
            self._records,
            self._unsent,
        )
        self._records, self._unsent = [], Counter()
        return report
