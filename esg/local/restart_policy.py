"""When a process that died is started again: after exponential back-off, as often as it takes.

What keeps a process from living may pass: a disk that is full, a port that somebody else has. So
none is given up; the longest pause is what whoever removes the cause may have to wait.
"""

from esg.backoff import Backoff

BACKOFF_S = Backoff(0.1, 60.0)
QUICK_S = 10.0


class Revival:
    """One process' deaths. Those that come quickly are followed by longer and longer pauses; one
    that lived for a while starts with a clean record.

    >>> revival = Revival()
    >>> [revival.pause_s(age_s) for age_s in (60.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)]
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4]
    >>> [revival.pause_s(1.0) for _ in range(5)]
    [12.8, 25.6, 51.2, 60.0, 60.0]
    >>> revival.pause_s(60.0)
    0.1
    """

    def __init__(self) -> None:
        self._quick = 0

    def pause_s(self, age_s: float) -> float:
        """How long to wait after a death at this age."""
        self._quick = self._quick + 1 if age_s < QUICK_S else 0
        return BACKOFF_S.pause(self._quick)
