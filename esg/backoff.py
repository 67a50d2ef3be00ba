"""Exponential back-off with jitter: how long to wait before something that failed is tried again.

Every pause is twice as long as the one before, up to the longest. Jitter shortens each by a random
share, so that those who failed together do not come back together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T", int, float)
MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff(Generic[T]):
    """The pauses, in whatever unit `first` and `longest` have: whole numbers stay whole.

    >>> backoff = Backoff(50, 1000)
    >>> [backoff.pause(retry) for retry in (0, 1, 4, 5, 1000)]
    [50, 100, 800, 1000, 1000]
    """

    first: T
    longest: T
    jitter: float = 0.0
    """The largest share of a pause that `jittered` takes off."""

    def pause(self, retry: int) -> T:
        """Before a retry, the first of which is number 0."""
        return min(self.longest, self.first * (1 << min(retry, MOST_DOUBLINGS)))

    def pauses(self) -> Iterator[T]:
        """Before each retry in turn, without end.

        >>> [pause for pause, _ in zip(Backoff(0.5, 3.0).pauses(), range(5))]
        [0.5, 1.0, 2.0, 3.0, 3.0]
        """
        return map(self.pause, count())

    def jittered(self, retry: int, chance: float) -> float:
        """The pause with jitter, for a random number from 0 to 1.

        >>> [Backoff(2.0, 8.0, jitter=0.5).jittered(1, chance) for chance in (0.0, 0.5, 1.0)]
        [4.0, 3.0, 2.0]
        """
        return self.pause(retry) * (1.0 - self.jitter * chance)
