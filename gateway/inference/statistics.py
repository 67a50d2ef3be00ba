"""What this gateway's requests took, by application, as the protocol's ModelStatistics has it."""

from dataclasses import dataclass, field

from esg.protos import model_v1_pb2 as model

MOST_MODELS = 10_000
"""Of applications that were deleted nobody asks: the longest unused is forgotten."""


@dataclass(slots=True)
class Total:
    """How often, and how long in all."""

    count: int = 0
    total_us: int = 0

    def add(self, duration_us: int) -> None:
        self.count += 1
        self.total_us += duration_us


@dataclass(slots=True)
class ModelTotals:
    """Of one application: requests that were done and those that were not, and of the former the
    time that all stages were in queues, and on nodes."""

    done: Total = field(default_factory=Total)
    failed: Total = field(default_factory=Total)
    queued: Total = field(default_factory=Total)
    run: Total = field(default_factory=Total)


class ModelStatistics:
    def __init__(self) -> None:
        self._totals: dict[str, ModelTotals] = {}

    def of(self, inside: str) -> ModelTotals:
        """By the name that the mesh has for it."""
        return self._totals.get(inside) or ModelTotals()

    def ended(self, result: model.Result) -> None:
        totals = self._totals.pop(result.application, None) or ModelTotals()
        self._totals[result.application] = totals
        if len(self._totals) > MOST_MODELS:
            del self._totals[next(iter(self._totals))]
        if result.outcome != model.OUTCOME_DONE:
            totals.failed.add(result.latency_us)
            return
        totals.done.add(result.latency_us)
        totals.queued.add(sum(stage.started_us - stage.ready_us for stage in result.stages))
        totals.run.add(sum(stage.finished_us - stage.started_us for stage in result.stages))
