"""The loop around the scheduler: stamped, decided, written, then carried out."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from esg.controller import driver as driver_module
from esg.controller.driver import Driver
from esg.core.journal.format import Memo
from esg.core.messages.commands import Command
from esg.core.messages.events import Event, RequestArrived, Woke
from esg.errors import Bug, Fault
from tests.support.waiting import until


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
        self.no_room = False
        self.writing: list[Callable[[Exception | None], None]] = []
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

    def write(self, then: Callable[[Exception | None], None]) -> None:
        self.told.append("written")
        if self.no_room:
            self.writing.append(then)
        else:
            then(None)

    def sync(self, then: Callable[[Exception | None], None]) -> None:
        self.told.append("synced")
        if self.disk_is_slow:
            self.syncing.append(then)
        else:
            then(None)

    @property
    def syncs(self) -> int:
        return self.told.count("synced")

    def end_segment(self) -> None:
        raise AssertionError("no event was put aside")

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
        "written",
        "did RequestArrived at 0",
        "did Woke at 0",
    ]


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_events_that_come_while_a_group_is_written_go_into_the_next_one() -> None:
    story = Story()
    story.no_room = True
    for event in (ARRIVAL, Woke(), Woke()):
        story.driver.tell(event)
        await turns()
    assert story.told == ["began", "wrote RequestArrived", "written"]
    story.writing.pop()(None)
    await turns()
    assert story.told[3:] == [
        "did RequestArrived at 0",
        "began",
        "wrote Woke",
        "wrote Woke",
        "written",
    ]


async def test_orders_that_could_not_be_written_are_not_carried_out() -> None:
    story = Story()
    story.no_room = True
    story.driver.tell(ARRIVAL)
    await turns()
    story.writing.pop()(Fault("no space left"))
    with pytest.raises(Fault, match="no space left"):
        await story.driver.failed
    story.driver.tell(Woke())
    await turns()
    assert story.told == ["began", "wrote RequestArrived", "written"]


async def test_orders_leave_while_the_disk_is_busy_and_promises_do_not() -> None:
    story = Story()
    story.disk_is_slow = True
    story.driver.tell(ARRIVAL, then=lambda _: story.told.append("promised"))
    await turns()
    story.driver.tell(Woke())
    await turns()
    assert "did RequestArrived at 0" in story.told
    assert "did Woke at 0" in story.told
    assert "promised" not in story.told
    story.syncing.pop()(None)
    assert story.told[-1] == "promised"


async def test_one_sync_serves_all_who_wait_and_the_next_one_those_who_came_later() -> None:
    story = Story()
    story.disk_is_slow = True
    done: list[str] = []
    for name in ("a", "b"):
        story.driver.tell(Woke(), then=lambda _, name=name: done.append(name))  # type: ignore[misc]
    await turns()
    story.driver.tell(Woke(), then=lambda _: done.append("later"))
    await turns()
    assert story.told.count("synced") == 1
    story.syncing.pop()(None)
    assert done == ["a", "b"]
    await turns()
    story.syncing.pop()(None)
    assert done == ["a", "b", "later"]
    assert story.told.count("synced") == 2


async def test_what_is_not_urgent_goes_with_what_is() -> None:
    story = Story()
    done: list[str] = []
    story.driver.tell(Woke(), then=lambda _: done.append("news"), urgent=False)
    await turns()
    assert done == []
    story.driver.tell(Woke(), then=lambda _: done.append("answer"))
    await turns()
    assert done == ["news", "answer"]
    assert story.told.count("synced") == 1


async def test_what_is_not_urgent_does_not_wait_for_ever() -> None:
    story = Story()
    done: list[str] = []
    story.driver.tell(Woke(), then=lambda _: done.append("news"), urgent=False)
    await until(lambda: done == ["news"])


async def test_what_waits_for_the_disk_is_done_at_once_when_nothing_is_under_way_to_it() -> None:
    story = Story()
    done: list[str] = []
    story.driver.when_durable(lambda: done.append("now"))
    assert done == ["now"]
    assert story.told == []


async def test_a_sync_that_fails_ends_the_driver_and_nothing_is_promised() -> None:
    story = Story()
    story.disk_is_slow = True
    done: list[str] = []
    story.driver.tell(ARRIVAL, then=lambda _: done.append("promised"))
    await turns()
    story.syncing.pop()(Fault("the disk is gone"))
    with pytest.raises(Fault, match="the disk is gone"):
        await story.driver.failed
    assert done == []


async def test_driver_waits_for_a_disk_that_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "MOST_UNSYNCED", 2)
    story = Story()
    story.disk_is_slow = True
    for _ in range(3):
        story.driver.tell(Woke())
    await turns()
    story.driver.tell(ARRIVAL)
    await turns()
    assert "wrote RequestArrived" not in story.told
    story.syncing.pop()(None)
    await turns()
    assert "wrote RequestArrived" in story.told


async def test_driver_rests_once_all_is_done_and_durable_that_it_was_told() -> None:
    story = Story()
    await story.driver.rest()
    story.disk_is_slow = True
    done: list[str] = []
    story.driver.tell(ARRIVAL, then=lambda _: done.append("promised"), urgent=False)
    await turns()
    story.driver.tell(Woke())
    resting = asyncio.create_task(story.driver.rest())
    await turns()
    assert not resting.done()
    story.syncing.pop()(None)
    await resting
    assert done == ["promised"]


async def test_caller_that_waits_for_the_drivers_rest_hears_what_went_wrong() -> None:
    story = Story()
    story.no_room = True
    story.driver.tell(ARRIVAL)
    await turns()
    resting = asyncio.create_task(story.driver.rest())
    await turns()
    story.writing.pop()(Fault("no space left"))
    with pytest.raises(Fault, match="no space left"):
        await resting


async def test_driver_calls_back_with_the_orders_once_they_are_carried_out() -> None:
    story = Story()
    story.driver.tell(ARRIVAL, then=lambda commands: story.told.append(f"then {commands}"))
    await turns()
    assert story.told[-3:] == [
        "did RequestArrived at 0",
        "synced",
        "then ['RequestArrived at 0']",
    ]


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
