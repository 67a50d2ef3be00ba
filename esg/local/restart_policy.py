"""When a process that died is started again, and when it is given up."""

from esg.backoff import Backoff

BACKOFF_S = Backoff(0.1, 5.0)
QUICK_S = 10.0
MOST_QUICK_DEATHS = 6


class Revival:
    """One process' deaths. Those that come quickly are followed by longer and longer pauses, until
    there have been too many in a row; one that lived for a while starts with a clean record.

    >>> revival = Revival()
    >>> [revival.pause_s(age_s) for age_s in (60.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)]
    [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, None]
    >>> revival.pause_s(60.0)
    0.1
    """

    def __init__(self) -> None:
        self._quick = 0

    def pause_s(self, age_s: float) -> float | None:
        """How long to wait after a death at this age; None to give up."""
        self._quick = self._quick + 1 if age_s < QUICK_S else 0
        if self._quick >= MOST_QUICK_DEATHS:
            return None
        return BACKOFF_S.pause(self._quick)
