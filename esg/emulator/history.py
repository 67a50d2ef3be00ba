"""What-if: the requests of a journal again, under other conditions.

A what-if keeps what the world did of its own accord, requests that came or were cancelled,
applications that changed and what functions were found to take, and lets the emulator answer the
new orders. The nodes are then the scenario's, not the journal's. What an emulated run found its own
functions to take, it finds again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace as changed

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.model import Catalog, scaled
from esg.core.catalog.slice_kinds import NodeClass
from esg.core.journal.format import JournalEntry, catalog_digest
from esg.core.journal.replay import Observe, Replayed, replay_segments
from esg.core.messages.codec import decode, encode
from esg.core.messages.events import (
    ApplicationRetired,
    Event,
    Exogenous,
    InvokerJoined,
    ProfilesCorrected,
    RequestArrived,
)
from esg.core.state.state import State
from esg.emulator.scenario import Scenario, applied, sized
from esg.errors import Rejected
from esg.names import versioned
from esg.runtime.journal_files import (
    naming,
    read_header,
    read_journal,
    read_segments,
    segment_files,
)


def scenario_of(path: Path) -> Scenario:
    """The conditions under which a journal was written: its header's, and of a live mesh, which
    does not say what nodes there are, those that joined."""
    header = read_header(path)
    with naming(path):
        return Scenario.of(header, header.world or _nodes_of(path))


def catalog_of(path: Path, catalog: Catalog, scenario: Scenario) -> Catalog:
    """The catalog as the writer of a journal saw it: in its time, or all as its scenario wants."""
    wanted = read_header(path).catalog
    seen = scaled(catalog, scenario.time_scale)
    if catalog_digest(seen) != wanted:
        seen = applied(catalog, scenario)
    if catalog_digest(seen) == wanted:
        return seen
    raise Rejected(f"{path}: this journal was written with another catalog; name it with --catalog")


def replay_strictly(
    path: Path,
    catalog: Catalog,
    observe: Observe = lambda now_us, event, commands: None,
) -> Replayed:
    """Every event of a journal again, every order compared; raises `Diverged` where they differ."""
    seen = catalog_of(path, catalog, scenario_of(path))
    with naming(path):
        return replay_segments(read_segments(path), seen, observe)


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
    """Every node that there ever was: its vCPUs and its slices, and whether all of them had models
    on all slices when they were first heard of."""
    sizes: dict[str, NodeClass] = {}
    warm: dict[str, bool] = {}
    for segment in read_segments(path):
        if segment.snapshot is not None:
            for name, node in decode(State, segment.snapshot.state).nodes.items():
                kinds = tuple(part.kind for part in node.slices)
                sizes[name] = NodeClass(count=1, vcpus=node.vcpus, slices=kinds)
                warm.setdefault(name, all(part.residents for part in node.slices))
        for entry in segment.entries:
            if isinstance(entry.event, InvokerJoined):
                name, slices = entry.event.invoker, entry.event.slices
                kinds = tuple(part.kind for part in slices)
                sizes[name] = NodeClass(count=1, vcpus=entry.event.vcpus, slices=kinds)
                warm.setdefault(name, all(part.resident for part in slices))
    if not sizes:
        others = [file for file in segment_files(path.parent) if file != path]
        hint = f"; this is one segment of the journal {path.parent}" if others else ""
        raise Rejected(f"{path}: no invoker ever joined, so there is nothing to compare with{hint}")
    cluster = Cluster.of(sizes.values())
    return {**encode(sized(cluster)), "warm_start": all(warm.values())}
