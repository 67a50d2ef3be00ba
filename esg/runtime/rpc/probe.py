"""`python -m esg.runtime.rpc.probe`: is the service in this container well?

For Docker and Kubernetes, which run it beside the service, with the service's own settings. Where
that listens it has written to `ESG_READY_FILE`; whether it is well it says itself, through
`grpc.health.v1`, with TLS if it speaks TLS. The exit code is 0 if so.

It runs every few seconds beside every service, and importing gRPC would cost several times the CPU
of all the rest. So little is imported, and the one call is written by hand: a stream of HTTP/2
(RFC 9113) whose headers use neither tables nor compression (RFC 7541).
"""

import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterator

from esg.runtime.rpc.addresses import READY_FILE, callable_address, socket_address

CONNECT_TIMEOUT_S = 5.0

DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, END_HEADERS = 1, 4
NO_MESSAGE = bytes(5)
"""A `HealthCheckRequest` without a service asks about the server as a whole; it has no fields."""
SERVING = b"\x00\x00\x00\x00\x02\x08\x01"
"""A `HealthCheckResponse` whose status is SERVING, after its length."""


def is_serving(host: str, port: int, tls: ssl.SSLContext | None) -> bool:
    """A service's own opinion; an OSError if it does not answer."""
    connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
    if tls is not None:
        connection = tls.wrap_socket(connection)
    with connection, connection.makefile("rb") as answer:
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(SETTINGS, 0, 0, b"")
            + _frame(HEADERS, END_HEADERS, 1, _headers(secure=tls is not None))
            + _frame(DATA, END_STREAM, 1, NO_MESSAGE)
        )
        message = b""
        for kind, flags, content in _frames(answer.read):
            if kind == DATA:
                message += content
            if kind in (RST_STREAM, GOAWAY) or (kind == HEADERS and flags & END_STREAM):
                break
        return message == SERVING


def _headers(*, secure: bool) -> bytes:
    """Numbers stand for names, or for names with values, in HTTP/2's own table."""
    return (
        b"\x83"  # :method POST
        + (b"\x87" if secure else b"\x86")  # :scheme https or http
        + b"\x04" + _text(b"/grpc.health.v1.Health/Check")  # :path
        + b"\x01" + _text(b"localhost")  # :authority
        + b"\x0f\x10" + _text(b"application/grpc")  # content-type
        + b"\x00" + _text(b"te") + _text(b"trailers")
    )  # fmt: skip


def _text(value: bytes) -> bytes:
    return bytes([len(value)]) + value


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


def _frames(read: Callable[[int], bytes]) -> Iterator[tuple[int, int, bytes]]:
    while len(head := read(9)) == 9:
        yield head[3], head[4], read(int.from_bytes(head[:3]))


def serving_at() -> tuple[str, int]:
    """The address that the service has written down."""
    file = os.environ.get(READY_FILE, "")
    try:
        with open(file, encoding="utf-8") as ready:  # noqa: PTH123 - see above
            address = callable_address(ready.read())
    except OSError:
        raise OSError(f"not serving yet: {READY_FILE}, {file!r}, is not there") from None
    return socket_address(address)


def certificate() -> tuple[str, str]:
    """The service's own, and its key; empty if it has none."""
    if "ESG_SETTINGS" not in os.environ:
        return os.environ.get("ESG_TLS_CERTIFICATE", ""), os.environ.get("ESG_TLS_KEY", "")
    from esg.runtime.settings import CommonSettings
    from esg.runtime.settings_file import service_settings

    common = service_settings().of(CommonSettings)
    return common.tls_certificate, common.tls_key


def tls_with(own: str, key: str) -> ssl.SSLContext | None:
    """To show the service its own certificate. Whom it answers with matters not: nothing is told
    that is a secret, and the answer comes from inside this container."""
    if not own:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(own, key)
    context.set_alpn_protocols(["h2"])
    return context


def main() -> int:
    try:
        host, port = serving_at()
        well = is_serving(host, port, tls_with(*certificate()))
    except OSError as error:  # an SSLError is one
        print(error)
        return 1
    print(f"{host}:{port}: {'serving' if well else 'not serving'}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
