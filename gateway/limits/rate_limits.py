"""Rate limits and quotas of clients: token buckets, bytes in memory, and streams that are counted.

Every client has a token bucket of requests, which holds `burst`, and one of bytes, which holds a
day's (`esg.runtime.token_bucket`). Each request takes its share out; when there is not enough, it
is refused, and told when there will be. A payload is paid for as it comes, piece by piece, out of
the day's bytes and out of the gateway's memory (`memory_budget`). Bytes of a request that is
refused for whatever reason are given back.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from esg.errors import Fault, Rejected
from esg.gateway.access.identity import Caller
from esg.gateway.limits.memory_budget import MemoryBudget, Reservation, received
from esg.runtime.rpc.status import Exhausted, TooLarge
from esg.runtime.token_bucket import TokenBuckets
from esg.units import DAY_S, seconds


class PayloadCharge:
    """A payload on its way, and what it is charged for: memory until it is `settled`, and a day's
    bytes for good, unless its request is refused. A repeat, which was paid for, is not `counted`.

    The payload itself is in `content` and goes with the memory: what is not paid for any more must
    not be held by whoever came across it, an error's traceback for one.
    """

    def __init__(
        self, quotas: "ClientQuotas", caller: Caller, memory: Reservation, *, counted: bool
    ) -> None:
        self._quotas = quotas
        self._caller = caller
        self._memory = memory
        self._counted = counted
        self._bytes = 0
        self._settled = False
        self.content = b""

    def add(self, size: int) -> None:
        """One more piece; refused if that is too much."""
        with self._counted_bytes(size):
            self._memory.grow(size)

    def add_received(self, content: bytes) -> None:
        """The whole of it, in a message that memory was paid for when it came."""
        with self._counted_bytes(len(content)):
            self._memory = received.get()
        self.content = content

    async def wait_and_add(self, content: bytes, limit_s: float) -> None:
        """The whole of it, as soon as there is memory for it."""
        with self._counted_bytes(len(content)):
            await self._memory.wait_and_grow(len(content), limit_s)
        self.content = content

    def settle(self, *, held: bool = False) -> None:
        """Its request is accepted, and it is stored; or it is `held` by others, small as it is, and
        paid for until its request has ended."""
        self._settled = True
        if not held:
            self.release()
        self.content = b""

    def release(self) -> None:
        """It is held no longer; once more does no harm."""
        self.content = b""
        self._memory.release()

    @contextmanager
    def _counted_bytes(self, size: int) -> Iterator[None]:
        if self._counted:
            self._quotas.take_bytes(self._caller, size, self._bytes)
        try:
            yield
        except Exhausted:
            if self._counted:
                self._quotas.give_back_bytes(self._caller, size)
            raise
        self._bytes += size if self._counted else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.release()
        if isinstance(error, Rejected | Fault) and not self._settled:
            self._quotas.give_back_bytes(self._caller, self._bytes)


class ClientQuotas:
    """The rate limits and quotas of all clients: requests per second, bytes per day and in memory,
    streams."""

    def __init__(
        self, max_streams: int, memory: MemoryBudget, clock_s: Callable[[], float]
    ) -> None:
        self._max_streams = max_streams
        self._memory = memory
        self._requests = TokenBuckets(clock_s)
        self._bytes = TokenBuckets(clock_s)
        self._streams: Counter[str] = Counter()

    def take(self, caller: Caller) -> None:
        """One request, whatever comes of it; refused if that is too much."""
        quota = caller.quota
        if quota.requests_per_s:
            wait_s = self._requests.take(
                caller.name, 1, per_s=quota.requests_per_s, size=quota.burst
            )
            if wait_s:
                raise Exhausted(
                    f"more than {quota.requests_per_s:g} requests per second from {caller.name}; "
                    f"send fewer, or try again in {wait_s:.3f} s",
                    seconds(wait_s),
                )

    def payload(self, caller: Caller, *, counted: bool = True) -> PayloadCharge:
        """Around the time in which a payload comes, and its request is decided on."""
        memory = self._memory.reserve(caller.name)
        return PayloadCharge(self, caller, memory, counted=counted)

    def take_bytes(self, caller: Caller, size: int, before: int) -> None:
        """Another piece of a payload, after so many bytes before."""
        daily = caller.quota.bytes_per_day
        if before + size > daily > 0:
            raise TooLarge(
                f"payload: is larger than the {daily} bytes that {caller.name} may send in a day; "
                "send a smaller one, or ask for a larger quota"
            )
        if daily:
            wait_s = self._bytes.take(caller.name, size, per_s=daily / DAY_S, size=daily)
            if wait_s:
                raise Exhausted(
                    f"{caller.name} has sent the {daily} bytes that are allowed in a day; "
                    f"try again in {wait_s:.0f} s, or ask for a larger quota",
                    seconds(wait_s),
                )

    def give_back_bytes(self, caller: Caller, size: int) -> None:
        self._bytes.give_back(caller.name, size)

    @contextmanager
    def stream(self, caller: Caller) -> Iterator[None]:
        """While a stream is open."""
        if self._streams[caller.name] >= self._max_streams:
            raise Exhausted(
                f"{caller.name} has {self._max_streams} streams open, the most that are allowed; "
                "close some, many requests can share one"
            )
        self._streams[caller.name] += 1
        try:
            yield
        finally:
            self._streams[caller.name] -= 1
            if not self._streams[caller.name]:
                del self._streams[caller.name]
