"""The Python client of the mesh.

    from esg.client import Client

    with Client("127.0.0.1:50051") as mesh:
        result = mesh.submit("image-classification", picture, slo_ms=600).raise_for_outcome()
        print(result.slo_met, result.latency_ms, result.outputs)

Everything that it raises is a `ClientError`; `esg.client.errors` lists the kinds.

Where the gateway wants to know who calls: `Client(address, token=...)`, or ESG_TOKEN in the
environment; for TLS see `Credentials`.

`AsyncClient` is the same for asyncio, with a coroutine for each method.
"""

from esg.client.aio import AsyncClient
from esg.client.applications import ApplicationInfo, PipelineStage
from esg.client.credentials import Credentials
from esg.client.errors import ClientError, Misconfigured, NoGateway, NotTrusted
from esg.client.results import (
    Progress,
    RequestCancelled,
    RequestDropped,
    RequestFailed,
    RequestState,
    Result,
    StageResult,
)
from esg.client.status import (
    ApplicationStatus,
    KindStatus,
    MeshStatus,
    NodeStatus,
    ProfileStatus,
    QueueStatus,
    SliceStatus,
)
from esg.client.stream import RequestStream, SyncRequestStream
from esg.client.sync import Client
from esg.core.catalog.config import Config
from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.ports import Port
from esg.core.messages.outcome import Outcome
from esg.runtime.rpc.status import (
    AlreadyExists,
    Cancelled,
    DeadlineExceeded,
    Exhausted,
    FailedPrecondition,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServerError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)

__all__ = [
    # The two ways in
    "AsyncClient",
    "Client",
    "Credentials",
    "RequestStream",
    "SyncRequestStream",
    # What they take and give
    "ApplicationInfo",
    "Config",
    "LateRequests",
    "Outcome",
    "Progress",
    "Result",
    "PipelineStage",
    "Port",
    "StageResult",
    "RequestState",
    # The mesh at one moment
    "ApplicationStatus",
    "MeshStatus",
    "NodeStatus",
    "KindStatus",
    "ProfileStatus",
    "QueueStatus",
    "SliceStatus",
    # What they raise
    "AlreadyExists",
    "Cancelled",
    "ClientError",
    "DeadlineExceeded",
    "Exhausted",
    "FailedPrecondition",
    "Forbidden",
    "InvalidRequest",
    "Misconfigured",
    "NoGateway",
    "NotFound",
    "NotTrusted",
    "RequestCancelled",
    "RequestDropped",
    "RequestFailed",
    "ServerError",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
]
