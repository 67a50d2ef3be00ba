"""The page for Prometheus, over real connections on the loopback."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import Counter

from esg.errors import Rejected
from esg.runtime.metrics_page import metrics_page
from esg.runtime.security.authority import make_certificates
from esg.runtime.settings import CommonSettings

LOOPBACK = "127.0.0.1"


@pytest.fixture
def port() -> Iterator[int]:
    """One that nobody else is given meanwhile, because it is bound; a server may listen on it all
    the same."""
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((LOOPBACK, 0))
        yield int(found.getsockname()[1])


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    make_certificates(tmp_path / "ours", hosts=(), days=1)
    make_certificates(tmp_path / "theirs", hosts=(), days=1)
    return tmp_path


def secure(folder: Path, host: str = LOOPBACK) -> CommonSettings:
    return CommonSettings(
        metrics_host=host,
        tls_ca=str(folder / "ca.pem"),
        tls_certificate=str(folder / "gateway.pem"),
        tls_key=str(folder / "gateway.key"),
    )


def caller(trusted: Path, own: Path | None, name: str = "observer") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted / "ca.pem")
    if own is not None:
        context.load_cert_chain(own / f"{name}.pem", own / f"{name}.key")
    return context


async def asked(port: int, head: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    name = "gateway" if tls else None
    reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=tls, server_hostname=name)
    writer.write(head + b"\r\nHost: here\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


async def is_refused(port: int, tls: ssl.SSLContext) -> bool:
    """Depending on who is faster, the connection breaks or is closed without a word."""
    try:
        return await asked(port, b"GET /metrics HTTP/1.1", tls) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def kept() -> Counter:
    return Counter("kept", "promises", registry=None)


async def test_metrics_page_has_what_was_counted(port: int) -> None:
    promises = kept()
    async with metrics_page(CommonSettings(), port, promises):
        promises.inc(3)
        answer = await asked(port, b"GET /metrics HTTP/1.1")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\nkept_total 3.0\n" in answer
        assert (await asked(port, b"GET / HTTP/1.1")).startswith(b"HTTP/1.1 404 ")
        assert (await asked(port, b"POST /metrics HTTP/1.1")).startswith(b"HTTP/1.1 404 ")


async def test_nonsense_ends_the_connection_and_nothing_else(port: int) -> None:
    async with metrics_page(CommonSettings(), port, kept()):
        assert await asked(port, b"x" * 100_000) == b""
        assert (await asked(port, b"GET /metrics HTTP/1.1")).startswith(b"HTTP/1.1 200 ")


async def test_metrics_page_without_a_port_is_not_served() -> None:
    async with metrics_page(CommonSettings(metrics_host="256.0.0.1"), 0):
        pass


async def test_a_page_without_tls_is_for_this_machine_alone(port: int) -> None:
    with pytest.raises(Rejected, match=r"would listen on 0\.0\.0\.0 without TLS; set tls_ca"):
        async with metrics_page(CommonSettings(metrics_host="0.0.0.0"), port):
            pass


async def test_a_port_that_is_taken_is_refused(port: int) -> None:
    async with metrics_page(CommonSettings(), port):
        with pytest.raises(Rejected, match=f"cannot listen on {LOOPBACK}:{port}: .*metrics_port"):
            async with metrics_page(CommonSettings(), port):
                pass


async def test_metrics_page_with_tls_is_for_callers_with_a_certificate(
    port: int, certificates: Path
) -> None:
    ours, theirs = certificates / "ours", certificates / "theirs"
    async with metrics_page(secure(ours, "0.0.0.0"), port, kept()):
        answer = await asked(port, b"GET /metrics HTTP/1.1", caller(ours, ours))
        assert b"\nkept_total 0.0\n" in answer
        for stranger in (None, theirs):
            assert await is_refused(port, caller(ours, stranger))


async def test_metrics_page_with_tls_is_not_for_clients(port: int, certificates: Path) -> None:
    ours = certificates / "ours"
    async with metrics_page(secure(ours), port, kept()):
        for name in ("observer", "controller", "gateway", "invoker"):
            answer = await asked(port, b"GET /metrics HTTP/1.1", caller(ours, ours, name))
            assert answer.startswith(b"HTTP/1.1 200 ")
        answer = await asked(port, b"GET /metrics HTTP/1.1", caller(ours, ours, "client"))
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"kept_total" not in answer


async def test_a_new_certificate_is_shown_without_a_restart(port: int, certificates: Path) -> None:
    ours, theirs = certificates / "ours", certificates / "theirs"
    async with metrics_page(secure(ours), port, kept()):
        for name in ("gateway.pem", "gateway.key"):
            (theirs / name).replace(ours / name)
        answer = await asked(port, b"GET /metrics HTTP/1.1", caller(theirs, ours))
        assert answer.startswith(b"HTTP/1.1 200 ")
