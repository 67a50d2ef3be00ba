"""Authentication of calls by bearer token, before anything they send is read."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc

from esg.gateway.access.audit import AuditLog
from esg.gateway.access.identity import Identities
from esg.runtime.rpc.status import Unauthenticated, status
from esg.runtime.rpc.wrapping import Handler


class AuthInterceptor(grpc.aio.ServerInterceptor):
    """For the calls of some services. Health and reflection are for everyone: those who watch over
    a gateway have no token."""

    def __init__(self, identities: Identities, services: Sequence[str], audit: AuditLog) -> None:
        self._identities = identities
        self._audit = audit
        self._guarded = tuple(f"/{service}/" for service in services)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        if details.method.startswith(self._guarded):
            try:
                self._identities.authenticate(details.invocation_metadata)
            except Unauthenticated as error:
                return self._refusing(error, details.method.rpartition("/")[2])
        return await continuation(details)

    def _refusing(self, error: Unauthenticated, method: str) -> Handler:
        async def refuse(messages: AsyncIterator[Any], context: Any) -> None:
            code, words = status(error)
            self._audit.ended("", context.peer(), method, "", code)
            await context.abort(code, words)

        # Whatever kind of call it is: only a stream's handler begins before a message has been read
        return grpc.stream_stream_rpc_method_handler(refuse)
