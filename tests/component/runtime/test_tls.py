"""Real handshakes on the loopback, with certificates of an authority made here."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from esg.errors import Rejected
from esg.local.health import is_serving, service_line
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.server import Server
from esg.runtime.rpc.status import aborting
from esg.runtime.security.authority import make_certificates
from esg.runtime.security.policy import between_services, public_door
from esg.runtime.security.tls import (
    RENEW,
    ClientTls,
    Identity,
    Security,
    ServerTls,
    check_peer,
    explained,
)
from esg.runtime.settings import CommonSettings, GatewaySettings

LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two authorities: ours, and one that nobody here trusts."""
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory / "ours", hosts=(), days=1)
    make_certificates(directory / "theirs", hosts=(), days=1)
    return directory


def of(directory: Path, service: str, called: str = "controller", **more: str) -> Security:
    """What a service with these certificates has."""
    return between_services(
        CommonSettings(
            **more,  # type: ignore[arg-type]
            tls_ca=str(directory / "ca.pem"),
            tls_certificate=str(directory / f"{service}.pem"),
            tls_key=str(directory / f"{service}.key"),
        ),
        called,
    )


async def who(asked: bytes, context: Any) -> bytes:
    """The caller's common name, if it is a gateway."""
    async with aborting(context):
        check_peer(context, "gateway")
        return b"welcome"


class Running:
    def __init__(self, server: Server, address: str) -> None:
        self.server = server
        self.address = address


async def started(security: Security) -> Running:
    server = Server(security=security)
    handlers = {"Who": grpc.unary_unary_rpc_method_handler(who)}
    server.grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t", handlers),))
    port = await server.start(LOOPBACK, 0, [])
    return Running(server, f"{LOOPBACK}:{port}")


@pytest.fixture
async def controller(made: Path) -> AsyncIterator[Running]:
    running = await started(of(made / "ours", "controller"))
    yield running
    await running.server.stop(0)


async def test_health_and_reflection_are_there_over_tls(made: Path, controller: Running) -> None:
    security = of(made / "ours", "invoker")
    assert await is_serving(controller.address, security)
    async with channel(controller.address, security) as link:
        stub = reflection_pb2_grpc.ServerReflectionStub(link)
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        async for reply in stub.ServerReflectionInfo(iter([question])):
            names = [service.name for service in reply.list_services_response.service]
    assert "grpc.health.v1.Health" in names


@pytest.mark.parametrize("stranger", ["no certificate", "of another authority", "no TLS"])
async def test_a_stranger_does_not_get_in(stranger: str, made: Path, controller: Running) -> None:
    ours = [made / "ours" / "ca.pem"]
    theirs = Identity(made / "theirs" / "gateway.pem", made / "theirs" / "gateway.key")
    security = {
        "no certificate": Security(client=ClientTls(ours)),
        "of another authority": Security(client=ClientTls(ours, theirs)),
        "no TLS": Security(),
    }[stranger]
    async with channel(controller.address, security) as link:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await link.unary_unary("/t/Who")(b"", timeout=30)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("mine", ["ours", "theirs"])
async def test_a_bad_certificate_is_not_taken_for_silence(
    mine: str, made: Path, controller: Running
) -> None:
    identity = Identity(made / mine / "client.pem", made / mine / "client.key")
    security = Security(client=ClientTls([made / "theirs" / "ca.pem"], identity))
    if mine == "theirs":  # it is the server that does not like what it is shown
        security = Security(client=ClientTls([made / "ours" / "ca.pem"], identity))
    async with service_line(controller.address, security) as ask:
        assert await ask(30.0) is None


async def test_a_server_that_nobody_vouches_for_is_not_spoken_to(made: Path) -> None:
    running = await started(of(made / "theirs", "controller"))
    async with channel(running.address, of(made / "ours", "gateway")) as link:
        with pytest.raises(grpc.aio.AioRpcError, match="CERTIFICATE_VERIFY_FAILED"):
            await link.unary_unary("/t/Who")(b"", timeout=30)
    await running.server.stop(0)


async def test_a_certificate_is_good_for_its_own_service_only(
    made: Path, controller: Running
) -> None:
    async with channel(controller.address, of(made / "ours", "gateway")) as link:
        assert await link.unary_unary("/t/Who")(b"", timeout=30) == b"welcome"
    for other in ("invoker", "client"):
        async with channel(controller.address, of(made / "ours", other)) as link:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await link.unary_unary("/t/Who")(b"", timeout=30)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert f"the common name of the caller's certificate is {other}" in (
            refused.value.details() or ""
        )


@pytest.mark.parametrize("other", ["gateway", "invoker", "redis", "client"])
async def test_a_certificate_of_another_service_is_not_good_enough_to_be_the_controller(
    other: str, made: Path
) -> None:
    # attack: G2
    running = await started(of(made / "ours", other))
    async with channel(running.address, of(made / "ours", "gateway")) as link:
        with pytest.raises(grpc.aio.AioRpcError, match=r"Hostname Verification|VERIFY_FAILED"):
            await link.unary_unary("/t/Who")(b"", timeout=30)
    await running.server.stop(0)


@pytest.mark.parametrize("named", ["", "gateway.esg"])
@pytest.mark.parametrize("other", ["controller", "invoker", "redis", "client"])
async def test_a_certificate_of_another_service_is_not_good_enough_to_be_the_gateway(
    other: str, named: str, made: Path
) -> None:
    """Whether clients go by the role or by the host."""
    # attack: G2
    ours = made / "ours"
    running = await started(
        Security(ServerTls(Identity(ours / f"{other}.pem", ours / f"{other}.key")))
    )
    client = Security(client=ClientTls([ours / "ca.pem"], server_name=named))
    assert not await is_serving(running.address, client)
    await running.server.stop(0)


