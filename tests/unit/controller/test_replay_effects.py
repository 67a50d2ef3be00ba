"""A controller that starts again lives its journal through without doing any of it again."""

import asyncio
import logging

import pytest

from esg.controller.durability.recovery import deciding, recover
from esg.controller.shell import NOTHING
from esg.core.journal.format import (
    Header,
    JournalEntry,
    Segment,
    Snapshot,
    catalog_digest,
    orders_digest,
)
from esg.core.messages.codec import encode
from esg.core.messages.commands import CorrectProfiles
from esg.core.messages.events import Event
from esg.core.scheduler.scheduler import build_scheduler
from esg.runtime.settings import ControllerSettings
from esg.units import ms
from tests.support.desk import arrived, failed, finished, joined
from tests.support.small_catalog import SMALL

FOLLOWING = ControllerSettings(policy="esg", prewarm=False, follow_profiles=True)
WARM = {0: ("detect", "resize"), 1: ("detect", "resize")}


def past() -> Segment:
    """Eight tasks take longer than profiled, so that a correction is ordered, which the journal
    does not see come into force. Then a request is refused, the payload of another one is not
    found, and in the end that one pauses: the scheduler wants to be woken."""
    scheduler = build_scheduler(SMALL, deciding(FOLLOWING))
    snapshot = Snapshot(scheduler.snapshot(), encode(NOTHING), wall_us=0)
    entries: list[JournalEntry] = []
    ordered: list[object] = []

    def tell(now_us: int, event: Event) -> None:
        commands = scheduler.handle(now_us, event)
        ordered.extend(commands)
        entries.append(JournalEntry(now_us, event, orders_digest(commands)))

    tell(0, joined(resident=WARM))
    for number in range(1, 9):
        tell(ms(130 * number), arrived(f"r{number}"))
        tell(ms(130 * (number + 1)), finished(f"t{number}", running_us=ms(130)))
    tell(ms(2000), arrived("r9", "nothing"))
    tell(ms(2000), arrived("r10", "thumb"))
    for number in (9, 10):
        tell(ms(2000 + number), failed(f"t{number}", missing=("r10/",)))
    assert any(isinstance(order, CorrectProfiles) for order in ordered)
    assert scheduler.next_wake is not None
    header = Header(catalog=catalog_digest(SMALL), settings=deciding(FOLLOWING))
    return Segment(header, snapshot, iter(entries))


def test_a_replay_needs_no_loop_and_logs_nothing_a_second_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        known = recover(past(), SMALL, FOLLOWING)
    assert [record.message for record in caplog.records] == ["remembered"]
    assert list(known.memory.under_way) == ["r10"]


async def test_a_replay_starts_no_work_and_arms_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    armed: list[object] = []
    monkeypatch.setattr(loop, "call_later", lambda *wanted: armed.append(wanted))
    with caplog.at_level(logging.DEBUG):
        recover(past(), SMALL, FOLLOWING)
        started = asyncio.all_tasks() - before
        await asyncio.gather(*started)  # what it does in the end
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not started
    assert not armed
    assert [record.message for record in caplog.records] == ["remembered"]
