"""Interceptors that put something around handlers: once for each method, not for each call."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

Handler = Any
"""A handler of gRPC's, whose class only its stubs know how to parameterize."""


class Wrapping(grpc.aio.ServerInterceptor):
    """Around the handlers of a server. gRPC asks its interceptors anew for every call; what they
    found the last time is used again, if what they would put something around is still the same."""

    def __init__(self) -> None:
        self._wrapped: dict[str, tuple[Handler, Handler]] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        inner = await continuation(details)
        if inner is None:
            return None
        method = details.method
        known = self._wrapped.get(method)
        if known is None or known[0] is not inner:
            known = self._wrapped[method] = inner, self.wrapped(inner, method)
        return known[1]

    @abstractmethod
    def wrapped(self, handler: Handler, method: str) -> Handler:
        """What to call instead of a handler."""
