"""A client that was given several gateways: when one is gone, the next is used."""

import socket

import pytest

from esg.client import AsyncClient, Client, Misconfigured, NoGateway
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.waiting import until


@pytest.fixture
def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(autouse=True)
def plays(controller: ScriptedController) -> None:
    controller.playing = True


async def test_calls_and_streams_go_to_the_first_gateway_that_is_there(
    address: str, nobody: str
) -> None:
    async with AsyncClient([nobody, address]) as mesh:
        assert mesh.address == nobody
        assert (await mesh.submit(KNOWN, b"abc")).outputs == {"second": b"cba"}
        assert mesh.address == address
    async with AsyncClient(f"{nobody}, {address}") as mesh, mesh.stream() as stream:
        assert (await stream.submit(KNOWN, b"abc")).outputs == {"second": b"cba"}
        assert mesh.address == address


async def test_the_mesh_is_watched_through_whichever_gateway_is_there(
    address: str, nobody: str
) -> None:
    async with AsyncClient([nobody, address]) as mesh:
        assert [status async for status in mesh.watch_mesh(0)]
    async with AsyncClient([nobody]) as mesh:
        with pytest.raises(NoGateway, match=nobody):
            await anext(mesh.watch_mesh(0))


async def test_stream_goes_on_at_the_next_gateway_when_its_own_stops(gateways: Gateways) -> None:
    leaving = await gateways.start()
    stopping = gateways.tell_to_stop()
    staying = await gateways.start()
    async with AsyncClient([leaving, staying]) as mesh, mesh.stream() as stream:
        assert (await stream.submit(KNOWN, b"abc")).outputs == {"second": b"cba"}
        await until(lambda: all(task.done() for task in stopping))
        assert (await stream.submit(KNOWN, b"xyz")).outputs == {"second": b"zyx"}
        assert mesh.address == staying


async def test_without_any_gateway_the_last_one_that_was_tried_is_named(nobody: str) -> None:
    async with AsyncClient([nobody, "127.0.0.1:1"], patience_s=0.2) as mesh:
        with pytest.raises(NoGateway):
            await mesh.list_applications()


def test_addresses_come_from_the_environment_too(
    monkeypatch: pytest.MonkeyPatch, nobody: str
) -> None:
    monkeypatch.setenv("ESG_GATEWAY", f"{nobody},127.0.0.1:1")
    with Client() as mesh:
        assert mesh.address == nobody


def test_every_address_is_checked() -> None:
    for addresses in ("127.0.0.1:50051,localhost", ["127.0.0.1:50051", ""], []):
        with pytest.raises(Misconfigured, match="address"):
            Client(addresses)
