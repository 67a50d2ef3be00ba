"""Books: what the parts of a scheduler share, its memory above all."""

from collections.abc import Callable
from dataclasses import dataclass

from esg.core.catalog.model import Catalog
from esg.core.messages.commands import Command
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.scheduler.shares import Shares
from esg.core.state.state import Queue, State


@dataclass(frozen=True, slots=True)
class Books:
    """What a scheduler's parts are built around, anew when its catalog changes.

    What is promised and paid goes by `catalog`, what is planned and expected by `planned`, the same
    with corrected profiles. All memory is in `state`; `busy` are those of its queues that have
    jobs, and `lifecycle` alone changes it. `shares` says who of those that wait is next. All that
    must be done is emitted.
    """

    catalog: Catalog
    planned: Catalog
    state: State
    busy: dict[str, Queue]
    shares: Shares
    emit: Callable[[Command], None]
    settings: SchedulerSettings
