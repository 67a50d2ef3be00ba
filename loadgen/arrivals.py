"""Arrivals: pure, seeded, and the same for the emulator and for a live mesh.

The paper's generator draws the time to the next request uniformly from a range and the application
uniformly at random.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from esg.units import ms


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request, planned for an instant after the start."""

    at_us: int
    application: str


RATES_US: dict[str, tuple[int, int]] = {
    "heavy": (ms(10), ms(16.8)),
    "normal": (ms(20), ms(33.6)),
    "light": (ms(40), ms(67.2)),
}
"""The paper's ranges of intervals between requests."""


def at_rate(rate: str, applications: Sequence[str], seed: int) -> Iterator[Arrival]:
    """Endless arrivals at one of the paper's rates.

    >>> from itertools import islice
    >>> [a.at_us for a in islice(at_rate("heavy", ["app"], seed=1), 3)]
    [10913, 26675, 40065]
    """
    low_us, high_us = RATES_US[rate]
    # Two streams, so that the instants do not depend on how many applications there are
    intervals, choices = Random(f"{seed}:intervals"), Random(f"{seed}:applications")
    at_us = 0
    while True:
        at_us += intervals.randint(low_us, high_us)
        yield Arrival(at_us, choices.choice(applications))
