"""One inbox, one alarm, one journal around a scheduler.

Facts that come in during one turn of the loop are handled together in the next: each is stamped,
decided on and written down; when all are durable, the orders are carried out. So an order never
leaves before the journal knows why, and a burst costs one write. What comes in while the disk is
busy waits for the next turn: the slower the disk, the larger the groups.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

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


class InboxItem(NamedTuple):
    """A fact, what the shell wants to remember of it, and who wants to see the orders."""

    event: Event
    memo: Memo | None
    then: Callable[[list[Command]], None] | None


Handled = tuple[int, InboxItem, list[Command]]


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
    ) -> None:
        self.scheduler = scheduler
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._journal = journal
        self._perform = perform
        self._clock_us = clock_us
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
    ) -> None:
        """A fact for the scheduler. `memo` stands beside it in the journal; `then` is called when
        the fact is durable and its orders, which it is given, have been carried out."""
        self._inbox.append(InboxItem(event, memo, then))
        if self._resting.is_set():
            self._begin_turn()

    async def ask(self, event: Event) -> list[Command]:
        """Tell a fact, and wait for the orders that followed from it."""
        answer: asyncio.Future[list[Command]] = self._loop.create_future()

        def answered(commands: list[Command]) -> None:
            if not answer.done():
                answer.set_result(commands)

        self.tell(event, then=answered)
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
        """Handle the inbox as one group. What fails here is a bug, and nothing after it would
        count: the process must end."""
        if self.failed.done():
            return
        try:
            if self._journal is not None:
                self._journal.begin_group()
            inbox, self._inbox = self._inbox, []
            handled = [self._handle(told) for told in inbox]
            if self._journal is None:
                self._durable(handled, None)
            else:
                self._journal.flush(lambda error: self._durable(handled, error))
        except BaseException as error:
            self._fail(error)

    def _handle(self, told: InboxItem) -> Handled:
        now_us = self.now_us
        commands = self.scheduler.handle(now_us, told.event)
        if self._journal is not None:
            self._journal.append(now_us, told.event, commands, told.memo)
        return now_us, told, commands

    def _durable(self, handled: list[Handled], error: Exception | None) -> None:
        if self.failed.done():
            return
        try:
            if error is not None:
                raise error
            for now_us, told, commands in handled:
                self._perform(now_us, told.event, told.memo, commands)
                if told.then is not None:
                    told.then(commands)
            self._set_alarm()
        except BaseException as failure:
            self._fail(failure)
            return
        if self._inbox:
            self._begin_turn()
        else:
            self._resting.set()

    def _fail(self, error: BaseException) -> None:
        self.failed.set_exception(error)
        self._resting.set()  # for good

    def _set_alarm(self) -> None:
        wake_us = self.scheduler.next_wake
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
