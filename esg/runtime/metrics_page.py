"""Numbers for Prometheus: a page, `/metrics`, that a service shows to whoever may look.

Most numbers are there anyway: a collector is asked for them when somebody looks, in the service's
own loop, so it sees them between two events and nothing is counted twice. A service that speaks TLS
shows the page with TLS, to observers and other services of the mesh but not to its clients, as it
names what all of them do; one that does not shows it to its own machine only, unless it was told
otherwise (`insecure`).
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Container, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from esg.errors import Rejected
from esg.runtime.logs import about
from esg.runtime.security.files import Reloaded
from esg.runtime.security.plain import check_listening
from esg.runtime.settings import CommonSettings

log = logging.getLogger(__name__)

PAGE = "/metrics"
READERS = ("observer", "controller", "gateway", "invoker")
"""Common names of certificates."""
REQUEST_TIMEOUT_S = 10.0
LONGEST_REQUEST = 16_384
"""In bytes: what a browser sends, several times over."""

LATENCY_BUCKETS_S = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)

FORGET_S = 60.0
"""How often a service looks for applications that are gone, to forget their numbers."""


class UnusedNames:
    """Names that nobody needs any more, found by looking again and again: at the second look, so
    that Prometheus has the time between two looks to read their last numbers.

    >>> gone = UnusedNames()
    >>> gone.look(["photo", "trial"], needed=["photo"])
    []
    >>> gone.look(["photo", "trial"], needed=["photo"])
    ['trial']
    """

    def __init__(self) -> None:
        self._missed: set[str] = set()

    def look(self, known: Iterable[str], needed: Container[str]) -> list[str]:
        missed = [name for name in known if name not in needed]
        gone = [name for name in missed if name in self._missed]
        self._missed = set(missed)
        return gone


@asynccontextmanager
async def metrics_page(
    common: CommonSettings, port: int, *collectors: Collector
) -> AsyncIterator[None]:
    """The page of a service, while it runs; with port 0 there is none."""
    if not port:
        yield
        return
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    tls = _tls(common)
    if tls is None:
        check_listening(common.metrics_host, insecure=common.insecure)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError
        ):
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                asked = await reader.readuntil(b"\r\n\r\n")
                known = tls is None or may_read(writer.get_extra_info("peercert"))
                writer.write(response(asked, registry) if known else FORBIDDEN)
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(
            answer, common.metrics_host, port, ssl=tls, limit=LONGEST_REQUEST
        )
    except OSError as error:
        raise Rejected(
            f"metrics: cannot listen on {common.metrics_host}:{port}: {error.strerror}; choose "
            "another metrics_port"
        ) from None
    log.info("metrics", extra=about(address=f"{common.metrics_host}:{port}{PAGE}"))
    async with server:
        yield


def response(asked: bytes, registry: CollectorRegistry) -> bytes:
    """What to say to a request, given its head.

    >>> response(b"GET /other HTTP/1.1\\r\\n\\r\\n", CollectorRegistry())[:22]
    b'HTTP/1.1 404 Not Found'
    """
    method, _, rest = asked.partition(b" ")
    path = rest.split(b" ")[0].split(b"?")[0]
    if method != b"GET" or path != PAGE.encode():
        return _message("404 Not Found", "text/plain", f"there is only {PAGE}\n".encode())
    return _message("200 OK", CONTENT_TYPE_LATEST, generate_latest(registry))


def may_read(certificate: Mapping[str, Any]) -> bool:
    """Whether the page is for who has this certificate, as `ssl` describes it.

    >>> may_read({"subject": ((("commonName", "observer"),),)})
    True
    """
    subject = [pair for part in certificate["subject"] for pair in part]
    return any(kind == "commonName" and name in READERS for kind, name in subject)


def _message(status: str, kind: str, content: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + content


FORBIDDEN = _message(
    "403 Forbidden", "text/plain", b"this is for observers; esg certificates makes one for them\n"
)


def _tls(common: CommonSettings) -> ssl.SSLContext | None:
    """The service's own certificate, which may be replaced while it runs."""
    if not common.tls_certificate:
        return None
    files = [Path(f) for f in (common.tls_certificate, common.tls_key, common.tls_ca)]

    def read() -> ssl.SSLContext:
        certificate, key, ca = files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(certificate, key)
        return context

    current = Reloaded(files, read)

    def renew(connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = current.get()

    first = current.get()
    first.sni_callback = renew
    return first
