"""What the journal of a mesh says happened to each request."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from esg.core.catalog.model import Catalog
from esg.core.messages.commands import AnswerRequest, Command, RefuseRequest, StartTask
from esg.core.messages.events import Event, RequestArrived, TaskFinished
from esg.core.messages.task_order import TaskOrder
from esg.emulator.history import replay_strictly
from esg.runtime.journal_files import read_segments


@dataclass
class RequestHistory:
    """How often each request came, was answered and refused, and each of its jobs was done, as the
    nodes said, also if nobody waited for it any more."""

    arrived: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    segments: int = 0
    _orders: dict[str, TaskOrder] = field(default_factory=dict)

    def observe(self, now_us: int, event: Event, commands: list[Command]) -> None:
        if isinstance(event, RequestArrived):
            self.arrived[event.request] += 1
        elif isinstance(event, TaskFinished) and event.task in self._orders:
            order = self._orders.pop(event.task)
            self.done.update((job.request, order.stage) for job in order.jobs)
        for command in commands:
            match command:
                case AnswerRequest():
                    self.answered[command.request] += 1
                case RefuseRequest():
                    self.refused[command.request] += 1
                case StartTask():
                    self._orders[command.order.task] = command.order
                case _:
                    pass


def history_of(journal: Path, catalog: Catalog) -> RequestHistory:
    """Replayed strictly: every order as it was, every snapshot where the one before it led."""
    history = RequestHistory(segments=sum(1 for _ in read_segments(journal)))
    replay_strictly(journal, catalog, history.observe)
    return history
