"""What became of a request. Times are milliseconds from its arrival at the mesh."""

from dataclasses import dataclass, field

from esg.core.catalog.config import Config
from esg.core.messages.outcome import Outcome
from esg.protos import model_v1_pb2 as model
from esg.runtime.wire.enums import config_from_wire, outcome_from_wire


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """How one stage went. Requests with the same `task` ran it together, as one batch."""

    stage: str
    task: str
    node: str
    config: Config
    ready_ms: float
    started_ms: float
    finished_ms: float
    cost_usd: float

    @property
    def wait_ms(self) -> float:
        return self.started_ms - self.ready_ms

    @property
    def run_ms(self) -> float:
        return self.finished_ms - self.started_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of a request. It may have failed: see `outcome`, and `reason` if it is not done."""

    request_id: str
    application: str
    outcome: Outcome
    reason: str
    slo_met: bool
    slo_ms: float
    latency_ms: float
    cost_usd: float
    stages: tuple[StageResult, ...]
    outputs: dict[str, bytes] = field(default_factory=dict, repr=False)
    """By the stage that made them; empty if the result was looked up without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A stage began, or (`finished`) ended."""

    stage: str
    task: str
    node: str
    config: Config
    finished: bool
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """What is known of a request now; `result` is there when it has ended."""

    request_id: str
    application: str
    progress: tuple[Progress, ...]
    result: Result | None


def result_of(told: model.Result, outputs: dict[str, bytes] | None = None) -> Result:
    return Result(
        request_id=told.request_id,
        application=told.application,
        outcome=outcome_from_wire(told.outcome),
        reason=told.reason,
        slo_met=told.slo_met,
        slo_ms=told.slo_us / 1000,
        latency_ms=told.latency_us / 1000,
        cost_usd=told.cost_usd,
        stages=tuple(_stage(stage) for stage in told.stages),
        outputs=outputs or {},
    )


def progress_of(told: model.StageProgress) -> Progress:
    return Progress(
        stage=told.stage,
        task=told.task,
        node=told.node,
        config=config_from_wire(told.config),
        finished=told.finished,
        at_ms=told.at_us / 1000,
    )


def _stage(told: model.StageResult) -> StageResult:
    return StageResult(
        stage=told.stage,
        task=told.task,
        node=told.node,
        config=config_from_wire(told.config),
        ready_ms=told.ready_us / 1000,
        started_ms=told.started_us / 1000,
        finished_ms=told.finished_us / 1000,
        cost_usd=told.cost_usd,
    )
