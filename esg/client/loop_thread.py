"""An event loop in a thread of its own, for programs that wait in other threads."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from esg.client.closing import client_closed

T = TypeVar("T")


class LoopThread:
    """The loop of one client. Any thread may call its methods."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="esg", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._loop.is_closed()

    def begin(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start some work without waiting for it."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed, perhaps by another thread just now
            work.close()
            raise client_closed() from None

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while waiting: nothing goes on in the background
            raise

    def at_last(self, work: Coroutine[Any, Any, None]) -> None:
        """Tidy up, unless the client was closed meanwhile: that has ended everything."""
        if self.ended:
            work.close()
        else:
            self.wait(work)

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """One item after the other, each waited for."""
        over = object()

        async def following() -> Any:
            return await anext(items, over)

        async def closing() -> None:
            await items.aclose()  # type: ignore[attr-defined] # all of ours are generators

        try:
            while (item := self.wait(following())) is not over:
                yield item
        finally:
            self.at_last(closing())

    def end(self) -> None:
        """Stop the loop. What still runs in it is not waited for."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
