"""Exponentially weighted moving averages (EWMA): of values, and of the time between events."""

from esg.core.state.state import IntervalEstimate


def ewma(average: int, newest: int, of: int = 4) -> int:
    """An exponentially weighted moving average after one more value, which weighs one `of` so many
    parts; in whole numbers, so that it is the same everywhere.

    >>> ewma(100, 40), ewma(100, 40, of=2)
    (85, 70)
    """
    return (average * (of - 1) + newest) // of


def observe_interval(seen: IntervalEstimate, now_us: int, *, counts: bool = True) -> None:
    """Note that something has happened again. Those that happen together share the interval before
    them; one that does not count says nothing about how often things happen.

    >>> arrivals = IntervalEstimate()
    >>> for at_us in (0, 100, 140, 140):
    ...     observe_interval(arrivals, at_us)
    >>> arrivals.average_us  # 100, then a quarter of the way to 40
    85
    >>> observe_interval(arrivals, 220)  # two came at 140: one every 40
    >>> arrivals.average_us
    73
    """
    if now_us == seen.latest_us:
        seen.together += 1
        return
    if counts and seen.latest_us >= 0:
        interval_us = (now_us - seen.latest_us) // seen.together
        seen.average_us = ewma(seen.average_us or interval_us, interval_us) or 1
    seen.latest_us = now_us
    seen.together = 1
