"""Rate limits and quotas of clients: token buckets, and streams that are counted.

Every client has a token bucket of requests, which holds `burst`, and one of bytes, which holds a
day's. Each request takes its share out; when there is not enough, it is refused, and told when
there will be. Bytes of a request that is refused for whatever reason are given back. A full bucket
says nothing, so it is forgotten.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from esg.errors import Fault, Rejected
from esg.gateway.identity import Caller
from esg.runtime.rpc.status import Exhausted, TooLarge
from esg.units import DAY_S, seconds

FORGET_EVERY = 1024


@dataclass(slots=True)
class TokenBucket:
    """A token bucket: it fills at `per_s`, up to `size`, and whoever does something takes out."""

    content: float
    since_s: float
    per_s: float
    size: float

    def fill(self, now_s: float) -> None:
        self.content = min(self.size, self.content + (now_s - self.since_s) * self.per_s)
        self.since_s = now_s


class TokenBuckets:
    """Token buckets, one for each client that has taken something out of its own."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._buckets: dict[str, TokenBucket] = {}
        self._forget_at = FORGET_EVERY

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, client: str, amount: float, *, per_s: float, size: float) -> float:
        """Take so much out: 0, or if there is not enough, in how many seconds there will be."""
        now_s = self._clock_s()
        bucket = self._buckets.get(client)
        if bucket is None or (bucket.per_s, bucket.size) != (per_s, size):
            bucket = TokenBucket(size, now_s, per_s, size)
        bucket.fill(now_s)
        if bucket.content < amount:
            return (amount - bucket.content) / per_s
        bucket.content -= amount
        self._buckets[client] = bucket
        if len(self._buckets) >= self._forget_at:
            self._forget(now_s)
        return 0.0

    def give_back(self, client: str, amount: float) -> None:
        bucket = self._buckets.get(client)
        if bucket is not None:
            bucket.content = min(bucket.size, bucket.content + amount)

    def _forget(self, now_s: float) -> None:
        for bucket in self._buckets.values():
            bucket.fill(now_s)
        self._buckets = {c: b for c, b in self._buckets.items() if b.content < b.size}
        self._forget_at = len(self._buckets) + FORGET_EVERY


class ClientQuotas:
    """The rate limits and quotas of all clients: requests per second, bytes per day, streams."""

    def __init__(self, max_streams: int, clock_s: Callable[[], float]) -> None:
        self._max_streams = max_streams
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

    @contextmanager
    def payload(self, caller: Caller, size: int) -> Iterator[None]:
        """While it is decided whether a request with so large a payload is accepted."""
        self._take_bytes(caller, size)
        try:
            yield
        except (Rejected, Fault):
            self._bytes.give_back(caller.name, size)
            raise

    def _take_bytes(self, caller: Caller, size: int) -> None:
        daily = caller.quota.bytes_per_day
        if size > daily > 0:
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
