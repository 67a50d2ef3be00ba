"""A journal as a controller writes it, of a few requests in two segments, without a controller."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from esg.controller.durability.journal import Journal
from esg.controller.durability.recovery import Remembered, deciding, recover
from esg.controller.shell import NOTHING, ControllerShell, request_memo
from esg.core.journal.format import Header, Memo, catalog_digest, snapshot_line
from esg.core.messages.codec import encode, to_text
from esg.core.messages.events import Event
from esg.core.scheduler.scheduler import build_scheduler
from esg.core.sessions.interest import wanted_memo
from esg.runtime.settings import ControllerSettings
from esg.units import ms
from tests.support.desk import arrived, finished, joined
from tests.support.small_catalog import SMALL

OWN = ControllerSettings(policy="esg", prewarm=False, sync=False)
HEADER = Header(catalog=catalog_digest(SMALL), settings=deciding(OWN))
WARM = {0: ("detect", "resize"), 1: ("detect", "resize")}
Known = tuple[Any, Any]
"""What a scheduler and a shell remember."""


class WrittenJournal:
    """Writes groups of events, and keeps what was known after each."""

    def __init__(self, folder: Path) -> None:
        self.known: list[Known] = []
        self._journal = Journal(folder, OWN)
        self._scheduler = build_scheduler(SMALL, deciding(OWN))
        self._shell = ControllerShell(OWN, NOTHING)
        self._now_us = 0

    def begin(self) -> None:
        """Another segment."""
        self._journal.begin(HEADER, self._opening)
        self._keep()

    def group(self, *events: Event, synced: bool = True) -> None:
        self._now_us += ms(20)
        for event in events:
            commands = self._scheduler.handle(self._now_us, event)
            memo = _memo(event)
            self._journal.append(self._now_us, event, commands, memo)
            self._shell.apply(self._now_us, event, memo, commands)
        self._journal.write(_written)
        if synced:
            _written(self._journal.sync_now())
        self._keep()

    def close(self) -> None:
        self._journal.close()

    def _keep(self) -> None:
        self.known.append((self._scheduler.snapshot(), encode(self._shell.snapshot()())))

    def _opening(self) -> Callable[[], str]:
        state, memory = to_text(self._scheduler.state), to_text(self._shell.snapshot()())
        return lambda: snapshot_line(state, memory, 1_793_870_400_000_000)


def _memo(event: Event) -> Memo | None:
    name = getattr(event, "application", None)
    return (
        None
        if name is None
        else request_memo(name.encode(), wanted_memo("g1", fetched_later=name == "scan"))
    )


def _written(error: Exception | None) -> None:
    assert error is None


def made_durable(journal: Journal) -> asyncio.Future[None]:
    """Write what was appended to a journal, and sync it."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def synced(error: Exception | None) -> None:
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def written(error: Exception | None) -> None:
        if error is None:
            journal.sync(synced)
        else:
            synced(error)

    journal.write(written)
    return done


def write_journal(
    folder: Path, *, entries_in_second: bool = True, unsynced: int = 0
) -> list[Known]:
    """Two segments, of which the last groups, so many of four, were not synced; returns what was
    known after every group, in order."""
    journal = WrittenJournal(folder)
    journal.begin()
    journal.group(joined(resident=WARM))
    journal.group(arrived("run1", "thumb"), arrived("run2", "scan"), arrived("run3", "photo"))
    journal.group(finished("t1"))
    journal.begin()
    if entries_in_second:
        groups = (
            (finished("t2"), arrived("run4", "thumb")),
            (arrived("run5", "scan", slo_us=ms(60_000)),),
            (finished("t3"),),
            (arrived("run6", "thumb"), arrived("run7", "watch"), finished("t4")),
        )
        for number, events in enumerate(groups):
            journal.group(*events, synced=number < len(groups) - unsynced)
    journal.close()
    return journal.known


def resumed(folder: Path, **settings: Any) -> Known:
    """What a controller that starts again knows; raises `Rejected` where it does not start."""
    journal = Journal(folder, ControllerSettings(policy="esg", prewarm=False, **settings))
    try:
        past = journal.past()
        known = Remembered() if past is None else recover(past, SMALL, OWN)
    finally:
        journal.close()
    return known.state, encode(known.memory)
