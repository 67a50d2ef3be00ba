"""What a model has done since it was loaded, counted as Triton counts it."""

import time
from dataclasses import dataclass, field
from typing import Any

from tritonclient.grpc import service_pb2 as triton


@dataclass(slots=True)
class Duration:
    """How often something happened, and how long it took in sum."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        self.count += 1
        self.ns += ns

    def message(self) -> Any:
        return triton.StatisticDuration(count=self.count, ns=self.ns)


@dataclass(slots=True)
class Statistics:
    """Of one model on one slice."""

    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    compute: dict[int, Duration] = field(default_factory=dict)
    """By the number of rows; Triton has the sum, and each number by itself."""
    last_ms: int = 0

    def ran(self, rows: int, *, queued_ns: int, computed_ns: int) -> None:
        """A call came to a good end."""
        self.success.add(queued_ns + computed_ns)
        self.queue.add(queued_ns)
        self.compute.setdefault(rows, Duration()).add(computed_ns)
        self.last_ms = time.time_ns() // 1_000_000

    def failed(self, ns: int) -> None:
        self.fail.add(ns)

    def message(self, name: str) -> Any:
        computed = Duration(
            sum(part.count for part in self.compute.values()),
            sum(part.ns for part in self.compute.values()),
        )
        return triton.ModelStatistics(
            name=name,
            version="1",
            last_inference=self.last_ms,
            inference_count=sum(rows * part.count for rows, part in self.compute.items()),
            execution_count=computed.count,
            inference_stats=triton.InferStatistics(
                success=self.success.message(),
                fail=self.fail.message(),
                queue=self.queue.message(),
                compute_infer=computed.message(),
            ),
            batch_stats=[
                triton.InferBatchStatistics(batch_size=rows, compute_infer=part.message())
                for rows, part in sorted(self.compute.items())
            ],
        )
