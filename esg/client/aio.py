"""The client for asyncio: one method for each thing the mesh does.

Whatever is submitted has an idempotency key, its request id, made here if none is given; what
cannot be done just now is tried again under the same id, so that a retry never runs twice.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

import grpc

from esg.client.applications import (
    ApplicationInfo,
    LateRequestsName,
    PipelineStage,
    application_of,
    definition,
)
from esg.client.calls import Calls
from esg.client.credentials import Credentials, authorized
from esg.client.errors import ClientError, call_error
from esg.client.results import Progress, RequestState, Result, progress_of, result_of
from esg.client.status import MeshStatus, status_of
from esg.client.stream import RequestStream
from esg.client.submission import SubmitOptions, given_or_new
from esg.core.catalog.late_requests import LateRequests
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import ServerError, Unavailable
from esg.runtime.security.plain import FOR_CLIENTS


class AsyncClient:
    """A connection to a gateway. Use it with `async with`, or `close` it.

    `patience_s` is how long a call without a timeout of its own is tried again while the mesh is
    unavailable; 0: not at all. Without `credentials`, they are as the environment says; `token` is
    for those who only need one.
    """

    def __init__(
        self,
        address: str = DEFAULT_GATEWAY,
        *,
        patience_s: float = 10.0,
        token: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.address = address
        shown = credentials or Credentials.from_environment()
        if token is not None:
            shown = replace(shown, token=token)
        self._channel = channel(address, shown.security(), advice=FOR_CLIENTS)
        stub = authorized(public_grpc.PipelinesStub(self._channel), shown)
        self._calls = Calls(stub, address, patience_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the channel; calls that still wait for an answer end with `Unavailable`."""
        self._calls.closing.begin()
        await self._channel.close()

    # ---- requests

    async def submit(
        self,
        application: str,
        payload: bytes,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
        timeout_s: float | None = None,
    ) -> Result:
        """Run a pipeline and wait for its result, which may be that it failed (see `Result`).

        Its outputs are those of the last stages, or with `all_stages` those of all. A timeout
        shorter than the SLO becomes the SLO. If the waiting is cancelled, so is the request.
        """
        options = SubmitOptions(
            request_id=given_or_new(request_id),
            slo_ms=slo_ms,
            all_stages=all_stages,
            timeout_s=timeout_s,
        )
        return await self._calls.submit(application, payload, options)

    async def submit_async(
        self,
        application: str,
        payload: bytes,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
        timeout_s: float | None = None,
    ) -> str:
        """Have a request accepted, and do not wait for its result: its id, for `fetch`."""
        options = SubmitOptions(
            request_id=given_or_new(request_id),
            slo_ms=slo_ms,
            all_stages=all_stages,
            timeout_s=timeout_s,
        )
        return await self._calls.submit_async(application, payload, options)

    def stream(self) -> RequestStream:
        """For many requests: `async with client.stream() as stream: stream.submit(...)`."""
        with self._calls.closing.told():
            return RequestStream(self._calls)

    async def get(self, request_id: str, *, timeout_s: float | None = None) -> RequestState:
        """What has become of a request; does not wait for it."""
        asked = public.GetRequest(request_id=request_id)
        told: public.RequestState = await self._calls.unary("Get", asked, timeout_s)
        return RequestState(
            request_id=told.request_id,
            application=told.application,
            progress=tuple(progress_of(progress) for progress in told.progress),
            result=result_of(told.result) if told.HasField("result") else None,
        )

    async def fetch(self, request_id: str, *, timeout_s: float | None = None) -> Result:
        """Wait for a request's result and get its outputs. They can be fetched once."""
        return await self._calls.fetch(request_id, timeout_s)

    async def watch(self, request_id: str) -> AsyncIterator[Progress | Result]:
        """Every stage as it begins and ends, those in the past too; the result (without outputs)
        comes last."""
        asked = public.WatchRequest(request_id=request_id)
        patience = self._calls.patience()
        told: set[tuple[str, str, bool]] = set()
        while True:
            with self._calls.closing.told():
                call = self._calls.stub.Watch(asked)
            try:
                with self._calls.closing.told():
                    async for reply in call:
                        patience.succeeded()
                        if reply.HasField("result"):
                            yield result_of(reply.result)
                            return
                        progress = progress_of(reply.progress)
                        key = (progress.stage, progress.task, progress.finished)
                        if key not in told:
                            told.add(key)
                            yield progress
                error: ClientError = ServerError("the gateway ended the stream without a result")
            except grpc.aio.AioRpcError as failed:
                error = call_error(failed, self.address)
            finally:
                call.cancel()
            pause_s = patience.pause_s() if isinstance(error, Unavailable) else None
            if pause_s is None:
                raise error
            await asyncio.sleep(pause_s)

    async def cancel(self, request_id: str, *, timeout_s: float | None = None) -> bool:
        """Whether it was cancelled; false if it had ended before."""
        asked = public.CancelRequest(request_id=request_id)
        reply: public.CancelReply = await self._calls.unary("Cancel", asked, timeout_s)
        return reply.cancelled

    # ---- applications

    async def register_application(
        self,
        name: str,
        stages: Sequence[PipelineStage],
        *,
        slo_ms: float | None = None,
        slo_scale: float | None = None,
        late_requests: LateRequests | LateRequestsName = LateRequests.FINISH,
        timeout_s: float | None = None,
    ) -> ApplicationInfo:
        """Add an application. Its SLO is a time, or a multiple of its time alone; 1 by default."""
        asked = definition(name, stages, slo_ms, slo_scale, late_requests)
        return application_of(await self._calls.unary("RegisterApplication", asked, timeout_s))

    async def update_application(
        self,
        name: str,
        stages: Sequence[PipelineStage],
        *,
        slo_ms: float | None = None,
        slo_scale: float | None = None,
        late_requests: LateRequests | LateRequestsName = LateRequests.FINISH,
        timeout_s: float | None = None,
    ) -> ApplicationInfo:
        """Replace an application; requests under way go on with the version they began with."""
        asked = public.UpdateApplicationRequest(
            application=definition(name, stages, slo_ms, slo_scale, late_requests)
        )
        return application_of(await self._calls.unary("UpdateApplication", asked, timeout_s))

    async def list_applications(self, *, timeout_s: float | None = None) -> list[ApplicationInfo]:
        asked = public.ListApplicationsRequest()
        told = await self._calls.unary("ListApplications", asked, timeout_s)
        return [application_of(application) for application in told.applications]

    async def describe_application(
        self, name: str, *, timeout_s: float | None = None
    ) -> ApplicationInfo:
        asked = public.DescribeApplicationRequest(name=name)
        return application_of(await self._calls.unary("DescribeApplication", asked, timeout_s))

    async def delete_application(self, name: str, *, timeout_s: float | None = None) -> None:
        """Take no more requests for it; those under way are answered."""
        asked = public.DeleteApplicationRequest(name=name)
        await self._calls.unary("DeleteApplication", asked, timeout_s)

    # ---- the mesh

    async def watch_mesh(self, interval_ms: int = 1000) -> AsyncIterator[MeshStatus]:
        """The state of the mesh, every so often. With 0: once."""
        with self._calls.closing.told():
            call = self._calls.stub.WatchMesh(public.WatchMeshRequest(interval_ms=interval_ms))
        try:
            with self._calls.closing.told():
                async for status in call:
                    yield status_of(status)
        except grpc.aio.AioRpcError as failed:
            raise call_error(failed, self.address) from None
        finally:
            call.cancel()
