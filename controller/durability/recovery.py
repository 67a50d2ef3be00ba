"""Starting again: the latest snapshot, and every event since, lived through once more.

The replay goes through the very code that runs live: a scheduler of the kind that wrote the
journal, and the shell, whose effects are dropped. What both remember in the end is handed to those
that go on, which may have another policy, or other settings. Another catalog, or another version of
ESG, can go on only from a good end (see `Journal.finish`), when no request is under way.

What the invokers did meanwhile is not in the journal: they say so themselves when they come back.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace as changed

from esg.controller.driver import Driver
from esg.controller.durability.dead_letters import FOLDER, DeadLetters
from esg.controller.durability.journal import Journal
from esg.controller.shell import NOTHING, ControllerShell, ShellSnapshot
from esg.core.catalog.model import Catalog
from esg.core.catalog.phases import task_mode
from esg.core.journal.format import Segment, catalog_digest, snapshot_line
from esg.core.journal.replay import Diverged, replay, replayed
from esg.core.messages.codec import decode, encode, to_text
from esg.core.policies.apex.features import listed
from esg.core.scheduler.scheduler import Scheduler, build_scheduler, next_epoch
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.state.state import Registrations, State
from esg.errors import Fault, Rejected
from esg.runtime.logs import about
from esg.runtime.settings import ControllerSettings
from esg.runtime.trained_configs import read_learnt
from esg.suggest import shortened
from esg.units import ms, seconds

log = logging.getLogger(__name__)

KEEP_IT = (
    "keep it for a bug report, and name another directory (controller.journal) to start without "
    "its requests"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Where to go on from. `now_us` is the time of day there, with the time that nobody was there
    counted in: deadlines do not wait."""

    state: Any = None
    memory: ShellSnapshot = NOTHING
    now_us: int = 0
    epoch: int = 0


def deciding(own: ControllerSettings) -> SchedulerSettings:
    """All that decisions depend on, as a controller's settings say it. What a file says that was
    learnt goes with it: whoever goes on from here may have another file, or none."""
    return SchedulerSettings(
        policy=own.policy,
        k=own.k,
        group_size=own.group_size,
        engine=own.engine,
        without=listed(own.without),
        trained=read_learnt(Path(own.trained)) if own.trained else {},
        tasks=task_mode(own.tasks),
        prewarm=own.prewarm,
        follow_profiles=own.follow_profiles,
        max_attempts=own.max_attempts,
        retry_pause_us=ms(own.retry_pause_ms),
        recheck_rounds=own.recheck_rounds,
        recheck_interval_us=ms(own.recheck_interval_ms),
        max_wait_us=seconds(own.max_wait_s),
        max_waiting=own.max_waiting,
        max_waiting_in_all=own.max_waiting_in_all,
        fair_quantum_us=ms(own.fair_quantum_ms),
    )


def opening(driver: Driver, shell: ControllerShell) -> Callable[[], str]:
    """What is remembered now, for a segment to begin with."""
    known = driver.scheduler.state
    state = to_text(known)
    memory = shell.snapshot()
    # Of the latest event, as the time in the state is: nothing may have happened for long
    wall_us = time.time_ns() // 1000 - (driver.now_us - known.now_us)
    return lambda: snapshot_line(state, to_text(memory()), wall_us)


def recover(past: Segment, catalog: Catalog, own: ControllerSettings) -> Remembered:
    """What a journal's latest segment comes to."""
    if past.snapshot is None and past.before is None:
        raise Rejected(
            "its latest segment has no snapshot, so no controller wrote it; name another "
            "directory (controller.journal)"
        )
    if past.header.catalog != catalog_digest(catalog):
        return _carried_over(past)
    start = _beginning(past, catalog, own)
    count = 0
    try:
        scheduler = build_scheduler(
            catalog, past.header.settings, start.state, epoch=past.header.epoch
        )
        shell = ControllerShell(own, start.memory)
        for count, (entry, commands) in enumerate(replayed(scheduler, past.entries), 1):  # noqa: B007
            # The effects are dropped: they were performed when it happened
            shell.apply(entry.now_us, entry.event, entry.memo, commands)
    except Diverged as error:
        raise Rejected(f"it does not lead where it says: {error}; {KEEP_IT}") from None
    except (Rejected, Fault):
        raise
    except Exception as error:  # whatever it holds, a controller says why it does not start
        what = shortened(f"{type(error).__name__}: {error}")
        where = f"after {count} entries it cannot be lived through again"
        raise Rejected(f"{where} ({what}); {KEEP_IT}") from error
    log.info(
        "remembered",
        extra=about(
            replayed=count,
            under_way=len(scheduler.state.requests),
            invokers=list(scheduler.state.nodes),
        ),
    )
    return Remembered(
        state=scheduler.snapshot(),
        memory=shell.snapshot()(),
        now_us=max(scheduler.state.now_us, start.now_us),
        epoch=next_epoch(scheduler.state),
    )


def _beginning(past: Segment, catalog: Catalog, own: ControllerSettings) -> Remembered:
    """Where a segment begins: as its snapshot says, or where the one before it ended."""
    if past.before is not None:
        return recover(past.before, catalog, own)
    assert past.snapshot is not None
    state = past.snapshot.state
    memory = decode(ShellSnapshot, past.snapshot.memory)
    now_us = _now_us(decode(State, state).now_us, past.snapshot.wall_us)
    return Remembered(state=state, memory=memory, now_us=now_us)


def rebuilt(journal: Journal, catalog: Catalog) -> Scheduler:
    """The scheduler that a journal which is being written comes to. The shell around it goes on as
    it is: it learns of nothing that is not written."""
    past = journal.current()
    assert past.snapshot is not None
    header = past.header
    scheduler = build_scheduler(catalog, header.settings, past.snapshot.state, epoch=header.epoch)
    return replay(scheduler, past.entries)


def dead_letters_beside(journal: Journal, directory: Path, catalog: Catalog) -> DeadLetters:
    """Where events are put aside that the scheduler fails at: in the journal's directory."""
    return DeadLetters(directory / FOLDER, lambda: rebuilt(journal, catalog))


def _now_us(began_us: int, wall_us: int) -> int:
    """A snapshot's latest event was at `began_us`, when the wall clock said `wall_us`. What it says
    now may be wrong by however much it was set meanwhile; that makes requests late, or gives them
    more time, but nothing worse."""
    return began_us + max(0, time.time_ns() // 1000 - wall_us)


class _GoodEnd(Struct):
    """What is carried over of a state; the rest of it may be of another shape."""

    now_us: int
    tasks_started: int
    requests_admitted: int
    requests: dict[str, Any]
    registrations: Registrations


def _carried_over(past: Segment) -> Remembered:
    """What goes on after a good end: what applications were registered, which results can still be
    asked for, and which numbers were used. The nodes join anew."""
    end = past.snapshot
    state = None if end is None else decode(_GoodEnd, end.state)
    if end is None or state is None or next(past.entries, None) is not None or state.requests:
        raise Rejected(
            "it was written with another catalog or by another version of ESG "
            f"({past.header.esg}, format {past.header.journal}), and requests were under way. "
            "Start that once more and stop it (SIGTERM), or name another directory "
            "(controller.journal)"
        )
    new = State(
        now_us=state.now_us,
        tasks_started=state.tasks_started,
        requests_admitted=state.requests_admitted,
        registrations=state.registrations,
    )
    memory = changed(decode(ShellSnapshot, end.memory), orders=(), sessions={})
    now_us = _now_us(state.now_us, end.wall_us)
    return Remembered(state=encode(new), memory=memory, now_us=now_us, epoch=next_epoch(new))
