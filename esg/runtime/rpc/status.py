"""Errors as gRPC status codes: the one table, for services that raise and clients that read them.

A service raises what it means, and `status` says it on the wire; `error_of` is the same error on
the other side. Whoever is to blame is in the type: `Rejected` and its kinds are the caller's doing,
`Fault` and its kinds the world's, anything else is a bug of the service.

Words that were chosen for a caller (`Rejected`, `CallError`) are passed on. Other faults, and bugs,
were described for whoever runs the mesh, with addresses and paths: `published` has general words
instead, and the id of an incident under which the log has the others.
"""

import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import grpc

from esg.errors import Fault, Rejected
from esg.runtime.logs import about
from esg.runtime.redaction import redacted
from esg.units import US_PER_MS, US_PER_S

log = logging.getLogger(__name__)

RETRY_AFTER = "retry-after-ms"
"""The trailing metadata of a call that may be worth trying again after so many milliseconds."""

LONGEST_TEXT = 2000
BUG = "this is a bug of ours; the service's log has its story"


class CallError(Exception):
    """Something that was asked of a service was not done."""


class InvalidRequest(CallError, Rejected):
    """What was asked for cannot be."""


class NotFound(CallError, Rejected):
    """There is nothing of that name: no such application or request."""


class AlreadyExists(CallError, Rejected):
    """The name is taken, or the request id was used for something else."""


class Unauthenticated(CallError, Rejected):
    """Who asks is not known: no token, or none that is known."""


class Forbidden(CallError, Rejected):
    """Who asks is known, and may not."""


class TooLarge(CallError, Rejected):
    """The payload is larger than is ever accepted; no retry will do, a smaller one will."""


class Exhausted(CallError, Rejected):
    """A limit, reached for now: requests under way, requests per second, bytes per day; or more
    requests than can be done in time. Fewer or later will do; if it is known when, then after
    `retry_after_s`."""

    def __init__(self, message: str, retry_after_us: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_us = retry_after_us

    @property
    def retry_after_s(self) -> float | None:
        """After how many seconds it may be worth trying again; None: that is not known."""
        return None if self.retry_after_us is None else self.retry_after_us / US_PER_S


class FailedPrecondition(CallError, Fault):
    """The mesh is not set up for it, and no retry cures that; whoever runs the mesh can."""


class Unavailable(CallError, Fault):
    """It cannot be done now; the same again may work."""


class DeadlineExceeded(CallError, Fault):
    """The time that the call was given is over."""


class Cancelled(CallError, Fault):
    """The call was broken off."""


class ServerError(CallError, Fault):
    """The mesh failed in a way that it should not."""


class Misconfigured(Fault):
    """What the mesh stands on does not do what is needed, however often it is asked."""

    public = "the mesh is not set up for this, and trying again is no use; ask whoever runs it"


_CODES: dict[type[Exception], grpc.StatusCode] = {
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    TooLarge: grpc.StatusCode.OUT_OF_RANGE,
    Exhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    FailedPrecondition: grpc.StatusCode.FAILED_PRECONDITION,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    Cancelled: grpc.StatusCode.CANCELLED,
    ServerError: grpc.StatusCode.INTERNAL,
    # What is raised where nobody thinks of calls
    Rejected: grpc.StatusCode.INVALID_ARGUMENT,
    Fault: grpc.StatusCode.UNAVAILABLE,
    Misconfigured: grpc.StatusCode.FAILED_PRECONDITION,
}
_ERRORS = {code.value[0]: kind for kind, code in _CODES.items() if issubclass(kind, CallError)}


def clipped(text: str) -> str:
    """Words that somebody else chose, at a length that fits into a status and a log.

    >>> clipped("short"), len(clipped("x" * 5000))
    ('short', 2000)
    """
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def status(error: Exception) -> tuple[grpc.StatusCode, str]:
    """The code and the words for an error, as they are; see `published`."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind], clipped(str(error))
    return grpc.StatusCode.INTERNAL, BUG


def published(error: Exception, **fields: Any) -> Exception:
    """An error in words for the public. What those leave out is logged, with these fields."""
    if isinstance(error, Rejected):
        return error
    if isinstance(error, CallError):
        words = redacted(str(error))
        return error if words == str(error) else error_of(status(error)[0].value[0], words)
    incident = secrets.token_hex(4)
    if isinstance(error, Fault):
        words, fields["reason"] = error.public, str(error)
        log.warning("call failed", extra=about(incident=incident, **fields))
    else:
        words = BUG
        log.error("call failed", extra=about(incident=incident, **fields), exc_info=error)
    return error_of(status(error)[0].value[0], f"{words} (incident {incident})")


def retry_after_us(error: Exception) -> int | None:
    """When it may be worth trying again, if that is known."""
    return error.retry_after_us if isinstance(error, Exhausted) else None


def told_retry_after_us(trailing: Iterable[tuple[str, str | bytes]] | None) -> int | None:
    """The same, as a call's trailing metadata says it.

    >>> told_retry_after_us([("other", "x"), ("retry-after-ms", "20")]), told_retry_after_us(None)
    (20000, None)
    """
    for key, value in trailing or ():
        if key == RETRY_AFTER and isinstance(value, str) and value.isdecimal():
            return int(value) * US_PER_MS
    return None


def error_of(code: int, message: str, retry_after_us: int | None = None) -> CallError:
    """The error for a status that came over the wire: what `status` was given on the other side."""
    kind = _ERRORS.get(code, ServerError)
    return Exhausted(message, retry_after_us) if kind is Exhausted else kind(message)


class RefusalMessage(Protocol):
    """A status as a message on a stream, where other requests go on."""

    code: int
    message: str
    retry_after_us: int

    def HasField(self, field_name: Any, /) -> bool: ...  # noqa: N802 - protobuf's


R = TypeVar("R", bound=RefusalMessage)


def refusal(kind: Callable[..., R], error: Exception, **fields: Any) -> R:
    """An error as such a message, of the kind that the stream has. The fields are for the log."""
    code, message = status(published(error, **fields))
    return kind(code=code.value[0], message=message, retry_after_us=retry_after_us(error))


def refusal_error(told: RefusalMessage, message: str = "") -> CallError:
    """The error that such a message tells of; with other words, if some are given."""
    wait_us = told.retry_after_us if told.HasField("retry_after_us") else None
    return error_of(told.code, message or told.message, wait_us)


@asynccontextmanager
async def aborting(context: Any) -> AsyncIterator[None]:
    """Around a call: what it raises becomes its status, in words for the public."""
    try:
        yield
    except grpc.aio.AbortError:
        raise  # it has its status
    except Exception as error:
        wait_us = retry_after_us(error)
        trailer = () if wait_us is None else ((RETRY_AFTER, str(-(-wait_us // US_PER_MS))),)
        await context.abort(*status(published(error)), trailer)
