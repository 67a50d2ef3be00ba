"""The client for asyncio: one method for each thing the mesh does.

Whatever is submitted has an idempotency key, its request id, made here if none is given; what
cannot be done just now is tried again under the same id, so that a retry never runs twice.
"""

import asyncio
import os
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
from esg.client.credentials import GATEWAY, Credentials
from esg.client.errors import ClientError, refused_as_misconfigured
from esg.client.gateways import Gateways
from esg.client.payloads import Payload, sent
from esg.client.results import Progress, RequestState, Result, news_of, state_of
from esg.client.status import MeshStatus, status_of
from esg.client.stream import RequestStream
from esg.client.submission import SubmitOptions, given_or_new
from esg.core.catalog.late_requests import LateRequests
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from esg.runtime.rpc.status import ServerError, Unavailable


class AsyncClient:
    """A connection to a gateway for asyncio. Use it with `async with`, or `close` it.

    Args:
        address: The gateway's, as host:port; ESG_GATEWAY by default, or 127.0.0.1:50051. Of a mesh
            with several gateways, a list, or one text with commas: when one is not available, the
            next is used.
        patience_s: How long a call without a timeout of its own is tried again while the mesh is
            unavailable, in seconds; 0: not at all.
        token: As `esg tokens add` printed it; ESG_TOKEN by default.
        credentials: A token and files for TLS; as the environment says by default.

    Raises:
        Misconfigured: The address, the token or the files for TLS cannot be used.
    """

    def __init__(
        self,
        address: str | Sequence[str] | None = None,
        *,
        patience_s: float = 10.0,
        token: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        if address is None:
            address = os.environ.get(GATEWAY) or DEFAULT_GATEWAY
        shown = credentials or Credentials.from_environment()
        if token is not None:
            shown = replace(shown, token=token)
        with refused_as_misconfigured():
            gateways = Gateways(address, shown)
        self._calls = Calls(gateways, patience_s)

    @property
    def address(self) -> str:
        """The gateway that calls go to now."""
        return self._calls.gateways.current.address

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
        """Close the client; calls that still wait for an answer end with `Unavailable`."""
        self._calls.closing.begin()
        await self._calls.gateways.close()

    # ---- requests

    async def submit(
        self,
        application: str,
        payload: Payload,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
        timeout_s: float | None = None,
    ) -> Result:
        """Run a pipeline and wait for its result.

        A request that failed, was dropped or cancelled is returned, too: see `Result.ok` and
        `Result.raise_for_outcome`. If the waiting is broken off, the request is cancelled.

        Args:
            application: Its name, as `list_applications` tells it.
            payload: The bytes that the first stage reads, the content of a picture's file, say; or
                a numpy array, or a mapping from the names of inputs to bytes, arrays and JSON.
            slo_ms: Deadline in milliseconds after its arrival; the application's by default.
            request_id: Idempotency key: sent again under the same id, a request runs once. Up to
                100 letters, digits and any of - _ . : and made up by default.
            all_stages: Give the outputs of all stages, not only those of the last ones.
            timeout_s: Longest time to wait, in seconds; if it is shorter than the SLO, it becomes
                the SLO. By default there is no limit.

        Raises:
            NotFound: There is no such application.
            InvalidRequest: The payload is empty or has other inputs than the application, or no
                config can meet the SLO.
            TooLarge: The gateway never accepts a payload of that size.
            Exhausted: A limit is reached for now; see its `retry_after_s`.
            AlreadyExists: The request id was used for other content.
            Unavailable: The mesh could not be reached, or not do it, within the patience.
            DeadlineExceeded: `timeout_s` is over.
        """
        content, in_parts = sent(payload)
        options = SubmitOptions(
            request_id=given_or_new(request_id),
            slo_ms=slo_ms,
            all_stages=all_stages,
            timeout_s=timeout_s,
            in_parts=in_parts,
        )
        return await self._calls.submit(application, content, options)

    async def submit_async(
        self,
        application: str,
        payload: Payload,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
        timeout_s: float | None = None,
    ) -> str:
        """Have a request accepted without waiting for its result; gives its id.

        `watch` and `get` tell how it goes, `fetch` waits for its result and outputs, `cancel`
        stops it. Result and outputs are kept for ten minutes after its end, or as long as the
        mesh's setting `remembered_s` says; `RequestState.fetch_within_s` tells.

        Args:
            application: Its name, as `list_applications` tells it.
            payload: The bytes that the first stage reads, the content of a picture's file, say; or
                a numpy array, or a mapping from the names of inputs to bytes, arrays and JSON.
            slo_ms: Deadline in milliseconds after its arrival; the application's by default.
            request_id: Idempotency key: sent again under the same id, a request runs once. Up to
                100 letters, digits and any of - _ . : and made up by default.
            all_stages: Give the outputs of all stages, not only those of the last ones.
            timeout_s: Longest time to wait until it is accepted, in seconds.

        Raises what `submit` raises.
        """
        content, in_parts = sent(payload)
        options = SubmitOptions(
            request_id=given_or_new(request_id),
            slo_ms=slo_ms,
            all_stages=all_stages,
            timeout_s=timeout_s,
            in_parts=in_parts,
        )
        return await self._calls.submit_async(application, content, options)

    def stream(self) -> RequestStream:
        """Many requests over one stream: the cheap way to send thousands.

        Use it with `with` (`async with` for `AsyncClient`) and call its `submit`, which gives a
        future for each request. At the end of the block everything has been answered.
        """
        with self._calls.closing.told():
            return RequestStream(self._calls)

    async def get(self, request_id: str, *, timeout_s: float | None = None) -> RequestState:
        """Tell what has become of a request, without waiting for it.

        Args:
            request_id: As `submit_async` gave it.
            timeout_s: Longest time to wait for the answer, in seconds.

        Raises:
            NotFound: There is no such request, or it ended too long ago.
        """
        asked = public.GetRequest(request_id=request_id)
        told: public.RequestState = await self._calls.unary("Get", asked, timeout_s)
        return state_of(told)

    async def fetch(self, request_id: str, *, timeout_s: float | None = None) -> Result:
        """Wait for a request's result and get its outputs.

        Those of `submit_async` can be fetched as often as wanted, by any client that may see the
        request, until they expire (see there); those of `submit` are deleted with its answer.

        Args:
            request_id: As `submit_async` gave it.
            timeout_s: Longest time to wait, in seconds.

        Raises:
            NotFound: There is no such request, or its outputs are gone.
            DeadlineExceeded: `timeout_s` is over, and the request goes on.
        """
        return await self._calls.fetch(request_id, timeout_s)

    async def watch(self, request_id: str) -> AsyncIterator[Progress | Result]:
        """Follow a request: every stage as it begins and ends, those in the past too, then its
        result, without outputs (`fetch` has them).

        Args:
            request_id: As `submit_async` gave it.
        """
        asked = public.WatchRequest(request_id=request_id)
        patience = self._calls.patience()
        told: set[tuple[str, str, bool]] = set()
        while True:
            gateway = self._calls.gateways.current
            with self._calls.closing.told():
                call = gateway.stub.Watch(asked)
            try:
                with self._calls.closing.told():
                    async for reply in call:
                        patience.succeeded()
                        news = news_of(reply)
                        if isinstance(news, Result):
                            yield news
                            return
                        key = (news.stage, news.task, news.finished)
                        if key not in told:
                            told.add(key)
                            yield news
                error: ClientError = ServerError("the gateway ended the stream without a result")
            except grpc.aio.AioRpcError as failed:
                error = self._calls.failed(failed, gateway)
            finally:
                call.cancel()
            pause_s = patience.pause_s() if isinstance(error, Unavailable) else None
            if pause_s is None:
                raise error
            await asyncio.sleep(pause_s)

    async def cancel(self, request_id: str, *, timeout_s: float | None = None) -> bool:
        """Cancel a request. Gives True if it was cancelled, False if it had ended before.

        Args:
            request_id: As given to `submit`, or by `submit_async`.
            timeout_s: Longest time to wait for the answer, in seconds.
        """
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
        """Add an application to the running mesh, made of functions of its catalog.

        Args:
            name: What `submit` is to call it.
            stages: Its DAG; `[PipelineStage("a"), PipelineStage("b", after=("a",))]` is a chain.
            slo_ms: Deadline of its requests in milliseconds; or give `slo_scale`.
            slo_scale: The same as a multiple of its time alone at the minimum config; 1 by default.
            late_requests: What becomes of requests that will be late: "finish" or "drop".
            timeout_s: Longest time to wait for the answer, in seconds.

        Raises:
            AlreadyExists: There is one of that name; see `update_application`.
            InvalidRequest: A malformed DAG, an unknown function, an SLO that no config can meet.
        """
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
        """Replace an application; requests under way go on with the version they began with.

        Args:
            name: What `submit` is to call it.
            stages: Its DAG; `[PipelineStage("a"), PipelineStage("b", after=("a",))]` is a chain.
            slo_ms: Deadline of its requests in milliseconds; or give `slo_scale`.
            slo_scale: The same as a multiple of its time alone at the minimum config; 1 by default.
            late_requests: What becomes of requests that will be late: "finish" or "drop".
            timeout_s: Longest time to wait for the answer, in seconds.

        Raises:
            NotFound: There is no such application.
            Forbidden: It is everybody's, and not this client's to change.
            InvalidRequest: A malformed DAG, an unknown function, an SLO that no config can meet.
        """
        asked = public.UpdateApplicationRequest(
            application=definition(name, stages, slo_ms, slo_scale, late_requests)
        )
        return application_of(await self._calls.unary("UpdateApplication", asked, timeout_s))

    async def list_applications(self, *, timeout_s: float | None = None) -> list[ApplicationInfo]:
        """List the applications that this client can submit to.

        Args:
            timeout_s: Longest time to wait for the answer, in seconds.
        """
        asked = public.ListApplicationsRequest()
        told = await self._calls.unary("ListApplications", asked, timeout_s)
        return [application_of(application) for application in told.applications]

    async def describe_application(
        self, name: str, *, timeout_s: float | None = None
    ) -> ApplicationInfo:
        """Describe one application: its stages, SLO and version.

        Args:
            name: As `list_applications` tells it.
            timeout_s: Longest time to wait for the answer, in seconds.

        Raises:
            NotFound: There is no such application.
        """
        asked = public.DescribeApplicationRequest(name=name)
        return application_of(await self._calls.unary("DescribeApplication", asked, timeout_s))

    async def delete_application(self, name: str, *, timeout_s: float | None = None) -> None:
        """Remove an application; requests under way are answered, new ones are not taken.

        Args:
            name: As `list_applications` tells it.
            timeout_s: Longest time to wait for the answer, in seconds.

        Raises:
            NotFound: There is no such application.
            Forbidden: It is everybody's, and not this client's to change.
        """
        asked = public.DeleteApplicationRequest(name=name)
        await self._calls.unary("DeleteApplication", asked, timeout_s)

    # ---- the mesh

    async def reload_function(
        self, function: str, *, timeout_s: float | None = None
    ) -> dict[str, str]:
        """Have every node run a function with the handler and model that are on its disk now.

        Gives, by node, why it goes on with the old ones; empty where it was reloaded.

        Args:
            function: Its name in the catalog.
            timeout_s: Longest time to wait, in seconds; nodes go on with it afterwards.

        Raises:
            NotFound: There is no such function.
            Forbidden: This client is no operator.
        """
        asked = public.ReloadFunctionRequest(function=function)
        told = await self._calls.unary("ReloadFunction", asked, timeout_s)
        return {node.node: node.failure for node in told.nodes}

    async def watch_mesh(self, interval_ms: int = 1000) -> AsyncIterator[MeshStatus]:
        """Watch the state of the mesh: queues, nodes, applications, counts.

        Args:
            interval_ms: Milliseconds between two looks; 0: one look, then it ends.
        """
        asked = public.WatchMeshRequest(interval_ms=interval_ms)
        untried = len(self._calls.gateways)
        while True:
            gateway = self._calls.gateways.current
            with self._calls.closing.told():
                call = gateway.stub.WatchMesh(asked)
            try:
                with self._calls.closing.told():
                    async for status in call:
                        untried = len(self._calls.gateways)
                        yield status_of(status)
                return
            except grpc.aio.AioRpcError as failed:
                error = self._calls.failed(failed, gateway)
                untried -= 1
                if not untried or not isinstance(error, Unavailable):
                    raise error from None
            finally:
                call.cancel()
