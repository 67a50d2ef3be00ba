"""The sender of requests: open loop, so that a slow mesh cannot slow its own test down.

A request goes out at its planned instant, whether or not earlier ones came back, and its latency
counts from the plan: what the sender itself was late is part of it, and is told as well.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol

from esg.client import ClientError, Exhausted, Result
from esg.errors import Rejected
from esg.units import US_PER_S
from esg.workload.arrivals import Arrival

SPAN_US = 2_000
"""Requests that are due within so short a time go out together: no timer is finer than this."""
LOOK_UP_US = 100_000
"""How long a sender that waits for the next request may take to notice that it is to stop."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request: when it was planned, how late it was sent, and what came of it.

    Without a result, `ending` says how it ended: `overloaded` and `invalid` are refusals, anything
    else is an `error`; `error` says why.
    """

    number: int
    arrival: Arrival
    late_us: int
    latency_us: int
    result: Result | None
    error: str = ""
    ending: str = "error"

    @property
    def in_time(self) -> bool:
        """Whether the SLO was kept, by the mesh's own clock, from when the request was accepted."""
        return self.result is not None and self.result.slo_met


class RequestSink(Protocol):
    """What requests go out through; `client.RequestStream` is one."""

    def submit(
        self, application: str, payload: bytes, *, slo_ms: float | None, request_id: str | None
    ) -> asyncio.Future[Result]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """What is sent: `payload` gives an application's; it is asked once per arrival, in order.

    Requests are numbered from `first` in steps of `step`: one of several senders has every n-th.
    Their names are `prefix` and the number; without a prefix they have none.
    """

    payload: Callable[[str], bytes]
    slo_ms: float | None = None
    prefix: str = ""
    first: int = 1
    step: int = 1


async def send(
    stream: RequestSink,
    arrivals: Iterable[Arrival],
    load: LoadSpec,
    observe: Callable[[SentRequest], None],
) -> int:
    """Send every arrival at its instant and wait for all answers: how many there were."""
    return await Sender(stream, load, observe).run(arrivals)


class Sender:
    """Sends the arrivals of one run. `room` says whether one more may be held; if not, `skip` hears
    of what is not sent.

    `stop` ends the sending and leaves what is in flight; `give_up` ends the waiting for that, too.
    """

    def __init__(
        self,
        stream: RequestSink,
        load: LoadSpec,
        observe: Callable[[SentRequest], None],
        *,
        room: Callable[[], bool] = lambda: True,
        skip: Callable[[Arrival], None] = lambda arrival: None,
    ) -> None:
        self._stream = stream
        self._load = load
        self._observe = observe
        self._room = room
        self._skip = skip
        self._in_flight: dict[asyncio.Future[Result], tuple[int, Arrival, int]] = {}
        self._stopped = False
        self._over = asyncio.Event()
        self._failure: Exception | None = None
        self._began_us = 0
        self._rested_us = 0
        self.sent = 0
        self.last_sent_us = 0  # by the machine's clock

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def sending(self) -> bool:
        """Whether more may be sent."""
        return not self._stopped

    def stop(self) -> None:
        self._stopped = True

    def give_up(self, why: str) -> None:
        """Give up on what is in flight: it counts as failed, for this reason."""
        self.stop()
        for answer in list(self._in_flight):
            self._end(answer, None, why, "error")
            answer.cancel()
        self._over.set()

    async def run(self, arrivals: Iterable[Arrival], began_us: int | None = None) -> int:
        """Send, and wait for all answers. It begins now, or at an instant of the machine's clock
        (`now_us`); how many requests there were."""
        self._began_us = now_us() if began_us is None else began_us
        try:
            await self._send_all(arrivals)
            if self._in_flight and not self._failure:
                await self._over.wait()
        finally:
            for answer in self._in_flight:
                answer.cancel()
        if self._failure:
            raise self._failure
        return self.sent

    async def _send_all(self, arrivals: Iterable[Arrival]) -> None:
        load = self._load
        for number, arrival in enumerate(arrivals):
            await self._until(arrival.at_us)
            if self._stopped:
                break
            payload = load.payload(arrival.application)
            if self._room():
                self._submit(load.first + number * load.step, arrival, payload)
            else:
                self._skip(arrival)
        self._stopped = True

    async def _until(self, at_us: int) -> None:
        time_us = self._time_us()
        if at_us - time_us > SPAN_US:
            while at_us - time_us > SPAN_US and not self._stopped:
                wait_us = min(at_us - time_us - SPAN_US / 2, LOOK_UP_US)
                await asyncio.sleep(wait_us / US_PER_S)
                time_us = self._time_us()
        elif time_us - self._rested_us > SPAN_US:
            await asyncio.sleep(0)  # no time to lose, but requests must get out and answers in
        else:
            return
        self._rested_us = self._time_us()

    def _submit(self, number: int, arrival: Arrival, payload: bytes) -> None:
        sent_us = self._time_us()
        answer = self._stream.submit(
            arrival.application,
            payload,
            slo_ms=self._load.slo_ms,
            request_id=f"{self._load.prefix}{number}" if self._load.prefix else None,
        )
        self.sent += 1
        self.last_sent_us = self._began_us + sent_us
        self._in_flight[answer] = number, arrival, sent_us
        answer.add_done_callback(self._hear)

    def _hear(self, answer: asyncio.Future[Result]) -> None:
        if answer not in self._in_flight or answer.cancelled():
            return  # given up
        error = answer.exception()
        try:
            if error is None:
                self._end(answer, answer.result())
            elif isinstance(error, ClientError):
                self._end(answer, None, str(error), _ending(error))
            else:
                raise error
        except Exception as failed:
            self._failure = self._failure or failed
            self._stopped = True
            self._over.set()

    def _end(
        self,
        answer: asyncio.Future[Result],
        result: Result | None,
        error: str = "",
        ending: str = "",
    ) -> None:
        number, arrival, sent_us = self._in_flight.pop(answer)
        # What went out a little early is not late, but has been waiting for longer
        latency_us = self._time_us() - min(sent_us, arrival.at_us)
        late_us = max(0, sent_us - arrival.at_us)
        self._observe(SentRequest(number, arrival, late_us, latency_us, result, error, ending))
        if self._stopped and not self._in_flight:
            self._over.set()

    def _time_us(self) -> int:
        return now_us() - self._began_us


def _ending(error: ClientError) -> str:
    """How a request ended that was refused or lost, as `esg.core.metrics` counts it."""
    if isinstance(error, Exhausted):
        return "overloaded"
    return "invalid" if isinstance(error, Rejected) else "error"


def now_us() -> int:
    """The machine's steady clock, the same for all its processes."""
    return perf_counter_ns() // 1000
