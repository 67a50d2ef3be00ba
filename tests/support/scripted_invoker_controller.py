"""A controller that says what a test has it say, over the real protocol."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from esg.core.messages.commands import InvokerOrder, StopTask
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.server import Server
from esg.runtime.wire.convert import order_to_wire
from tests.support.waiting import until


class Attachment:
    """One stream of an invoker: what it said, and what it is told."""

    def __init__(self) -> None:
        self.notes: list[Any] = []
        self.ended = False
        """Whether the invoker has said its last word."""
        self.acknowledged = 0
        self.outbox: BatchedSender[wire.Order] = BatchedSender()

    def welcome(self, *, start_afresh: bool = False, heartbeat_ms: int = 3_600_000) -> None:
        greeting = wire.Welcome(start_afresh=start_afresh, heartbeat_ms=heartbeat_ms)
        self.outbox.put(wire.Order(welcome=greeting))

    def order(self, *orders: InvokerOrder) -> None:
        for order in orders:
            self.outbox.put(order_to_wire(order))

    def acknowledge(self, number: int) -> None:
        """Say that its news up to this number are safe, with an order that changes nothing."""
        self.acknowledged = number
        self.order(StopTask(invoker="", task="t0"))

    def end(self) -> None:
        self.outbox.close()

    @property
    def kinds(self) -> list[str]:
        """What its notes are about, in their order."""
        return [note.WhichOneof("note") for note in self.notes]

    async def hears(self, kind: str, count: int = 1) -> Any:
        """Wait for a note of a kind; the latest of them."""
        await until(lambda: self.kinds.count(kind) >= count)
        return [note for note in self.notes if note.WhichOneof("note") == kind][-1]


class ScriptedController(wire_grpc.ControllerServicer):
    def __init__(self) -> None:
        self.attachments: list[Attachment] = []
        self.refusals: list[tuple[grpc.StatusCode, str]] = []
        """What the next streams are refused with, if anything."""

    async def attached(self, count: int = 1) -> Attachment:
        """Wait for a stream that has greeted."""
        await until(lambda: len(self.attachments) >= count and self.attachments[-1].notes)
        return self.attachments[-1]

    async def Attach(  # noqa: N802 - the name in the protocol
        self, messages: AsyncIterator[wire.FromInvoker], context: Any
    ) -> AsyncIterator[wire.ToInvoker]:
        attachment = Attachment()
        self.attachments.append(attachment)
        if self.refusals:
            await anext(messages)  # as long as it is on its way, a caller may hear gRPC's own error
            await context.abort(*self.refusals.pop(0))
        reading = asyncio.create_task(self._read(attachment, messages))
        try:
            async for orders in attachment.outbox.groups():
                yield wire.ToInvoker(orders=orders, acknowledged=attachment.acknowledged)
        finally:
            reading.cancel()

    async def _read(
        self, attachment: Attachment, messages: AsyncIterator[wire.FromInvoker]
    ) -> None:
        async for message in messages:
            attachment.notes.extend(message.notes)
        attachment.ended = True
        attachment.end()


@asynccontextmanager
async def serving(controller: ScriptedController, port: int = 0) -> AsyncIterator[str]:
    """Its address."""
    server = Server()
    wire_grpc.add_ControllerServicer_to_server(controller, server.grpc)
    bound = await server.start("127.0.0.1", port, [])
    try:
        yield f"127.0.0.1:{bound}"
    finally:
        await server.stop(0)
