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

class RegisterApplicationRequest(_message.Message):
    __slots__ = ("name", "stages", "slo_us", "slo_scale", "late_requests")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    SLO_US_FIELD_NUMBER: _ClassVar[int]
    SLO_SCALE_FIELD_NUMBER: _ClassVar[int]
    LATE_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    stages: _containers.RepeatedCompositeFieldContainer[_model_v1_pb2.Stage]
    slo_us: int
    slo_scale: float
    late_requests: _model_v1_pb2.LateRequests
    def __init__(self, name: _Optional[str] = ..., stages: _Optional[_Iterable[_Union[_model_v1_pb2.Stage, _Mapping]]] = ..., slo_us: _Optional[int] = ..., slo_scale: _Optional[float] = ..., late_requests: _Optional[_Union[_model_v1_pb2.LateRequests, str]] = ...) -> None: ...

class UpdateApplicationRequest(_message.Message):
    __slots__ = ("application",)
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    application: RegisterApplicationRequest
    def __init__(self, application: _Optional[_Union[RegisterApplicationRequest, _Mapping]] = ...) -> None: ...

class ListApplicationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListApplicationsReply(_message.Message):
    __slots__ = ("applications",)
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    applications: _containers.RepeatedCompositeFieldContainer[_model_v1_pb2.Application]
    def __init__(self, applications: _Optional[_Iterable[_Union[_model_v1_pb2.Application, _Mapping]]] = ...) -> None: ...

class DescribeApplicationRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteApplicationRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteApplicationReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("application", "payload", "slo_us", "request_id", "all_stages", "in_parts")
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    SLO_US_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ALL_STAGES_FIELD_NUMBER: _ClassVar[int]
    IN_PARTS_FIELD_NUMBER: _ClassVar[int]
    application: str
    payload: bytes
    slo_us: int
    request_id: str
    all_stages: bool
    in_parts: bool
    def __init__(self, application: _Optional[str] = ..., payload: _Optional[bytes] = ..., slo_us: _Optional[int] = ..., request_id: _Optional[str] = ..., all_stages: _Optional[bool] = ..., in_parts: _Optional[bool] = ...) -> None: ...

class SubmitReply(_message.Message):
    __slots__ = ("result", "outputs", "fetch_outputs")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    FETCH_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    result: _model_v1_pb2.Result
    outputs: _containers.RepeatedCompositeFieldContainer[Output]
    fetch_outputs: bool
    def __init__(self, result: _Optional[_Union[_model_v1_pb2.Result, _Mapping]] = ..., outputs: _Optional[_Iterable[_Union[Output, _Mapping]]] = ..., fetch_outputs: _Optional[bool] = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ("stage", "content")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    stage: str
    content: bytes
    def __init__(self, stage: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class SubmitAsyncReply(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class SubmitChunk(_message.Message):
    __slots__ = ("request", "payload", "fetched_later")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    FETCHED_LATER_FIELD_NUMBER: _ClassVar[int]
    request: SubmitRequest
    payload: bytes
    fetched_later: bool
    def __init__(self, request: _Optional[_Union[SubmitRequest, _Mapping]] = ..., payload: _Optional[bytes] = ..., fetched_later: _Optional[bool] = ...) -> None: ...

class ResultChunk(_message.Message):
    __slots__ = ("accepted", "result", "output")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    accepted: str
    result: _model_v1_pb2.Result
    output: Output
    def __init__(self, accepted: _Optional[str] = ..., result: _Optional[_Union[_model_v1_pb2.Result, _Mapping]] = ..., output: _Optional[_Union[Output, _Mapping]] = ...) -> None: ...

class SubmitGroup(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[SubmitRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[SubmitRequest, _Mapping]]] = ...) -> None: ...

class ReplyGroup(_message.Message):
    __slots__ = ("replies",)
    REPLIES_FIELD_NUMBER: _ClassVar[int]
    replies: _containers.RepeatedCompositeFieldContainer[Reply]
    def __init__(self, replies: _Optional[_Iterable[_Union[Reply, _Mapping]]] = ...) -> None: ...

class Reply(_message.Message):
    __slots__ = ("request_id", "done", "refusal")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    done: SubmitReply
    refusal: Refusal
    def __init__(self, request_id: _Optional[str] = ..., done: _Optional[_Union[SubmitReply, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("code", "message", "retry_after_us")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_US_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    retry_after_us: int
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., retry_after_us: _Optional[int] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class RequestState(_message.Message):
    __slots__ = ("request_id", "application", "progress", "result", "outputs", "fetch_within_us")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    FETCH_WITHIN_US_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    application: str
    progress: _containers.RepeatedCompositeFieldContainer[_model_v1_pb2.StageProgress]
    result: _model_v1_pb2.Result
    outputs: _containers.RepeatedCompositeFieldContainer[StoredOutput]
    fetch_within_us: int
    def __init__(self, request_id: _Optional[str] = ..., application: _Optional[str] = ..., progress: _Optional[_Iterable[_Union[_model_v1_pb2.StageProgress, _Mapping]]] = ..., result: _Optional[_Union[_model_v1_pb2.Result, _Mapping]] = ..., outputs: _Optional[_Iterable[_Union[StoredOutput, _Mapping]]] = ..., fetch_within_us: _Optional[int] = ...) -> None: ...

class StoredOutput(_message.Message):
    __slots__ = ("stage", "bytes")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    stage: str
    bytes: int
    def __init__(self, stage: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class WatchReply(_message.Message):
    __slots__ = ("progress", "result")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    progress: _model_v1_pb2.StageProgress
    result: _model_v1_pb2.Result
    def __init__(self, progress: _Optional[_Union[_model_v1_pb2.StageProgress, _Mapping]] = ..., result: _Optional[_Union[_model_v1_pb2.Result, _Mapping]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class CancelReply(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: bool
    def __init__(self, cancelled: _Optional[bool] = ...) -> None: ...

class WatchMeshRequest(_message.Message):
    __slots__ = ("interval_ms",)
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    interval_ms: int
    def __init__(self, interval_ms: _Optional[int] = ...) -> None: ...
