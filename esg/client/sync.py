"""The client for programs without asyncio: an `AsyncClient` on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from esg.client.aio import AsyncClient
from esg.client.applications import ApplicationInfo, LateRequestsName, PipelineStage
from esg.client.closing import client_closed
from esg.client.credentials import Credentials
from esg.client.results import Progress, RequestState, Result
from esg.client.status import MeshStatus
from esg.client.stream import RequestStream
from esg.core.catalog.late_requests import LateRequests
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY

T = TypeVar("T")
LAST_WORDS_S = 5.0
"""How long those who wait in other threads may take to hear that the client is closed."""


class Client:
    """The same methods as `AsyncClient`, each of which waits. Any thread may call them."""

    def __init__(
        self,
        address: str = DEFAULT_GATEWAY,
        *,
        patience_s: float = 10.0,
        token: str | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="esg", daemon=True)
        self._thread.start()
        try:
            self._client = self._wait(_made(address, patience_s, token, credentials))
        except BaseException:
            self._end_thread()
            raise

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
        """Whoever still waits in another thread gets an error (`Unavailable`)."""
        if self._loop.is_closed():
            return
        self._wait(_closed(self._client))
        self._wait(self._loop.shutdown_asyncgens())
        self._end_thread()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ---- requests

    def submit(
        self,
        application: str,
        payload: bytes,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
        timeout_s: float | None = None,
    ) -> Result:
        return self._wait(
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
        payload: bytes,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
        timeout_s: float | None = None,
    ) -> str:
        return self._wait(
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
        """For many requests; at the end of the block everything has been answered."""
        stream = self._wait(_opened(self._client))
        try:
            yield SyncRequestStream(self._loop, stream)
        except BaseException as error:
            self._at_last(stream.__aexit__(type(error), error, None))
            raise
        self._at_last(stream.__aexit__(None, None, None))

    def get(self, request_id: str, *, timeout_s: float | None = None) -> RequestState:
        return self._wait(self._client.get(request_id, timeout_s=timeout_s))

    def fetch(self, request_id: str, *, timeout_s: float | None = None) -> Result:
        return self._wait(self._client.fetch(request_id, timeout_s=timeout_s))

    def watch(self, request_id: str) -> Iterator[Progress | Result]:
        return self._each(self._client.watch(request_id))

    def cancel(self, request_id: str, *, timeout_s: float | None = None) -> bool:
        return self._wait(self._client.cancel(request_id, timeout_s=timeout_s))

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
        return self._wait(
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
        return self._wait(
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
        return self._wait(self._client.list_applications(timeout_s=timeout_s))

    def describe_application(self, name: str, *, timeout_s: float | None = None) -> ApplicationInfo:
        return self._wait(self._client.describe_application(name, timeout_s=timeout_s))

    def delete_application(self, name: str, *, timeout_s: float | None = None) -> None:
        self._wait(self._client.delete_application(name, timeout_s=timeout_s))

    # ---- the mesh

    def watch_mesh(self, interval_ms: int = 1000) -> Iterator[MeshStatus]:
        return self._each(self._client.watch_mesh(interval_ms))

    # ---- waiting

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = _begun(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while waiting: nothing goes on in the background
            raise

    def _at_last(self, work: Coroutine[Any, Any, None]) -> None:
        """Tidy up, unless the client was closed meanwhile: that has ended everything."""
        if self._loop.is_closed():
            work.close()
        else:
            self._wait(work)

    def _each(self, items: AsyncIterator[T]) -> Iterator[T]:
        ended = object()

        async def following() -> Any:
            return await anext(items, ended)

        async def closing() -> None:
            await items.aclose()  # type: ignore[attr-defined] # all of ours are generators

        try:
            while (item := self._wait(following())) is not ended:
                yield item
        finally:
            self._at_last(closing())


class SyncRequestStream:
    """`RequestStream` for threads: answers are `concurrent.futures.Future`s."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: RequestStream) -> None:
        self._loop = loop
        self._stream = stream

    def submit(
        self,
        application: str,
        payload: bytes,
        *,
        slo_ms: float | None = None,
        request_id: str | None = None,
        all_stages: bool = False,
    ) -> "Future[Result]":
        async def answer() -> Result:
            return await self._stream.submit(
                application,
                payload,
                slo_ms=slo_ms,
                request_id=request_id,
                all_stages=all_stages,
            )

        return _begun(answer(), self._loop)


def _begun(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> "Future[T]":
    try:
        return asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:  # the loop is closed, perhaps by another thread just now
        work.close()
        raise client_closed() from None


async def _closed(client: AsyncClient) -> None:
    """Close it, and let all who wait hear that before their loop ends."""
    await client.close()
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    if waiting:
        _, late = await asyncio.wait(waiting, timeout=LAST_WORDS_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _made(
    address: str, patience_s: float, token: str | None, credentials: Credentials | None
) -> AsyncClient:
    # gRPC wants the loop to be running
    return AsyncClient(address, patience_s=patience_s, token=token, credentials=credentials)


async def _opened(client: AsyncClient) -> RequestStream:
    return await client.stream().__aenter__()
