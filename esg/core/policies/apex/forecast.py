"""Forecast: how long the stages to come will take, beside their profiles, and how sure that is.

A plan adds up profiled times. What stages really take is a multiple of them (`pace`), and varies
around it (`spread`). The pace of a plan is the mean over the stages to come, each weighted by its
share of their work, and the spread is that of their sum: independent, so that squares add up. As
stages go by, fewer are left to even each other out, but there is less work left to go wrong. How
the current stage's pace compares with the others' is a figure by itself (`own_pace`): one may
be slow and the others fast.

While little was measured, all profiles may be wrong in the same way, so that `doubt` about them
adds up as it is. It goes as measurements come in.
"""

from math import erfc, hypot, sqrt

from msgspec import Struct

from esg.core.catalog.model import Application
from esg.core.estimation.stage_speed import PRIOR, relative_std
from esg.core.policies.interface import QueueView
from esg.names import queue_name
from esg.units import PPM

Z = 3.0
"""Standard deviations to be safe from: of a thousand jobs on the edge, one is late."""

DOUBT = 0.15
"""How far off a profile may be that was never seen at work: a standard deviation, as a share."""

_SQRT2 = sqrt(2)


class Forecast(Struct, frozen=True):
    """The pace and the spread that a queue's jobs can count on."""

    pace: float
    spread: float
    own_pace: float = 1.0  # the current stage's over that of those after it
    after: float = 1.0  # the latter over the pace of all
    doubt: float = 0.0  # how far off the pace itself may be
    profiled: float = 0.0  # the spread that profiles tell of

    def wary(self) -> "Forecast":
        """A forecast for those who would rather not rely on this one, nor on a spread that only
        seems small because few runs were seen."""
        spread = hypot(max(self.spread, self.profiled), self.doubt)
        return Forecast(self.pace, spread, self.own_pace, self.after)

    def safe_us(self, left_us: int, z: float = Z) -> int:
        """The profiled time that fits into the time left, almost certainly."""
        return int(left_us / (self.pace + z * self.spread))

    def risk(self, left_us: int, planned_us: int) -> float:
        """How likely it is that a plan takes longer than the time left.

        >>> round(Forecast(1.0, 0.02).risk(104, 100), 3)  # two standard deviations
        0.023
        """
        room = left_us / planned_us - self.pace
        if not self.spread:
            return float(room < 0)
        return erfc(room / self.spread / _SQRT2) / 2

    def for_search_us(self, planned_us: int) -> int:
        """Planned time in the pace of the later stages, which is what a search counts in."""
        return int(planned_us / self.after)

    def from_search_us(self, searched_us: int) -> int:
        """Searched time as planned time: the inverse of `for_search_us`."""
        return int(searched_us * self.after)

    def likely_us(self, left_us: int) -> int:
        """The profiled time that fits into the time left, as likely as not."""
        return int(left_us / self.pace)


AS_PROFILED = Forecast(1.0, 0.0)

Onward = list[tuple[str, float, float]]
"""The queues of a stage and those after it, with profiled spread and share of the work."""


def onward(application: Application, stage: str) -> Onward:
    names = application.onward[stage]
    stages = [found for name, found in application.stages.items() if name in names]
    profiles = [found.function.profile for found in stages]
    times_us = [profile.time_us_of(profile.minimum) for profile in profiles]
    return [
        (queue_name(application.name, found.name), profile.relative_std, time_us / sum(times_us))
        for found, profile, time_us in zip(stages, profiles, times_us, strict=True)
    ]


def forecast(view: QueueView, stages: Onward) -> Forecast:
    """The forecast for the stages to come, from what their queues have seen."""
    pace = variance = doubt = profiled = 0.0
    for name, profiled_std, share in stages:
        queue = view.state.queues[name]
        part = share * queue.pace_ppm / PPM
        pace += part
        variance += (part * relative_std(queue, profiled_std)) ** 2
        profiled += (part * profiled_std) ** 2
        doubt += part * DOUBT * PRIOR / (PRIOR + queue.runs_seen)
    own_pace = view.queue.pace_ppm / PPM
    own_share = stages[0][2]
    after_pace = (pace - own_share * own_pace) / (1 - own_share) if len(stages) > 1 else own_pace
    own, after, spread = own_pace / after_pace, after_pace / pace, sqrt(variance)
    return Forecast(pace, spread, own, after, doubt, sqrt(profiled))
