"""Living through a journal again: strictly, or under other conditions.

A strict replay feeds every event to a scheduler built as the header says and compares every order.
A what-if keeps what the world did of its own accord, requests that came or were cancelled,
applications that changed and what functions were found to take, and lets the emulator answer the
new orders. The nodes are then the scenario's, not the journal's. What an emulated run found its own
functions to take, it finds again.

A journal is a file, as an emulated run writes it, or a directory of segments, as a controller does.
The first segment that is still there begins with a snapshot, and so does the replay; at the
beginning of every other one, the state has to be what its snapshot says.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from msgspec.structs import replace as changed

from esg.core.catalog.model import Catalog, scaled
from esg.core.journal.format import (
    SEGMENTS,
    Header,
    JournalEntry,
    Segment,
    catalog_digest,
    read_segment,
    replay,
)
from esg.core.messages.codec import Fingerprint, decode
from esg.core.messages.commands import Command
from esg.core.messages.events import (
    ApplicationRetired,
    Event,
    Exogenous,
    InvokerJoined,
    ProfilesCorrected,
    RequestArrived,
)
from esg.core.report import Report
from esg.core.scheduler.scheduler import Scheduler, build_scheduler
from esg.core.state.state import State
from esg.emulator.scenario import Scenario, applied
from esg.errors import Rejected
from esg.names import versioned


@dataclass(slots=True)
class Replayed:
    """`digest` is the one that the run itself gave (see `run.Emulation`); the scheduler is
    as it was at the end."""

    entries: int
    wall_s: float
    report: Report
    digest: str
    scheduler: Scheduler


def read_header(path: Path) -> Header:
    """Who wrote this journal; of several segments, the first."""
    return next(read_segments(path)).header


def read_segments(path: Path) -> Iterator[Segment]:
    """The files that a journal consists of, as they are needed; there is at least one."""
    files = sorted(path.glob(SEGMENTS)) if path.is_dir() else [path]
    if not files:
        journals = sorted(path.glob("*.journal"))
        hint = f"; do you mean {journals[0]}?" if journals else ""
        raise Rejected(f"{path}: no segment of a journal is in this directory{hint}")
    for file in files:
        # What a crash cut short at the end of the last segment, a controller would not read either
        lines = _lines(file, may_be_torn=path.is_dir() and file is files[-1])
        with _naming(file):
            segment = read_segment(lines)
            yield replace(segment, entries=_named(file, segment.entries))


def read_journal(path: Path) -> Iterator[JournalEntry]:
    """The entries of a journal, as they are needed."""
    for segment in read_segments(path):
        yield from segment.entries


def _named(file: Path, entries: Iterator[JournalEntry]) -> Iterator[JournalEntry]:
    with _naming(file):
        yield from entries


def scenario_of(path: Path) -> Scenario:
    """The conditions under which a journal was written: its header's, and of a live mesh, which
    does not say what nodes there are, those that joined."""
    header = read_header(path)
    with _naming(path):
        return Scenario.of(header, header.world or _nodes_of(path))


def catalog_of(path: Path, catalog: Catalog, scenario: Scenario) -> Catalog:
    """The catalog as the writer of a journal saw it: in its time, or all as its scenario wants."""
    wanted = read_header(path).catalog
    for seen in (scaled(catalog, scenario.time_scale), applied(catalog, scenario)):
        if catalog_digest(seen) == wanted:
            return seen
    raise Rejected(f"{path}: this journal was written with another catalog; name it with --catalog")


Observe = Callable[[int, Event, list[Command]], None]


def replay_strictly(
    path: Path,
    catalog: Catalog,
    observe: Observe = lambda now_us, event, commands: None,
) -> Replayed:
    """Every event again, every order compared; raises `Diverged` where they differ."""
    scenario = scenario_of(path)
    catalog = catalog_of(path, catalog, scenario)
    report: Report | None = None
    content_hash, count = Fingerprint(), 0
    state: Any = None

    def watch(now_us: int, event: Event, commands: list[Command]) -> None:
        nonlocal count
        count += 1
        content_hash.add(commands)
        observe(now_us, event, commands)

    began = perf_counter()
    header = read_header(path)
    for segment in read_segments(path):
        if segment.header != header:
            raise Rejected(
                f"{path}: its segments were written under different conditions, as by a controller "
                "that was started again with another policy; replay one segment at a time"
            )
        snapshot = None if segment.snapshot is None else segment.snapshot.state
        if state not in (None, snapshot):
            raise Rejected(f"{path}: a segment's snapshot is not where the one before it ended")
        scheduler = build_scheduler(catalog, header.settings, snapshot)
        report = report or Report.from_here(scheduler.state)
        with _naming(path):
            replay(scheduler, segment.entries, _both(report.observe, watch))
        state = scheduler.snapshot()
    assert report is not None  # a journal has at least one segment
    return Replayed(count, perf_counter() - began, report, content_hash.hexdigest(), scheduler)


def _both(first: Observe, second: Observe) -> Observe:
    def observe(now_us: int, event: Event, commands: list[Command]) -> None:
        first(now_us, event, commands)
        second(now_us, event, commands)

    return observe


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The requests of a journal, to be sent again (a `sweep.Source`).

    With `keep_slos` requests keep the SLOs that they brought; otherwise the application's hold.
    """

    journal: Path
    keep_slos: bool

    def arrivals(self, applications: Sequence[str], seed: int) -> Iterator[tuple[int, Event]]:
        """The same for every policy and every seed."""
        header = read_header(self.journal)
        own = bool(header.world) and header.settings.follow_profiles
        yield from ((0, event) for event in _known_before(self.journal, applications))
        for at_us, event in exogenous(read_journal(self.journal), keep_slos=self.keep_slos):
            # What an emulated run found is the work of its scenario, which will do it again
            if not (own and isinstance(event, ProfilesCorrected)):
                yield at_us, event


