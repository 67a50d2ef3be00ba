"""Retries of calls that could not be done just now, with exponential back-off and jitter.

Only `Unavailable` is worth it. A call with a timeout is tried again within it; one
without, for as long as the client's patience lasts, counted from its first failure.
"""

import asyncio
import random

from esg.backoff import Backoff

BACKOFF_S = Backoff(0.05, 2.0, jitter=0.5)


class Patience:
    """The retries of one call: how long to pause before the next, or that there is none."""

    def __init__(self, patience_s: float, timeout_s: float | None = None) -> None:
        self._clock_s = asyncio.get_running_loop().time
        self._patience_s = patience_s
        self._ends_s = None if timeout_s is None else self._clock_s() + timeout_s
        self._failing_until_s: float | None = None
        self._retries = 0

    def left_s(self) -> float | None:
        """What is left of the timeout."""
        return None if self._ends_s is None else max(0.0, self._ends_s - self._clock_s())

    def succeeded(self) -> None:
        self._failing_until_s = None
        self._retries = 0

    def pause_s(self) -> float | None:
        """After a failure: how long to wait, or None to give up."""
        now_s = self._clock_s()
        if self._failing_until_s is None:
            self._failing_until_s = (
                now_s + self._patience_s if self._ends_s is None else self._ends_s
            )
        pause_s = BACKOFF_S.jittered(self._retries, random.random())
        self._retries += 1
        return pause_s if now_s + pause_s < self._failing_until_s else None
