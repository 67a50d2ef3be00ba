"""The controller's process: a scheduler, the clock it reads, and the journal that outlives both.

Facts are handled and written as they come, and orders leave at once. What cannot be taken back
waits until it is on disk: all that was written in `sync_us` becomes durable at once, and then
answers go out, acceptances of requests that nobody waits for, and orders to discard data. If the
process ends, all that was written is there; if the machine fails, the journal is torn somewhere
after the last sync. A restart is the last snapshot and what is left of the journal since; every
order of the replay must be the one that was journaled. Tasks get numbers that no process before can
have used.

An event may be poisoned: the scheduler fails at it. As live, what came before is carried out, the
scheduler is built again from the journal, and whoever told the event hears that it was put aside.

The clock may jump. Forwards, time is lost; backwards, it stands still for the scheduler until the
clock has caught up, because time never runs backwards in a journal.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from esg.controller.durability.dead_letters import TOLD_AGAIN
from esg.core.journal.format import JournalEntry, Memo, entry_line, orders_digest, read_entries
from esg.core.journal.replay import replay
from esg.core.messages.commands import (
    AdmitRequest,
    AnswerRequest,
    Command,
    DiscardData,
    RefuseRequest,
)
from esg.core.messages.events import Event, RequestArrived, RequestWanted, Woke
from esg.core.scheduler.scheduler import Scheduler, next_epoch
from esg.core.sessions.controller_end import remember
from esg.core.sessions.interest import is_kept
from esg.emulator.world import Action
from esg.errors import Bug
from esg.units import ms
from tests.simulation.faults.observer import MeshObserver

Answer = AnswerRequest | RefuseRequest
WAKE_AGAIN_US = ms(200)


class Handled(NamedTuple):
    """An event that is not on disk yet, which of its orders wait for that, and what will be done
    then."""

    event: Event
    waiting: list[Command]
    then: list[Action]
    line: str


class Controller:
    """A `World`'s brain that can crash.

    `build` makes a scheduler from a snapshot, or a new one. `perform` gets every event that is
    written, with the orders that do not wait for the disk, and returns those that can be sent;
    `commit` the others, when it is on disk. `sessions` are those that the journal comes to, and
    `wanted` what it has of who asked for each request.
    """

    def __init__(
        self,
        build: Callable[[Any], Scheduler],
        *,
        observer: MeshObserver,
        perform: Callable[[Event, list[Command]], list[Command]],
        commit: Callable[[Event, list[Command]], list[Command]],
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
        self._commit = commit
        self._refused = refused
        self._sync_us = sync_us
        self._snapshot_every = snapshot_every
        self._snapshot: Any = None
        self._sessions_then: dict[str, str] = {}
        self._wanted_then: dict[str, list[Memo]] = {}
        self._snapshot_at = 0  # how much of the journal is in it
        self._epochs: dict[int, int] = {}  # where in the journal each began
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

    def when_durable(self, action: Action) -> None:
        """Do something when all that was handled is on disk; now, if it is."""
        if self._tail:
            self._tail[-1].then.append(action)
        else:
            action()

    def handle(self, now_us: int, event: Event) -> list[Command]:
        """Learn one fact; returns the orders that may leave now."""
        if self.scheduler is None:
            return []
        released: list[Command] = []
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
            self._remember(event, memo)
            waiting = [command for command in commands if self._waits(command)]
            self._tail.append(Handled(event, waiting, [then], line))
            released = self._perform(event, [c for c in commands if c not in waiting])
        return released + (self._sync() if self._tail and now_us >= self._sync_at_us else [])

    def _waits(self, command: Command) -> bool:
        """Whether an order cannot be taken back: as live."""
        if isinstance(command, AdmitRequest):
            return any(map(is_kept, self.wanted.get(command.request, ())))
        return isinstance(command, AnswerRequest | DiscardData)

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
        """`torn` is how much, between 0 and 1, of what was not durable yet is on disk anyway: all
        of it, if it is the process that has ended and not the machine."""
        text = "".join(f"{line}\n" for *_, line in self._tail)
        kept = text[: round(len(text) * torn)]
        self.journal += kept.splitlines()[: kept.count("\n")]
        self._tail.clear()
        self._told.clear()
        self.scheduler = None

    def restart(self) -> None:
        self.sessions = dict(self._sessions_then)
        self.wanted = {request: list(memos) for request, memos in self._wanted_then.items()}

        def recall(entry: JournalEntry, commands: list[Command]) -> None:
            self._remember(entry.event, entry.memo)
            for answer in _answers(commands):
                if self.answers.setdefault(answer.request, answer) != answer:
                    raise Bug(f"{answer.request} gets another answer after a restart")

        scheduler = self.relived(self._build(self._snapshot), self._snapshot_at, recall)
        epoch = self._epochs[len(self.journal)] = next_epoch(scheduler.state)
        scheduler.begin_epoch(epoch)
        self.scheduler = scheduler
        self._take_snapshot()
        self._observer.controller_started()

    def relived(
        self,
        scheduler: Scheduler,
        since: int = 0,
        observe: Callable[[JournalEntry, list[Command]], None] = lambda *_: None,
    ) -> Scheduler:
        """A scheduler that has lived through the journal from some entry on."""
        entries = read_entries(self.journal[since:])
        for position, entry in enumerate(entries, since):
            scheduler.begin_epoch(self._epochs.get(position, 0))
            replay(scheduler, [entry], lambda _, __, commands, e=entry: observe(e, commands))  # type: ignore[misc]
        scheduler.begin_epoch(self._epochs.get(len(self.journal), 0))
        return scheduler

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
        return self.relived(self._build(self._snapshot), self._snapshot_at)

    def _sync(self) -> list[Command]:
        """What was written is on disk: what waited for that may leave."""
        released = self._carry_out()
        if len(self.journal) - self._snapshot_at >= self._snapshot_every:
            self._take_snapshot()
        return released

    def _take_snapshot(self) -> None:
        self._snapshot = self.running.snapshot()
        self._sessions_then = dict(self.sessions)
        self._wanted_then = {request: list(memos) for request, memos in self.wanted.items()}
        self._snapshot_at = len(self.journal)

    def _carry_out(self) -> list[Command]:
        released: list[Command] = []
        tail, self._tail = self._tail, []
        for event, waiting, actions, line in tail:
            self.journal.append(line)
            self._observer.on_disk(event)
            for answer in _answers(waiting):
                if answer.request in self.answers:
                    raise Bug(f"{answer.request} was answered twice")
                self.answers[answer.request] = answer
            released += self._commit(event, waiting)
            for action in actions:
                action()
        return released


def _answers(commands: list[Command]) -> list[AnswerRequest]:
    return [command for command in commands if isinstance(command, AnswerRequest)]
