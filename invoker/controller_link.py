"""The invoker's end of its stream to the controller, for as long as the process lives.

What is said, and what is said again, is decided in `esg.core.sessions.node_end`; here is the stream
on which that happens.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from secrets import token_hex

import grpc
from msgspec.structs import replace

from esg.core.messages.events import InvokerNews, TaskFinished
from esg.core.sessions.brought import NOTHING, Brought
from esg.core.sessions.node_end import NodeNote, NodeReporter
from esg.invoker.node import Node
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.logs import about
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import clipped
from esg.runtime.security.tls import ON_THIS_MACHINE, Security, explained
from esg.runtime.wire.convert import news_to_wire, order_from_wire
from esg.units import US_PER_S

log = logging.getLogger(__name__)


class ControllerLink:
    """Attaches, and attaches again. `functions` is the digest of the catalog's functions."""

    def __init__(
        self, address: str, invoker: str, functions: str, security: Security = ON_THIS_MACHINE
    ) -> None:
        self._address = address
        self._security = security
        self._reporter = NodeReporter(invoker, token_hex(8), functions)
        self._outbox: BatchedSender[wire.InvokerNote] | None = None  # if there is a stream
        self._left = asyncio.Event()
        self.refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def unacknowledged(self) -> int:
        """How many news the controller may not have in its journal."""
        return len(self._reporter.unacknowledged)

    def report(self, event: InvokerNews, brought: Brought = NOTHING) -> bool:
        """News of the node, and results that come along. Whether they are anybody's business: not
        while it starts afresh."""
        note = self._reporter.report(event, brought)
        if note is not None:
            # who has gone on by itself waits for no answer
            hurry = not (isinstance(event, TaskFinished) and event.continued)
            self._say([note], hurry=hurry)
        return note is not None

    def say_leaving(self) -> None:
        """No new work, please."""
        self._say([self._reporter.leave()])

    def leave(self) -> None:
        """Go: the stream ends when all news are sent."""
        self._left.set()
        if self._outbox is not None:
            self._outbox.close()

    async def run(self, node: Node, joined: Callable[[], None]) -> None:
        """Keep the node attached until it has left, or is refused. `joined` is called whenever the
        controller knows this node."""
        async with channel(self._address, self._security) as to_controller:
            stub = wire_grpc.ControllerStub(to_controller)
            while not self._left.is_set() and not self.refused.done():
                try:
                    await self._attach(stub, node, joined)
                except grpc.aio.AioRpcError as error:
                    self._broke(error)
                with suppress(TimeoutError):
                    pause_s = self._reporter.ended() / US_PER_S
                    await asyncio.wait_for(self._left.wait(), pause_s)

    async def _attach(
        self, stub: wire_grpc.ControllerStub, node: Node, joined: Callable[[], None]
    ) -> None:
        """One stream, from greeting to end."""
        outbox = self._outbox = BatchedSender()
        node_name, session, functions = self._reporter.greeting
        greeting = wire.Greeting(invoker=node_name, session=session, catalog=functions)
        outbox.put(wire.InvokerNote(greeting=greeting))
        orders = stub.Attach(outbox.messages(lambda notes: wire.FromInvoker(notes=notes)))
        heartbeat: asyncio.Task[None] | None = None
        try:
            async for message in orders:
                self._reporter.acknowledged(message.acknowledged)
                for order in message.orders:
                    if order.WhichOneof("order") == "welcome":
                        if order.welcome.start_afresh:
                            self._reporter.start_afresh()
                            await node.start_afresh()
                        inventory = replace(node.pool.joined(), kept=node.store.kept)
                        self._say(self._reporter.join(inventory))
                        heartbeat = asyncio.create_task(
                            _beat(node, outbox, order.welcome.heartbeat_ms / 1000)
                        )
                        joined()
                    elif order.WhichOneof("order") == "reload":
                        asked = order.reload
                        node.reload(asked.function, partial(self._say_reloaded, asked.number))
                    else:
                        node.order(order_from_wire(order, node.pool.invoker))
        finally:
            outbox.close()
            self._outbox = None
            if heartbeat is not None:
                heartbeat.cancel()
            orders.cancel()

    def _say(self, notes: Iterable[NodeNote], *, hurry: bool = True) -> None:
        """On the stream, if the node has joined; otherwise it will be said when it joins."""
        if self._outbox is not None and self._reporter.joined:
            for number, event, brought in notes:
                note = news_to_wire(event, brought)
                note.number = number
                if hurry:
                    self._outbox.put(note)
                else:
                    self._outbox.put_lazily(note)

    def _say_reloaded(self, number: int, failure: str) -> None:
        """On the stream on which it was asked for, or on none: nobody waits for it on another."""
        if self._outbox is not None and self._reporter.joined:
            reloaded = wire.Reloaded(number=number, failure=clipped(failure))
            self._outbox.put(wire.InvokerNote(reloaded=reloaded))

    def _broke(self, error: grpc.aio.AioRpcError) -> None:
        code = error.code()
        final = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED)
        if code in final and not self.refused.done():
            self.refused.set_result(error.details() or code.name)
        log.warning(
            "no controller",
            extra=about(address=self._address, code=code.name, reason=explained(error.details())),
        )


async def _beat(node: Node, outbox: BatchedSender[wire.InvokerNote], interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        outbox.put(news_to_wire(node.pool.report()))
