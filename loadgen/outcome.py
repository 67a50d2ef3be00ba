"""What came of a load: counted per application, for a table or a document.

Hit rate and cost are those of `esg.core.metrics`, over what was sent and heard here: what had no
answer, or could not be sent, counts as failed. Latencies go into HDR histograms, of which
percentiles are taken by the same rank, right to three digits: a week of requests takes no more
memory than a minute of them.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hdrh.histogram import HdrHistogram

from esg.core.metrics import Served, percentile_rank
from esg.loadgen.record import SentRecord, record_of
from esg.loadgen.send import SentRequest
from esg.units import US_PER_HOUR, to_pusd

MOST_REASONS = 100
"""Different reasons of failures that are told apart: they may have numbers in them."""
OTHER_REASONS = "other reasons"


class LatencyHistogram:
    """A histogram of times from 1 us to an hour; what is longer counts as an hour."""

    def __init__(self, digits: int = 3) -> None:
        self._histogram = HdrHistogram(1, US_PER_HOUR, digits)

    def add(self, time_us: int) -> None:
        self._histogram.record_value(min(max(time_us, 0), US_PER_HOUR))

    def merge(self, other: "LatencyHistogram") -> None:
        self._histogram.add(other._histogram)

    def __len__(self) -> int:
        return int(self._histogram.total_count)

    def percentiles_ms(self, *percentiles: float) -> list[float]:
        """Percentiles, exact to the digits; zeros if there is nothing."""
        count = len(self)
        # The share that a rank is of all is what the histogram asks for, and rounds to that rank
        shares = [100 * percentile_rank(count, p) / max(1, count) for p in percentiles]
        found = self._histogram.get_percentile_to_value_dict(shares)
        highest = self._histogram.max_value  # the end of a range of values may be beyond it
        return [min(found.get(share, 0), highest) / 1000 for share in shares]

    @property
    def most_ms(self) -> float:
        return float(self._histogram.max_value / 1000)


@dataclass(slots=True)
class Figures:
    """The figures of one application, or of all. `latencies` are of what was done; `batches` counts
    jobs."""

    served: Served = field(default_factory=Served)
    slo_us: int = 0
    batches: Counter[int] = field(default_factory=Counter)
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)

    def add(self, record: SentRecord) -> None:
        outcome = "failed" if record.outcome == "error" else record.outcome
        cost_pusd = to_pusd(record.cost_usd)
        self.served.count(outcome, in_time=record.in_time, cost_pusd=cost_pusd)
        self.batches.update(record.batches)
        self.slo_us = record.slo_us or self.slo_us
        if record.done:
            self.latencies.add(record.latency_us)

    @property
    def requests(self) -> int:
        return self.served.ended

    @property
    def not_done(self) -> int:
        return self.requests - self.served.done

    def document(self) -> dict[str, Any]:
        jobs = self.batches.total()
        return {
            "requests": self.requests,
            **self.served.document(),
            "latency_ms": self.percentiles_ms(),
            "batched_share": (jobs - self.batches[1]) / max(1, jobs),
        }

    def percentiles_ms(self) -> dict[str, float | None]:
        names = ("p50", "p90", "p99")
        if not len(self.latencies):
            return dict.fromkeys(names)
        return dict(zip(names, self.latencies.percentiles_ms(50, 90, 99), strict=True))


class LoadOutcome:
    """The figures of a load, folded from its answers as they come."""

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
        """Count requests that were planned and never sent: they failed, for their application."""
        for figures in (self.total, self.by_application.setdefault(application, Figures())):
            figures.served.failed += count
        self.errors[why] += count

    @property
    def error_rate(self) -> float:
        """The share of requests that were not done, whyever."""
        return self.total.not_done / max(1, self.total.requests)

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
