"""The loop around the scheduler: stamped, decided, written, then carried out."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from esg.controller.driver import Driver
from esg.core.journal.format import Memo
from esg.core.messages.commands import Command
from esg.core.messages.events import Event, RequestArrived, Woke
from esg.errors import Bug, Fault


class FakeScheduler:
    """Answers every event with its own name and time, and wants to be woken when told to."""

    class state:  # noqa: N801 - as a scheduler's
        now_us = 0

    def __init__(self) -> None:
        self.next_wake: int | None = None
        self.fails = False

    def handle(self, now_us: int, event: Event) -> list[Any]:
        if self.fails:
            raise Bug("the books do not balance")
        self.state.now_us = now_us
        self.next_wake = None
        return [f"{type(event).__name__} at {now_us}"]


class Story:
    """What happened, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.clock_us = 0
        self.disk_is_slow = False
        self.syncing: list[Callable[[Exception | None], None]] = []
        self.scheduler: Any = FakeScheduler()
        self.driver = Driver(self.scheduler, self, self.perform, clock_us=lambda: self.clock_us)

    def begin_group(self) -> None:
        self.told.append("began")

    def append(
        self, now_us: int, event: Event, commands: list[Command], memo: Memo | None = None
    ) -> None:
        self.told.append(f"wrote {type(event).__name__}")

    def flush(self, then: Callable[[Exception | None], None]) -> None:
        self.told.append("flushed")
        if self.disk_is_slow:
            self.syncing.append(then)
        else:
            then(None)

    def perform(
        self, now_us: int, event: Event, memo: Memo | None, commands: list[Command]
    ) -> None:
        self.told.append(f"did {commands[0]}")


ARRIVAL = RequestArrived(request="r1", application="thumb")


async def test_orders_leave_only_after_all_is_written() -> None:
    story = Story()
    story.driver.tell(ARRIVAL)
    story.driver.tell(Woke())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert story.told == [
        "began",
        "wrote RequestArrived",
        "wrote Woke",
        "flushed",
        "did RequestArrived at 0",
        "did Woke at 0",
    ]


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_events_that_come_while_the_disk_is_busy_go_into_the_next_group() -> None:
    story = Story()
    story.disk_is_slow = True
    for event in (ARRIVAL, Woke(), Woke()):
        story.driver.tell(event)
        await turns()
    assert story.told == ["began", "wrote RequestArrived", "flushed"]
    story.syncing.pop()(None)
    await turns()
    assert story.told[3:] == [
        "did RequestArrived at 0",
        "began",
        "wrote Woke",
        "wrote Woke",
        "flushed",
    ]


async def test_orders_that_could_not_be_written_are_not_carried_out() -> None:
    story = Story()
    story.disk_is_slow = True
    story.driver.tell(ARRIVAL)
    await turns()
    story.syncing.pop()(Fault("no space left"))
    with pytest.raises(Fault, match="no space left"):
        await story.driver.failed
    story.driver.tell(Woke())
    await turns()
    assert story.told == ["began", "wrote RequestArrived", "flushed"]


async def test_driver_rests_once_all_is_done_that_it_was_told() -> None:
    story = Story()
    await story.driver.rest()
    story.disk_is_slow = True
    story.driver.tell(ARRIVAL)
    await turns()
    story.driver.tell(Woke())
    resting = asyncio.create_task(story.driver.rest())
    await turns()
    assert not resting.done()
    story.syncing.pop()(None)
    await turns()
    assert not resting.done()
    story.syncing.pop()(None)
    await resting
    assert story.told[-1] == "did Woke at 0"


async def test_caller_that_waits_for_the_drivers_rest_hears_what_went_wrong() -> None:
    story = Story()
    story.disk_is_slow = True
    story.driver.tell(ARRIVAL)
    await turns()
    resting = asyncio.create_task(story.driver.rest())
    await turns()
    story.syncing.pop()(Fault("no space left"))
    with pytest.raises(Fault, match="no space left"):
        await resting


async def test_driver_calls_back_with_the_orders_once_they_are_carried_out() -> None:
    story = Story()
    story.driver.tell(ARRIVAL, then=lambda commands: story.told.append(f"then {commands}"))
    await turns()
    assert story.told[-2:] == ["did RequestArrived at 0", "then ['RequestArrived at 0']"]


async def test_driver_returns_the_orders_to_who_asks() -> None:
    story = Story()
    assert await story.driver.ask(ARRIVAL) == ["RequestArrived at 0"]


async def test_time_never_runs_backwards() -> None:
    story = Story()
    story.clock_us = 500
    await story.driver.ask(ARRIVAL)
    story.clock_us = 400
    assert await story.driver.ask(ARRIVAL) == ["RequestArrived at 500"]


async def test_the_alarm_rings_once_it_is_time() -> None:
    story = Story()
    handle = story.scheduler.handle

    def handle_and_ask_to_be_woken(now_us: int, event: Event) -> list[Any]:
        commands: list[Any] = handle(now_us, event)
        story.scheduler.next_wake = now_us + 1000 if isinstance(event, RequestArrived) else None
        story.clock_us = 2000
        return commands

    story.scheduler.handle = handle_and_ask_to_be_woken
    woken = asyncio.get_running_loop().create_future()
    story.driver._perform = lambda now_us, event, *_: (
        woken.set_result(now_us) if isinstance(event, Woke) else None
    )
    story.driver.tell(ARRIVAL)
    assert await asyncio.wait_for(woken, 10) == 2000


async def test_a_bug_stops_everything_and_nothing_after_it_counts() -> None:
    story = Story()
    story.scheduler.fails = True
    story.driver.tell(ARRIVAL)
    with pytest.raises(Bug):
        await story.driver.failed
    story.scheduler.fails = False
    story.driver.tell(ARRIVAL)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert story.told == ["began"]
