"""A run over time, in a bounded number of bins: what came, what was answered, how long it took.

Bins start out a second wide. When there are too many, every two become one: a minute is shown by
the second, a day by the quarter of an hour, and both take the same memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from esg.loadgen.outcome import LatencyHistogram
from esg.loadgen.record import SentRecord
from esg.units import US_PER_S

MOST_BINS = 200
DIGITS = 2
"""Of latencies: a plot shows no more, and there is a histogram per bin and application."""


@dataclass(slots=True)
class Bin:
    """A part of a timeline. `latencies` are of the requests planned in it that were done, by
    application."""

    planned: int = 0
    answered: int = 0
    latencies: dict[str, LatencyHistogram] = field(default_factory=dict)

    def merge(self, other: "Bin") -> None:
        self.planned += other.planned
        self.answered += other.answered
        for application, times in other.latencies.items():
            self._of(application).merge(times)

    def add(self, application: str, latency_us: int) -> None:
        self._of(application).add(latency_us)

    def _of(self, application: str) -> LatencyHistogram:
        if application not in self.latencies:
            self.latencies[application] = LatencyHistogram(DIGITS)
        return self.latencies[application]


class Timeline:
    """The timeline of a run: folds records as they come, in any order."""

    def __init__(self) -> None:
        self.width_us = US_PER_S
        self._bins: dict[int, Bin] = {}

    def fold(self, record: SentRecord) -> None:
        planned = self._bin(record.at_us)
        planned.planned += 1
        if record.done:
            planned.add(record.application, record.latency_us)
            self._bin(record.at_us + record.latency_us).answered += 1

    def bins(self) -> Iterator[tuple[float, Bin]]:
        """The bins, each with the second of its beginning; those where nothing happened too."""
        for index in range(max(self._bins, default=-1) + 1):
            yield index * self.width_us / US_PER_S, self._bins.get(index, Bin())

    def _bin(self, at_us: int) -> Bin:
        while at_us // self.width_us >= MOST_BINS:
            self._widen()
        index = at_us // self.width_us
        if index not in self._bins:
            self._bins[index] = Bin()
        return self._bins[index]

    def _widen(self) -> None:
        self.width_us *= 2
        before, self._bins = self._bins, {}
        for index, found in before.items():
            self._bins.setdefault(index // 2, Bin()).merge(found)
