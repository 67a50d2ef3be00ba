"""The audit log: who changed what, and who was turned away; one JSON line each.

    {"at": ..., "audit": true, "client": "alice", "peer": "ipv4:10.0.0.7:51342",
     "method": "DeleteApplication", "object": "photo", "outcome": "OK"}

Registrations, updates, deletions, reloads of functions and cancellations are written down whatever
comes of them; of all other calls, and of the requests on streams, those that were refused for who
asked (no token that is known, no permission) or for how much (a quota, or overload). The outcome is
the gRPC status. There are no tokens, payloads or words of errors in it.

Refusals cost whoever is refused nothing, and must not fill a disk: they pass token buckets, one for
each origin and one for all. What those hold back is counted, and a line says how much it was.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import grpc

from esg.gateway.access.identity import Identities, address_of
from esg.names import LONGEST_CHOSEN
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.logs import about
from esg.runtime.rpc.wrapping import Handler, Wrapping
from esg.runtime.token_bucket import TokenBuckets

CHANGES = (
    "RegisterApplication",
    "UpdateApplication",
    "DeleteApplication",
    "ReloadFunction",
    "Cancel",
)
REFUSALS = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)

PER_ORIGIN_PER_S, PER_ORIGIN = 1.0, 20
IN_ALL_PER_S, IN_ALL = 10.0, 200
"""How many lines about refusals: in the long run, and at once."""
SUMMARY_S = 60.0
"""How long what was held back may wait until it is said how much it was."""

Tell = Callable[[str, grpc.StatusCode], None]

_SUBJECTS = ("request_id", "application", "id", "model_name", "name", "function")
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class AuditLog:
    """Writes to a logger; `count` is told of every refusal, also of those held back."""

    def __init__(
        self,
        logger: logging.Logger,
        count: Callable[[str], None] = lambda _: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._count = count
        self._buckets = TokenBuckets(clock_s)
        self._held_back: Counter[str] = Counter()
        self._summary: asyncio.TimerHandle | None = None

    def tokens_read(self, outcome: str) -> None:
        """The file with the tokens was read, at the start or because it had changed."""
        self._write("", "", "tokens", "", outcome)

    def ended(self, client: str, peer: str, method: str, what: str, code: grpc.StatusCode) -> None:
        """A call, or a request on a stream, has ended so."""
        refused = code in REFUSALS
        if refused:
            self._count(code.name.lower())
        elif method not in CHANGES:
            return
        if code is grpc.StatusCode.OK or self._may_write(client or address_of(peer)):
            self._write(client, peer, method, what[:LONGEST_CHOSEN], code.name)
            return
        self._held_back[code.name] += 1
        if self._summary is None:
            loop = asyncio.get_running_loop()
            self._summary = loop.call_later(SUMMARY_S, self.summarize)

    def summarize(self) -> None:
        """Say how much was held back."""
        if self._summary is not None:
            self._summary.cancel()
            self._summary = None
        if self._held_back:
            held_back, self._held_back = dict(self._held_back), Counter()
            self._logger.info("audit", extra=about(audit=True, held_back=held_back))

    def close(self) -> None:
        self.summarize()
        for handler in list(self._logger.handlers):
            self._logger.removeHandler(handler)
            handler.close()

    def _may_write(self, origin: str) -> bool:
        take = self._buckets.take
        if take(f"of {origin}", 1, per_s=PER_ORIGIN_PER_S, size=PER_ORIGIN):
            return False
        return not take("all", 1, per_s=IN_ALL_PER_S, size=IN_ALL)

    def _write(self, client: str, peer: str, method: str, what: str, outcome: str) -> None:
        fields = {"client": client, "peer": peer, "method": method, "object": what}
        self._logger.info("audit", extra=about(audit=True, **fields, outcome=outcome))


class AuditInterceptor(Wrapping):
    """Around the calls of some services that were authenticated; for the others see
    `auth_interceptor`."""

    def __init__(self, audit: AuditLog, identities: Identities, services: Sequence[str]) -> None:
        super().__init__()
        self._audit = audit
        self._identities = identities
        self._audited = tuple(f"/{service}/" for service in services)

    def wrapped(self, handler: Handler, method: str) -> Handler:
        if not method.startswith(self._audited):
            return handler
        method = method.rpartition("/")[2]
        asked = "stream" if handler.request_streaming else "unary"
        if handler.response_streaming:
            kind, wrap = f"{asked}_stream", self._generator
        else:
            kind, wrap = f"{asked}_unary", self._coroutine
        return handler._replace(**{kind: wrap(getattr(handler, kind), method)})

    def _coroutine(self, inner: Any, method: str) -> Any:
        async def call(asked: Any, context: Any) -> Any:
            tell = self._teller(method, context)
            try:
                reply = await inner(asked, context)
            except BaseException:
                tell(_object_of(asked), _code_of(context))
                raise
            tell(_object_of(asked), grpc.StatusCode.OK)
            return reply

        return call

    def _generator(self, inner: Any, method: str) -> Any:
        async def call(asked: Any, context: Any) -> AsyncIterator[Any]:
            tell = self._teller(method, context)
            try:
                async with aclosing(inner(asked, context)) as replies:
                    async for reply in replies:
                        if type(reply) is public.ReplyGroup:
                            _tell_refusals(reply, tell)
                        yield reply
            except BaseException:
                tell(_object_of(asked), _code_of(context))
                raise

        return call

    def _teller(self, method: str, context: Any) -> Tell:
        """Says how a call has ended, and what it was about; who made it is known at its start."""
        peer = context.peer()
        return partial(self._audit.ended, self._identities.caller(peer).name, peer, method)


def _tell_refusals(group: public.ReplyGroup, tell: Tell) -> None:
    """On a stream a request is refused by a message."""
    for reply in group.replies:
        if reply.HasField("refusal"):
            tell(reply.request_id, _CODES.get(reply.refusal.code, grpc.StatusCode.UNKNOWN))


def _code_of(context: Any) -> grpc.StatusCode:
    """The status of a call that did not end well; if it was not aborted, its client has gone."""
    code = context.code()
    return code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.CANCELLED


def _object_of(asked: Any) -> str:
    """What a call is about: a request, an application, or a function."""
    if isinstance(asked, public.UpdateApplicationRequest):
        asked = asked.application
    named = (getattr(asked, field, "") for field in _SUBJECTS)
    return next(filter(None, named), "")
