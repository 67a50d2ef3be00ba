"""Endless arrivals at a rate: steady, Poisson or in bursts.

A rate is one of the paper's (`heavy`, `normal`, `light`) or a number per time (`120/s`, `30/min`);
or a share of what a mesh can carry (`80%`), which whoever knows the mesh has to make a number.
Every list of instants depends on the rate and the seed alone; the mix only labels them.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from random import Random

from esg.errors import Rejected
from esg.suggest import did_you_mean, shortened
from esg.units import US_PER_HOUR, US_PER_MINUTE, US_PER_S, seconds
from esg.workload.arrivals import RATES_US, Arrival, instants_us
from esg.workload.mix import Mix
from esg.workload.traces.rows import shown

UNITS_US = {"s": US_PER_S, "min": US_PER_MINUTE, "h": US_PER_HOUR}
LONGEST_INTERVAL_US = 366 * 24 * US_PER_HOUR
_NUMBER = r"(\d+|\d*\.\d+)"
_SHARE = re.compile(rf"{_NUMBER}\s*%")
_PER_TIME = re.compile(rf"{_NUMBER}\s*/\s*({'|'.join(UNITS_US)})")


@dataclass(frozen=True, slots=True)
class Rate:
    """A name and its mean interval between requests, exactly."""

    name: str
    interval_us: Fraction

    @property
    def mean_per_s(self) -> float:
        return float(US_PER_S / self.interval_us)


def parse_rate(text: str) -> Rate:
    """`heavy`, `normal`, `light`, or a number per s, min or h.

    >>> parse_rate("120/s").interval_us
    Fraction(25000, 3)
    >>> round(parse_rate("heavy").mean_per_s, 1)
    74.6
    """
    if text in RATES_US:
        return Rate(text, Fraction(sum(RATES_US[text]), 2))
    found = _PER_TIME.fullmatch(text.strip())
    if share_of(text) is not None:
        raise Rejected(
            f"rate {text!r} is a share of what a mesh can carry, which loadgen asks the mesh for; "
            "give a number here, as in 120/s or 30/min"
        )
    if found is None:
        if re.fullmatch(_NUMBER, text.strip()):
            bare = shortened(text.strip(), 20)
            raise Rejected(f"rate {bare}: say per what, as in {bare}/s or {bare}/min")
        raise Rejected(
            f"{did_you_mean('rate', text, RATES_US)}; or give a number, as in 120/s or 30/min"
        )
    number, unit = Fraction(found[1]), UNITS_US[found[2]]
    if not number or unit / number < 1:
        raise Rejected(f"rate {text!r}: give a rate above 0 and up to {US_PER_S}/s")
    if unit / number > LONGEST_INTERVAL_US:
        raise Rejected(f"rate {shown(text)} is less than one request in a year; give more")
    return Rate(text, unit / number)


def share_of(rate: str) -> float | None:
    """The share of what a mesh can carry that a rate is, if it is one.

    >>> share_of("80%"), share_of("heavy")
    (0.8, None)
    """
    found = _SHARE.fullmatch(rate.strip())
    return None if found is None else float(found[1]) / 100


def steady(rate: str, mix: Mix, seed: int) -> Iterator[Arrival]:
    """The paper's uniform intervals for its rates, equal intervals for a number per time.

    >>> from itertools import islice
    >>> [a.at_us for a in islice(steady("120/s", Mix.uniform(["app"]), seed=1), 4)]
    [8333, 16666, 25000, 33333]
    """
    return _labelled(_steady_us(parse_rate(rate), seed), mix, seed)


def poisson(rate: str, mix: Mix, seed: int) -> Iterator[Arrival]:
    """Exponential intervals with the rate's mean: many independent users.

    >>> from itertools import islice
    >>> [a.at_us for a in islice(poisson("120/s", Mix.uniform(["app"]), seed=1), 4)]
    [17729, 17966, 30414, 45331]
    """
    return _labelled(_poisson_us(parse_rate(rate), seed), mix, seed)


ON_US, OFF_US = seconds(1), seconds(4)


def bursts(
    rate: str, mix: Mix, seed: int, *, on_us: int = ON_US, off_us: int = OFF_US
) -> Iterator[Arrival]:
    """Bursts and silences: an interrupted Poisson process.

    A burst lasts `on_us` on average and a silence `off_us`, both exponentially distributed. Nothing
    comes in a silence. In a burst, requests come as a Poisson process, at (on + off) / on times the
    rate, so that the long-run mean is the rate: with the defaults five times the rate for a second,
    then nothing for four. The list starts with a burst, so a run of a few seconds has more requests
    than its rate says.
    """
    if on_us <= 0 or off_us < 0:
        raise Rejected(
            f"bursts of {on_us} us and silences of {off_us} us; give on > 0 and off >= 0"
        )
    return _labelled(_bursts_us(parse_rate(rate), seed, on_us, off_us), mix, seed)


def _labelled(times_us: Iterable[int], mix: Mix, seed: int) -> Iterator[Arrival]:
    return map(Arrival, times_us, mix.draws(seed))


def _steady_us(rate: Rate, seed: int) -> Iterator[int]:
    if rate.name in RATES_US:
        return instants_us(rate.name, seed)
    above, below = rate.interval_us.as_integer_ratio()
    return (nth * above // below for nth in count(1))


def _poisson_us(rate: Rate, seed: int) -> Iterator[int]:
    intervals, per_us = Random(f"{seed}:intervals"), float(1 / rate.interval_us)
    at_us = 0.0
    while True:
        at_us += intervals.expovariate(per_us)
        yield int(at_us)


def _bursts_us(rate: Rate, seed: int, on_us: int, off_us: int) -> Iterator[int]:
    intervals, phases = Random(f"{seed}:intervals"), Random(f"{seed}:phases")
    per_us = float(Fraction(on_us + off_us, on_us) / rate.interval_us)
    at_us, burst_ends_us = 0.0, phases.expovariate(1 / on_us)
    while True:
        at_us += intervals.expovariate(per_us)
        while at_us >= burst_ends_us:
            # What is left of the interval goes on after the silence: intervals have no memory
            silence_us = phases.expovariate(1 / off_us) if off_us else 0.0
            at_us += silence_us
            burst_ends_us += silence_us + phases.expovariate(1 / on_us)
        yield int(at_us)
