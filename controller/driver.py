"""One inbox, one alarm, one journal around a scheduler.

Facts that come in during one turn of the loop are handled together in the next: each is stamped,
decided on and written down; when all are durable, the orders are carried out. So an order never
leaves before the journal knows why, and a burst costs one write. What comes in while the disk is
busy waits for the next turn: the slower the disk, the larger the groups.

An event that the scheduler fails at ends nothing but itself. Those before it in its group are made
durable and carried out; it is put aside (see `dead_letters`), and because it may be half done, the
scheduler is built again from the journal, which does not have it. Then the inbox goes on. Where
there is no journal, there is nothing to go on from: the process ends.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from esg.controller.durability.dead_letters import DeadLetters, PutAside
from esg.core.journal.format import Memo
from esg.core.messages.commands import Command
from esg.core.messages.events import Event, Woke
from esg.core.scheduler.scheduler import Scheduler
from esg.units import US_PER_S


class EventLog(Protocol):
    """Where events are written before they are acted on."""

    def begin_group(self) -> None: ...

    def append(
        self, now_us: int, event: Event, commands: list[Command], memo: Memo | None = None
    ) -> None: ...

    def flush(self, then: Callable[[Exception | None], None]) -> None: ...

    def end_segment(self) -> None: ...


class InboxItem(NamedTuple):
    """A fact, what the shell wants to remember of it, who wants to see the orders, and who has to
    know if it was put aside."""

    event: Event
    memo: Memo | None
    then: Callable[[list[Command]], None] | None
    refused: Callable[[PutAside], None] | None


Handled = tuple[int, InboxItem, list[Command]]
Failed = tuple[InboxItem, Exception]


class Driver:
    """The loop around a scheduler. `perform` gets every event with its memo and the orders that
    followed, in order, once all is durable."""

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
        self._resting = asyncio.Event()  # no turn is due, and no events are being written
        self._resting.set()
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
    ) -> None:
        """A fact for the scheduler. `memo` stands beside it in the journal; `then` is called when
        the fact is durable and its orders, which it is given, have been carried out; `refused`, if
        the fact was put aside instead."""
        self._inbox.append(InboxItem(event, memo, then, refused))
        if self._resting.is_set():
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
            await self._resting.wait()
        if self.failed.done():
            self.failed.result()

    def _begin_turn(self) -> None:
        self._resting.clear()
        self._loop.call_soon(self._handle_all)

    def _handle_all(self) -> None:
        """Handle the inbox as one group, as far as all goes well."""
        if self.failed.done():
            return
        try:
            if self._journal is not None:
                self._journal.begin_group()
            handled, failed = self._handle_group()
            if self._journal is None or not handled:
                self._durable(handled, failed, None)
            else:
                self._journal.flush(lambda error: self._durable(handled, failed, error))
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

    def _durable(
        self, handled: list[Handled], failed: Failed | None, error: Exception | None
    ) -> None:
        if self.failed.done():
            return
        try:
            if error is not None:
                raise error
            for now_us, told, commands in handled:
                self._perform(now_us, told.event, told.memo, commands)
                if told.then is not None:
                    told.then(commands)
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
            self._resting.set()

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
