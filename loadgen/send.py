"""Sending: open loop, so that a slow mesh cannot slow its own test down.

A request goes out at its planned instant, whether or not earlier ones came back, and its latency
counts from the plan: what the sender itself was late is part of it, and is told as well.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Protocol

from client import ClientError, Result
from esg.units import US_PER_S
from loadgen.arrivals import Arrival

SPAN_US = 2_000
"""Requests that are due within so short a time go out together: no timer is finer than this."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One request: when it was planned, how late it was sent, and what came of it."""

    number: int
    arrival: Arrival
    late_us: int
    latency_us: int
    result: Result | None
    error: str = ""

    @property
    def in_time(self) -> bool:
        """By the mesh's own clock, from when the request was accepted."""
        return self.result is not None and self.result.slo_met


class Stream(Protocol):
    """What requests go out through; `client.RequestStream` is one."""

    def submit(
        self, application: str, payload: bytes, *, slo_ms: float | None, request_id: str | None
    ) -> Awaitable[Result]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent: `payload` gives an application's; names are `prefix` and the number, if any."""

    payload: Callable[[str], bytes]
    slo_ms: float | None = None
    prefix: str = ""


async def send(
    stream: Stream,
    arrivals: Iterable[Arrival],
    load: Load,
    observe: Callable[[Answered], None],
) -> int:
    """Send every arrival at its instant and wait for all answers: how many there were."""
    sender = _Sender(stream, load, observe)
    try:
        async with asyncio.TaskGroup() as waiting:
            return await sender.send_all(arrivals, waiting)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


class _Sender:
    """One run; its times are from its beginning."""

    def __init__(self, stream: Stream, load: Load, observe: Callable[[Answered], None]) -> None:
        self._stream = stream
        self._load = load
        self._observe = observe
        self._began_us = _now_us()
        self._rested_us = 0

    async def send_all(self, arrivals: Iterable[Arrival], waiting: asyncio.TaskGroup) -> int:
        number = 0
        for number, arrival in enumerate(arrivals, 1):
            await self._until(arrival.at_us)
            sent_us = self._time_us()
            answer = self._submit(number, arrival.application)
            waiting.create_task(self._await(number, arrival, sent_us, answer))
        return number

    async def _until(self, at_us: int) -> None:
        now_us = self._time_us()
        if at_us - now_us > SPAN_US:
            await asyncio.sleep((at_us - now_us - SPAN_US / 2) / US_PER_S)
        elif now_us - self._rested_us > SPAN_US:
            await asyncio.sleep(0)  # no time to lose, but requests must get out and answers in
        else:
            return
        self._rested_us = self._time_us()

    def _submit(self, number: int, application: str) -> Awaitable[Result]:
        return self._stream.submit(
            application,
            self._load.payload(application),
            slo_ms=self._load.slo_ms,
            request_id=f"{self._load.prefix}{number}" if self._load.prefix else None,
        )

    async def _await(
        self, number: int, arrival: Arrival, sent_us: int, answer: Awaitable[Result]
    ) -> None:
        result, error = None, ""
        try:
            result = await answer
        except ClientError as failed:
            error = str(failed)
        # What went out a little early is not late, but has been waiting for longer
        latency_us = self._time_us() - min(sent_us, arrival.at_us)
        late_us = max(0, sent_us - arrival.at_us)
        self._observe(Answered(number, arrival, late_us, latency_us, result, error))

    def _time_us(self) -> int:
        return _now_us() - self._began_us


def _now_us() -> int:
    return perf_counter_ns() // 1000
