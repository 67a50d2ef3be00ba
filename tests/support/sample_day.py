"""A trace to try things with: calls per minute of a day that never was, made by rule.

    .venv/bin/python -m tests.support.sample_day > esg/workload/day.csv

Calls follow a sine, from 100 a minute at four in the night to 500 at four in the afternoon; for ten
minutes from noon on there are three times as many. At its busiest that is 20 calls a second, about
the paper's light rate.
"""

from math import pi, sin

MINUTES = 24 * 60
MEAN, SWING = 300, 200
RISING = 10 * 60
"""The minute in which the sine passes its mean on its way up."""
BURST = range(12 * 60, 12 * 60 + 10)
BURST_FACTOR = 3


def calls(minute: int) -> int:
    """
    >>> calls(4 * 60), calls(16 * 60), calls(719), calls(720)
    (100, 500, 399, 1200)
    """
    usual = MEAN + SWING * sin(2 * pi * (minute - RISING) / MINUTES)
    return round(usual * (BURST_FACTOR if minute in BURST else 1))


def day() -> str:
    """The file: a header and a line per minute."""
    return "".join(f"{line}\n" for line in ("calls", *map(calls, range(MINUTES))))


if __name__ == "__main__":
    print(day(), end="")
