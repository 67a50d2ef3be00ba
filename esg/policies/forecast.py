"""How much of the time left a plan may use: what was measured, and a margin for what was not.

A plan adds up profiled times. What stages really take is a multiple of them (`pace`), and varies
around it. So a plan may use

    time left / (pace + Z x spread)

where pace is the mean over the stages to come, each weighted by its share of their work, and the
spread is that of their sum: independent, so that squares add up. As stages go by, fewer are left to
even each other out, but there is less work left to go wrong. How the current stage's pace compares
with the others' is reckoned with by itself (`own_pace`): one may be slow and the others fast.
"""

from dataclasses import dataclass
from math import sqrt

from esg.catalog import Application
from esg.pace import relative_std
from esg.policy import Case
from esg.state import PPM, queue_name

Z = 2.5
"""Standard deviations to be safe from: of two hundred jobs on the edge, one is late."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a case can count on."""

    pace: float
    spread: float
    own_pace: float = 1.0  # the current stage's over that of those after it
    after: float = 1.0  # the latter over the pace of all

    def safe_us(self, left_us: int) -> int:
        """The profiled time that fits into the time left, almost certainly."""
        return int(left_us / (self.pace + Z * self.spread))

    def for_search_us(self, planned_us: int) -> int:
        """Planned time in the pace of the later stages, which is what a search counts in."""
        return int(planned_us / self.after)

    def likely_us(self, left_us: int) -> int:
        """The same as likely as not."""
        return int(left_us / self.pace)


AS_PROFILED = Forecast(1.0, 0.0)

Onward = list[tuple[str, float, float]]
"""The queues of a stage and those after it, with profiled spread and share of the work."""


def onward(application: Application, stage: str) -> Onward:
    names = application.onward(stage)
    stages = [found for name, found in application.stages.items() if name in names]
    profiles = [found.function.profile for found in stages]
    times_us = [profile.time_us_of(profile.minimum) for profile in profiles]
    return [
        (queue_name(application.name, found.name), profile.relative_std, time_us / sum(times_us))
        for found, profile, time_us in zip(stages, profiles, times_us, strict=True)
    ]


def forecast(case: Case, stages: Onward) -> Forecast:
    """For the stages to come, from what their queues have seen."""
    pace = variance = 0.0
    for name, profiled_std, share in stages:
        queue = case.state.queues[name]
        part = share * queue.pace_ppm / PPM
        pace += part
        variance += (part * relative_std(queue, profiled_std)) ** 2
    own_pace = case.queue.pace_ppm / PPM
    own_share = stages[0][2]
    after_pace = (pace - own_share * own_pace) / (1 - own_share) if len(stages) > 1 else own_pace
    return Forecast(pace, sqrt(variance), own_pace / after_pace, after_pace / pace)
