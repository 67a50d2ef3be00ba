"""The client for programs without asyncio: an `AsyncClient` on a loop in a thread of its own.

Its methods are written out, with the docstrings of `AsyncClient`, so that editors can show them;
tests/unit/client keeps the two alike.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from esg.client.aio import AsyncClient
from esg.client.applications import ApplicationInfo, LateRequestsName, PipelineStage
from esg.client.credentials import Credentials
from esg.client.loop_thread import LoopThread
from esg.client.payloads import Payload
from esg.client.results import Progress, RequestState, Result
from esg.client.status import MeshStatus
from esg.client.stream import RequestStream, SyncRequestStream
from esg.core.catalog.late_requests import LateRequests

LAST_WORDS_S = 5.0
"""How long those who wait in other threads may take to hear that the client is closed."""


class Client:
    """A connection to a gateway. Use it with `with`, or `close` it; any thread may call it.

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
        async def made() -> AsyncClient:  # gRPC wants the loop to be running
            return AsyncClient(address, patience_s=patience_s, token=token, credentials=credentials)

        self._loop = LoopThread()
        try:
            self._client = self._loop.wait(made())
        except BaseException:
            self._loop.end()
            raise

    @property
    def address(self) -> str:
        """The gateway that calls go to now."""
        return self._client.address

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the client; calls that still wait for an answer end with `Unavailable`."""
        if not self._loop.ended:
            self._loop.wait(_closed(self._client))
            self._loop.end()

    # ---- requests

    def submit(
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
        return self._loop.wait(
            self._client.submit(
                application,
                payload,
                slo_ms=slo_ms,
                request_id=request_id,
                all_stages=all_stages,
                timeout_s=timeout_s,
            )
        )

    def submit_async(
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
        return self._loop.wait(
            self._client.submit_async(
                application,
                payload,
                slo_ms=slo_ms,
                request_id=request_id,
                all_stages=all_stages,
                timeout_s=timeout_s,
            )
        )

    @contextmanager
    def stream(self) -> Iterator["SyncRequestStream"]:
        """Many requests over one stream: the cheap way to send thousands.

        Use it with `with` (`async with` for `AsyncClient`) and call its `submit`, which gives a
        future for each request. At the end of the block everything has been answered.
        """
        stream = self._loop.wait(_opened(self._client))
        try:
            yield SyncRequestStream(self._loop, stream)
        except BaseException as error:
            self._loop.at_last(stream.__aexit__(type(error), error, None))
            raise
        self._loop.at_last(stream.__aexit__(None, None, None))

    def get(self, request_id: str, *, timeout_s: float | None = None) -> RequestState:
        """Tell what has become of a request, without waiting for it.

        Args:
            request_id: As `submit_async` gave it.
            timeout_s: Longest time to wait for the answer, in seconds.

        Raises:
            NotFound: There is no such request, or it ended too long ago.
        """
        return self._loop.wait(self._client.get(request_id, timeout_s=timeout_s))

    def fetch(self, request_id: str, *, timeout_s: float | None = None) -> Result:
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
        return self._loop.wait(self._client.fetch(request_id, timeout_s=timeout_s))

    def watch(self, request_id: str) -> Iterator[Progress | Result]:
        """Follow a request: every stage as it begins and ends, those in the past too, then its
        result, without outputs (`fetch` has them).

        Args:
            request_id: As `submit_async` gave it.
        """
        return self._loop.each(self._client.watch(request_id))

    def cancel(self, request_id: str, *, timeout_s: float | None = None) -> bool:
        """Cancel a request. Gives True if it was cancelled, False if it had ended before.

        Args:
            request_id: As given to `submit`, or by `submit_async`.
            timeout_s: Longest time to wait for the answer, in seconds.
        """
        return self._loop.wait(self._client.cancel(request_id, timeout_s=timeout_s))

    # ---- applications

    def register_application(
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
        return self._loop.wait(
            self._client.register_application(
                name,
                stages,
                slo_ms=slo_ms,
                slo_scale=slo_scale,
                late_requests=late_requests,
                timeout_s=timeout_s,
            )
        )

    def update_application(
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
        return self._loop.wait(
            self._client.update_application(
                name,
                stages,
                slo_ms=slo_ms,
                slo_scale=slo_scale,
                late_requests=late_requests,
                timeout_s=timeout_s,
            )
        )

    def list_applications(self, *, timeout_s: float | None = None) -> list[ApplicationInfo]:
        """List the applications that this client can submit to.

        Args:
            timeout_s: Longest time to wait for the answer, in seconds.
        """
        return self._loop.wait(self._client.list_applications(timeout_s=timeout_s))

    def describe_application(self, name: str, *, timeout_s: float | None = None) -> ApplicationInfo:
        """Describe one application: its stages, SLO and version.

        Args:
            name: As `list_applications` tells it.
            timeout_s: Longest time to wait for the answer, in seconds.

        Raises:
            NotFound: There is no such application.
        """
        return self._loop.wait(self._client.describe_application(name, timeout_s=timeout_s))

    def delete_application(self, name: str, *, timeout_s: float | None = None) -> None:
        """Remove an application; requests under way are answered, new ones are not taken.

        Args:
            name: As `list_applications` tells it.
            timeout_s: Longest time to wait for the answer, in seconds.

        Raises:
            NotFound: There is no such application.
            Forbidden: It is everybody's, and not this client's to change.
        """
        self._loop.wait(self._client.delete_application(name, timeout_s=timeout_s))

    # ---- the mesh

    def reload_function(self, function: str, *, timeout_s: float | None = None) -> dict[str, str]:
        """Have every node run a function with the handler and model that are on its disk now.

        Gives, by node, why it goes on with the old ones; empty where it was reloaded.

        Args:
            function: Its name in the catalog.
            timeout_s: Longest time to wait, in seconds; nodes go on with it afterwards.

        Raises:
            NotFound: There is no such function.
            Forbidden: This client is no operator.
        """
        return self._loop.wait(self._client.reload_function(function, timeout_s=timeout_s))

    def watch_mesh(self, interval_ms: int = 1000) -> Iterator[MeshStatus]:
        """Watch the state of the mesh: queues, nodes, applications, counts.

        Args:
            interval_ms: Milliseconds between two looks; 0: one look, then it ends.
        """
        return self._loop.each(self._client.watch_mesh(interval_ms))


async def _closed(client: AsyncClient) -> None:
    """Close it, and let all who wait hear that before their loop ends."""
    await client.close()
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=LAST_WORDS_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


async def _opened(client: AsyncClient) -> RequestStream:
    return await client.stream().__aenter__()
