"""The client's exceptions: all are a `ClientError`, most by the status of a call
(`esg.runtime.rpc.status`).

ClientError
  refused, the same again will not do:     InvalidRequest, NotFound, AlreadyExists, TooLarge,
                                           Unauthenticated, Forbidden, NotTrusted, Misconfigured
  refused, later may do:                   Exhausted, with `retry_after_s` if that is known
  failed, and no retry cures it:           FailedPrecondition
  failed, the same again may work:         Unavailable (NoGateway), DeadlineExceeded, Cancelled,
                                           ServerError
  a request's end, by raise_for_outcome:   RequestFailed (RequestDropped, RequestCancelled)

The words are the gateway's, and say what to do.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from esg.client import grpc_wording
from esg.client.grpc_wording import says
from esg.errors import Rejected
from esg.runtime.rpc.status import (
    CallError,
    DeadlineExceeded,
    TooLarge,
    Unavailable,
    error_of,
    told_retry_after_us,
)

ClientError = CallError
"""Something that was asked of the mesh was not done. Every exception of the client is one."""


class Misconfigured(ClientError, Rejected):
    """The address, the token or the TLS files that a client was given cannot be used."""


class NotTrusted(ClientError, Rejected):
    """Who answers at that address cannot show that it is the gateway."""


class NoGateway(Unavailable):
    """No gateway listens at `address`."""

    def __init__(self, message: str, address: str = "") -> None:
        super().__init__(message)
        self.address = address


@contextmanager
def refused_as_misconfigured() -> Iterator[None]:
    """While a client is made: what is wrong with its address or its files is a `ClientError`."""
    try:
        yield
    except Rejected as error:
        raise Misconfigured(str(error)) from None


def call_error(error: grpc.aio.AioRpcError, address: str) -> ClientError:
    """The error for a call that failed."""
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.UNAVAILABLE and says(details, grpc_wording.NOT_CONNECTED):
        return _no_connection(address, details)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("the time for this call is over; allow more with timeout_s")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and says(details, grpc_wording.MESSAGE_TOO_LARGE):
        # Such a message is refused before the gateway could see it
        return TooLarge(
            "payload: is larger than this gateway accepts; send a smaller one, or raise "
            "max_payload_bytes of the gateway"
        )
    return error_of(code.value[0], details or "", told_retry_after_us(error.trailing_metadata()))


def _no_connection(address: str, details: str | None) -> ClientError:
    """Why there is no connection, from what gRPC says about its last attempt."""
    if says(details, grpc_wording.UNKNOWN_AUTHORITY, grpc_wording.OTHER_HOST):
        return NotTrusted(
            f"{address} shows a certificate of an authority that is not trusted here, or for "
            "another host; correct ESG_CLIENT_CA, or the address, or say what the gateway's "
            "certificate is made out to (ESG_CLIENT_SERVER_NAME)"
        )
    if says(details, grpc_wording.NO_TLS_THERE):
        return NotTrusted(f"{address} does not speak TLS; correct the address, or ESG_CLIENT_CA")
    if says(details, grpc_wording.BROKEN_OFF):
        return Unavailable(
            f"{address} breaks off every connection: if it speaks TLS, ESG_CLIENT_CA is missing, "
            "or it wants a certificate (ESG_CLIENT_CERTIFICATE, ESG_CLIENT_KEY)"
        )
    return NoGateway(
        f"no gateway at {address}; start a mesh with esg up, or correct the client's address "
        "(or ESG_GATEWAY)",
        address,
    )
