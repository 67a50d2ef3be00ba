"""One inbox, one alarm, one journal around a scheduler: a write-ahead log with output commit.

Facts that come in during one turn of the loop are handled together in the next: each is stamped,
decided on and written down, and then the orders are carried out. So no order leaves before the
journal knows why. But it may leave before the journal is on disk: should this machine fail just
then, the nodes say what they run, what the journal does not know is stopped, and done again under
another number. What cannot be taken back waits until it is (`when_durable`): what clients are
promised, what nodes may forget, what data is deleted. One sync serves all who wait, and those who
come while the disk is busy wait for the next one: the slower the disk, the larger the groups.

An event that the scheduler fails at ends nothing but itself. Those before it in its group are
written and carried out; it is put aside (see `dead_letters`), and because it may be half done, the
scheduler is built again from the journal, which does not have it. Then the inbox goes on. Where
there is no journal, there is nothing to go on from: the process ends.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from esg.controller.durability.dead_letters import DeadLetters, PutAside
from esg.core.journal.format import Memo
from esg.core.messages.commands import Command
from esg.core.messages.events import Event, Woke
from esg.core.scheduler.scheduler import Scheduler
from esg.units import US_PER_S


class EventLog(Protocol):
    """Where events are written before they are acted on. After `write` they survive this process,
    after `sync` this machine."""

    @property
    def syncs(self) -> int: ...

    def begin_group(self) -> None: ...

    def append(
        self, now_us: int, event: Event, commands: list[Command], memo: Memo | None = None
    ) -> None: ...

    def write(self, then: Callable[[Exception | None], None]) -> None: ...

    def sync(self, then: Callable[[Exception | None], None]) -> None: ...

    def end_segment(self) -> None: ...


class InboxItem(NamedTuple):
    """A fact, what the shell wants to remember of it, who wants to see the orders when it is
    durable, whether they wait for that, and who has to know if it was put aside."""

    event: Event
    memo: Memo | None
    then: Callable[[list[Command]], None] | None
    urgent: bool
    refused: Callable[[PutAside], None] | None


LINGER_S = 0.05
"""What can wait for a sync waits so long at most for one that others need."""
MOST_UNSYNCED = 10_000
"""So many events at most are not durable yet; then the disk is waited for."""

Handled = tuple[int, InboxItem, list[Command]]
Failed = tuple[InboxItem, Exception]


class Driver:
    """The loop around a scheduler. `perform` gets every event with its memo and the orders that
    followed, in order, once all is written."""

    def __init__(
        self,
        scheduler: Scheduler,
        journal: EventLog | None,
        perform: Callable[[int, Event, Memo | None, list[Command]], None],
        *,
        clock_us: Callable[[], int],
        dead_letters: DeadLetters | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.whole = asyncio.Event()
        """Not while the scheduler may be half-changed, from an event that it failed at until it is
        built again: nobody is to read its state then."""
        self.whole.set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._journal = journal
        self._perform = perform
        self._clock_us = clock_us
        self._dead_letters = dead_letters
        self._loop = asyncio.get_running_loop()
        self._inbox: list[InboxItem] = []
        self._busy = False  # a turn is due, or its events are being written
        self._resting = asyncio.Event()  # and nobody waits for a sync
        self._resting.set()
        self._held: list[Callable[[], None]] = []  # until what was written is durable
        self._unsynced = 0  # events that are written
        self._syncing = self._sync_wanted = False
        self._stalled = False  # a turn waits for a sync
        self._sync_later: asyncio.TimerHandle | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_us: int | None = None

    @property
    def now_us(self) -> int:
        """The time of the next event: it never runs backwards in a journal."""
        return max(self._clock_us(), self.scheduler.state.now_us)

    def start(self) -> None:
        """Go on with what is remembered: something may be due already."""
        self._set_alarm()

    def tell(
        self,
        event: Event,
        memo: Memo | None = None,
        then: Callable[[list[Command]], None] | None = None,
        refused: Callable[[PutAside], None] | None = None,
        *,
        urgent: bool = True,
    ) -> None:
        """A fact for the scheduler. `memo` stands beside it in the journal; `then` is called when
        the fact is durable and its orders, which it is given, have been carried out, which may take
        a little longer if that is not `urgent`; `refused`, if the fact was put aside instead."""
        self._inbox.append(InboxItem(event, memo, then, urgent, refused))
        if not self._busy:
            self._begin_turn()

    async def ask(self, event: Event) -> list[Command]:
        """Tell a fact, and wait for the orders that followed from it, or the error of one that was
        put aside."""
        answer: asyncio.Future[list[Command]] = self._loop.create_future()

        def answered(commands: list[Command]) -> None:
            if not answer.done():
                answer.set_result(commands)

        def refused(error: PutAside) -> None:
            if not answer.done():
                answer.set_exception(error)

        self.tell(event, then=answered, refused=refused)
        return await answer

    async def rest(self) -> None:
        """Wait until all is done that was told; raises what went wrong, if anything did."""
        while not (self._resting.is_set() or self.failed.done()):
            if self._held:
                self._want_sync()
            await self._resting.wait()
        if self.failed.done():
            self.failed.result()

    def _begin_turn(self) -> None:
        self._busy = True
        self._resting.clear()
        self._loop.call_soon(self._handle_all)

    def _handle_all(self) -> None:
        """Handle the inbox as one group, as far as all goes well."""
        if self.failed.done():
            return
        if self._unsynced > MOST_UNSYNCED:
            self._stalled = True
            self._want_sync()
            return
        try:
            if self._journal is not None:
                self._journal.begin_group()
            handled, failed = self._handle_group()
            if self._journal is None or not handled:
                self._written(handled, failed, None)
            else:
                self._journal.write(lambda error: self._written(handled, failed, error))
        except BaseException as error:
            self._fail(error)

    def _handle_group(self) -> tuple[list[Handled], Failed | None]:
        """What was handled, and the event after which that came to an end, if one did: the rest is
        left in the inbox."""
        inbox, self._inbox = self._inbox, []
        handled: list[Handled] = []
        for position, told in enumerate(inbox, 1):
            if self._is_refused(told):
                continue
            try:
                handled.append(self._handle(told))
            except Exception as error:
                if self._dead_letters is None:
                    raise
                self.whole.clear()
                self._inbox = inbox[position:] + self._inbox
                return handled, (told, error)
        return handled, None

    def _handle(self, told: InboxItem) -> Handled:
        now_us = self.now_us
        commands = self.scheduler.handle(now_us, told.event)
        if self._journal is not None:
            self._journal.append(now_us, told.event, commands, told.memo)
        return now_us, told, commands

    def _written(
        self, handled: list[Handled], failed: Failed | None, error: Exception | None
    ) -> None:
        if self.failed.done():
            return
        try:
            if error is not None:
                raise error
            if self._journal is not None:
                self._unsynced += len(handled)
            for now_us, told, commands in handled:
                self._perform(now_us, told.event, told.memo, commands)
                if told.then is not None:
                    self.when_durable(partial(told.then, commands), urgent=told.urgent)
            if failed is not None:
                self._put_aside(*failed)
            else:
                self._go_on()
        except BaseException as failure:
            self._fail(failure)

    def _go_on(self) -> None:
        self._set_alarm()
        if self._inbox:
            self._begin_turn()
        else:
            self._busy = False
            self._look_whether_resting()

    def _look_whether_resting(self) -> None:
        if not (self._busy or self._held or self._syncing):
            self._resting.set()

    # ---- what waits for the disk

    def when_durable(self, action: Callable[[], None], *, urgent: bool = True) -> None:
        """Do something as soon as all that has been handled so far is durable: now, if it is. What
        is not `urgent` lingers for the company of something that is, but not for long."""
        if not self._unsynced:
            action()
            return
        self._held.append(action)
        self._resting.clear()
        if urgent:
            self._want_sync()
        elif self._sync_later is None and not self._sync_wanted:
            self._sync_later = self._loop.call_later(LINGER_S, self._want_sync)

    def _want_sync(self) -> None:
        if self._sync_later is not None:
            self._sync_later.cancel()
            self._sync_later = None
        if not self._sync_wanted:
            self._sync_wanted = True
            if not self._syncing:
                self._loop.call_soon(self._begin_sync)

    def _begin_sync(self) -> None:
        if self.failed.done():
            return
        assert self._journal is not None
        held, self._held = self._held, []
        covered, self._sync_wanted, self._syncing = self._unsynced, False, True
        try:
            self._journal.sync(lambda error: self._synced(held, covered, error))
        except BaseException as failure:
            self._fail(failure)

    def _synced(
        self, held: list[Callable[[], None]], covered: int, error: Exception | None
    ) -> None:
        if self.failed.done():
            return
        try:
            if error is not None:
                raise error
            self._unsynced -= covered
            self._syncing = False
            for action in held:
                action()
            if self._stalled:
                self._stalled = False
                self._handle_all()
            if self._sync_wanted:
                self._loop.call_soon(self._begin_sync)
            self._look_whether_resting()
        except BaseException as failure:
            self._fail(failure)

    # ---- events that the scheduler fails at

    def _is_refused(self, told: InboxItem) -> bool:
        """Whether an event was put aside before, and is not tried again."""
        refusal = self._dead_letters and self._dead_letters.refusal(self.now_us, told.event)
        if refusal and told.refused is not None:
            told.refused(refusal)
        return bool(refusal)

    def _put_aside(self, told: InboxItem, error: Exception) -> None:
        """Go on without an event. All before it is in the journal, and nothing is written until the
        scheduler is there again; that takes as long as a start, so it is done in a thread."""
        assert self._dead_letters is not None
        refusal = self._dead_letters.put_aside(self.now_us, told.event, told.memo, error)
        rebuilding = self._loop.run_in_executor(None, self._rebuilt_scheduler)
        rebuilding.add_done_callback(lambda built: self._rebuilt(built, told, refusal))

    def _rebuilt_scheduler(self) -> Scheduler:
        assert self._dead_letters is not None
        try:
            return self._dead_letters.rebuild()
        except Exception:  # the file could not be read, perhaps; what fails twice is a bug
            return self._dead_letters.rebuild()

    def _rebuilt(
        self, built: "asyncio.Future[Scheduler]", told: InboxItem, refusal: PutAside
    ) -> None:
        if self.failed.done() or built.cancelled():
            return
        try:
            self.scheduler = built.result()
            self.whole.set()
            if self._journal is not None:
                self._journal.end_segment()  # if it happens again, there is little to replay
            if told.refused is not None:
                told.refused(refusal)
            self._go_on()
        except BaseException as failure:
            self._fail(failure)

    def _fail(self, error: BaseException) -> None:
        self.failed.set_exception(error)
        self._resting.set()  # for good

    def _set_alarm(self) -> None:
        wake_us = self.scheduler.next_wake
        if wake_us is not None and self._dead_letters is not None:
            wake_us = max(wake_us, self._dead_letters.until_us(Woke()))
        if wake_us == self._alarm_us:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        self._alarm_us = wake_us
        if wake_us is not None:
            delay_s = max(0, wake_us - self.now_us) / US_PER_S
            self._alarm = self._loop.call_later(delay_s, self._woke)

    def _woke(self) -> None:
        self._alarm = None
        self._alarm_us = None
        wake_us = self.scheduler.next_wake
        if wake_us is not None and wake_us <= self.now_us:
            self.tell(Woke())
        else:
            self._set_alarm()  # a timer's clock is coarser than ours: it may ring a little early
