"""What became of a request. Times are milliseconds from its arrival at the mesh."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from esg.client.payloads import named_contents
from esg.core.catalog.config import Config
from esg.core.messages.outcome import Outcome
from esg.errors import Fault
from esg.protos import gateway_v1_pb2 as public
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import CallError, InvalidRequest
from esg.runtime.wire.enums import config_from_wire, outcome_from_wire
from esg.suggest import did_you_mean
from esg.units import US_PER_S

if TYPE_CHECKING:
    from esg.client.payloads import Content


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult:
    """How one stage of a request went."""

    stage: str
    """Name of the stage, which is its function's unless the application gives another."""
    task: str
    """Id of the task that ran it. Requests with the same one ran together, as one batch."""
    node: str
    """Name of the worker node that ran it."""
    config: Config
    """Jobs in the batch, vCPUs and vGPUs (MIG slices) of the task."""
    ready_ms: float
    """When its inputs were there, and it began to wait."""
    started_ms: float
    """When its task started on the node."""
    finished_ms: float
    """When its output was there."""
    cost_usd: float
    """This request's share of the task's cost, in US dollars."""
    slices_from_ms: float | None = None
    """When it got its slices, if its task ran in phases; others have them all the time."""
    slices_until_ms: float | None = None
    """When it left them."""

    @property
    def wait_ms(self) -> float:
        """From ready to started: time in the queue."""
        return self.started_ms - self.ready_ms

    @property
    def run_ms(self) -> float:
        """From started to finished."""
        return self.finished_ms - self.started_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of a request. It may have failed: see `ok`, or call `raise_for_outcome`."""

    request_id: str
    """Id of the request, as given to `submit` or made up there."""
    application: str
    """Name of the application that it ran through."""
    outcome: Outcome
    """done, failed, invalid (its input), cancelled or dropped (too late, where that is wanted)."""
    reason: str
    """Why it is not done; empty if it is."""
    slo_met: bool
    """Whether it was done within its deadline. One that is done late is `ok`, and this is False."""
    slo_ms: float
    """Its deadline: the one given to `submit`, or the application's."""
    latency_ms: float
    """From its arrival at the mesh to its end."""
    cost_usd: float
    """What its stages cost, in US dollars."""
    stages: tuple[StageResult, ...]
    """The stages that were run, in order."""
    outputs: dict[str, bytes] = field(default_factory=dict, repr=False)
    """By the stage that made them; empty if the result was looked up without them."""

    @property
    def contents(self) -> "dict[str, Content]":
        """The outputs by name, as bytes and numpy arrays. A stage with one output of bytes is its
        name; any other output is `stage.output`, or `output` alone where no other is called so."""
        return named_contents(self.outputs)

    def json(self, output: str = "") -> Any:
        """An output that is JSON, as Python has it; without a name the only one.

        Args:
            output: Its name in `contents`.
        """
        contents = self.contents
        if not output and len(self.outputs) != 1:
            raise InvalidRequest(
                f"there are {len(self.outputs)} outputs; name one of {[*contents]}"
            )
        name = output or next(iter(contents))
        if name not in contents:
            raise InvalidRequest(did_you_mean("output", name, contents))
        return json.loads(bytes(contents[name]))

    @property
    def ok(self) -> bool:
        """Whether it is done, in time or not (see `slo_met`)."""
        return self.outcome is Outcome.DONE

    def raise_for_outcome(self) -> Self:
        """Raise `RequestFailed` (or its `RequestDropped`, `RequestCancelled`) unless it is done.

        Gives the result itself, so that calls can be chained:

            outputs = mesh.submit(application, payload).raise_for_outcome().outputs
        """
        if not self.ok:
            raise _ENDINGS.get(self.outcome, RequestFailed)(self)
        return self


class RequestFailed(CallError, Fault):
    """A request was accepted and is not done; `result` tells how it ended."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        reason = f": {self.result.reason}" if self.result.reason else ""
        return f"request {self.result.request_id} {_HOW[self.result.outcome]}{reason}"


class RequestDropped(RequestFailed):
    """It could not be done in time any more, and its application drops such requests."""


class RequestCancelled(RequestFailed):
    """Somebody cancelled it."""


_ENDINGS = {Outcome.DROPPED: RequestDropped, Outcome.CANCELLED: RequestCancelled}
_HOW = {
    Outcome.DONE: "is done",
    Outcome.FAILED: "failed",
    Outcome.INVALID: "had an input that is not valid",
    Outcome.DROPPED: "was dropped",
    Outcome.CANCELLED: "was cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A stage of a request began, or (`finished`) ended."""

    stage: str
    """Name of the stage."""
    task: str
    """Id of the task that runs it; the same for all requests in its batch."""
    node: str
    """Name of the worker node."""
    config: Config
    """Jobs in the batch, vCPUs and vGPUs (MIG slices) of the task."""
    finished: bool
    """False: the stage began; True: it ended."""
    at_ms: float
    """When."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """What is known of a request now."""

    request_id: str
    """Id of the request."""
    application: str
    """Name of the application that it runs through."""
    progress: tuple[Progress, ...]
    """Stages that began and ended so far, in order."""
    result: Result | None
    """How it ended, without outputs (`fetch` has them); None while it is under way."""
    output_bytes: dict[str, int] = field(default_factory=dict)
    """How large the outputs are that `fetch` can get, by stage: those of `submit_async`."""
    fetch_within_s: float | None = None
    """For how long it still can; None if there are none."""


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
        slices_from_ms=told.slices_from_us / 1000 if told.slices_until_us else None,
        slices_until_ms=told.slices_until_us / 1000 if told.slices_until_us else None,
    )


def state_of(told: public.RequestState) -> RequestState:
    return RequestState(
        request_id=told.request_id,
        application=told.application,
        progress=tuple(progress_of(progress) for progress in told.progress),
        result=result_of(told.result) if told.HasField("result") else None,
        output_bytes={output.stage: output.bytes for output in told.outputs},
        fetch_within_s=told.fetch_within_us / US_PER_S if told.outputs else None,
    )


def news_of(told: public.WatchReply) -> Progress | Result:
    return result_of(told.result) if told.HasField("result") else progress_of(told.progress)
