"""What went wrong, as gRPC status codes: the one place where the two are mapped.

A service raises what it means; `status` says it on the wire. Whoever is to blame is in the type:
`Rejected` and its kinds are the caller's doing, `Fault` the world's, anything else is ours.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from esg.errors import Fault, Rejected
from esg.units import US_PER_MS

log = logging.getLogger(__name__)

RETRY_AFTER = "retry-after-ms"
"""The trailing metadata of a call that may be worth trying again after so many milliseconds."""

LONGEST_TEXT = 2000


class NotFound(Rejected):
    """There is nothing of that name."""


class AlreadyExists(Rejected):
    """The name is taken."""


class Unauthenticated(Rejected):
    """Who asks is not known."""


class Forbidden(Rejected):
    """Who asks is known, and may not."""


class Exhausted(Rejected):
    """A limit: fewer, smaller or later will do; if later, then perhaps after this time."""

    def __init__(self, message: str, retry_after_us: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_us = retry_after_us


class Unavailable(Fault):
    """It cannot be done now; the same again may work."""


_CODES: dict[type[Exception], grpc.StatusCode] = {
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    Forbidden: grpc.StatusCode.PERMISSION_DENIED,
    Exhausted: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Rejected: grpc.StatusCode.INVALID_ARGUMENT,
    Unavailable: grpc.StatusCode.UNAVAILABLE,
    Fault: grpc.StatusCode.UNAVAILABLE,
}


def clipped(text: str) -> str:
    """Words that somebody else chose, at a length that fits into a status and a log.

    >>> clipped("short"), len(clipped("x" * 5000))
    ('short', 2000)
    """
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def status(error: Exception) -> tuple[grpc.StatusCode, str]:
    """The code and the words for an error."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind], clipped(str(error))
    return grpc.StatusCode.INTERNAL, "this is a bug of ours; the service's log has its story"


def retry_after_us(error: Exception) -> int | None:
    """When it may be worth trying again, if that is known."""
    return error.retry_after_us if isinstance(error, Exhausted) else None


def problem(code: int, message: str, retry_after_us: int | None = None) -> Exception:
    """The way back: an error for a code that came over the wire."""
    if retry_after_us is not None and code == _CODES[Exhausted].value[0]:
        return Exhausted(message, retry_after_us)
    for kind, known in _CODES.items():
        if known.value[0] == code:
            return kind(message)
    return Fault(message)


@asynccontextmanager
async def aborting(context: Any) -> AsyncIterator[None]:
    """Around a call: what it raises becomes its status; if that is ours, the log has its story."""
    try:
        yield
    except grpc.aio.AbortError:
        raise  # it has its status
    except (Rejected, Fault) as error:
        wait_us = retry_after_us(error)
        trailer = () if wait_us is None else ((RETRY_AFTER, str(-(-wait_us // US_PER_MS))),)
        await context.abort(*status(error), trailer)
    except Exception as error:
        log.exception("call failed")
        await context.abort(*status(error))
