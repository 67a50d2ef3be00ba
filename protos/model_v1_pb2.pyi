from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LateRequests(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LATE_REQUESTS_UNSPECIFIED: _ClassVar[LateRequests]
    LATE_REQUESTS_FINISH: _ClassVar[LateRequests]
    LATE_REQUESTS_DROP: _ClassVar[LateRequests]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_DONE: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_CANCELLED: _ClassVar[Outcome]
    OUTCOME_DROPPED: _ClassVar[Outcome]
    OUTCOME_INVALID: _ClassVar[Outcome]
LATE_REQUESTS_UNSPECIFIED: LateRequests
LATE_REQUESTS_FINISH: LateRequests
LATE_REQUESTS_DROP: LateRequests
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_DONE: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_CANCELLED: Outcome
OUTCOME_DROPPED: Outcome
OUTCOME_INVALID: Outcome

class Config(_message.Message):
    __slots__ = ("batch", "vcpus", "vgpus", "kind")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    VCPUS_FIELD_NUMBER: _ClassVar[int]
    VGPUS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    batch: int
    vcpus: int
    vgpus: int
    kind: str
    def __init__(self, batch: _Optional[int] = ..., vcpus: _Optional[int] = ..., vgpus: _Optional[int] = ..., kind: _Optional[str] = ...) -> None: ...

class Stage(_message.Message):
    __slots__ = ("name", "function", "after")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    function: str
    after: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., function: _Optional[str] = ..., after: _Optional[_Iterable[str]] = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ("name", "media_type", "datatype", "shape", "stage", "output")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATATYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    media_type: str
    datatype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    stage: str
    output: str
    def __init__(self, name: _Optional[str] = ..., media_type: _Optional[str] = ..., datatype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., stage: _Optional[str] = ..., output: _Optional[str] = ...) -> None: ...

class Application(_message.Message):
    __slots__ = ("name", "stages", "slo_us", "late_requests", "version", "alone_us", "fastest_us", "inputs", "outputs")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    SLO_US_FIELD_NUMBER: _ClassVar[int]
    LATE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ALONE_US_FIELD_NUMBER: _ClassVar[int]
    FASTEST_US_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    stages: _containers.RepeatedCompositeFieldContainer[Stage]
    slo_us: int
    late_requests: LateRequests
    version: int
    alone_us: int
    fastest_us: int
    inputs: _containers.RepeatedCompositeFieldContainer[Port]
    outputs: _containers.RepeatedCompositeFieldContainer[Port]
    def __init__(self, name: _Optional[str] = ..., stages: _Optional[_Iterable[_Union[Stage, _Mapping]]] = ..., slo_us: _Optional[int] = ..., late_requests: _Optional[_Union[LateRequests, str]] = ..., version: _Optional[int] = ..., alone_us: _Optional[int] = ..., fastest_us: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[Port, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Port, _Mapping]]] = ...) -> None: ...

class StageResult(_message.Message):
    __slots__ = ("stage", "task", "node", "config", "ready_us", "started_us", "finished_us", "cost_usd", "slices_from_us", "slices_until_us")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    READY_US_FIELD_NUMBER: _ClassVar[int]
    STARTED_US_FIELD_NUMBER: _ClassVar[int]
    FINISHED_US_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    SLICES_FROM_US_FIELD_NUMBER: _ClassVar[int]
    SLICES_UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    stage: str
    task: str
    node: str
    config: Config
    ready_us: int
    started_us: int
    finished_us: int
    cost_usd: float
    slices_from_us: int
    slices_until_us: int
    def __init__(self, stage: _Optional[str] = ..., task: _Optional[str] = ..., node: _Optional[str] = ..., config: _Optional[_Union[Config, _Mapping]] = ..., ready_us: _Optional[int] = ..., started_us: _Optional[int] = ..., finished_us: _Optional[int] = ..., cost_usd: _Optional[float] = ..., slices_from_us: _Optional[int] = ..., slices_until_us: _Optional[int] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("request_id", "application", "outcome", "reason", "slo_met", "slo_us", "latency_us", "cost_usd", "stages", "output_stages")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SLO_MET_FIELD_NUMBER: _ClassVar[int]
    SLO_US_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_STAGES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    application: str
    outcome: Outcome
    reason: str
    slo_met: bool
    slo_us: int
    latency_us: int
    cost_usd: float
    stages: _containers.RepeatedCompositeFieldContainer[StageResult]
    output_stages: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, request_id: _Optional[str] = ..., application: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., reason: _Optional[str] = ..., slo_met: _Optional[bool] = ..., slo_us: _Optional[int] = ..., latency_us: _Optional[int] = ..., cost_usd: _Optional[float] = ..., stages: _Optional[_Iterable[_Union[StageResult, _Mapping]]] = ..., output_stages: _Optional[_Iterable[str]] = ...) -> None: ...

class StageProgress(_message.Message):
    __slots__ = ("stage", "task", "node", "config", "finished", "at_us")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    stage: str
    task: str
    node: str
    config: Config
    finished: bool
    at_us: int
    def __init__(self, stage: _Optional[str] = ..., task: _Optional[str] = ..., node: _Optional[str] = ..., config: _Optional[_Union[Config, _Mapping]] = ..., finished: _Optional[bool] = ..., at_us: _Optional[int] = ...) -> None: ...

class NodeReload(_message.Message):
    __slots__ = ("node", "failure")
    NODE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    node: str
    failure: str
    def __init__(self, node: _Optional[str] = ..., failure: _Optional[str] = ...) -> None: ...

