"""The door for invokers: streams and timers around their sessions, and which orders go where.

Who is welcome, who may come back and who is lost is decided in `esg.core.sessions.controller_end`;
here are the streams that this is about, the alarm, and what the scheduler is told.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial

from esg.controller.driver import Driver
from esg.controller.durability.dead_letters import PutAside
from esg.controller.reloads import Outbox, ReloadOrders
from esg.core.messages.commands import DiscardData, InvokerOrder
from esg.core.messages.events import InvokerJoined, InvokerLost
from esg.core.sessions.brought import brought_memo
from esg.core.sessions.controller_end import (
    GivenUp,
    Greeting,
    GreetingRefused,
    NodeSession,
    NodeSessions,
    Welcome,
    session_memo,
)
from esg.core.sessions.settings import SessionSettings
from esg.errors import Rejected
from esg.protos import controller_v1_pb2 as wire
from esg.runtime.logs import about
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.status import AlreadyExists
from esg.runtime.settings import ControllerSettings
from esg.runtime.wire.convert import brought_from_wire, news_from_wire, order_to_wire
from esg.units import US_PER_S, ms

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Before what was put aside is heard of again."""


class InvokerStreams:
    """The streams of all invokers that are attached."""

    def __init__(self, driver: Driver, functions: str, settings: ControllerSettings) -> None:
        self._tell = driver.tell
        self._heartbeat_ms = settings.heartbeat_ms
        times = SessionSettings(
            heartbeat_us=ms(settings.heartbeat_ms),
            lost_after_us=ms(settings.lost_after_ms),
            rejoin_us=ms(settings.rejoin_ms),
        )
        self._sessions = NodeSessions(functions, times)
        self._outboxes: dict[str, Outbox] = {}  # of the streams there are
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None
        self._ended_by: dict[int, PutAside] = {}  # streams, until they have ended
        self._reloads = ReloadOrders()

    def send(self, order: InvokerOrder) -> None:
        if not self._sessions.reachable(order.invoker):
            return
        outbox = self._outboxes[order.invoker]
        if isinstance(order, DiscardData):
            outbox.put_lazily(order_to_wire(order))
        else:
            outbox.put(order_to_wire(order))

    async def reload(self, function: str) -> dict[str, str]:
        """Have all nodes that can be reached reload a function: by node, why it could not, or
        nothing."""
        nodes = {
            node: outbox
            for node, outbox in sorted(self._outboxes.items())
            if self._sessions.reachable(node)
        }
        return await self._reloads.give(function, nodes)

    def joined(self, event: InvokerJoined) -> None:
        """The scheduler has heard of this inventory."""
        self._sessions.scheduled(event)

    def expect(self, sessions: Mapping[str, str]) -> None:
        """Invokers that were here before this process began have a while to come back."""
        self._sessions.expect(self._now_us(), sessions)
        self._set_alarm()

    async def attach(
        self,
        messages: AsyncIterator[wire.FromInvoker],
        write: Callable[[wire.ToInvoker], Awaitable[None]],
    ) -> None:
        """Serve one stream, from greeting to end."""
        first = await anext(messages, None)
        if first is None or not first.notes or first.notes[0].WhichOneof("note") != "greeting":
            raise Rejected("an invoker's first word is a greeting with its name")
        session, stream, start_afresh, _ = self._greet(first.notes[0].greeting)
        outbox: Outbox = BatchedSender()
        welcome = wire.Welcome(start_afresh=start_afresh, heartbeat_ms=self._heartbeat_ms)
        outbox.put(wire.Order(welcome=welcome))
        self._outboxes[session.node] = outbox
        log.info("invoker attached", extra=about(invoker=session.node, session=session.session))
        reading = self._read(session, stream, outbox, first.notes[1:], messages)
        try:
            async with outbox.while_reading(reading):
                while orders := await outbox.group():
                    await write(wire.ToInvoker(orders=orders, acknowledged=session.durable_number))
                if stream in self._ended_by:
                    raise self._ended_by[stream]
        finally:
            self._reloads.broke(outbox)
            self._ended_by.pop(stream, None)
            self._sessions.ended(self._now_us(), session, stream)
            self._set_alarm()

    def _greet(self, greeting: wire.Greeting) -> Welcome:
        said = Greeting(greeting.invoker, greeting.session, greeting.catalog)
        answer = self._sessions.greet(self._now_us(), said)
        if isinstance(answer, GreetingRefused):
            raise (AlreadyExists if answer.passing else Rejected)(answer.reason)
        self._close(said.node)  # a stream that broke without our noticing
        if answer.given_up is not None:
            self._lost(answer.given_up)
        self._set_alarm()
        return answer

    async def _read(
        self,
        session: NodeSession,
        stream: int,
        outbox: Outbox,
        said: Iterable[wire.InvokerNote],
        messages: AsyncIterator[wire.FromInvoker],
    ) -> None:
        for note in said:
            self._hear(session, note)
        async for message in messages:
            if not self._sessions.hear(self._now_us(), session, stream):
                return
            for note in message.notes:
                if note.WhichOneof("note") == "reloaded":
                    self._reloads.answered(outbox, note.reloaded)
                else:
                    self._hear(session, note)

    def _hear(self, session: NodeSession, note: wire.InvokerNote) -> None:
        event, brought = news_from_wire(note, session.node), brought_from_wire(note)
        if not session.take(note.number, event):
            return
        refused = partial(self._put_aside, session, session.stream)
        if isinstance(event, InvokerJoined):
            log.info(
                "invoker joined",
                extra=about(invoker=session.node, vcpus=event.vcpus, slices=len(event.slices)),
            )
            self._tell(event, session_memo(session.session), refused=refused)
        else:
            number = note.number
            self._tell(
                event,
                brought_memo(brought),
                then=lambda _: session.acknowledge(number),
                refused=refused,
                urgent=False,  # the node is told along with its next orders
            )

    def _put_aside(self, session: NodeSession, stream: int | None, error: PutAside) -> None:
        """A node's news were not handled: its stream ends, so that it joins again and says all that
        it has and runs. If that is what was refused, it is not asked for too often."""
        if error.again:
            self._loop.call_later(AGAIN_S, self._end, session, stream, error)
        else:
            self._end(session, stream, error)

    def _end(self, session: NodeSession, stream: int | None, error: PutAside) -> None:
        if stream is not None and session.stream == stream:
            self._ended_by[stream] = error
            self._sessions.ended(self._now_us(), session, stream)
            self._close(session.node)
            self._set_alarm()

    def _lost(self, given_up: GivenUp) -> None:
        level = logging.INFO if given_up.left else logging.WARNING
        log.log(level, "invoker lost", extra=about(invoker=given_up.node, why=given_up.why))
        self._close(given_up.node)
        self._tell_lost(given_up.node)

    def _tell_lost(self, node: str) -> None:
        """Until it is handled, as nobody else would say so; or until the node is back, and says
        itself what it has."""

        def again() -> None:
            if self._sessions.of(node) is None:
                self._tell_lost(node)

        def put_aside(_: PutAside) -> None:
            self._loop.call_later(AGAIN_S, again)

        self._tell(InvokerLost(invoker=node), refused=put_aside)

    def _close(self, invoker: str) -> None:
        outbox = self._outboxes.pop(invoker, None)
        if outbox is not None:
            outbox.close()

    # ---- time

    def _now_us(self) -> int:
        return int(self._loop.time() * US_PER_S)

    def _set_alarm(self) -> None:
        """An alarm may be early: whoever has been heard of since it was set has more time."""
        wake_us = self._sessions.next_wake
        if wake_us is None:
            return
        at_s = wake_us / US_PER_S
        if self._alarm is not None:
            if self._alarm.when() <= at_s:
                return
            self._alarm.cancel()
        self._alarm = self._loop.call_at(at_s, self._wake)

    def _wake(self) -> None:
        self._alarm = None
        for given_up in self._sessions.wake(self._now_us()):
            self._lost(given_up)
        self._set_alarm()
