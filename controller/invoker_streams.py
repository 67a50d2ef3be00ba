"""The door for invokers: who is attached, who is lost, and which orders go where.

An invoker greets, is welcomed, and joins with its inventory; from then on it gets its orders and
sends its news over the same stream. A stream that breaks is no loss yet: the same process may come
back within a moment, with everything it ran and kept. After that moment, or after too long a
silence, it is lost, and should it ever come back it must start afresh.

Orders that are decided while an invoker is away are not kept for it. When it joins, the scheduler
compares what runs there with what should, and decides again. Its news are acknowledged once they
are in the journal; what is not, it says again when it comes back. So a controller that starts again
is to its invokers a stream that broke: they have a moment to come back to it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from esg.core.journal.format import Memo
from esg.core.messages.commands import Command, DiscardData
from esg.core.messages.events import Event, InvokerJoined, InvokerLeaving, InvokerLost
from esg.errors import Rejected
from esg.protos import controller_v1_pb2 as wire
from esg.runtime.logs import about
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.status import AlreadyExists
from esg.runtime.settings import ControllerSettings
from esg.runtime.wire.convert import InvokerOrder, news_from_wire, order_to_wire

log = logging.getLogger(__name__)

RETURN_S = 5.0
"""How long invokers may take at least to find a controller that was started again: they try again
and again, with pauses of a second or so."""


class Tell(Protocol):
    """The driver's."""

    def __call__(
        self,
        event: Event,
        memo: Memo | None = None,
        then: Callable[[list[Command]], None] | None = None,
    ) -> None: ...


@dataclass(slots=True, eq=False)
class InvokerSession:
    """One invoker's process, as long as it is not given up."""

    invoker: str
    session: str
    heard_s: float
    outbox: BatchedSender[wire.Order] | None = None  # None while it is away
    joining: InvokerJoined | None = None  # until the scheduler has heard of it
    joined: bool = False
    leaving: bool = False
    heard_number: int = 0  # of its news
    durable_number: int = 0
    giving_up: asyncio.TimerHandle | None = field(default=None, repr=False)

    def acknowledge(self, number: int) -> None:
        """Said along with the next orders: nobody waits for it."""
        self.durable_number = number


