"""Living through a journal again: strictly, or under other conditions.

A strict replay feeds every event to a scheduler built as the header says and compares every order.
A what-if keeps what the world did of its own accord, requests that came or were cancelled,
applications that changed and what functions were found to take, and lets the emulator answer the
new orders. The nodes are then the scenario's, not the journal's.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path
from time import perf_counter

from emulator.run import Trained, build_scheduler
from emulator.scenario import Scenario, applied
from esg.catalog import Catalog, scaled
from esg.errors import Rejected
from esg.events import (
    ApplicationRegistered,
    ApplicationRetired,
    Event,
    InvokerJoined,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
)
from esg.journal import Entry, Header, catalog_digest, read_entries, replay
from esg.journal import read_header as parse_header
from esg.report import Report


@dataclass(slots=True)
class Replayed:
    """`digest` is the one that the run itself gave (see `run.Emulation`)."""

    entries: int
    wall_s: float
    report: Report
    digest: str


def read_header(path: Path) -> Header:
    """Who wrote this journal."""
    with _naming(path):
        return parse_header(next(_lines(path)))


def read_journal(path: Path) -> Iterator[Entry]:
    """The entries of a journal, as they are needed."""
    with _naming(path):
        lines = _lines(path)
        next(lines)
        yield from read_entries(lines)


def scenario_of(path: Path) -> Scenario:
    """The conditions under which a journal was written: its header's, and the nodes that joined."""
    header = read_header(path)
    known = {field.name for field in fields(Scenario)}
    settings = {name: text for name, text in header.settings.items() if name in known}
    if not {"nodes", "vcpus", "vgpus"} <= set(settings):
        settings |= _nodes_of(path)
    with _naming(path):
        return Scenario.from_settings(settings | {"policy": header.policy})


def catalog_of(path: Path, catalog: Catalog, scenario: Scenario) -> Catalog:
    """The catalog as the writer of a journal saw it: in its time, or all as its scenario wants."""
    wanted = read_header(path).catalog
    for seen in (scaled(catalog, scenario.time_scale), applied(catalog, scenario)):
        if catalog_digest(seen) == wanted:
            return seen
    raise Rejected(f"{path}: this journal was written with another catalog; name it with --catalog")


def replay_strictly(path: Path, catalog: Catalog, trained: Trained) -> Replayed:
    """Every event again, every order compared; raises `Diverged` where they differ."""
    scenario = scenario_of(path)
    catalog = catalog_of(path, catalog, scenario)
    scheduler, _ = build_scheduler(catalog, scenario, trained)
    report, chain, count = Report(), blake2b(digest_size=8), 0

    def counted(entries: Iterable[Entry]) -> Iterator[Entry]:
        nonlocal count
        for count, entry in enumerate(entries, 1):  # noqa: B007 - it is the outer one
            chain.update(entry.orders.encode())
            yield entry

    began = perf_counter()
    with _naming(path):
        replay(scheduler, counted(read_journal(path)), report.observe)
    return Replayed(count, perf_counter() - began, report, chain.hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The requests of a journal, to be sent again (a `sweep.Source`).

    With `keep_slos` requests keep the SLOs that they brought; otherwise the application's hold.
    """

    journal: Path
    keep_slos: bool

    def arrivals(self, applications: Sequence[str], seed: int) -> Iterator[tuple[int, Event]]:
        """The same for every policy and every seed."""
        return exogenous(read_journal(self.journal), keep_slos=self.keep_slos)


def exogenous(entries: Iterable[Entry], *, keep_slos: bool) -> Iterator[tuple[int, Event]]:
    """What would have happened under any policy: requests, clients who gave up, applications that
    came and went, and functions that turned out to be faster or slower than profiled.

    Time starts with the journal. A request that was sent twice, by a client who was not sure to
    have been heard, comes once.
    """
    start_us: int | None = None
    heard: set[str] = set()
    for entry in entries:
        if start_us is None:
            start_us = entry.now_us
        match entry.event:
            case RequestArrived() as event if event.request not in heard:
                heard.add(event.request)
                event = event if keep_slos else replace(event, slo_us=None)
                yield entry.now_us - start_us, event
            case (
                RequestCancelled()
                | ApplicationRegistered()
                | ApplicationRetired()
                | ProfilesCorrected() as event
            ):
                yield entry.now_us - start_us, event
            case _:
                pass


def _nodes_of(path: Path) -> dict[str, str]:
    joined: dict[str, InvokerJoined] = {}
    for entry in read_journal(path):
        if isinstance(entry.event, InvokerJoined):
            joined[entry.event.invoker] = entry.event
    if not joined:
        raise Rejected(f"{path}: no invoker ever joined, so there is nothing to compare with")
    return {
        "nodes": str(len(joined)),
        "vcpus": str(max(event.vcpus for event in joined.values())),
        "vgpus": str(max(len(event.slices) for event in joined.values())),
    }


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file, of which there is at least one. The last one may not have been written
    to its end."""
    number = 0
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if number > 1 and not line.endswith("\n"):
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
