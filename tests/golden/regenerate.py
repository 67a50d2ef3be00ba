"""Emulated runs as journals, and the golden ones kept beside this file.

A golden journal pins what the scheduler decides today: whatever changes an order fails its test. If
that is meant, write the journals again and read what changed:

    .venv/bin/python -m tests.golden.regenerate
    git diff --stat tests/golden
"""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from esg.core.catalog.file import load_catalog
from esg.core.durations import Durations
from esg.core.journal.format import (
    Header,
    JournalEntry,
    catalog_digest,
    entry_line,
    header_line,
    orders_digest,
)
from esg.core.messages.commands import Command
from esg.core.messages.events import Event, RequestArrived
from esg.core.messages.node import (
    ModelLoaded,
)
from esg.core.pool.pool import Pool
from esg.core.scheduler.scheduler import Scheduler, build_scheduler
from esg.core.scheduler.settings import SchedulerSettings
from esg.emulator.world import World
from esg.workload.mix import Mix
from esg.workload.rates import steady
from tests.support.sealed import sealed

HERE = Path(__file__).parent
GOLDEN = HERE / "heavy-100.journal"
WRONG = HERE / "wrong.journal"
CATALOG = load_catalog()


@dataclass(frozen=True)
class Run:
    """One emulated run: its journal, the header first, and the scheduler as it was at the end."""

    lines: list[str]
    scheduler: Scheduler


def new_scheduler() -> Scheduler:
    return build_scheduler(CATALOG, SchedulerSettings())


def new_pool(name: str, *, warm: bool) -> Pool:
    """A node of the catalog's cluster; a warm one has every model on every slice."""
    cluster = CATALOG.cluster
    memories_mb = CATALOG.memories_mb(next(cluster.each()).slices)
    pool = Pool(CATALOG, name, vcpus=cluster.vcpus, memories_mb=memories_mb)
    for index in range(cluster.vgpus if warm else 0):
        for function in CATALOG.functions:
            pool.handle(0, ModelLoaded(slice=index, function=function))
    return pool


def emulate(requests: int, *, nodes: int, seed: int = 1, warm: bool = False) -> Run:
    """A run at the paper's heavy rate."""
    scheduler = new_scheduler()
    pools = {f"i{n}": new_pool(f"i{n}", warm=warm) for n in range(nodes)}
    header = Header(catalog=catalog_digest(CATALOG), settings=SchedulerSettings())
    lines = [header_line(header)]

    def observe(now_us: int, event: Event, commands: list[Command]) -> None:
        lines.append(entry_line(JournalEntry(now_us, event, orders_digest(commands))))

    world = World(scheduler, pools, Durations(CATALOG, seed), observe=observe)
    for pool in pools.values():
        world.tell(0, pool.joined())
    arrivals = islice(steady("heavy", Mix.uniform(list(CATALOG.applications)), seed), requests)
    world.run(
        (arrival.at_us, RequestArrived(request=f"r{i}", application=arrival.application))
        for i, arrival in enumerate(arrivals, 1)
    )
    return Run(lines, scheduler)


def with_one_digest_wrong(lines: list[str]) -> list[str]:
    """The digest in the middle of all that are not empty gets another last digit."""
    answered = [i for i, line in enumerate(lines) if i and not line.endswith('"orders":""}')]
    place = answered[len(answered) // 2]
    line = lines[place]
    last = "1" if line[-3] == "0" else "0"
    return [*lines[:place], f'{line[:-3]}{last}"}}', *lines[place + 1 :]]


def main() -> None:
    lines = emulate(100, nodes=2).lines
    GOLDEN.write_bytes(sealed(lines))
    WRONG.write_bytes(sealed(with_one_digest_wrong(lines)))


if __name__ == "__main__":
    main()
