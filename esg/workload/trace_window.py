"""From a trace to arrivals: which part of it, how much of it, and for which applications."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from random import Random

from esg.errors import Rejected
from esg.suggest import did_you_mean
from esg.units import US_PER_MINUTE, US_PER_S
from esg.workload.arrivals import Arrival, until
from esg.workload.mix import Mix
from esg.workload.rates import parse_rate
from esg.workload.traces.read import Trace
from esg.workload.traces.timed import TimedTrace
from esg.workload.within_minute import PLACEMENTS

SMALLEST_SCALE = 1e-9
"""With less, instants are too far away for numbers to tell them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """What to make of a trace.

    - `scale` multiplies the rate. Where the trace counts calls per minute, the counts are
      multiplied: a day stays a day. Where it knows instants, time is squeezed: order and
      burstiness stay, and a day at scale 24 takes an hour.
    - `rate` instead scales the mean of the whole trace to a rate (`heavy`, `120/s`): calls over its
      minutes where they are counted, one over the mean interval where instants are kept.
    - `start_minute` counts from the trace's beginning, whatever number its first minute bears.
    - `duration_us` is how long the arrivals go on.
    - `in_minute` places calls within their minute (see `placement`). Without it, instants that the
      trace knows are kept, and others are `uniform`. With it, known instants are counted per
      minute first and placed anew, so that scaling leaves a day a day.
    - `by_function` lets applications follow the trace's functions (`Mix.index_of`); otherwise they
      are drawn by weight.
    """

    scale: float = 1.0
    rate: str | None = None
    start_minute: int = 0
    duration_us: int | None = None
    in_minute: str | None = None
    by_function: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise Rejected(f"scale is {self.scale:g}; give a number above 0")
        if self.scale < SMALLEST_SCALE:
            raise Rejected(f"scale is {self.scale:g}; give {SMALLEST_SCALE:g} at least")
        if self.rate is not None:
            parse_rate(self.rate)
            if self.scale != 1:
                raise Rejected(
                    f"rate {self.rate} and scale {self.scale:g} both set the rate; give one of them"
                )
        if self.duration_us is not None and self.duration_us <= 0:
            raise Rejected(f"duration is {self.duration_us} us; give a time above 0")
        if self.in_minute is not None and self.in_minute not in PLACEMENTS:
            raise Rejected(did_you_mean("placement in the minute", self.in_minute, PLACEMENTS))


def from_trace(
    trace: Trace, mix: Mix, seed: int, shaping: Shaping | None = None
) -> Iterator[Arrival]:
    """A trace's calls as arrivals, ordered by instant, streamed.

    With `even` and `uniform` placement counts are exact: scaled ones are rounded so that the sum up
    to any minute is off by half a call at most. Instants do not depend on the mix. What is random
    is keyed by the seed and the minute: a part of a trace is the same whether it is cut out or met
    on the way.

    All slow work (counting, sorting) is done when this returns: the first arrival is at hand.
    """
    shaping = shaping or Shaping()
    _check(trace, shaping)
    scale = _scale(trace, shaping)
    if isinstance(trace, TimedTrace) and shaping.in_minute is None:
        arrivals = _as_recorded(trace, mix, seed, scale, shaping)
    else:
        arrivals = _placed(trace, mix, seed, scale, shaping)
    if shaping.duration_us is not None:
        arrivals = until(arrivals, shaping.duration_us)
    first = next(arrivals, None)
    return chain(() if first is None else (first,), arrivals)


def _check(trace: Trace, shaping: Shaping) -> None:
    if not 0 <= shaping.start_minute < trace.minutes:
        raise Rejected(
            f"{trace.path}: start minute {shaping.start_minute} is not in the trace; "
            f"give 0 to {trace.minutes - 1}, counted from its beginning"
        )
    if shaping.by_function and not trace.names_functions:
        raise Rejected(
            f"{trace.path}: the trace does not name functions; choose applications by weight"
        )


