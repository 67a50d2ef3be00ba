"""gRPC's wording, from gRPC itself: should it say it in other words one day, this is where."""

import asyncio
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from esg.client import grpc_wording
from esg.client.grpc_wording import says
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.server import Server
from esg.runtime.security.authority import make_certificates
from esg.runtime.security.tls import ON_THIS_MACHINE, ClientTls, Identity, Security, ServerTls
from tests.support.waiting import LIMIT_S

HOST = "127.0.0.1"
SMALL = [("grpc.max_receive_message_length", 1000)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    for authority in ("ours", "theirs"):
        make_certificates(directory / authority, hosts=(), days=1)
    return directory


def serving(made: Path) -> Security:
    """With a certificate for the loopback."""
    ours = made / "ours"
    return Security(server=ServerTls(Identity(ours / "gateway.pem", ours / "gateway.key")))


def calling(made: Path, authority: str, server_name: str = "") -> Security:
    return Security(client=ClientTls([made / authority / "ca.pem"], server_name=server_name))


async def words(server: Security, client: Security, *, size: int = 1) -> str | None:
    """What gRPC says about a call that fails."""
    running = Server(SMALL, server)
    port = await running.start(HOST, 0, [])
    try:
        async with channel(f"{HOST}:{port}", client) as link:
            return await failed(link, size)
    finally:
        await running.stop(0)


async def failed(link: grpc.aio.Channel, size: int = 1) -> str | None:
    call = link.unary_unary("/grpc.health.v1.Health/Check")(bytes(size), timeout=LIMIT_S)
    with suppress(grpc.aio.AioRpcError):
        await call
    details: str | None = await call.details()
    return details


async def test_grpc_says_in_known_words_that_nobody_listens() -> None:
    held = await asyncio.start_server(lambda *_: None, HOST, 0)
    port = held.sockets[0].getsockname()[1]
    held.close()
    await held.wait_closed()
    async with channel(f"{HOST}:{port}") as link:
        details = await failed(link)
    assert says(details, grpc_wording.NOT_CONNECTED)
    assert not says(details, grpc_wording.BROKEN_OFF, grpc_wording.NO_TLS_THERE)


async def test_a_message_is_too_large() -> None:
    details = await words(ON_THIS_MACHINE, ON_THIS_MACHINE, size=2000)
    assert says(details, grpc_wording.MESSAGE_TOO_LARGE)


async def test_a_server_is_of_an_unknown_authority(made: Path) -> None:
    details = await words(serving(made), calling(made, "theirs"))
    assert says(details, grpc_wording.NOT_CONNECTED)
    assert says(details, grpc_wording.UNKNOWN_AUTHORITY)


async def test_a_certificate_is_for_another_host(made: Path) -> None:
    details = await words(serving(made), calling(made, "ours", server_name="elsewhere"))
    assert says(details, grpc_wording.NOT_CONNECTED)
    assert says(details, grpc_wording.OTHER_HOST)


async def test_a_server_speaks_no_tls(made: Path) -> None:
    details = await words(ON_THIS_MACHINE, calling(made, "ours"))
    assert says(details, grpc_wording.NOT_CONNECTED)
    assert says(details, grpc_wording.NO_TLS_THERE)


async def test_a_server_that_speaks_tls_breaks_off_plain_text(made: Path) -> None:
    details = await words(serving(made), ON_THIS_MACHINE)
    assert says(details, grpc_wording.NOT_CONNECTED)
    assert says(details, grpc_wording.BROKEN_OFF)
