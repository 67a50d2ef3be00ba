"""What came of a load: counted per application, for a table or a document."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loadgen.send import Answered


@dataclass(slots=True)
class Figures:
    """Of one application, or of all."""

    requests: int = 0
    in_time: int = 0
    failed: int = 0
    cost_usd: float = 0.0
    jobs: int = 0
    batched_jobs: int = 0
    latencies_us: list[int] = field(default_factory=list)

    def add(self, answered: Answered) -> None:
        self.requests += 1
        result = answered.result
        if result is None or result.outcome != "done":
            self.failed += 1
        else:
            self.latencies_us.append(answered.latency_us)
        self.in_time += answered.in_time
        if result is not None:
            self.cost_usd += result.cost_usd
            self.jobs += len(result.stages)
            self.batched_jobs += sum(stage.config.batch > 1 for stage in result.stages)

    def document(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "slo_hit_rate": _share(self.in_time, self.requests),
            "failed": self.failed,
            "latency_ms": self.percentiles_ms(),
            "cost_usd": self.cost_usd,
            "cost_usd_per_1k_requests": _share(1000 * self.cost_usd, self.requests),
            "batched_share": _share(self.batched_jobs, self.jobs),
        }

    def percentiles_ms(self) -> dict[str, float | None]:
        if not self.latencies_us:
            return {"p50": None, "p90": None, "p99": None}
        found = np.percentile(self.latencies_us, (50, 90, 99), method="higher") / 1000
        return dict(zip(("p50", "p90", "p99"), map(float, found), strict=True))


class Outcome:
    """Folds answers as they come."""

    def __init__(self) -> None:
        self.total = Figures()
        self.by_application: dict[str, Figures] = {}
        self.errors: Counter[str] = Counter()
        self.late_us: list[int] = []

    def add(self, answered: Answered) -> None:
        self.total.add(answered)
        name = answered.arrival.application
        self.by_application.setdefault(name, Figures()).add(answered)
        self.late_us.append(answered.late_us)
        result = answered.result
        if result is None:
            self.errors[answered.error] += 1
        elif result.outcome != "done":
            self.errors[result.reason] += 1

    def document(self) -> dict[str, Any]:
        late_ms = np.percentile(self.late_us, 99, method="higher") / 1000 if self.late_us else 0
        return {
            **self.total.document(),
            "applications": {
                name: self.by_application[name].document() for name in sorted(self.by_application)
            },
            "errors": dict(self.errors.most_common()),
            "sender_late_ms_p99": float(late_ms),
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