def extent(trace: Trace, shaping: Shaping) -> tuple[int, float]:
    """How many arrivals a trace comes to at most, and in how many seconds; `poisson` placement
    makes that an expectation."""
    scale, start_s = _scale(trace, shaping), 60.0 * shaping.start_minute
    if isinstance(trace, TimedTrace) and shaping.in_minute is None:
        span_s = (trace.last_us - trace.first_us) / US_PER_S
        return trace.invocations, max(0.0, span_s - start_s) / scale
    calls = math.floor(trace.invocations * Fraction(scale) + Fraction(1, 2))
    return calls, 60.0 * trace.minutes - start_s


def _scale(trace: Trace, shaping: Shaping) -> float:
    if shaping.rate is None:
        return shaping.scale
    if isinstance(trace, TimedTrace) and shaping.in_minute is None:
        mean_per_s = trace.mean_per_s
    else:
        mean_per_s = trace.invocations / (60 * trace.minutes)
    if not mean_per_s:
        raise Rejected(
            f"{trace.path}: too few calls for a mean that could be scaled to {shaping.rate}; "
            "give a trace with more calls, or leave the rate out"
        )
    return parse_rate(shaping.rate).mean_per_s / mean_per_s


def _as_recorded(
    trace: TimedTrace, mix: Mix, seed: int, scale: float, shaping: Shaping
) -> Iterator[Arrival]:
    start_us, draws = shaping.start_minute * US_PER_MINUTE, mix.draws(seed)
    for at_us, function in trace.calls():
        if shaping.by_function:
            application = mix.applications[mix.index_of(function)]
        else:
            application = next(draws)
        if at_us >= start_us:
            yield Arrival(round((at_us - start_us) / scale), application)


def _placed(trace: Trace, mix: Mix, seed: int, scale: float, shaping: Shaping) -> Iterator[Arrival]:
    in_minute = shaping.in_minute or "uniform"
    if shaping.by_function:
        minutes = trace.by_minute(len(mix.applications), mix.index_of)
    else:
        minutes = trace.by_minute()
    for minute, calls, number in _scaled(minutes, scale):
        expected = sum(calls) * scale if in_minute == "poisson" else number
        if minute < shaping.start_minute or not expected:
            continue
        key = f"{seed}:{minute}"
        offsets_us = PLACEMENTS[in_minute](expected, Random(f"{key}:instants"))
        if not shaping.by_function:
            names = mix.draws(key)
        elif in_minute == "poisson":
            names = _drawn(mix.applications, calls, Random(f"{key}:functions"))
        else:
            names = _dealt(mix.applications, calls, number, Random(f"{key}:functions"))
        start_us = (minute - shaping.start_minute) * US_PER_MINUTE
        for offset_us, name in zip(offsets_us, names, strict=False):
            yield Arrival(start_us + offset_us, name)


def _scaled(
    minutes: Iterator[tuple[int, list[int]]], scale: float
) -> Iterator[tuple[int, list[int], int]]:
    """Add to each minute its whole number of scaled calls. What one loses the next one gets.

    >>> [number for _, _, number in _scaled(iter([(0, [3]), (1, [3]), (2, [3])]), 0.5)]
    [2, 1, 2]
    """
    exact, half = Fraction(scale), Fraction(1, 2)
    total = given = 0
    for minute, calls in minutes:
        total += sum(calls)
        number = math.floor(total * exact + half) - given
        given += number
        yield minute, calls, number


def _drawn(names: Sequence[str], calls: Sequence[int], random: Random) -> Iterator[str]:
    """Endless draws in the proportion of a minute's calls."""
    while True:
        yield random.choices(names, calls)[0]


def _dealt(
    names: Sequence[str], calls: Sequence[int], number: int, random: Random
) -> Iterator[str]:
    """So many cards from as few decks of a minute's calls as will do, without putting any back.

    With one whole deck, or several, every application gets exactly its share.

    >>> sorted(_dealt(["a", "b"], [1, 3], 8, Random(1)))
    ['a', 'a', 'b', 'b', 'b', 'b', 'b', 'b']
    """
    decks = -(-number // sum(calls))
    left = [decks * count for count in calls]
    cards = sum(left)
    for _ in range(number):
        card = random.randrange(cards)
        index = 0
        while card >= left[index]:
            card -= left[index]
            index += 1
        left[index] -= 1
        cards -= 1
        yield names[index]