class InvokerStreams:
    """Everyone who is attached."""

    def __init__(self, tell: Tell, functions: str, settings: ControllerSettings) -> None:
        self._tell = tell
        self._functions = functions
        self._settings = settings
        self._links: dict[str, InvokerSession] = {}
        self._sessions: dict[str, str] = {}  # of the nodes that the scheduler knows
        self._loop = asyncio.get_running_loop()

    def send(self, order: InvokerOrder) -> None:
        link = self._links.get(order.invoker)
        if link is None or not link.joined or link.outbox is None:
            return
        if isinstance(order, DiscardData):
            link.outbox.put_lazily(order_to_wire(order))
        else:
            link.outbox.put(order_to_wire(order))

    def joined(self, event: InvokerJoined) -> None:
        """The scheduler has compared its books with this inventory. What it decided before that was
        not meant for a node that is here again, and has been decided anew."""
        link = self._links.get(event.invoker)
        if link is not None and link.joining is event:
            link.joining = None
            link.joined = True

    def sessions(self) -> dict[str, str]:
        """Who may come back with all it runs and keeps, as of the events that were carried out."""
        return dict(self._sessions)

    def expect(self, sessions: Mapping[str, str]) -> None:
        """Invokers that were here before this process began have a while to come back."""
        self._sessions.update(sessions)
        for invoker, session in sessions.items():
            link = self._links[invoker] = InvokerSession(invoker, session, self._loop.time())
            wait_s = max(RETURN_S, self._settings.lost_after_ms / 1000)
            why = "not back after the controller was"
            link.giving_up = self._loop.call_later(wait_s, self._give_up, link, why)

    async def attach(
        self, messages: AsyncIterator[wire.FromInvoker]
    ) -> AsyncIterator[wire.ToInvoker]:
        """Serve one stream, from greeting to end."""
        first = await anext(messages, None)
        if first is None or not first.notes or first.notes[0].WhichOneof("note") != "greeting":
            raise Rejected("an invoker's first word is a greeting with its name")
        link, welcome = self._greet(first.notes[0].greeting)
        outbox: BatchedSender[wire.Order] = BatchedSender()
        outbox.put(wire.Order(welcome=welcome))
        link.outbox = outbox
        log.info("invoker attached", extra=about(invoker=link.invoker, session=link.session))
        reader = self._loop.create_task(self._read(link, outbox, first.notes[1:], messages))
        try:
            async for orders in outbox.groups():
                yield wire.ToInvoker(orders=orders, acknowledged=link.durable_number)
            if reader.done():
                reader.result()  # what was wrong with its news is the end of the stream
        finally:
            reader.cancel()
            if link.outbox is outbox:
                self._gone_away(link)

    async def watch(self) -> None:
        """Give up whoever has been silent for too long; runs as long as the controller does."""
        limit_s = self._settings.lost_after_ms / 1000
        while True:
            await asyncio.sleep(limit_s / 5)
            for link in list(self._links.values()):
                if link.outbox is not None and self._loop.time() - link.heard_s > limit_s:
                    link.outbox.close()
                    self._give_up(link, "silent for too long")

    def _greet(self, greeting: wire.Greeting) -> tuple[InvokerSession, wire.Welcome]:
        name = greeting.invoker
        if not name or not name.isprintable():
            raise Rejected("an invoker needs a name; set invoker.node")
        if greeting.catalog != self._functions:
            raise Rejected(
                f"invoker {name} has other functions or another time scale than the controller; "
                "start both with the same catalog and time_scale"
            )
        link = self._links.get(name)
        if link is not None and link.session != greeting.session:
            if link.outbox is not None:
                raise AlreadyExists(
                    f"another invoker named {name} is attached; give each a name of its own "
                    "(invoker.node), or wait until the other one is gone"
                )
            self._give_up(link, "started again")
            link = None
        afresh = link is None
        if link is None:
            link = self._links[name] = InvokerSession(name, greeting.session, self._loop.time())
        if link.giving_up is not None:
            link.giving_up.cancel()
        if link.outbox is not None:
            link.outbox.close()  # a stream that broke without our noticing
        link.heard_s = self._loop.time()
        link.joining, link.joined = None, False
        return link, wire.Welcome(start_afresh=afresh, heartbeat_ms=self._settings.heartbeat_ms)

    async def _read(
        self,
        link: InvokerSession,
        outbox: BatchedSender[wire.Order],
        said: Iterable[wire.InvokerNote],
        messages: AsyncIterator[wire.FromInvoker],
    ) -> None:
        try:
            for note in said:
                self._hear(link, note)
            async for message in messages:
                if link.outbox is not outbox:
                    return
                link.heard_s = self._loop.time()
                for note in message.notes:
                    self._hear(link, note)
        finally:
            outbox.close()

    def _hear(self, link: InvokerSession, note: wire.InvokerNote) -> None:
        if note.WhichOneof("note") == "leaving":
            link.leaving = True
            self._tell(InvokerLeaving(invoker=link.invoker))
            return
        event = news_from_wire(note, link.invoker)
        if isinstance(event, InvokerJoined):
            link.joining = event
            log.info(
                "invoker joined",
                extra=about(invoker=link.invoker, vcpus=event.vcpus, slices=len(event.slices)),
            )
            self._tell(event, session_memo(link.session), lambda _: self._remember(link))
        elif not note.number:
            self._tell(event)
        elif note.number > link.heard_number:  # otherwise it is said again, to be sure
            link.heard_number = note.number
            self._tell(event, then=lambda _: link.acknowledge(note.number))

    def _gone_away(self, link: InvokerSession) -> None:
        """Its stream has ended. Unless it said goodbye, it may come back."""
        link.outbox = None
        link.joining, link.joined = None, False
        if self._links.get(link.invoker) is not link:
            return
        wait_s = 0 if link.leaving else self._settings.rejoin_ms / 1000
        why = "left" if link.leaving else "its connection broke"
        link.giving_up = self._loop.call_later(wait_s, self._give_up, link, why)

    def _give_up(self, link: InvokerSession, why: str) -> None:
        if self._links.get(link.invoker) is not link:
            return
        del self._links[link.invoker]
        if link.giving_up is not None:
            link.giving_up.cancel()
        level = logging.INFO if link.leaving else logging.WARNING
        log.log(level, "invoker lost", extra=about(invoker=link.invoker, why=why))
        self._tell(InvokerLost(invoker=link.invoker), then=lambda _: self._forget(link))

    def _remember(self, link: InvokerSession) -> None:
        self._sessions[link.invoker] = link.session

    def _forget(self, link: InvokerSession) -> None:
        self._sessions.pop(link.invoker, None)


def session_memo(session: str) -> Memo:
    """What the journal keeps for us of an invoker that joins: which process it is."""
    return {"session": session}
