"""What those are told who use a client that is closed, or wait while it is being closed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from esg.runtime.rpc.status import Unavailable


def client_closed() -> Unavailable:
    return Unavailable("this client is closed; make another one")


class Closing:
    """Whether a client is closed."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()
        self._ended: set[asyncio.Task[Any]] = set()

    def begin(self) -> None:
        self._closed.set()
        for task in self._ended:
            task.cancel()

    def ends(self, task: asyncio.Task[Any]) -> None:
        """What is not a call, such as a stream that waits for something to send."""
        self._ended.add(task)
        task.add_done_callback(self._ended.discard)
        if self._closed.is_set():
            task.cancel()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Around every call. gRPC cancels those under way, as if whoever waits had been cancelled,
        and has words of its own for those that come later."""
        if self._closed.is_set():
            raise client_closed()
        try:
            yield
        except (asyncio.CancelledError, grpc.aio.UsageError):
            waiting = asyncio.current_task()
            if not self._closed.is_set() or (waiting is not None and waiting.cancelling()):
                raise
            raise client_closed() from None
