"""Sending in an open loop: what goes out, when, and what is told of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns

import pytest

from esg.client import ClientError, Outcome, Result, Unavailable
from esg.loadgen import send as sending
from esg.loadgen.send import SPAN_US, LoadSpec, Sender, SentRequest, send
from esg.workload.arrivals import Arrival
from tests.support.waiting import LIMIT_S


def result(*, in_time: bool = True) -> Result:
    return Result(
        request_id="r",
        application="app",
        outcome=Outcome.DONE,
        reason="",
        slo_met=in_time,
        slo_ms=100.0,
        latency_ms=50.0,
        cost_usd=0.0,
        stages=(),
    )


@dataclass
class Scripted:
    """A stream that answers when it is told to, and remembers what it was given."""

    given: list[tuple[str, bytes, float | None, str | None]] = field(default_factory=list)
    answers: list[asyncio.Future[Result]] = field(default_factory=list)
    on_submit: Callable[[int], None] = lambda number: None

    def submit(
        self, application: str, payload: bytes, *, slo_ms: float | None, request_id: str | None
    ) -> asyncio.Future[Result]:
        self.given.append((application, payload, slo_ms, request_id))
        self.answers.append(asyncio.get_running_loop().create_future())
        self.on_submit(len(self.given))
        return self.answers[-1]

    async def has_been_given(self, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.given) < count:  # noqa: ASYNC110 - the sender sets no event
                await asyncio.sleep(0.001)


@dataclass
class Clock:
    """Stands still unless it is set."""

    now_us: int = 1_000_000

    def __call__(self) -> int:
        return self.now_us * 1000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(sending, "perf_counter_ns", made)
    return made


def plain(application: str) -> bytes:
    return application.encode()


def at(*times_us: int) -> list[Arrival]:
    return [Arrival(time_us, "app") for time_us in times_us]


async def test_an_empty_load_is_sent_at_once() -> None:
    heard: list[SentRequest] = []
    assert await send(Scripted(), [], LoadSpec(payload=plain), heard.append) == 0
    assert heard == []


async def test_requests_carry_what_the_load_says() -> None:
    stream = Scripted(on_submit=lambda _: stream.answers[-1].set_result(result()))
    arrivals = [Arrival(0, "photo"), Arrival(10, "scene")]
    load = LoadSpec(payload=plain, slo_ms=250.0, prefix="run-")
    assert await send(stream, arrivals, load, lambda _: None) == 2
    assert stream.given == [
        ("photo", b"photo", 250.0, "run-1"),
        ("scene", b"scene", 250.0, "run-2"),
    ]


async def test_requests_without_a_prefix_have_no_names() -> None:
    stream = Scripted(on_submit=lambda _: stream.answers[-1].set_result(result()))
    await send(stream, at(0), LoadSpec(payload=plain), lambda _: None)
    assert stream.given == [("app", b"app", None, None)]


async def test_requests_go_out_though_none_was_answered() -> None:
    stream = Scripted()
    heard: list[SentRequest] = []
    running = asyncio.create_task(
        send(stream, at(0, 100, 20_000, 40_000), LoadSpec(payload=plain), heard.append)
    )
    await stream.has_been_given(4)
    assert heard == []
    for answer in reversed(stream.answers):
        assert not running.done()
        answer.set_result(result())
        await asyncio.sleep(0)
    assert await running == 4
    assert [answered.number for answered in heard] == [4, 3, 2, 1]
    assert [answered.arrival.at_us for answered in heard] == [40_000, 20_000, 100, 0]


async def test_no_request_goes_out_before_its_time() -> None:
    sent_us: list[int] = []

    def note(_: int) -> None:
        sent_us.append(perf_counter_ns() // 1000)
        stream.answers[-1].set_result(result())

    stream = Scripted(on_submit=note)
    heard: list[SentRequest] = []
    began_us = perf_counter_ns() // 1000
    planned_us = [5_000, 5_500, 30_000, 60_000]
    await send(stream, at(*planned_us), LoadSpec(payload=plain), heard.append)
    for planned, sent in zip(planned_us, sent_us, strict=True):
        assert sent - began_us >= planned - SPAN_US
    assert all(answered.latency_us >= answered.late_us for answered in heard)


async def test_a_late_request_tells_how_late_and_its_latency_counts_from_the_plan(
    clock: Clock,
) -> None:
    """What making a payload takes is lateness, too."""

    def slow(application: str) -> bytes:
        clock.now_us += 50_000
        return b""

    stream = Scripted()
    heard: list[SentRequest] = []
    running = asyncio.create_task(send(stream, at(0, 10_000), LoadSpec(payload=slow), heard.append))
    await stream.has_been_given(2)
    clock.now_us += 7_000
    for answer in stream.answers:
        answer.set_result(result())
    await running
    assert [(a.late_us, a.latency_us) for a in heard] == [(50_000, 107_000), (90_000, 97_000)]


async def test_latency_of_a_request_sent_a_little_early_counts_from_then(clock: Clock) -> None:
    stream = Scripted()
    heard: list[SentRequest] = []
    running = asyncio.create_task(send(stream, at(1_500), LoadSpec(payload=plain), heard.append))
    await stream.has_been_given(1)
    clock.now_us += 1_000
    stream.answers[0].set_result(result())
    await running
    assert [(a.late_us, a.latency_us) for a in heard] == [(0, 1_000)]


async def test_a_sender_that_is_behind_still_hears_answers(clock: Clock) -> None:
    heard: list[SentRequest] = []
    heard_at: list[int] = []

    def answer_at_once(number: int) -> None:
        clock.now_us += 1_000
        stream.answers[-1].set_result(result())
        heard_at.append(len(heard))

    stream = Scripted(on_submit=answer_at_once)
    assert await send(stream, at(*[0] * 100), LoadSpec(payload=plain), heard.append) == 100
    assert heard_at[-1] > 90
    assert len(heard) == 100


async def test_refusals_and_failures_are_told_as_answers() -> None:
    def refuse(number: int) -> None:
        if number == 2:
            stream.answers[-1].set_exception(Unavailable("not now"))
        else:
            stream.answers[-1].set_result(result(in_time=number == 1))

    stream = Scripted(on_submit=refuse)
    heard: list[SentRequest] = []
    assert await send(stream, at(0, 0, 0), LoadSpec(payload=plain), heard.append) == 3
    assert [(a.error, a.in_time) for a in heard] == [("", True), ("not now", False), ("", False)]
    assert heard[1].result is None


async def test_an_error_of_ours_ends_the_sending_and_is_told_as_it_is() -> None:
    def observe(answered: SentRequest) -> None:
        raise ZeroDivisionError("by nought")

    stream = Scripted()
    running = asyncio.create_task(send(stream, at(0, 0), LoadSpec(payload=plain), observe))
    await stream.has_been_given(2)
    stream.answers[0].set_result(result())
    with pytest.raises(ZeroDivisionError, match="by nought"):
        await running
    assert stream.answers[1].cancelled()


async def test_a_stream_that_takes_no_more_ends_the_sending() -> None:
    def close(number: int) -> None:
        raise ClientError("this stream is closed")

    with pytest.raises(ClientError, match="this stream is closed"):
        await send(Scripted(on_submit=close), at(0, 0), LoadSpec(payload=plain), lambda _: None)


async def test_sender_among_several_numbers_every_nth_request() -> None:
    stream = Scripted(on_submit=lambda _: stream.answers[-1].set_result(result()))
    heard: list[SentRequest] = []
    load = LoadSpec(payload=plain, prefix="run-", first=2, step=3)
    await send(stream, at(0, 0, 0), load, heard.append)
    assert [request_id for *_, request_id in stream.given] == ["run-2", "run-5", "run-8"]
    assert [answered.number for answered in heard] == [2, 5, 8]


HOUR_US = 3_600_000_000


async def test_a_sender_that_is_stopped_sends_no_more_and_waits_for_the_rest() -> None:
    stream = Scripted()
    heard: list[SentRequest] = []
    sender = Sender(stream, LoadSpec(payload=plain), heard.append)
    running = asyncio.create_task(sender.run(at(0, 0, HOUR_US)))
    await stream.has_been_given(2)
    assert (sender.sending, sender.sent, sender.in_flight) == (True, 2, 2)
    sender.stop()
    assert not sender.sending
    stream.answers[0].set_result(result())
    await asyncio.sleep(0)
    assert not running.done()
    stream.answers[1].set_result(result())
    async with asyncio.timeout(LIMIT_S):
        assert await running == 2
    assert [answered.number for answered in heard] == [1, 2]


async def test_requests_that_are_given_up_are_told_as_failed() -> None:
    stream = Scripted()
    heard: list[SentRequest] = []
    sender = Sender(stream, LoadSpec(payload=plain), heard.append)
    running = asyncio.create_task(sender.run(at(0, 0, HOUR_US)))
    await stream.has_been_given(2)
    stream.answers[0].set_result(result())
    await asyncio.sleep(0)
    sender.give_up("it took too long")
    async with asyncio.timeout(LIMIT_S):
        assert await running == 2
    assert [(a.number, a.error) for a in heard] == [(1, ""), (2, "it took too long")]
    assert stream.answers[1].cancelled()


async def test_request_without_room_is_skipped_and_the_others_keep_their_numbers() -> None:
    stream = Scripted(on_submit=lambda _: stream.answers[-1].set_result(result()))
    asked: list[str] = []
    skipped: list[Arrival] = []

    def payload(application: str) -> bytes:
        asked.append(application)
        return b""

    arrivals = [Arrival(0, "a"), Arrival(1, "b"), Arrival(2, "c")]
    sender = Sender(
        stream,
        LoadSpec(payload=payload, prefix="r"),
        lambda _: None,
        room=lambda: len(asked) != 2,
        skip=skipped.append,
    )
    assert await sender.run(arrivals) == 2
    assert skipped == [Arrival(1, "b")]
    assert [request_id for *_, request_id in stream.given] == ["r1", "r3"]
    assert asked == ["a", "b", "c"]