async def test_services_of_another_authority_are_known_by_the_names_that_it_gives(
    made: Path,
) -> None:
    ours = made / "ours"
    running = await started(of(ours, "gateway"))  # for want of others, one for the loopback
    elsewhere = of(ours, "invoker", tls_domain="mesh.example.com")
    assert not await is_serving(running.address, elsewhere)
    assert await is_serving(running.address, of(ours, "invoker", tls_domain=""))
    await running.server.stop(0)


def test_a_certificate_for_something_else_is_explained() -> None:
    said = (
        "Peer name controller.esg is not in peer certificate; Hostname Verification Check failed."
    )
    assert explained(said) == f"{said}; {RENEW}"
    assert explained("connection refused") == "connection refused"


async def test_callers_without_tls_are_not_told_apart() -> None:
    running = await started(Security())
    async with channel(running.address) as link:
        assert await link.unary_unary("/t/Who")(b"", timeout=30) == b"welcome"
    await running.server.stop(0)


async def test_a_new_certificate_is_used_without_a_restart(made: Path, tmp_path: Path) -> None:
    """The server's and the client's authority change while both run."""
    live = tmp_path / "live"
    shutil.copytree(made / "ours", live)
    running = await started(of(live, "controller"))
    async with channel(running.address, of(live, "gateway")) as link:
        ask = link.unary_unary("/t/Who")
        assert await ask(b"", timeout=30) == b"welcome"

        shutil.copytree(made / "theirs", live, dirs_exist_ok=True)

        assert await ask(b"", timeout=30) == b"welcome"
        async with channel(running.address, of(made / "theirs", "gateway")) as newcomer:
            assert await newcomer.unary_unary("/t/Who")(b"", timeout=30) == b"welcome"
        async with channel(running.address, of(made / "ours", "gateway")) as former:
            with pytest.raises(grpc.aio.AioRpcError, match="CERTIFICATE_VERIFY_FAILED"):
                await former.unary_unary("/t/Who")(b"", timeout=30)
    await running.server.stop(0)


async def test_a_stream_survives_a_new_certificate(made: Path, tmp_path: Path) -> None:
    live = tmp_path / "live"
    shutil.copytree(made / "ours", live)
    running = await started(of(live, "controller"))
    async with channel(running.address, of(live, "gateway")) as link:
        stub = health_pb2_grpc.HealthStub(link)
        watching = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVING
        make_certificates(live, hosts=(), days=1)
        assert (await stub.Check(health_pb2.HealthCheckRequest(), timeout=30)).status
        await running.server.drain()
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watching.cancel()
    await running.server.stop(0)


async def test_files_that_are_no_good_do_not_replace_those_that_were(
    made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live = tmp_path / "live"
    shutil.copytree(made / "ours", live)
    running = await started(of(live, "controller"))
    shutil.copy(made / "theirs" / "controller.key", live / "controller.key")
    assert await is_serving(running.address, of(made / "ours", "gateway"))
    await running.server.stop(0)
    assert "not read again" in caplog.text


async def test_the_public_door_asks_for_certificates_only_if_it_is_told_whose(made: Path) -> None:
    ours, theirs = made / "ours", made / "theirs"
    common = CommonSettings(
        tls_ca=str(ours / "ca.pem"),
        tls_certificate=str(ours / "gateway.pem"),
        tls_key=str(ours / "gateway.key"),
    )
    anyone = Security(client=ClientTls([ours / "ca.pem"]))
    open_door = await started(public_door(common, GatewaySettings()))
    assert await is_serving(open_door.address, anyone)
    await open_door.server.stop(0)

    told = GatewaySettings(tls_client_ca=str(theirs / "ca.pem"))
    door = await started(public_door(common, told))
    known = Identity(theirs / "client.pem", theirs / "client.key")
    assert await is_serving(door.address, Security(client=ClientTls([ours / "ca.pem"], known)))
    assert await is_serving(door.address, of(ours, "client", "gateway"))  # who started it
    assert not await is_serving(door.address, anyone)
    await door.server.stop(0)


@pytest.mark.parametrize(
    ("common", "words"),
    [
        ({"tls_ca": "ca.pem"}, "belong together; set all three"),
        ({"tls_certificate": "a.pem"}, "tls_certificate and tls_key belong together"),
        ({"tls_ca": "x.pem", "tls_certificate": "x.pem", "tls_key": "x.key"}, "cannot be read"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(common: dict[str, str], words: str) -> None:
    with pytest.raises(Rejected, match=words):
        between_services(CommonSettings(**common))


def test_a_key_that_belongs_to_another_certificate_is_refused(made: Path) -> None:
    ours = made / "ours"
    with pytest.raises(Rejected, match="no certificate and its key"):
        ServerTls(Identity(ours / "gateway.pem", ours / "invoker.key"))


def test_a_file_that_is_no_certificate_is_refused(made: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nnothing\n", "ascii")
    with pytest.raises(Rejected, match=r"tls_ca .*: no certificates in PEM"):
        ClientTls([tmp_path / "ca.pem"])


def test_client_certificates_are_for_a_door_with_a_certificate() -> None:
    with pytest.raises(Rejected, match="the gateway has none itself"):
        public_door(CommonSettings(), GatewaySettings(tls_client_ca="ca.pem"))
