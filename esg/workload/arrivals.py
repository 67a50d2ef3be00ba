"""Arrivals: pure, seeded, and the same for the emulator and for a live mesh.

The paper's generator draws the time to the next request uniformly from a range and the application
uniformly at random.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
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


def instants_us(rate: str, seed: int) -> Iterator[int]:
    """When requests come at one of the paper's rates. These are a stream of their own, so that they
    do not depend on how many applications there are.

    >>> from itertools import islice
    >>> list(islice(instants_us("heavy", seed=1), 3))
    [15897, 26126, 36126]
    """
    low_us, high_us = RATES_US[rate]
    intervals, at_us = Random(f"{seed}:intervals"), 0
    while True:
        at_us += intervals.randint(low_us, high_us)
        yield at_us


def until(arrivals: Iterable[Arrival], duration_us: int) -> Iterator[Arrival]:
    """The arrivals before an instant: what makes an endless list a finite one."""
    return takewhile(lambda arrival: arrival.at_us < duration_us, arrivals)
