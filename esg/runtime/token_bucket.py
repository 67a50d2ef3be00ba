"""Token buckets: one for each client that has taken something out of its own.

A bucket fills at a rate, up to its size, and whoever does something takes out. When there is not
enough in it, the client is told when there will be. A full bucket says nothing, so it is forgotten.
"""

from collections.abc import Callable
from dataclasses import dataclass

from esg.limits import LONGEST_US
from esg.units import US_PER_S

FORGET_EVERY = 1024
LONGEST_S = LONGEST_US / US_PER_S


@dataclass(slots=True)
class TokenBucket:
    """A token bucket: it fills at `per_s`, up to `size`."""

    content: float
    since_s: float
    per_s: float
    size: float

    def fill(self, now_s: float) -> None:
        self.content = min(self.size, self.content + (now_s - self.since_s) * self.per_s)
        self.since_s = now_s


class TokenBuckets:
    """The token buckets of all clients."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._buckets: dict[str, TokenBucket] = {}
        self._forget_at = FORGET_EVERY

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, client: str, amount: float, *, per_s: float, size: float) -> float:
        """Take so much out: 0, or if there is not enough, in how many seconds there will be. A time
        that no clock could count is as long as the longest that one can."""
        now_s = self._clock_s()
        bucket = self._buckets.get(client)
        if bucket is None or (bucket.per_s, bucket.size) != (per_s, size):
            bucket = TokenBucket(size, now_s, per_s, size)
        bucket.fill(now_s)
        if bucket.content < amount:
            return min(LONGEST_S, (amount - bucket.content) / per_s)
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
