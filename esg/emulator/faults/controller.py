"""The controller's process: a scheduler, the clock it reads, and the journal that outlives both.

Facts are handled as they come, but nothing that follows from them leaves before they are on disk:
all that was written in `sync_us` becomes durable at once, and then its orders go out. A crash tears
the journal somewhere after that point. A restart is the last snapshot and what is left of the
journal since; every order of the replay must be the one that was journaled.

The clock may jump. Forwards, time is lost; backwards, it stands still for the scheduler until the
clock has caught up, because time never runs backwards in a journal.
"""

from collections.abc import Callable
from typing import Any

from esg.core.journal.format import JournalEntry, entry_line, orders_digest, read_entries, replay
from esg.core.messages.commands import AnswerRequest, Command, RefuseRequest, invoker_order
from esg.core.messages.events import Event, InvokerJoined, Woke
from esg.core.scheduler.scheduler import Scheduler
from esg.errors import Bug

Answer = AnswerRequest | RefuseRequest
Handled = tuple[Event, list[Command], str]


class Controller:
    """A `World`'s brain that can crash.

    `build` makes a scheduler from a snapshot, or a new one; `watch` sees all that is handled, when
    it is; `durable` hears of every event that is on disk, with its answers, when its orders leave.
    """

    def __init__(
        self,
        build: Callable[[Any], Scheduler],
        *,
        watch: Callable[[Scheduler, Event, list[Command]], None],
        durable: Callable[[Event, list[Answer]], None],
        sync_us: int = 0,
        snapshot_every: int = 1000,
    ) -> None:
        self.scheduler: Scheduler | None = build(None)
        self.journal: list[str] = []
        self.answers: dict[str, AnswerRequest] = {}
        self.skew_us = 0
        self._build = build
        self._watch = watch
        self._durable = durable
        self._sync_us = sync_us
        self._snapshot_every = snapshot_every
        self._snapshot: Any = None
        self._snapshot_at = 0  # how much of the journal is in it
        self._tail: list[Handled] = []
        self._sync_at_us = 0

    @property
    def running(self) -> Scheduler:
        assert self.scheduler is not None, "the controller is down"
        return self.scheduler

    def handle(self, now_us: int, event: Event) -> list[Command]:
        """Learn one fact; returns the orders that may leave now."""
        if self.scheduler is None:
            return []
        time_us = max(now_us + self.skew_us, self.scheduler.state.now_us)
        wake_us = self.scheduler.next_wake
        if not isinstance(event, Woke) or (wake_us is not None and wake_us <= time_us):
            if not self._tail:
                self._sync_at_us = now_us + self._sync_us
            commands = self.scheduler.handle(time_us, event)
            self._watch(self.scheduler, event, commands)
            entry = JournalEntry(time_us, event, orders_digest(commands))
            self._tail.append((event, commands, entry_line(entry)))
        return self._sync() if self._tail and now_us >= self._sync_at_us else []

    @property
    def next_wake(self) -> int | None:
        if self.scheduler is None:
            return None
        wake_us = self.scheduler.next_wake
        if wake_us is not None:
            wake_us -= self.skew_us
        if self._tail:
            return self._sync_at_us if wake_us is None else min(wake_us, self._sync_at_us)
        return wake_us

    def crash(self, torn: float) -> None:
        """`torn` is how much, between 0 and 1, of what was not durable yet is on disk anyway."""
        text = "".join(f"{line}\n" for _, _, line in self._tail)
        kept = text[: round(len(text) * torn)]
        self.journal += kept.splitlines()[: kept.count("\n")]
        self._tail.clear()
        self.scheduler = None

    def restart(self) -> None:
        scheduler = self._build(self._snapshot)

        def remember(_: int, __: Event, commands: list[Command]) -> None:
            for answer in _answers(commands):
                if self.answers.setdefault(answer.request, answer) != answer:
                    raise Bug(f"{answer.request} gets another answer after a restart")

        replay(scheduler, read_entries(self.journal[self._snapshot_at :]), remember)
        self.scheduler = scheduler

    def _sync(self) -> list[Command]:
        """What was written is on disk: its orders may leave."""
        released: list[Command] = []
        for event, commands, line in self._tail:
            self.journal.append(line)
            if isinstance(event, InvokerJoined):
                # it is to hear what was decided since, and no more
                released = [c for c in released if not _is_for(c, event.invoker)]
            released += commands
            for answer in _answers(commands):
                if answer.request in self.answers:
                    raise Bug(f"{answer.request} was answered twice")
                self.answers[answer.request] = answer
            self._durable(event, [c for c in commands if isinstance(c, Answer)])
        self._tail.clear()
        if len(self.journal) - self._snapshot_at >= self._snapshot_every:
            self._snapshot = self.running.snapshot()
            self._snapshot_at = len(self.journal)
        return released


def _is_for(command: Command, invoker: str) -> bool:
    order = invoker_order(command)
    return order is not None and order.invoker == invoker


def _answers(commands: list[Command]) -> list[AnswerRequest]:
    return [command for command in commands if isinstance(command, AnswerRequest)]
