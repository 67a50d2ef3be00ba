"""Where in its minute a call falls, for traces that only count.

All are streams: a minute of a million calls takes no more memory than one of ten.
"""

from collections.abc import Callable, Iterator
from random import Random

from esg.units import US_PER_MINUTE


def even(calls: float, random: Random) -> Iterator[int]:
    """Equal intervals, half an interval off the ends.

    >>> [at_us / 1e6 for at_us in even(4, Random(1))]
    [7.5, 22.5, 37.5, 52.5]
    """
    number = round(calls)
    return ((2 * nth + 1) * US_PER_MINUTE // (2 * number) for nth in range(number))


def uniform(calls: float, random: Random) -> Iterator[int]:
    """Independent instants, in order: exactly so many calls.

    The first of k instants that are uniform in what is left of the minute is drawn from its own
    distribution, then the next of k - 1, so nothing has to be sorted.
    """
    at_us = 0.0
    for left in range(round(calls), 0, -1):
        at_us += (US_PER_MINUTE - at_us) * (1 - (1 - random.random()) ** (1 / left))
        yield min(int(at_us), US_PER_MINUTE - 1)


def poisson(calls: float, random: Random) -> Iterator[int]:
    """A Poisson process at the minute's rate: the number of calls is right only on average."""
    at_us = random.expovariate(calls / US_PER_MINUTE)
    while at_us < US_PER_MINUTE:
        yield int(at_us)
        at_us += random.expovariate(calls / US_PER_MINUTE)


PLACEMENTS: dict[str, Callable[[float, Random], Iterator[int]]] = {
    "even": even,
    "uniform": uniform,
    "poisson": poisson,
}
