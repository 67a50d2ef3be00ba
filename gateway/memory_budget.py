"""Memory budget: the bytes that clients may have a gateway hold, each of them and all together.

Whatever is received is paid for before it is read: a message that has not come yet with the most
that it may hold, a payload with its size until it is stored. Who would hold too much is refused, or
has to wait, which gRPC's flow control turns into back-pressure: unread bytes stay with the sender.
"""

import asyncio
from collections import Counter, deque
from contextvars import ContextVar

from esg.runtime.rpc.status import Exhausted
from esg.units import seconds

RETRY_AFTER_US = seconds(1)
"""When to try again: payloads are stored in less."""

Turn = asyncio.Future[None]

received: ContextVar["Reservation"] = ContextVar("received")
"""What was paid for the message that a call with a single one came with, within that call."""


class Reservation:
    """Bytes of the budget that one client holds."""

    def __init__(self, budget: "MemoryBudget", client: str, size: int) -> None:
        self._budget = budget
        self._client = client
        self._size = size

    def grow(self, size: int) -> None:
        """Take more; refused if that is too much."""
        self._budget.check(self._client, size)
        self._budget.book(self._client, size)
        self._size += size

    async def wait_and_grow(self, size: int, limit_s: float) -> None:
        """Take more, as soon as there is room for it; refused if that takes too long."""
        await self._budget.room(self._client, size, limit_s)
        self._size += size

    def shrink(self, size: int) -> None:
        """Keep no more than so much."""
        rest, self._size = self._size - size, min(self._size, size)
        if rest > 0:
            self._budget.book(self._client, -rest)

    def release(self) -> None:
        """Give all of it back; once more does no harm."""
        self.shrink(0)


class MemoryBudget:
    def __init__(self, per_client: int, in_all: int) -> None:
        self._per_client = per_client
        self._in_all = in_all
        self._held: Counter[str] = Counter()
        self._total = 0
        self._waiting: dict[str, deque[tuple[Turn, int]]] = {}

    @property
    def held(self) -> int:
        return self._total

    def reserve(self, client: str, size: int = 0) -> Reservation:
        reservation = Reservation(self, client, 0)
        reservation.grow(size)
        return reservation

    async def reserve_when_free(self, client: str, size: int, limit_s: float) -> Reservation:
        reservation = Reservation(self, client, 0)
        await reservation.wait_and_grow(size, limit_s)
        return reservation

    def check(self, client: str, size: int) -> None:
        if size and not self._fits(client, size):
            raise _exhausted(client)

    def book(self, client: str, size: int) -> None:
        """Count bytes as held, or with a negative number as given back."""
        self._total += size
        self._held[client] += size
        if not self._held[client]:
            del self._held[client]
        if size < 0 and self._waiting:
            self._admit_waiting()

    async def room(self, client: str, size: int, limit_s: float) -> None:
        """Wait for room, and take it. Those of one client are served in their order."""
        if client not in self._waiting and self._fits(client, size):
            self.book(client, size)
            return
        turn: Turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append((turn, size))
        try:
            async with asyncio.timeout(limit_s):
                await turn
        except TimeoutError:
            self._leave(client, turn, size)
            raise _exhausted(client) from None
        except asyncio.CancelledError:
            self._leave(client, turn, size)
            raise

    def _leave(self, client: str, turn: Turn, size: int) -> None:
        """Wait no longer; what was given at the very moment is given back."""
        if turn.done() and not turn.cancelled():
            self.book(client, -size)
        else:
            self._admit_waiting()  # it may have been in others' way

    def _fits(self, client: str, size: int) -> bool:
        held = self._held.get(client, 0)
        return held + size <= self._per_client and self._total + size <= self._in_all

    def _admit_waiting(self) -> None:
        for client, queue in list(self._waiting.items()):
            while queue and (queue[0][0].done() or self._fits(client, queue[0][1])):
                turn, size = queue.popleft()
                if not turn.done():
                    self.book(client, size)
                    turn.set_result(None)
            if not queue:
                del self._waiting[client]


def _exhausted(client: str) -> Exhausted:
    return Exhausted(
        f"the gateway holds as many bytes as it may, of {client} or of all clients; send fewer or "
        "smaller payloads at a time, or try again in a second",
        RETRY_AFTER_US,
    )
