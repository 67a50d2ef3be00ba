"""The controller's process: a scheduler, the clock it reads, and the journal that outlives both.

Facts are handled as they come, but nothing that follows from them leaves before they are on disk:
all that was written in `sync_us` becomes durable at once, and then its orders go out. A crash tears
the journal somewhere after that point. A restart is the last snapshot and what is left of the
journal since; every order of the replay must be the one that was journaled.

An event may be poisoned: the scheduler fails at it. As live, what came before is carried out, the
scheduler is built again from the journal, and whoever told the event hears that it was put aside.

The clock may jump. Forwards, time is lost; backwards, it stands still for the scheduler until the
clock has caught up, because time never runs backwards in a journal.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from esg.controller.dead_letters import TOLD_AGAIN
from esg.core.journal.format import JournalEntry, Memo, entry_line, orders_digest, read_entries
from esg.core.journal.replay import replay
from esg.core.messages.commands import AnswerRequest, Command, RefuseRequest
from esg.core.messages.events import Event, RequestArrived, RequestWanted, Woke
from esg.core.scheduler.scheduler import Scheduler
from esg.core.sessions.controller_end import remember
from esg.emulator.world import Action
from esg.errors import Bug
from esg.units import ms
from tests.simulation.faults.observer import MeshObserver

Answer = AnswerRequest | RefuseRequest
WAKE_AGAIN_US = ms(200)


class Handled(NamedTuple):
    """An event that is not on disk yet, and what will be done when it is."""

    event: Event
    commands: list[Command]
    memo: Memo | None
    then: Action
    line: str


class Controller:
    """A `World`'s brain that can crash.

    `build` makes a scheduler from a snapshot, or a new one. `perform` gets every event that is on
    disk, with its orders, and returns those that can be sent; only then is `then` done. `sessions`
    are those that the journal comes to, and `wanted` what it has of who asked for each request.
    """

    def __init__(
        self,
        build: Callable[[Any], Scheduler],
        *,
        observer: MeshObserver,
        perform: Callable[[Event, list[Command]], list[Command]],
        refused: Callable[[Event], None],
        sync_us: int = 0,
        snapshot_every: int = 1000,
    ) -> None:
        self.scheduler: Scheduler | None = build(None)
        self.journal: list[str] = []
        self.answers: dict[str, AnswerRequest] = {}
        self.sessions: dict[str, str] = {}
        self.wanted: dict[str, list[Memo]] = {}
        self.skew_us = 0
        self._build = build
        self._observer = observer
        self._perform = perform
        self._refused = refused
        self._sync_us = sync_us
        self._snapshot_every = snapshot_every
        self._snapshot: Any = None
        self._sessions_then: dict[str, str] = {}
        self._wanted_then: dict[str, list[Memo]] = {}
        self._snapshot_at = 0  # how much of the journal is in it
        self._told: dict[int, tuple[Event, Memo | None, Action]] = {}
        self._tail: list[Handled] = []
        self._sync_at_us = 0
        self.poisoned: list[str] = []
        """The kinds of events at the next of which the scheduler fails."""
        self.aside: list[Event] = []
        self._awake_at_us = 0  # not before: the scheduler failed at its alarm

    @property
    def running(self) -> Scheduler:
        assert self.scheduler is not None, "the controller is down"
        return self.scheduler

    def tell(self, event: Event, memo: Memo | None, then: Action) -> None:
        """An event will come that has a memo; `then` is to be done when it is on disk."""
        self._told[id(event)] = event, memo, then

    def handle(self, now_us: int, event: Event) -> list[Command]:
        """Learn one fact; returns the orders that may leave now."""
        if self.scheduler is None:
            return []
        time_us = max(now_us + self.skew_us, self.scheduler.state.now_us)
        wake_us = self.scheduler.next_wake
        if self._is_refused(event):
            self._put_aside(event)
        elif type(event).__name__ in self.poisoned:
            return self._fail(now_us, time_us, event)
        elif not isinstance(event, Woke) or (wake_us is not None and wake_us <= time_us):
            if not self._tail:
                self._sync_at_us = now_us + self._sync_us
            commands = self.scheduler.handle(time_us, event)
            self._observer.handled(self.scheduler, event, commands)
            _, memo, then = self._told.pop(id(event), (event, None, lambda: None))
            line = entry_line(JournalEntry(time_us, event, orders_digest(commands), memo))
            self._tail.append(Handled(event, commands, memo, then, line))
        return self._sync() if self._tail and now_us >= self._sync_at_us else []

    @property
    def next_wake(self) -> int | None:
        if self.scheduler is None:
            return None
        wake_us = self.scheduler.next_wake
        if wake_us is not None:
            wake_us = max(wake_us - self.skew_us, self._awake_at_us)
        if self._tail:
            return self._sync_at_us if wake_us is None else min(wake_us, self._sync_at_us)
        return wake_us

    def crash(self, torn: float) -> None:
        """`torn` is how much, between 0 and 1, of what was not durable yet is on disk anyway."""
        text = "".join(f"{line}\n" for *_, line in self._tail)
        kept = text[: round(len(text) * torn)]
        self.journal += kept.splitlines()[: kept.count("\n")]
        self._tail.clear()
        self._told.clear()
        self.scheduler = None

    def restart(self) -> None:
        scheduler = self._build(self._snapshot)
        self.sessions = dict(self._sessions_then)
        self.wanted = {request: list(memos) for request, memos in self._wanted_then.items()}

        def relived() -> Iterator[JournalEntry]:
            for entry in read_entries(self.journal[self._snapshot_at :]):
                self._remember(entry.event, entry.memo)
                yield entry

        def recall(_: int, __: Event, commands: list[Command]) -> None:
            for answer in _answers(commands):
                if self.answers.setdefault(answer.request, answer) != answer:
                    raise Bug(f"{answer.request} gets another answer after a restart")

        replay(scheduler, relived(), recall)
        self.scheduler = scheduler
        self._observer.controller_started()

    def _remember(self, event: Event, memo: Memo | None) -> None:
        remember(self.sessions, event, memo)
        if isinstance(event, RequestArrived | RequestWanted) and memo is not None:
            self.wanted.setdefault(event.request, []).append(memo)

    def _is_refused(self, event: Event) -> bool:
        """Whether the scheduler failed at the same before, and it is not tried again."""
        return not isinstance(event, TOLD_AGAIN) and event in self.aside

    def _fail(self, now_us: int, time_us: int, event: Event) -> list[Command]:
        self.poisoned.remove(type(event).__name__)
        self.running.handle(time_us, event)
        released = self._carry_out()
        self.scheduler = self._rebuilt()
        self.aside.append(event)
        if isinstance(event, Woke):
            self._awake_at_us = now_us + WAKE_AGAIN_US
        self._put_aside(event)
        return released

    def _put_aside(self, event: Event) -> None:
        self._told.pop(id(event), None)
        self._observer.put_aside(event)
        self._refused(event)

    def _rebuilt(self) -> Scheduler:
        return replay(self._build(self._snapshot), read_entries(self.journal[self._snapshot_at :]))

    def _sync(self) -> list[Command]:
        """What was written is on disk: its orders may leave."""
        released = self._carry_out()
        if len(self.journal) - self._snapshot_at >= self._snapshot_every:
            self._snapshot = self.running.snapshot()
            self._sessions_then = dict(self.sessions)
            self._wanted_then = {request: list(memos) for request, memos in self.wanted.items()}
            self._snapshot_at = len(self.journal)
        return released

    def _carry_out(self) -> list[Command]:
        released: list[Command] = []
        for event, commands, memo, then, line in self._tail:
            self.journal.append(line)
            self._observer.on_disk(event)
            self._remember(event, memo)
            for answer in _answers(commands):
                if answer.request in self.answers:
                    raise Bug(f"{answer.request} was answered twice")
                self.answers[answer.request] = answer
            released += self._perform(event, commands)
            then()
        self._tail.clear()
        return released


def _answers(commands: list[Command]) -> list[AnswerRequest]:
    return [command for command in commands if isinstance(command, AnswerRequest)]
