"""One inbox, one alarm, one journal around a scheduler.

Facts that come in during one turn of the loop are handled together in the next: each is stamped,
decided on and written down; when all are written, the orders are carried out. So an order never
leaves before the journal knows why, and a burst costs one write.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from esg.commands import Command
from esg.events import Event, Woke
from esg.scheduler import Scheduler
from esg.units import US_PER_S

Handled = tuple[Event, list[Command]]


class Journal(Protocol):
    """Where events are written before they are acted on."""

    def append(self, now_us: int, event: Event, commands: list[Command]) -> None: ...

    def flush(self) -> None: ...


class Driver:
    """`perform` gets every event with the orders that followed, in order, once all is written."""

    def __init__(
        self,
        scheduler: Scheduler,
        journal: Journal | None,
        perform: Callable[[int, Event, list[Command]], None],
        *,
        clock_us: Callable[[], int],
    ) -> None:
        self.scheduler = scheduler
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._journal = journal
        self._perform = perform
        self._clock_us = clock_us
        self._loop = asyncio.get_running_loop()
        self._inbox: list[tuple[Event, asyncio.Future[list[Command]] | None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_us: int | None = None

    @property
    def now_us(self) -> int:
        """Time never runs backwards in a journal."""
        return max(self._clock_us(), self.scheduler.state.now_us)

    def tell(self, event: Event) -> None:
        """A fact for the scheduler."""
        self._put(event, None)

    async def ask(self, event: Event) -> list[Command]:
        """The same, by someone who wants to see the orders."""
        answer: asyncio.Future[list[Command]] = self._loop.create_future()
        self._put(event, answer)
        return await answer

    def _put(self, event: Event, answer: asyncio.Future[list[Command]] | None) -> None:
        if not self._inbox:
            self._loop.call_soon(self._handle_all)
        self._inbox.append((event, answer))

    def _handle_all(self) -> None:
        """Whatever fails here is a bug, and nothing after it would count: the process must end."""
        if self.failed.done():
            return
        try:
            inbox, self._inbox = self._inbox, []
            handled = []
            for event, answer in inbox:
                now_us = self.now_us
                commands = self.scheduler.handle(now_us, event)
                if self._journal is not None:
                    self._journal.append(now_us, event, commands)
                handled.append((now_us, event, commands, answer))
            if self._journal is not None:
                self._journal.flush()
            for now_us, event, commands, answer in handled:
                self._perform(now_us, event, commands)
                if answer is not None and not answer.done():
                    answer.set_result(commands)
            self._set_alarm()
        except BaseException as error:  # also what a broken journal raises
            self.failed.set_exception(error)

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
