"""Units: whole microseconds and whole picodollars.

Integers make sums exact, so two engines that add the same stages in another order still agree to
the last digit, and a replay is bit for bit the run it replays. A picodollar is fine enough: one job
of the smallest function costs some ten million of them.
"""

US_PER_MS = 1_000
US_PER_S = 1_000_000
US_PER_MINUTE = 60 * US_PER_S
US_PER_HOUR = 3_600 * US_PER_S
PUSD_PER_USD = 10**12
PPM = 1_000_000
DAY_S = 86_400
DAY_MS = 1_000 * DAY_S
NEVER_US = 2**62
"""Later than any time there is, and safe to add to."""
NEVER_PUSD = 2**62
"""The cost of what cannot be done: far above any real one, and safe to add to."""


def ms(milliseconds: float) -> int:
    """Milliseconds as whole microseconds.

    >>> ms(13.4)
    13400
    """
    return round(milliseconds * US_PER_MS)


def seconds(value: float) -> int:
    """Seconds as whole microseconds."""
    return round(value * US_PER_S)


def to_ms(time_us: int) -> float:
    return time_us / US_PER_MS


def to_usd(cost_pusd: int) -> float:
    return cost_pusd / PUSD_PER_USD


def to_pusd(cost_usd: float) -> int:
    return round(cost_usd * PUSD_PER_USD)
