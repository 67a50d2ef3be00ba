"""The invoker's end of its stream to the controller, for as long as the process lives.

News are numbered and kept until the controller acknowledges them: then they are in its journal.
Whenever the node joins again, be it that a stream broke or that the controller was started anew, it
first says what was not acknowledged, and then its inventory. So no task that ended is missed, and
the controller takes no news twice.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from secrets import token_hex

import grpc
from msgspec.structs import replace

from esg.backoff import Backoff
from esg.invoker.node import Node
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.logs import about
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.channels import channel
from esg.runtime.security.policy import ON_THIS_MACHINE, Security
from esg.runtime.wire.convert import InvokerNews, news_to_wire, order_from_wire

log = logging.getLogger(__name__)

BACKOFF_S = Backoff(0.05, 0.5)
_LEAVING = wire.InvokerNote(leaving=wire.Leaving())


class ControllerLink:
    """Attaches, and attaches again. `functions` is the digest of the catalog's functions."""

    def __init__(
        self, address: str, invoker: str, functions: str, security: Security = ON_THIS_MACHINE
    ) -> None:
        self._address = address
        self._security = security
        self._greeting = wire.Greeting(invoker=invoker, catalog=functions, session=token_hex(8))
        self._reports: deque[wire.InvokerNote] = deque()  # that are not acknowledged
        self._reported = 0
        self._outbox: BatchedSender[wire.InvokerNote] | None = (
            None  # of the stream, if there is one
        )
        self._joined = False
        self._leaving = False
        self._left = asyncio.Event()
        self._retries = 0  # since it last joined
        self.refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def unacknowledged(self) -> int:
        """How many news the controller may not have in its journal."""
        return len(self._reports)

    def report(self, event: InvokerNews) -> None:
        note = news_to_wire(event)
        self._reported += 1
        note.number = self._reported
        self._reports.append(note)
        if self._outbox is not None and self._joined:
            self._outbox.put(note)

    def say_leaving(self) -> None:
        """No new work, please; also when it joins again before it has left."""
        self._leaving = True
        if self._outbox is not None and self._joined:
            self._outbox.put(_LEAVING)

    def leave(self) -> None:
        """Go: the stream ends when all news are sent."""
        self._left.set()
        if self._outbox is not None:
            self._outbox.close()

    async def run(self, node: Node, joined: Callable[[], None]) -> None:
        """Until it has left, or is refused. `joined`: whenever the controller knows this node."""
        async with channel(self._address, self._security) as to_controller:
            stub = wire_grpc.ControllerStub(to_controller)
            while not self._left.is_set() and not self.refused.done():
                try:
                    await self._attach(stub, node, joined)
                except grpc.aio.AioRpcError as error:
                    self._broke(error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._left.wait(), BACKOFF_S.pause(self._retries))
                self._retries += 1

    async def _attach(
        self, stub: wire_grpc.ControllerStub, node: Node, joined: Callable[[], None]
    ) -> None:
        """One stream, from greeting to end."""
        outbox = self._outbox = BatchedSender()
        outbox.put(wire.InvokerNote(greeting=self._greeting))
        orders = stub.Attach(_messages(outbox))
        heartbeat: asyncio.Task[None] | None = None
        try:
            async for message in orders:
                self._acknowledged(message.acknowledged)
                for order in message.orders:
                    if order.WhichOneof("order") == "welcome":
                        if order.welcome.start_afresh:
                            self._reports.clear()
                            await node.start_afresh()
                        self._join(node, outbox)
                        heartbeat = asyncio.create_task(
                            _beat(node, outbox, order.welcome.heartbeat_ms / 1000)
                        )
                        joined()
                    else:
                        node.order(order_from_wire(order, node.pool.invoker))
        finally:
            outbox.close()
            self._outbox = None
            self._joined = False
            if heartbeat is not None:
                heartbeat.cancel()
            orders.cancel()

    def _acknowledged(self, number: int) -> None:
        while self._reports and self._reports[0].number <= number:
            self._reports.popleft()

    def _join(self, node: Node, outbox: BatchedSender[wire.InvokerNote]) -> None:
        """What the controller may not know comes first: a task that ended is then not missed."""
        for note in self._reports:
            outbox.put(note)
        outbox.put(news_to_wire(replace(node.pool.joined(), kept=node.store.kept)))
        if self._leaving:
            outbox.put(_LEAVING)
        self._joined = True
        self._retries = 0  # if this stream breaks, the controller waits for a moment

    def _broke(self, error: grpc.aio.AioRpcError) -> None:
        code = error.code()
        final = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED)
        if code in final and not self.refused.done():
            self.refused.set_result(error.details() or code.name)
        log.warning(
            "no controller",
            extra=about(address=self._address, code=code.name, reason=error.details()),
        )


async def _messages(outbox: BatchedSender[wire.InvokerNote]) -> AsyncIterator[wire.FromInvoker]:
    async for notes in outbox.groups():
        yield wire.FromInvoker(notes=notes)


async def _beat(node: Node, outbox: BatchedSender[wire.InvokerNote], interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        outbox.put(news_to_wire(node.pool.report()))
