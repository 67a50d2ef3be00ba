"""What a call can raise. The words are the gateway's, and say what to do.

ClientError
  refused, the same again will not do:     InvalidRequest, NotFound, AlreadyExists, Exhausted,
                                           Unauthenticated, Forbidden, NotTrusted
  failed, the same again may work:         Unavailable (NoGateway), DeadlineExceeded, Cancelled,
                                           ServerError
"""

import grpc

from esg.errors import Fault, Rejected
from esg.runtime.rpc.status import RETRY_AFTER


class ClientError(Exception):
    """Something that was asked of the mesh was not done."""


class InvalidRequest(ClientError, Rejected):
    """What was asked for cannot be."""


class NotFound(ClientError, Rejected):
    """There is no such application or request."""


class AlreadyExists(ClientError, Rejected):
    """The name is taken, or the request id was used for something else."""


class Exhausted(ClientError, Rejected):
    """A limit: payload size, requests under way, requests per second; or more requests than can be
    done in time. `retry_after_s` is when to try again, if that is known."""

    retry_after_s: float | None = None


class Unauthenticated(ClientError, Rejected):
    """The gateway does not know who calls: no token, or none that it knows."""


class Forbidden(ClientError, Rejected):
    """The gateway knows who calls, and that one may not."""


class NotTrusted(ClientError, Rejected):
    """Who answers at that address cannot show that it is the gateway."""


class Unavailable(ClientError, Fault):
    """It cannot be done now. It was tried again for as long as the call allowed."""


class NoGateway(Unavailable):
    """Nobody listens at that address."""


class DeadlineExceeded(ClientError, Fault):
    """The time that the call was given is over."""


class Cancelled(ClientError, Fault):
    """The call was broken off."""


class ServerError(ClientError, Fault):
    """The mesh failed in a way that it should not."""


_KINDS: dict[int, type[ClientError]] = {
    grpc.StatusCode.INVALID_ARGUMENT.value[0]: InvalidRequest,
    grpc.StatusCode.NOT_FOUND.value[0]: NotFound,
    grpc.StatusCode.ALREADY_EXISTS.value[0]: AlreadyExists,
    grpc.StatusCode.UNAUTHENTICATED.value[0]: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED.value[0]: Forbidden,
    grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]: Exhausted,
    grpc.StatusCode.UNAVAILABLE.value[0]: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED.value[0]: DeadlineExceeded,
    grpc.StatusCode.CANCELLED.value[0]: Cancelled,
}


def client_error(code: int, message: str, retry_after_s: float | None = None) -> ClientError:
    """The error for a gRPC status."""
    error = _KINDS.get(code, ServerError)(message)
    if isinstance(error, Exhausted):
        error.retry_after_s = retry_after_s
    return error


def call_error(error: grpc.aio.AioRpcError, address: str) -> ClientError:
    """The error for a call that failed."""
    details = error.details() or ""
    if error.code() is grpc.StatusCode.UNAVAILABLE and "failed to connect" in details.lower():
        return _no_connection(address, details)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("the time for this call is over; allow more with timeout_s")
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        # Such a message is refused before the gateway could see it, in gRPC's words
        return Exhausted(
            "payload: is larger than this gateway accepts; send a smaller one, or raise "
            "max_payload_bytes of the gateway"
        )
    return client_error(error.code().value[0], details, _retry_after_s(error))


def _retry_after_s(error: grpc.aio.AioRpcError) -> float | None:
    for key, value in error.trailing_metadata() or ():
        if key == RETRY_AFTER and isinstance(value, str) and value.isdecimal():
            return int(value) / 1000
    return None


def _no_connection(address: str, details: str) -> ClientError:
    """Why there is no connection, from what gRPC says about its last attempt."""
    if "CERTIFICATE_VERIFY_FAILED" in details or "Hostname Verification" in details:
        return NotTrusted(
            f"{address} shows a certificate of an authority that is not trusted here, or for "
            "another host; correct ESG_CLIENT_CA, or the address"
        )
    if "WRONG_VERSION_NUMBER" in details:
        return NotTrusted(f"{address} does not speak TLS; correct the address, or ESG_CLIENT_CA")
    if "ocket closed" in details:
        return Unavailable(
            f"{address} breaks off every connection: if it speaks TLS, ESG_CLIENT_CA is missing, "
            "or it wants a certificate (ESG_CLIENT_CERTIFICATE, ESG_CLIENT_KEY)"
        )
    return NoGateway(f"no gateway at {address}")
