from esg.protos import model_v1_pb2 as _model_v1_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReloadFunctionRequest(_message.Message):
    __slots__ = ("function",)
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    function: str
    def __init__(self, function: _Optional[str] = ...) -> None: ...

class ReloadFunctionReply(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[_model_v1_pb2.NodeReload]
    def __init__(self, nodes: _Optional[_Iterable[_Union[_model_v1_pb2.NodeReload, _Mapping]]] = ...) -> None: ...

class PutApplicationRequest(_message.Message):
    __slots__ = ("name", "stages", "slo_us", "slo_scale", "update", "late_requests", "client")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    SLO_US_FIELD_NUMBER: _ClassVar[int]
    SLO_SCALE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    LATE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    stages: _containers.RepeatedCompositeFieldContainer[_model_v1_pb2.Stage]
    slo_us: int
    slo_scale: float
    update: bool
    late_requests: _model_v1_pb2.LateRequests
    client: str
    def __init__(self, name: _Optional[str] = ..., stages: _Optional[_Iterable[_Union[_model_v1_pb2.Stage, _Mapping]]] = ..., slo_us: _Optional[int] = ..., slo_scale: _Optional[float] = ..., update: _Optional[bool] = ..., late_requests: _Optional[_Union[_model_v1_pb2.LateRequests, str]] = ..., client: _Optional[str] = ...) -> None: ...

class ListApplicationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListApplicationsReply(_message.Message):
    __slots__ = ("applications",)
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    applications: _containers.RepeatedCompositeFieldContainer[_model_v1_pb2.Application]
    def __init__(self, applications: _Optional[_Iterable[_Union[_model_v1_pb2.Application, _Mapping]]] = ...) -> None: ...

class DeleteApplicationRequest(_message.Message):
    __slots__ = ("name", "client")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    client: str
    def __init__(self, name: _Optional[str] = ..., client: _Optional[str] = ...) -> None: ...

class DeleteApplicationReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchMeshRequest(_message.Message):
    __slots__ = ("interval_ms",)
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    interval_ms: int
    def __init__(self, interval_ms: _Optional[int] = ...) -> None: ...

class FromGateway(_message.Message):
    __slots__ = ("notes",)
    NOTES_FIELD_NUMBER: _ClassVar[int]
    notes: _containers.RepeatedCompositeFieldContainer[GatewayNote]
    def __init__(self, notes: _Optional[_Iterable[_Union[GatewayNote, _Mapping]]] = ...) -> None: ...

class GatewayNote(_message.Message):
    __slots__ = ("submission", "cancel", "follow", "session", "leave", "keep_not")
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    KEEP_NOT_FIELD_NUMBER: _ClassVar[int]
    submission: Submission
    cancel: str
    follow: str
    session: str
    leave: str
    keep_not: str
    def __init__(self, submission: _Optional[_Union[Submission, _Mapping]] = ..., cancel: _Optional[str] = ..., follow: _Optional[str] = ..., session: _Optional[str] = ..., leave: _Optional[str] = ..., keep_not: _Optional[str] = ...) -> None: ...

class Submission(_message.Message):
    __slots__ = ("request_id", "application", "slo_us", "content_hash", "deadline_us", "fetched_later", "owner", "all_stages", "awaits_acceptance", "payload", "quota")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    SLO_US_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_US_FIELD_NUMBER: _ClassVar[int]
    FETCHED_LATER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ALL_STAGES_FIELD_NUMBER: _ClassVar[int]
    AWAITS_ACCEPTANCE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    application: str
    slo_us: int
    content_hash: bytes
    deadline_us: int
    fetched_later: bool
    owner: str
    all_stages: bool
    awaits_acceptance: bool
    payload: bytes
    quota: Quota
    def __init__(self, request_id: _Optional[str] = ..., application: _Optional[str] = ..., slo_us: _Optional[int] = ..., content_hash: _Optional[bytes] = ..., deadline_us: _Optional[int] = ..., fetched_later: _Optional[bool] = ..., owner: _Optional[str] = ..., all_stages: _Optional[bool] = ..., awaits_acceptance: _Optional[bool] = ..., payload: _Optional[bytes] = ..., quota: _Optional[_Union[Quota, _Mapping]] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("client", "requests_per_s", "burst", "in_flight", "bytes_per_day", "payload_bytes")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_DAY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    client: str
    requests_per_s: float
    burst: int
    in_flight: int
    bytes_per_day: int
    payload_bytes: int
    def __init__(self, client: _Optional[str] = ..., requests_per_s: _Optional[float] = ..., burst: _Optional[int] = ..., in_flight: _Optional[int] = ..., bytes_per_day: _Optional[int] = ..., payload_bytes: _Optional[int] = ...) -> None: ...

class ToGateway(_message.Message):
    __slots__ = ("notes",)
    NOTES_FIELD_NUMBER: _ClassVar[int]
    notes: _containers.RepeatedCompositeFieldContainer[ControllerNote]
    def __init__(self, notes: _Optional[_Iterable[_Union[ControllerNote, _Mapping]]] = ...) -> None: ...

class ControllerNote(_message.Message):
    __slots__ = ("request_id", "accepted", "refused", "progress", "result", "payload_lost", "shared", "outputs", "fetch_within_us")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_LOST_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    FETCH_WITHIN_US_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    accepted: Accepted
    refused: Refused
    progress: _model_v1_pb2.StageProgress
    result: _model_v1_pb2.Result
    payload_lost: bool
    shared: bool
    outputs: _containers.RepeatedCompositeFieldContainer[StageContent]
    fetch_within_us: int
    def __init__(self, request_id: _Optional[str] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., progress: _Optional[_Union[_model_v1_pb2.StageProgress, _Mapping]] = ..., result: _Optional[_Union[_model_v1_pb2.Result, _Mapping]] = ..., payload_lost: _Optional[bool] = ..., shared: _Optional[bool] = ..., outputs: _Optional[_Iterable[_Union[StageContent, _Mapping]]] = ..., fetch_within_us: _Optional[int] = ...) -> None: ...

class StageContent(_message.Message):
    __slots__ = ("stage", "content")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    stage: str
    content: bytes
    def __init__(self, stage: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ("application", "repeated", "content_hash", "store_payload")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    CONTENT_HASH_FIELD_NUMBER: _ClassVar[int]
    STORE_PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    application: str
    repeated: bool
    content_hash: bytes
    store_payload: bool
    def __init__(self, application: _Optional[str] = ..., repeated: _Optional[bool] = ..., content_hash: _Optional[bytes] = ..., store_payload: _Optional[bool] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("code", "message", "retry_after_us")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_US_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    retry_after_us: int
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., retry_after_us: _Optional[int] = ...) -> None: ...

class FromInvoker(_message.Message):
    __slots__ = ("notes",)
    NOTES_FIELD_NUMBER: _ClassVar[int]
    notes: _containers.RepeatedCompositeFieldContainer[InvokerNote]
    def __init__(self, notes: _Optional[_Iterable[_Union[InvokerNote, _Mapping]]] = ...) -> None: ...

class InvokerNote(_message.Message):
    __slots__ = ("greeting", "joined", "inventory", "finished", "failed", "ready", "gone", "leaving", "reloaded", "number")
    GREETING_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    RELOADED_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    greeting: Greeting
    joined: Inventory
    inventory: Inventory
    finished: TaskFinished
    failed: TaskFailed
    ready: Instance
    gone: InstanceGone
    leaving: Leaving
    reloaded: Reloaded
    number: int
    def __init__(self, greeting: _Optional[_Union[Greeting, _Mapping]] = ..., joined: _Optional[_Union[Inventory, _Mapping]] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., finished: _Optional[_Union[TaskFinished, _Mapping]] = ..., failed: _Optional[_Union[TaskFailed, _Mapping]] = ..., ready: _Optional[_Union[Instance, _Mapping]] = ..., gone: _Optional[_Union[InstanceGone, _Mapping]] = ..., leaving: _Optional[_Union[Leaving, _Mapping]] = ..., reloaded: _Optional[_Union[Reloaded, _Mapping]] = ..., number: _Optional[int] = ...) -> None: ...

class Greeting(_message.Message):
    __slots__ = ("invoker", "catalog", "session")
    INVOKER_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    invoker: str
    catalog: str
    session: str
    def __init__(self, invoker: _Optional[str] = ..., catalog: _Optional[str] = ..., session: _Optional[str] = ...) -> None: ...

class Leaving(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Reloaded(_message.Message):
    __slots__ = ("number", "failure")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    number: int
    failure: str
    def __init__(self, number: _Optional[int] = ..., failure: _Optional[str] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("vcpus", "slices", "running", "latest_task", "kept")
    VCPUS_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    LATEST_TASK_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    vcpus: int
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    running: _containers.RepeatedCompositeFieldContainer[RunningTask]
    latest_task: int
    kept: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, vcpus: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ..., running: _Optional[_Iterable[_Union[RunningTask, _Mapping]]] = ..., latest_task: _Optional[int] = ..., kept: _Optional[_Iterable[str]] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ("memory_mb", "resident", "loading", "lost", "kind")
    MEMORY_MB_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_FIELD_NUMBER: _ClassVar[int]
    LOADING_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    memory_mb: int
    resident: _containers.RepeatedScalarFieldContainer[str]
    loading: _containers.RepeatedScalarFieldContainer[str]
    lost: bool
    kind: str
    def __init__(self, memory_mb: _Optional[int] = ..., resident: _Optional[_Iterable[str]] = ..., loading: _Optional[_Iterable[str]] = ..., lost: _Optional[bool] = ..., kind: _Optional[str] = ...) -> None: ...

class RunningTask(_message.Message):
    __slots__ = ("task", "vcpus", "slices")
    TASK_FIELD_NUMBER: _ClassVar[int]
    VCPUS_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    task: str
    vcpus: int
    slices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, task: _Optional[str] = ..., vcpus: _Optional[int] = ..., slices: _Optional[_Iterable[int]] = ...) -> None: ...

class TaskFinished(_message.Message):
    __slots__ = ("task", "loading_us", "running_us", "failed", "brought", "continued", "phases", "slices")
    TASK_FIELD_NUMBER: _ClassVar[int]
    LOADING_US_FIELD_NUMBER: _ClassVar[int]
    RUNNING_US_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    BROUGHT_FIELD_NUMBER: _ClassVar[int]
    CONTINUED_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    task: str
    loading_us: int
    running_us: int
    failed: _containers.RepeatedCompositeFieldContainer[JobFailure]
    brought: _containers.RepeatedCompositeFieldContainer[JobOutput]
    continued: str
    phases: Phases
    slices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, task: _Optional[str] = ..., loading_us: _Optional[int] = ..., running_us: _Optional[int] = ..., failed: _Optional[_Iterable[_Union[JobFailure, _Mapping]]] = ..., brought: _Optional[_Iterable[_Union[JobOutput, _Mapping]]] = ..., continued: _Optional[str] = ..., phases: _Optional[_Union[Phases, _Mapping]] = ..., slices: _Optional[_Iterable[int]] = ...) -> None: ...

class Phases(_message.Message):
    __slots__ = ("before_us", "slices_us", "after_us")
    BEFORE_US_FIELD_NUMBER: _ClassVar[int]
    SLICES_US_FIELD_NUMBER: _ClassVar[int]
    AFTER_US_FIELD_NUMBER: _ClassVar[int]
    before_us: int
    slices_us: int
    after_us: int
    def __init__(self, before_us: _Optional[int] = ..., slices_us: _Optional[int] = ..., after_us: _Optional[int] = ...) -> None: ...

class JobOutput(_message.Message):
    __slots__ = ("request_id", "content")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    content: bytes
    def __init__(self, request_id: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class JobFailure(_message.Message):
    __slots__ = ("request_id", "reason", "final")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    reason: str
    final: bool
    def __init__(self, request_id: _Optional[str] = ..., reason: _Optional[str] = ..., final: _Optional[bool] = ...) -> None: ...

class TaskFailed(_message.Message):
    __slots__ = ("task", "reason", "missing")
    TASK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    task: str
    reason: str
    missing: _containers.RepeatedCompositeFieldContainer[MissingInput]
    def __init__(self, task: _Optional[str] = ..., reason: _Optional[str] = ..., missing: _Optional[_Iterable[_Union[MissingInput, _Mapping]]] = ...) -> None: ...

class MissingInput(_message.Message):
    __slots__ = ("request_id", "source")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    source: Input
    def __init__(self, request_id: _Optional[str] = ..., source: _Optional[_Union[Input, _Mapping]] = ...) -> None: ...

class StageOutput(_message.Message):
    __slots__ = ("request_id", "stage")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    stage: str
    def __init__(self, request_id: _Optional[str] = ..., stage: _Optional[str] = ...) -> None: ...

class Instance(_message.Message):
    __slots__ = ("slice", "function", "loading_us")
    SLICE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    LOADING_US_FIELD_NUMBER: _ClassVar[int]
    slice: int
    function: str
    loading_us: int
    def __init__(self, slice: _Optional[int] = ..., function: _Optional[str] = ..., loading_us: _Optional[int] = ...) -> None: ...

class InstanceGone(_message.Message):
    __slots__ = ("slice", "function", "reason")
    SLICE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    slice: int
    function: str
    reason: str
    def __init__(self, slice: _Optional[int] = ..., function: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ToInvoker(_message.Message):
    __slots__ = ("orders", "acknowledged")
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    orders: _containers.RepeatedCompositeFieldContainer[Order]
    acknowledged: int
    def __init__(self, orders: _Optional[_Iterable[_Union[Order, _Mapping]]] = ..., acknowledged: _Optional[int] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("welcome", "start", "stop", "warm", "drop", "publish", "discard", "reload", "recall")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    WARM_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    RELOAD_FIELD_NUMBER: _ClassVar[int]
    RECALL_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    start: TaskOrder
    stop: str
    warm: Instance
    drop: Instance
    publish: StageOutput
    discard: Discard
    reload: Reload
    recall: str
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., start: _Optional[_Union[TaskOrder, _Mapping]] = ..., stop: _Optional[str] = ..., warm: _Optional[_Union[Instance, _Mapping]] = ..., drop: _Optional[_Union[Instance, _Mapping]] = ..., publish: _Optional[_Union[StageOutput, _Mapping]] = ..., discard: _Optional[_Union[Discard, _Mapping]] = ..., reload: _Optional[_Union[Reload, _Mapping]] = ..., recall: _Optional[str] = ...) -> None: ...

class Reload(_message.Message):
    __slots__ = ("number", "function")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    number: int
    function: str
    def __init__(self, number: _Optional[int] = ..., function: _Optional[str] = ...) -> None: ...

class Discard(_message.Message):
    __slots__ = ("request_id", "results")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    results: bool
    def __init__(self, request_id: _Optional[str] = ..., results: _Optional[bool] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("start_afresh", "heartbeat_ms")
    START_AFRESH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    start_afresh: bool
    heartbeat_ms: int
    def __init__(self, start_afresh: _Optional[bool] = ..., heartbeat_ms: _Optional[int] = ...) -> None: ...

class TaskOrder(_message.Message):
    __slots__ = ("task", "stage", "function", "config", "slices", "jobs", "keep", "predicted_us", "then", "within_us", "phased", "spare_us")
    TASK_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_US_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    WITHIN_US_FIELD_NUMBER: _ClassVar[int]
    PHASED_FIELD_NUMBER: _ClassVar[int]
    SPARE_US_FIELD_NUMBER: _ClassVar[int]
    task: str
    stage: str
    function: str
    config: _model_v1_pb2.Config
    slices: _containers.RepeatedScalarFieldContainer[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    keep: bool
    predicted_us: int
    then: TaskOrder
    within_us: int
    phased: bool
    spare_us: int
    def __init__(self, task: _Optional[str] = ..., stage: _Optional[str] = ..., function: _Optional[str] = ..., config: _Optional[_Union[_model_v1_pb2.Config, _Mapping]] = ..., slices: _Optional[_Iterable[int]] = ..., jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., keep: _Optional[bool] = ..., predicted_us: _Optional[int] = ..., then: _Optional[_Union[TaskOrder, _Mapping]] = ..., within_us: _Optional[int] = ..., phased: _Optional[bool] = ..., spare_us: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("request_id", "inputs", "publish", "waited_for", "payload", "bring_bytes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    WAITED_FOR_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    BRING_BYTES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    publish: bool
    waited_for: bool
    payload: bytes
    bring_bytes: int
    def __init__(self, request_id: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., publish: _Optional[bool] = ..., waited_for: _Optional[bool] = ..., payload: _Optional[bytes] = ..., bring_bytes: _Optional[int] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("payload", "output")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    payload: str
    output: Output
    def __init__(self, payload: _Optional[str] = ..., output: _Optional[_Union[Output, _Mapping]] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("stage", "invoker")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    INVOKER_FIELD_NUMBER: _ClassVar[int]
    stage: str
    invoker: str
    def __init__(self, stage: _Optional[str] = ..., invoker: _Optional[str] = ...) -> None: ...
