"""The figures that runs are judged by: hit rate, cost per thousand, percentiles.

They are defined here and nowhere else: emulator, controller, `esg top`, `esg replay`, loadgen and
the pages all count in a `Served`, and Prometheus is given the parts of the same fractions.
docs/figures.md says why they are as they are.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

from esg.units import to_ms, to_usd

Number = TypeVar("Number", int, float)

RATE_AND_COST = (
    "hit rate: done within the SLO, of the requests that were due: done, failed, dropped or "
    "refused for overload; not cancelled or invalid ones. Cost: USD per 1000 due requests."
)
CAPTION = f"{RATE_AND_COST} p50, p99: observed latencies of what was done."
"""The definitions in short, for under a table; docs/figures.md has them in full."""


@dataclass(slots=True)
class Served:
    """Requests that have ended, counted by outcome, with what they cost.

    `overloaded` were refused by admission control. `invalid` were refused because they cannot be
    asked for: no such application, a deadline that no config can keep, or an input that a function
    could do nothing with. `in_time` are those of the done that kept their SLO.

    >>> day = Served(done=7, in_time=6, failed=1, overloaded=2, cancelled=5, cost_pusd=4 * 10**9)
    >>> day.due, day.hit_rate, day.cost_usd_per_1k
    (10, 0.6, 0.4)
    >>> print(Served(invalid=1).hit_rate)
    None
    """

    done: int = 0
    in_time: int = 0
    failed: int = 0
    dropped: int = 0
    cancelled: int = 0
    overloaded: int = 0
    invalid: int = 0
    cost_pusd: int = 0

    def count(self, outcome: str, *, in_time: bool = False, cost_pusd: int = 0) -> None:
        """Add one request that ended in this way, which is the name of a field."""
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.in_time += in_time
        self.cost_pusd += cost_pusd

    @staticmethod
    def total(parts: Iterable["Served"]) -> "Served":
        """All of them together."""
        found, names = Served(), [each.name for each in fields(Served)]
        for part in parts:
            for name in names:
                setattr(found, name, getattr(found, name) + getattr(part, name))
        return found

    @property
    def due(self) -> int:
        """Those that the mesh had to answer in time, and has answered or turned away."""
        return self.done + self.failed + self.dropped + self.overloaded

    @property
    def refused(self) -> int:
        return self.overloaded + self.invalid

    @property
    def ended(self) -> int:
        return self.due + self.cancelled + self.invalid

    @property
    def hit_rate(self) -> float | None:
        """The share of the due that was done in time; None if nothing was due."""
        return self.in_time / self.due if self.due else None

    @property
    def cost_usd_per_1k(self) -> float | None:
        """What was paid, for a thousand that were due; None if nothing was due."""
        return 1000 * to_usd(self.cost_pusd) / self.due if self.due else None

    def document(self) -> dict[str, Any]:
        """The figures, by the names that they have in every JSON document."""
        return {
            "due": self.due,
            "done": self.done,
            "in_time": self.in_time,
            "failed": self.failed,
            "dropped": self.dropped,
            "cancelled": self.cancelled,
            "refused": self.refused,
            "overloaded": self.overloaded,
            "slo_hit_rate": self.hit_rate,
            "cost_usd": to_usd(self.cost_pusd),
            "cost_usd_per_1k_requests": self.cost_usd_per_1k,
        }


def shown_percent(share: float) -> float:
    """A share in percent, to be shown with one decimal: only a perfect one is shown as 100.

    >>> [f"{shown_percent(share):.1f}" for share in (1, 0.99995, 0.9994, 0.25)]
    ['100.0', '99.9', '99.9', '25.0']
    """
    return 100 * share if share >= 1 else min(100 * share, 99.9)


def percentile_rank(count: int, percent: float) -> int:
    """Which of so many values, in ascending order and counted from 1, is the percentile: the first
    that at least `percent` of the others do not exceed (numpy's method "higher").

    >>> [percentile_rank(100, percent) for percent in (0, 50, 99, 100)]
    [1, 51, 100, 100]
    """
    return math.ceil((count - 1) * percent / 100) + 1


def percentiles(values: Iterable[Number], *percents: float) -> list[Number]:
    """Percentiles of a list: each is one of its values, never something in between.

    >>> percentiles([30, 10, 20, 40], 50, 99)
    [30, 40]
    """
    ordered = sorted(values)
    return [ordered[percentile_rank(len(ordered), percent) - 1] for percent in percents]


def percentiles_ms(times_us: Sequence[int]) -> dict[str, float | None]:
    """The percentiles that latencies are told by; None if there are no latencies.

    >>> percentiles_ms([1500, 2500])
    {'p50': 2.5, 'p90': 2.5, 'p99': 2.5}
    """
    names = {"p50": 50, "p90": 90, "p99": 99}
    if not times_us:
        return dict.fromkeys(names)
    found = percentiles(times_us, *names.values())
    return {name: to_ms(time_us) for name, time_us in zip(names, found, strict=True)}


class SliceHolder(Protocol):
    """A slice in anybody's books."""

    @property
    def holder(self) -> str: ...
    @property
    def usable(self) -> bool: ...


def slice_use(holder: str, *, usable: bool) -> str:
    """What a slice is to those who count them; a lost one may still have a task.

    >>> slice_use("t1", usable=True), slice_use("", usable=True), slice_use("t1", usable=False)
    ('busy', 'free', 'lost')
    """
    if not usable:
        return "lost"
    return "busy" if holder else "free"


def slice_counts(slices: Iterable[SliceHolder]) -> dict[str, int]:
    """How many slices are busy, free and lost."""
    found = Counter(slice_use(part.holder, usable=part.usable) for part in slices)
    return {use: found[use] for use in ("busy", "free", "lost")}