class MeshStatus(_message.Message):
    __slots__ = ("uptime_us", "policy", "queues", "nodes", "applications", "under_way", "local_transfers", "remote_transfers", "tasks", "jobs", "cold_starts", "profiles", "kinds", "refusing")
    UPTIME_US_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    LOCAL_TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    REMOTE_TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    COLD_STARTS_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    REFUSING_FIELD_NUMBER: _ClassVar[int]
    uptime_us: int
    policy: str
    queues: _containers.RepeatedCompositeFieldContainer[QueueStatus]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    applications: _containers.RepeatedCompositeFieldContainer[ApplicationStatus]
    under_way: int
    local_transfers: int
    remote_transfers: int
    tasks: int
    jobs: int
    cold_starts: int
    profiles: _containers.RepeatedCompositeFieldContainer[ProfileStatus]
    kinds: _containers.RepeatedCompositeFieldContainer[KindStatus]
    refusing: str
    def __init__(self, uptime_us: _Optional[int] = ..., policy: _Optional[str] = ..., queues: _Optional[_Iterable[_Union[QueueStatus, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ..., applications: _Optional[_Iterable[_Union[ApplicationStatus, _Mapping]]] = ..., under_way: _Optional[int] = ..., local_transfers: _Optional[int] = ..., remote_transfers: _Optional[int] = ..., tasks: _Optional[int] = ..., jobs: _Optional[int] = ..., cold_starts: _Optional[int] = ..., profiles: _Optional[_Iterable[_Union[ProfileStatus, _Mapping]]] = ..., kinds: _Optional[_Iterable[_Union[KindStatus, _Mapping]]] = ..., refusing: _Optional[str] = ...) -> None: ...

class KindStatus(_message.Message):
    __slots__ = ("kind", "slices", "unprofiled", "too_large", "nothing")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    UNPROFILED_FIELD_NUMBER: _ClassVar[int]
    TOO_LARGE_FIELD_NUMBER: _ClassVar[int]
    NOTHING_FIELD_NUMBER: _ClassVar[int]
    kind: str
    slices: int
    unprofiled: _containers.RepeatedScalarFieldContainer[str]
    too_large: _containers.RepeatedScalarFieldContainer[str]
    nothing: bool
    def __init__(self, kind: _Optional[str] = ..., slices: _Optional[int] = ..., unprofiled: _Optional[_Iterable[str]] = ..., too_large: _Optional[_Iterable[str]] = ..., nothing: _Optional[bool] = ...) -> None: ...

class ProfileStatus(_message.Message):
    __slots__ = ("function", "batch", "tasks", "profiled_us", "measured", "planned", "kind")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    PROFILED_US_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    function: str
    batch: int
    tasks: int
    profiled_us: int
    measured: float
    planned: float
    kind: str
    def __init__(self, function: _Optional[str] = ..., batch: _Optional[int] = ..., tasks: _Optional[int] = ..., profiled_us: _Optional[int] = ..., measured: _Optional[float] = ..., planned: _Optional[float] = ..., kind: _Optional[str] = ...) -> None: ...

class QueueStatus(_message.Message):
    __slots__ = ("application", "stage", "waiting", "running", "oldest_us")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_US_FIELD_NUMBER: _ClassVar[int]
    application: str
    stage: str
    waiting: int
    running: int
    oldest_us: int
    def __init__(self, application: _Optional[str] = ..., stage: _Optional[str] = ..., waiting: _Optional[int] = ..., running: _Optional[int] = ..., oldest_us: _Optional[int] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("node", "vcpus", "vcpus_free", "slices")
    NODE_FIELD_NUMBER: _ClassVar[int]
    VCPUS_FIELD_NUMBER: _ClassVar[int]
    VCPUS_FREE_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    node: str
    vcpus: int
    vcpus_free: int
    slices: _containers.RepeatedCompositeFieldContainer[SliceStatus]
    def __init__(self, node: _Optional[str] = ..., vcpus: _Optional[int] = ..., vcpus_free: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[SliceStatus, _Mapping]]] = ...) -> None: ...

class SliceStatus(_message.Message):
    __slots__ = ("task", "function", "resident", "loading", "lost", "kind")
    TASK_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_FIELD_NUMBER: _ClassVar[int]
    LOADING_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    task: str
    function: str
    resident: _containers.RepeatedScalarFieldContainer[str]
    loading: _containers.RepeatedScalarFieldContainer[str]
    lost: bool
    kind: str
    def __init__(self, task: _Optional[str] = ..., function: _Optional[str] = ..., resident: _Optional[_Iterable[str]] = ..., loading: _Optional[_Iterable[str]] = ..., lost: _Optional[bool] = ..., kind: _Optional[str] = ...) -> None: ...

class ApplicationStatus(_message.Message):
    __slots__ = ("application", "arrived", "done", "in_time", "failed", "refused", "cost_usd", "latency_us_p50", "latency_us_p99", "cancelled", "dropped", "overloaded")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    IN_TIME_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    COST_USD_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_P50_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_P99_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    OVERLOADED_FIELD_NUMBER: _ClassVar[int]
    application: str
    arrived: int
    done: int
    in_time: int
    failed: int
    refused: int
    cost_usd: float
    latency_us_p50: int
    latency_us_p99: int
    cancelled: int
    dropped: int
    overloaded: int
    def __init__(self, application: _Optional[str] = ..., arrived: _Optional[int] = ..., done: _Optional[int] = ..., in_time: _Optional[int] = ..., failed: _Optional[int] = ..., refused: _Optional[int] = ..., cost_usd: _Optional[float] = ..., latency_us_p50: _Optional[int] = ..., latency_us_p99: _Optional[int] = ..., cancelled: _Optional[int] = ..., dropped: _Optional[int] = ..., overloaded: _Optional[int] = ...) -> None: ...
