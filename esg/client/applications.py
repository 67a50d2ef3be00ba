"""Applications: DAGs of functions with a deadline."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from esg.client.slo import CENTURY_MS, slo_us_of
from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.ports import Port
from esg.protos import gateway_v1_pb2 as public
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import InvalidRequest
from esg.runtime.wire.enums import LATE_REQUESTS, late_requests_from_wire
from esg.runtime.wire.ports import port_from_wire

LateRequestsName = Literal["finish", "drop"]
"""What becomes of requests that will be late: finished all the same, or refused and dropped."""


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """One function's place in an application's DAG."""

    function: str
    """Name of a function that the mesh's catalog has."""
    after: tuple[str, ...] = ()
    """Names of the stages whose outputs it reads. Exactly one stage, the first, has none."""
    name: str = ""
    """Name of the stage, to tell two of one function apart; the function's by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationInfo:
    """An application, as the mesh knows it."""

    name: str
    """What `submit` calls it."""
    stages: tuple[PipelineStage, ...]
    """Its stages in topological order, the first one first."""
    slo_ms: float
    """Deadline of requests that are submitted without one, in milliseconds."""
    version: int
    """1, and one more with every update."""
    alone_ms: float
    """Its time alone at the minimum config, in milliseconds: what `slo_scale` is a multiple of."""
    fastest_ms: float
    """With every stage at its fastest config, in milliseconds: no SLO can be shorter."""
    late_requests: LateRequests = LateRequests.FINISH
    """What becomes of requests that will be late: finished all the same, or dropped."""
    inputs: tuple[Port, ...] = ()
    """What `submit` takes: tensors of a datatype and shape, or bytes of a media type."""
    outputs: tuple[Port, ...] = ()
    """What comes of it, of the last stages."""


def application_of(told: model.Application) -> ApplicationInfo:
    return ApplicationInfo(
        name=told.name,
        stages=tuple(PipelineStage(s.function, tuple(s.after), s.name) for s in told.stages),
        slo_ms=told.slo_us / 1000,
        late_requests=late_requests_from_wire(told.late_requests),
        version=told.version,
        alone_ms=told.alone_us / 1000,
        fastest_ms=told.fastest_us / 1000,
        inputs=tuple(map(port_from_wire, told.inputs)),
        outputs=tuple(map(port_from_wire, told.outputs)),
    )


def definition(
    name: str,
    stages: Sequence[PipelineStage],
    slo_ms: float | None,
    slo_scale: float | None,
    late_requests: LateRequests | LateRequestsName = LateRequests.FINISH,
) -> public.RegisterApplicationRequest:
    """What the gateway is told about an application."""
    if slo_ms is not None and slo_scale is not None:
        raise InvalidRequest("slo_ms and slo_scale say the same in two ways; give one of them")
    if late_requests not in LATE_REQUESTS:
        raise InvalidRequest(f"late_requests is {late_requests!r}; say 'finish' or 'drop'")
    return public.RegisterApplicationRequest(
        name=name,
        stages=[model.Stage(name=s.name, function=s.function, after=s.after) for s in stages],
        slo_us=slo_us_of(slo_ms, CENTURY_MS),
        slo_scale=slo_scale,
        late_requests=LATE_REQUESTS[LateRequests(late_requests)],
    )