def _known_before(path: Path, applications: Sequence[str]) -> Iterator[Event]:
    """What had happened before a journal that begins in the middle: how the applications stand,
    beside those of the catalog, and what functions were found to take."""
    snapshot = next(read_segments(path)).snapshot
    if snapshot is None:
        return
    state = decode(State, snapshot.state)
    for name, standing in state.registrations.standings.items():
        if not standing.retired:
            yield state.registrations.versions[versioned(name, standing.version)]
        elif name in applications:
            yield ApplicationRetired(application=name)
    if state.corrections:
        yield ProfilesCorrected(corrections=state.corrections)


def exogenous(entries: Iterable[JournalEntry], *, keep_slos: bool) -> Iterator[tuple[int, Event]]:
    """What would have happened under any policy.

    Time starts with the journal. A request that was sent twice, by a client who was not sure to
    have been heard, comes once.
    """
    start_us: int | None = None
    heard: set[str] = set()
    for entry in entries:
        if start_us is None:
            start_us = entry.now_us
        event = entry.event
        if not isinstance(event, Exogenous):
            continue
        if isinstance(event, RequestArrived):
            if event.request in heard:
                continue
            heard.add(event.request)
            event = event if keep_slos else changed(event, slo_us=None)
        yield entry.now_us - start_us, event


def _nodes_of(path: Path) -> dict[str, Any]:
    """Every node that ever had a node: its vCPUs and its slices, and whether all of them had models
    on all slices when they were first heard of."""
    sizes: dict[str, tuple[int, int]] = {}
    warm: dict[str, bool] = {}
    for segment in read_segments(path):
        if segment.snapshot is not None:
            for name, node in decode(State, segment.snapshot.state).nodes.items():
                sizes[name] = (node.vcpus, len(node.slices))
                warm.setdefault(name, all(part.residents for part in node.slices))
        for entry in segment.entries:
            if isinstance(entry.event, InvokerJoined):
                name, slices = entry.event.invoker, entry.event.slices
                sizes[name] = (entry.event.vcpus, len(slices))
                warm.setdefault(name, all(part.resident for part in slices))
    if not sizes:
        others = [file for file in path.parent.glob(SEGMENTS) if file != path]
        hint = f"; this is one segment of the journal {path.parent}" if others else ""
        raise Rejected(f"{path}: no invoker ever joined, so there is nothing to compare with{hint}")
    return {
        "nodes": len(sizes),
        "vcpus": max(vcpus for vcpus, _ in sizes.values()),
        "vgpus": max(vgpus for _, vgpus in sizes.values()),
        "warm_start": all(warm.values()),
    }


def _lines(path: Path, *, may_be_torn: bool = False) -> Iterator[str]:
    """The lines of a file, of which there is at least one. The last one may not have been written
    to its end."""
    number = 0
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if number > 1 and not line.endswith("\n"):
                    if may_be_torn:
                        return
                    raise Rejected(f"line {number} is torn: it has no end; remove it, or end it")
                yield line
    except OSError as error:
        raise Rejected(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Rejected("not a journal: it is not text") from None
    if not number:
        raise Rejected("empty, so it is no journal")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say which file it is that was refused."""
    try:
        yield
    except Rejected as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise Rejected(f"{path}: {error}") from None
