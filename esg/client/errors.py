"""What a call can raise, besides what its status says (`esg.runtime.rpc.status`).

ClientError
  refused, the same again will not do:     InvalidRequest, NotFound, AlreadyExists, Exhausted,
                                           Unauthenticated, Forbidden, NotTrusted
  failed, and no retry cures it:           FailedPrecondition
  failed, the same again may work:         Unavailable (NoGateway), DeadlineExceeded, Cancelled,
                                           ServerError

The words are the gateway's, and say what to do.
"""

import grpc

from esg.client import grpc_wording
from esg.client.grpc_wording import says
from esg.errors import Rejected
from esg.runtime.rpc.status import (
    CallError,
    DeadlineExceeded,
    Exhausted,
    Unavailable,
    error_of,
    told_retry_after_us,
)

ClientError = CallError
"""Something that was asked of the mesh was not done."""


class NotTrusted(ClientError, Rejected):
    """Who answers at that address cannot show that it is the gateway."""


class NoGateway(Unavailable):
    """No gateway listens at that address."""


def call_error(error: grpc.aio.AioRpcError, address: str) -> ClientError:
    """The error for a call that failed."""
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.UNAVAILABLE and says(details, grpc_wording.NOT_CONNECTED):
        return _no_connection(address, details)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("the time for this call is over; allow more with timeout_s")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and says(details, grpc_wording.MESSAGE_TOO_LARGE):
        # Such a message is refused before the gateway could see it
        return Exhausted(
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
    return NoGateway(f"no gateway at {address}")
