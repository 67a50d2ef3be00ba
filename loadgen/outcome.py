"""What came of a load: counted per application, for a table or a document.

Latencies go into HDR histograms: percentiles are right to three digits, and a week of requests
takes no more memory than a minute of them.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hdrh.histogram import HdrHistogram

from esg.loadgen.record import SentRecord, record_of
from esg.loadgen.send import SentRequest
from esg.units import US_PER_HOUR

MOST_REASONS = 100
"""Different reasons of failures that are told apart: they may have numbers in them."""
OTHER_REASONS = "other reasons"


class LatencyHistogram:
    """Times from 1 us to an hour; what is longer counts as an hour."""

    def __init__(self, digits: int = 3) -> None:
        self._histogram = HdrHistogram(1, US_PER_HOUR, digits)

    def add(self, time_us: int) -> None:
        self._histogram.record_value(min(max(time_us, 0), US_PER_HOUR))

    def merge(self, other: "LatencyHistogram") -> None:
        self._histogram.add(other._histogram)

    def __len__(self) -> int:
        return int(self._histogram.total_count)

    def percentiles_ms(self, *percentiles: float) -> list[float]:
        """Exact to the digits; zeros if there is nothing. In ascending order, please."""
        found = self._histogram.get_percentile_to_value_dict(percentiles)
        highest = self._histogram.max_value  # the end of a range of values may be beyond it
        return [min(found.get(p, 0), highest) / 1000 for p in percentiles]

    @property
    def most_ms(self) -> float:
        return float(self._histogram.max_value / 1000)


@dataclass(slots=True)
class Figures:
    """Of one application, or of all. `latencies` are of what was done; `batches` counts jobs."""

    requests: int = 0
    in_time: int = 0
    failed: int = 0
    cost_usd: float = 0.0
    slo_us: int = 0
    batches: Counter[int] = field(default_factory=Counter)
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)

    def add(self, record: SentRecord) -> None:
        self.requests += 1
        self.in_time += record.in_time
        self.cost_usd += record.cost_usd
        self.batches.update(record.batches)
        self.slo_us = record.slo_us or self.slo_us
        if record.done:
            self.latencies.add(record.latency_us)
        else:
            self.failed += 1

    def document(self) -> dict[str, Any]:
        jobs = self.batches.total()
        return {
            "requests": self.requests,
            "slo_hit_rate": _share(self.in_time, self.requests),
            "failed": self.failed,
            "latency_ms": self.percentiles_ms(),
            "cost_usd": self.cost_usd,
            "cost_usd_per_1k_requests": _share(1000 * self.cost_usd, self.requests),
            "batched_share": _share(jobs - self.batches[1], jobs),
        }

    def percentiles_ms(self) -> dict[str, float | None]:
        names = ("p50", "p90", "p99")
        if not len(self.latencies):
            return dict.fromkeys(names)
        return dict(zip(names, self.latencies.percentiles_ms(50, 90, 99), strict=True))


class LoadOutcome:
    """Folds answers as they come."""

    def __init__(self) -> None:
        self.total = Figures()
        self.by_application: dict[str, Figures] = {}
        self.errors: Counter[str] = Counter()
        self.late = LatencyHistogram()

    def add(self, answered: SentRequest) -> None:
        self.fold(record_of(answered))

    def fold(self, record: SentRecord) -> None:
        self.total.add(record)
        self.by_application.setdefault(record.application, Figures()).add(record)
        self.late.add(record.late_us)
        if not record.done:
            known = record.why in self.errors or len(self.errors) < MOST_REASONS
            self.errors[record.why if known else OTHER_REASONS] += 1

    def not_sent(self, application: str, count: int, why: str) -> None:
        """Requests that were planned and never left: they failed, for their application."""
        for figures in (self.total, self.by_application.setdefault(application, Figures())):
            figures.requests += count
            figures.failed += count
        self.errors[why] += count

    @property
    def error_rate(self) -> float:
        return _share(self.total.failed, self.total.requests)

    def document(self) -> dict[str, Any]:
        (late_ms,) = self.late.percentiles_ms(99)
        return {
            **self.total.document(),
            "applications": {
                name: self.by_application[name].document() for name in sorted(self.by_application)
            },
            "errors": dict(self.errors.most_common()),
            "sender_late_ms_p99": late_ms,
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
