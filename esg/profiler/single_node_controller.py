"""The controller of a node that is profiled: it lets one node in, and decides nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from esg.core.messages.commands import InvokerOrder
from esg.core.messages.events import InvokerJoined, TaskFailed, TaskFinished
from esg.core.messages.task_order import TaskOrder
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.wire.convert import news_from_wire, order_to_wire

HEARTBEAT_MS = 1000


class Door(wire_grpc.ControllerServicer):
    """Lets one node in, and hears how its tasks end."""

    def __init__(self) -> None:
        self.joined: asyncio.Future[InvokerJoined] = asyncio.get_running_loop().create_future()
        self._outbox: BatchedSender[wire.Order] = BatchedSender()
        self._awaited: dict[str, asyncio.Future[TaskFinished | TaskFailed]] = {}
        self._acknowledged = 0

    def order(self, order: InvokerOrder) -> None:
        self._outbox.put(order_to_wire(order))

    async def end_of(self, order: TaskOrder) -> TaskFinished | TaskFailed:
        """Have a task done, and wait for its end."""
        end: asyncio.Future[TaskFinished | TaskFailed]
        end = self._awaited[order.task] = asyncio.get_running_loop().create_future()
        self.order(order)
        try:
            return await end
        finally:
            del self._awaited[order.task]

    async def Attach(  # noqa: N802 - the name in the protocol
        self, messages: AsyncIterator[wire.FromInvoker], context: Any
    ) -> AsyncIterator[wire.ToInvoker]:
        self._outbox.put(wire.Order(welcome=wire.Welcome(heartbeat_ms=HEARTBEAT_MS)))
        async with self._outbox.while_reading(self._read(messages)):
            async for orders in self._outbox.groups():
                yield wire.ToInvoker(orders=orders, acknowledged=self._acknowledged)

    async def _read(self, messages: AsyncIterator[wire.FromInvoker]) -> None:
        async for message in messages:
            for note in message.notes:
                self._acknowledged = max(self._acknowledged, note.number)
                if note.WhichOneof("note") not in ("greeting", "leaving"):
                    self._hear(news_from_wire(note, ""))

    def _hear(self, news: Any) -> None:
        if isinstance(news, InvokerJoined) and not self.joined.done():
            self.joined.set_result(news)
        elif isinstance(news, TaskFinished | TaskFailed) and news.task in self._awaited:
            if not self._awaited[news.task].done():
                self._awaited[news.task].set_result(news)
