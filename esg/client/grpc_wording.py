"""gRPC's own words: what went wrong below the gateway is told by nothing else.

A connection that is not made has one status, UNAVAILABLE, whatever the reason, and a message that
is too large has that of any limit. So the text is read, here and (for services) in `tls.explained`;
tests/component/client/test_grpc_wording.py has gRPC say each of these.
"""

from esg.runtime.security.tls import OTHER_NAME

NOT_CONNECTED = "failed to connect"
MESSAGE_TOO_LARGE = "larger than max"
UNKNOWN_AUTHORITY = "CERTIFICATE_VERIFY_FAILED"
OTHER_HOST = OTHER_NAME
NO_TLS_THERE = "WRONG_VERSION_NUMBER"
BROKEN_OFF = "socket closed"


def says(details: str | None, *words: str) -> bool:
    """Whether gRPC says one of these.

    >>> says("Socket closed", BROKEN_OFF), says(None, BROKEN_OFF)
    (True, False)
    """
    return any(word.lower() in (details or "").lower() for word in words)
