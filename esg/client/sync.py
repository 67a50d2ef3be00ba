"""The client for programs without asyncio: an `AsyncClient` on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from esg.client.aio import AsyncClient
from esg.client.closing import client_closed
from esg.client.credentials import Credentials
from esg.client.results import Progress, Result
from esg.client.status import MeshStatus
from esg.client.stream import RequestStream
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY

P = ParamSpec("P")
T = TypeVar("T")
LAST_WORDS_S = 5.0
"""How long those who wait in other threads may take to hear that the client is closed."""


def _waiting(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Client", P], T]:
    """A method of `AsyncClient`, with its types and its docstring, that waits."""

    @wraps(method)
    def wait(client: "Client", /, *args: P.args, **named: P.kwargs) -> T:
        return client._wait(method(client._client, *args, **named))

    return wait


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
        async def made() -> AsyncClient:  # gRPC wants the loop to be running
            return AsyncClient(address, patience_s=patience_s, token=token, credentials=credentials)

        self.address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="esg", daemon=True)
        self._thread.start()
        try:
            self._client = self._wait(made())
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
        """Close the client; calls that still wait in other threads end with `Unavailable`."""
        if self._loop.is_closed():
            return
        self._wait(_closed(self._client))
        self._wait(self._loop.shutdown_asyncgens())
        self._end_thread()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    submit = _waiting(AsyncClient.submit)
    submit_async = _waiting(AsyncClient.submit_async)
    get = _waiting(AsyncClient.get)
    fetch = _waiting(AsyncClient.fetch)
    cancel = _waiting(AsyncClient.cancel)
    register_application = _waiting(AsyncClient.register_application)
    update_application = _waiting(AsyncClient.update_application)
    list_applications = _waiting(AsyncClient.list_applications)
    describe_application = _waiting(AsyncClient.describe_application)
    delete_application = _waiting(AsyncClient.delete_application)

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

    def watch(self, request_id: str) -> Iterator[Progress | Result]:
        return self._each(self._client.watch(request_id))

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
                application, payload, slo_ms=slo_ms, request_id=request_id, all_stages=all_stages
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


async def _opened(client: AsyncClient) -> RequestStream:
    return await client.stream().__aenter__()
