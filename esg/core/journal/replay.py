"""Replay of a journal: its events once more, through a scheduler of the kind that wrote it, with
every order compared.

The first segment that there is begins with a snapshot, unless it is the journal's beginning, and so
does the replay; at the beginning of every other one, the state has to be what its snapshot says.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from esg.core.catalog.model import Catalog
from esg.core.journal.format import JournalEntry, Segment, orders_digest
from esg.core.messages.codec import Fingerprint
from esg.core.messages.commands import Command
from esg.core.messages.events import Event
from esg.core.report import Report
from esg.core.scheduler.scheduler import Scheduler, build_scheduler
from esg.errors import Rejected
from esg.suggest import shortened

Observe = Callable[[int, Event, list[Command]], None]


class Diverged(Exception):
    """A replay gave other orders than the journal says."""

    def __init__(self, position: int, entry: JournalEntry, got: str) -> None:
        super().__init__(
            f"entry {position} at {entry.now_us} us ({type(entry.event).__name__}): "
            f"the journal has orders {entry.orders!r}, the replay gave {got!r}"
        )
        self.position = position
        self.entry = entry
        self.got = got


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay comes to. `digest` is of all orders, as an emulated run gives it; the scheduler
    is as it was at the end."""

    entries: int
    report: Report
    digest: str
    scheduler: Scheduler


def replayed(
    scheduler: Scheduler, entries: Iterable[JournalEntry]
) -> Iterator[tuple[JournalEntry, list[Command]]]:
    """Feed a journal's entries to a scheduler one by one, each with its orders once they are
    compared."""
    for position, entry in enumerate(entries, 1):
        if entry.now_us < scheduler.state.now_us:
            raise Rejected(f"journal entry {position}: time runs backwards, to {entry.now_us} us")
        try:
            commands = scheduler.handle(entry.now_us, entry.event)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            what = shortened(f"{type(error).__name__}: {error}")
            raise Rejected(f"journal entry {position}: cannot be replayed: {what}") from error
        got = orders_digest(commands)
        if got != entry.orders:
            raise Diverged(position, entry, got)
        yield entry, commands


def replay(
    scheduler: Scheduler, entries: Iterable[JournalEntry], observe: Observe | None = None
) -> Scheduler:
    """Feed a journal's entries to a scheduler, comparing every order."""
    for entry, commands in replayed(scheduler, entries):
        if observe is not None:
            observe(entry.now_us, entry.event, commands)
    return scheduler


def replay_segments(
    segments: Iterable[Segment],
    catalog: Catalog,
    observe: Observe = lambda now_us, event, commands: None,
) -> Replayed:
    """A whole journal, of which there is at least one segment; `catalog` is as its writer saw it.
    Raises `Diverged` where orders differ."""
    first: Segment | None = None
    fingerprint, count = Fingerprint(), 0
    scheduler: Scheduler | None = None
    for segment in segments:
        first = first or segment
        if replace(segment.header, epoch=0) != replace(first.header, epoch=0):
            raise Rejected(
                "its segments were written under different conditions, as by a controller that was "
                "started again with another policy; replay one segment at a time"
            )
        snapshot = None if segment.snapshot is None else segment.snapshot.state
        epoch = segment.header.epoch
        if scheduler is not None:
            scheduler.begin_epoch(epoch)
            if scheduler.snapshot() != snapshot:
                raise Rejected("a segment's snapshot is not where the one before it ended")
        scheduler = build_scheduler(catalog, segment.header.settings, snapshot, epoch=epoch)
        if segment is first:
            report = Report.from_here(scheduler.state)
        for entry, commands in replayed(scheduler, segment.entries):
            count += 1
            report.observe(entry.now_us, entry.event, commands)
            fingerprint.add(commands)
            observe(entry.now_us, entry.event, commands)
    assert scheduler is not None
    return Replayed(count, report, fingerprint.hexdigest(), scheduler)
