"""Living through a journal again: strictly, or under other conditions.

A strict replay feeds every event to a scheduler built as the header says and compares every order.
A what-if keeps what the world did of its own accord, requests that came or were cancelled, and lets
the emulator answer the new orders. The nodes are then the scenario's, not the journal's.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from emulator.run import Trained, build_policy
from emulator.scenario import Scenario, applied
from esg.catalog import Catalog
from esg.commands import Command
from esg.errors import Rejected
from esg.events import Event, InvokerJoined, RequestArrived, RequestCancelled
from esg.journal import Entry, Header, catalog_digest, read_entries, replay
from esg.journal import read_header as parse_header
from esg.report import Report
from esg.scheduler import Scheduler, SchedulerSettings


@dataclass(slots=True)
class Replayed:
    entries: int
    wall_s: float
    report: Report


def read_header(path: Path) -> Header:
    """Who wrote this journal."""
    with _opened(path) as file:
        return parse_header(next(file, ""))


def read_journal(path: Path) -> Iterator[Entry]:
    """The entries of a journal, as they are needed."""
    with _opened(path) as file:
        next(file, "")
        yield from read_entries(file)


def scenario_of(path: Path) -> Scenario:
    """The conditions under which a journal was written: its header's, and the nodes that joined."""
    header = read_header(path)
    known = {field.name for field in fields(Scenario)}
    settings = {name: text for name, text in header.settings.items() if name in known}
    for name in ("nodes", "vcpus", "vgpus"):
        if name not in settings:
            settings |= _nodes_of(path)
            break
    return Scenario.from_settings({"policy": header.policy} | settings)


def replay_strictly(path: Path, catalog: Catalog, trained: Trained) -> Replayed:
    """Every event again, every order compared; raises `Diverged` where they differ."""
    header, scenario = read_header(path), scenario_of(path)
    catalog = applied(catalog, scenario)
    if catalog_digest(catalog) != header.catalog:
        raise Rejected(
            f"{path}: this journal was written with another catalog; name it with --catalog"
        )
    policy = build_policy(catalog, scenario, trained)
    scheduler = Scheduler(catalog, policy, SchedulerSettings(prewarm=scenario.prewarm))
    report, count = Report(), 0

    def observe(now_us: int, event: Event, commands: list[Command]) -> None:
        nonlocal count
        count += 1
        report.observe(now_us, event, commands)

    began = perf_counter()
    replay(scheduler, read_journal(path), observe)
    return Replayed(count, perf_counter() - began, report)


def exogenous(entries: Iterable[Entry], *, keep_slos: bool) -> Iterator[tuple[int, Event]]:
    """What would have happened under any policy: requests, and clients who gave up."""
    for entry in entries:
        match entry.event:
            case RequestArrived() as event:
                yield entry.now_us, event if keep_slos else replace(event, slo_us=None)
            case RequestCancelled() as event:
                yield entry.now_us, event
            case _:
                pass


def _nodes_of(path: Path) -> dict[str, str]:
    joined: dict[str, InvokerJoined] = {}
    for entry in read_journal(path):
        if isinstance(entry.event, InvokerJoined):
            joined[entry.event.invoker] = entry.event
    if not joined:
        raise Rejected(f"{path}: no invoker ever joined; say how many with --nodes")
    return {
        "nodes": str(len(joined)),
        "vcpus": str(max(event.vcpus for event in joined.values())),
        "vgpus": str(max(len(event.slices) for event in joined.values())),
    }


def _opened(path: Path) -> Any:
    try:
        return path.open(encoding="utf-8", newline="\n")
    except OSError as error:
        raise Rejected(f"{path}: cannot be read: {error.strerror}") from None
