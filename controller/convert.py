"""The scheduler's words as protobuf: results, progress, applications; and what is registered."""

from collections.abc import Mapping
from typing import assert_never

from esg.core.catalog.model import Application
from esg.core.messages.commands import AnswerRequest, RefusalKind, StageReport
from esg.core.messages.events import ApplicationRegistered, StageSpec
from esg.core.messages.task_order import TaskOrder
from esg.errors import Rejected
from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import Exhausted, NotFound
from esg.runtime.wire.enums import (
    LATE_REQUESTS,
    OUTCOMES,
    config_to_wire,
    late_requests_from_wire,
)
from esg.runtime.wire.ports import port_to_wire
from esg.units import to_usd


def refusal_error(kind: RefusalKind, reason: str, retry_after_us: int | None = None) -> Exception:
    """A refusal as the error that its kind stands for; the gRPC status follows from that."""
    match kind:
        case RefusalKind.UNKNOWN_APPLICATION:
            return NotFound(reason)
        case RefusalKind.INVALID | RefusalKind.IMPOSSIBLE:
            return Rejected(reason)
        case RefusalKind.OVERLOADED:
            return Exhausted(reason, retry_after_us)
        case _:
            assert_never(kind)


def result_to_wire(answer: AnswerRequest, name: str, now_us: int) -> model.Result:
    """`name` is the application's as the client knows it."""
    return model.Result(
        request_id=answer.request,
        application=name,
        outcome=OUTCOMES[answer.outcome],
        reason=answer.reason,
        slo_met=answer.slo_met,
        slo_us=answer.deadline_us - answer.arrived_us,
        latency_us=now_us - answer.arrived_us,
        cost_usd=to_usd(answer.cost_pusd),
        stages=[_stage(report, answer.arrived_us) for report in answer.stages],
        output_stages=answer.results,
    )


def _stage(report: StageReport, arrived_us: int) -> model.StageResult:
    return model.StageResult(
        stage=report.stage,
        task=report.task,
        node=report.invoker,
        config=config_to_wire(report.config),
        ready_us=report.ready_us - arrived_us,
        slices_from_us=report.slices_from_us and report.slices_from_us - arrived_us,
        slices_until_us=report.slices_until_us and report.slices_until_us - arrived_us,
        started_us=report.started_us - arrived_us,
        finished_us=report.finished_us - arrived_us,
        cost_usd=to_usd(report.cost_pusd),
    )


def result_note(
    request: str, result: model.Result, outputs: Mapping[str, bytes]
) -> wire.ControllerNote:
    note = wire.ControllerNote(request_id=request, result=result)
    for stage, content in outputs.items():
        note.outputs.add(stage=stage, content=content)
    return note


def progress_note(
    request: str, ran: StageReport | TaskOrder, *, finished: bool, at_us: int
) -> wire.ControllerNote:
    return wire.ControllerNote(
        request_id=request,
        progress=model.StageProgress(
            stage=ran.stage,
            task=ran.task,
            node=ran.invoker,
            config=config_to_wire(ran.config),
            finished=finished,
            at_us=at_us,
        ),
    )


def application_from_wire(request: wire.PutApplicationRequest) -> ApplicationRegistered:
    """What is to be registered. A stage without a name has its function's."""
    return ApplicationRegistered(
        application=request.name,
        stages=tuple(
            StageSpec(
                name=stage.name or stage.function, function=stage.function, after=tuple(stage.after)
            )
            for stage in request.stages
        ),
        slo_us=request.slo_us if request.HasField("slo_us") else None,
        slo_scale=request.slo_scale if request.HasField("slo_scale") else None,
        late_requests=late_requests_from_wire(request.late_requests),
    )


def application_to_wire(application: Application, name: str, version: int) -> model.Application:
    return model.Application(
        name=name,
        stages=[
            model.Stage(name=stage.name, function=stage.function.name, after=stage.after)
            for stage in application.stages.values()
        ],
        slo_us=application.slo_us,
        late_requests=LATE_REQUESTS[application.late_requests],
        version=version,
        alone_us=application.alone_us,
        fastest_us=application.fastest_us()[application.root],
        inputs=[port_to_wire(port, port.name) for port in application.inputs],
        outputs=[
            port_to_wire(port, name, stage) for name, (stage, port) in application.outputs.items()
        ],
    )
