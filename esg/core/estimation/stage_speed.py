"""Stage speed: how fast stages really are, beside their profiles.

A profile says what a config takes on average, on a quiet machine, with its inputs at hand. What the
scheduler sees takes longer: orders travel, inputs are fetched, and no two runs are alike. So every
AFW queue remembers averages of what its tasks took as a multiple of their profile (`pace_ppm`), of
the distance from that (`spread_ppm`), and of what inputs from another node add (`remote_us`).
"""

from esg.core.estimation.ewma import ewma
from esg.core.estimation.transfer import ASSUMED_REMOTE
from esg.core.state.state import Queue
from esg.units import PPM

PRIOR, ALL = 2, 16
"""What is profiled counts like two runs, until sixteen have been seen: from then on the newest run
always weighs a sixteenth."""

AT_MOST = 2
"""One run counts as twice as slow as expected at most, or twice as fast as profiled, and a transfer
as one that took twice as long: a task that hung says nothing about those after it. If all of them
are that slow, a dozen or two will show it."""

NORMAL_MILLIS = 1253
"""The standard deviation of a normal distribution, in thousandths of its mean distance."""


def observe_run(
    queue: Queue,
    profiled_us: int,
    took_us: int,
    relative_std: float,
    remote: int = 0,
    input_bytes: int = 0,
) -> None:
    """Note how long a task took, from the order to its end, without the loading of models; `remote`
    is how many inputs, each of so many bytes, came from other nodes.

    >>> queue = Queue("app/f", "app", "f")
    >>> observe_run(queue, profiled_us=100, took_us=115, relative_std=0.0)
    >>> queue.pace_ppm, queue.spread_ppm  # a third of the way to 1.15, and to 0.15
    (1050000, 50000)
    >>> observe_run(queue, profiled_us=100, took_us=155, remote=1, relative_std=0.0)
    >>> queue.remote_us  # the first one is all there is to go by
    50
    """
    if queue.spread_ppm < 0:
        queue.spread_ppm = round(relative_std * PPM * 1000 / NORMAL_MILLIS)
    expected_us = profiled_us * queue.pace_ppm // PPM
    if remote:
        extra_us = max(0, took_us - expected_us) // remote
        known_us = max(remote_us(queue, input_bytes), ASSUMED_REMOTE.delay_us)
        extra_us = min(extra_us, AT_MOST * known_us)
        queue.remote_us = ewma(queue.remote_us, extra_us, ALL) if queue.remote_us else extra_us
        return
    if took_us > expected_us * AT_MOST:
        took_us = expected_us * AT_MOST
    least_us = profiled_us // AT_MOST or 1
    if took_us < least_us:
        took_us = least_us
    queue.runs_seen = seen = queue.runs_seen + 1
    weight = seen + PRIOR if seen + PRIOR < ALL else ALL
    pace = took_us * PPM // profiled_us
    queue.spread_ppm = ewma(queue.spread_ppm, abs(pace - queue.pace_ppm), weight)
    queue.pace_ppm = ewma(queue.pace_ppm, pace, weight)


def forget_pace(queue: Queue) -> None:
    """Runs take what is profiled again, and vary as much beside that as they did before.

    >>> queue = Queue("app/f", "app", "f", pace_ppm=3_000_000, spread_ppm=150_000)
    >>> forget_pace(queue)
    >>> queue.pace_ppm, queue.spread_ppm
    (1000000, 50000)
    """
    if queue.spread_ppm >= 0:
        queue.spread_ppm = queue.spread_ppm * PPM // queue.pace_ppm
    queue.pace_ppm = PPM


def relative_std(queue: Queue, profiled: float) -> float:
    """The spread as a standard deviation over the mean: measured, or profiled while nothing is."""
    if queue.spread_ppm < 0:
        return profiled
    return queue.spread_ppm * NORMAL_MILLIS / 1000 / queue.pace_ppm


def remote_us(queue: Queue, input_bytes: int) -> int:
    """What an input from another node adds: measured, or as over an ordinary network while nothing
    is.

    >>> remote_us(Queue("app/f", "app", "f"), 1_000_000)
    20000
    """
    return queue.remote_us or ASSUMED_REMOTE.time_us(input_bytes) or ASSUMED_REMOTE.delay_us
