"""Orders to reload a function, and the nodes' answers: neither is the scheduler's business.

A node answers on the stream on which it was asked; if that breaks, nobody knows whether it has
reloaded, and whoever asked may ask again.
"""

import asyncio
from collections.abc import Mapping

from esg.protos import controller_v1_pb2 as wire
from esg.runtime.rpc.batched_sender import BatchedSender

Outbox = BatchedSender[wire.Order]

BROKE = "its connection broke before it answered; reload the function again when it is back"


class ReloadOrders:
    """Those that are not answered yet, by number."""

    def __init__(self) -> None:
        self._number = 0
        self._waiting: dict[int, tuple[Outbox, asyncio.Future[str]]] = {}

    async def give(self, function: str, nodes: Mapping[str, Outbox]) -> dict[str, str]:
        """Have these nodes reload a function, all at once: why each could not, or nothing."""
        answers = [self._ask(function, outbox) for outbox in nodes.values()]
        return dict(zip(nodes, await asyncio.gather(*answers), strict=True))

    async def _ask(self, function: str, outbox: Outbox) -> str:
        self._number += 1
        number = self._number
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[number] = outbox, answer
        outbox.put(wire.Order(reload=wire.Reload(number=number, function=function)))
        try:
            return await answer
        finally:
            del self._waiting[number]

    def answered(self, outbox: Outbox, reloaded: wire.Reloaded) -> None:
        """What a node says on a stream. Nobody may be waiting for it any more."""
        asked, answer = self._waiting.get(reloaded.number, (None, None))
        if answer is not None and asked is outbox and not answer.done():
            answer.set_result(reloaded.failure)

    def broke(self, outbox: Outbox) -> None:
        """A stream has ended."""
        for asked, answer in self._waiting.values():
            if asked is outbox and not answer.done():
                answer.set_result(BROKE)
