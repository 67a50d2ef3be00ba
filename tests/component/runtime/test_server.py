"""Real servers and, for what only a process shows, real processes."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from esg.errors import Rejected
from esg.local.health import is_serving
from esg.runtime.rpc import channels
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.server import Server, say_ready
from tests.component.local.conftest import STAND_INS
from tests.support.waiting import LIMIT_S, until

LOOPBACK = "127.0.0.1"


async def test_a_server_says_that_it_is_well_until_it_is_drained() -> None:
    server = Server()
    address = f"{LOOPBACK}:{await server.start(LOOPBACK, 0, ['esg.test.Service'])}"
    assert await is_serving(address)
    async with channel(address) as link:
        stub = health_pb2_grpc.HealthStub(link)
        asked = health_pb2.HealthCheckRequest(service="esg.test.Service")
        assert (await stub.Check(asked)).status == health_pb2.HealthCheckResponse.SERVING
        await server.drain()
        assert (await stub.Check(asked)).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert not await is_serving(address)
    await server.stop(0)
    assert not await is_serving(address)


async def test_a_server_shows_what_it_serves() -> None:
    server = Server()
    port = await server.start(LOOPBACK, 0, ["grpc.health.v1.Health"])
    async with channel(f"{LOOPBACK}:{port}") as link:
        stub = reflection_pb2_grpc.ServerReflectionStub(link)
        question = reflection_pb2.ServerReflectionRequest(list_services="")
        async for reply in stub.ServerReflectionInfo(iter([question])):
            names = [service.name for service in reply.list_services_response.service]
    await server.stop(0)
    assert "grpc.health.v1.Health" in names


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
PING = b"\0\0\x08\x06\0\0\0\0\0" + bytes(8)


async def read_to_its_end(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(LIMIT_S):
        return await reader.read()


async def test_a_connection_that_does_not_come_to_speak_http2_is_closed() -> None:
    # attack: B4
    server = Server([("grpc.server_handshake_timeout_ms", 100)])
    reader, writer = await asyncio.open_connection(LOOPBACK, await server.start(LOOPBACK, 0, []))
    writer.write(PREFACE[:12])
    await read_to_its_end(reader)
    writer.close()
    await server.stop(0)


async def test_a_connection_has_so_many_calls_and_so_many_pings() -> None:
    # attack: B4
    server = Server()
    reader, writer = await asyncio.open_connection(LOOPBACK, await server.start(LOOPBACK, 0, []))
    writer.write(PREFACE + NO_SETTINGS + 10 * PING)
    heard = await read_to_its_end(reader)
    most_calls = (3).to_bytes(2, "big") + (4096).to_bytes(4, "big")
    assert heard[3] == 4  # its settings
    assert most_calls in heard
    assert b"too_many_pings" in heard
    writer.close()
    await server.stop(0)


async def test_a_taken_port_is_refused() -> None:
    first, second = Server(), Server()
    port = await first.start(LOOPBACK, 0, [])
    with pytest.raises(Rejected, match=f"cannot listen on {LOOPBACK}:{port}"):
        await second.start(LOOPBACK, port, [])
    await first.stop(0)
    await second.stop(0)


async def test_a_burst_of_calls_is_answered() -> None:
    server = Server()
    port = await server.start(LOOPBACK, 0, [])
    async with channel(f"{LOOPBACK}:{port}") as link:
        check = health_pb2_grpc.HealthStub(link).Check
        calls = (check(health_pb2.HealthCheckRequest()) for _ in range(3000))
        replies = await asyncio.gather(*calls)
    await server.stop(0)
    assert {reply.status for reply in replies} == {health_pb2.HealthCheckResponse.SERVING}


async def test_a_call_that_is_under_way_may_end_within_the_grace() -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def slow(request: bytes, context: object) -> bytes:
        begun.set()
        await finish.wait()
        return b"done"

    server = Server()
    handlers = {"Wait": grpc.unary_unary_rpc_method_handler(slow)}
    server.grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t", handlers),))
    port = await server.start(LOOPBACK, 0, [])
    async with channel(f"{LOOPBACK}:{port}") as link:
        call = asyncio.ensure_future(link.unary_unary("/t/Wait")(b""))
        await begun.wait()
        stopping = asyncio.create_task(server.stop(60))
        await asyncio.sleep(0)
        finish.set()
        assert await call == b"done"
        await stopping


def test_readiness_is_a_file_with_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESG_READY_FILE", str(tmp_path / "ready"))
    say_ready("127.0.0.1:7")
    assert (tmp_path / "ready").read_text("utf-8") == "127.0.0.1:7"


def test_readiness_need_not_be_asked_for() -> None:
    say_ready("127.0.0.1:7")


def serve(ready: Path, **environ: str) -> subprocess.Popen[str]:
    own = {"PYTHONPATH": STAND_INS, "ESG_READY_FILE": str(ready), "ESG_GATEWAY_PORT": "0"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "esg.gateway"],
        env={**os.environ, **own, **environ},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_serves_until_it_is_told_to_stop(
    number: signal.Signals, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    process = serve(ready)
    try:
        await until(ready.exists)
        assert await is_serving(ready.read_text("utf-8"))
    finally:
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert '"event": "ended"' in said


async def test_a_process_says_that_it_ignores_variables_of_its_platform(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    links = {"ESG_SERVICE_HOST": "10.0.0.1", "ESG_PORT": "tcp://10.0.0.1:50051"}
    process = serve(ready, **links)
    try:
        await until(ready.exists)
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)
    (line,) = [line for line in said.splitlines() if "variables ignored" in line]
    assert '"level": "warning"' in line
    assert "ESG_PORT,ESG_SERVICE_HOST" in line


# attack: I1
async def test_a_stream_to_a_process_that_was_stopped_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = {"grpc.keepalive_time_ms": 1000, "grpc.keepalive_timeout_ms": 1000}
    options = [(name, soon.get(name, value)) for name, value in channels.OPTIONS]
    monkeypatch.setattr(channels, "OPTIONS", options)
    ready = tmp_path / "ready"
    process = serve(ready)
    try:
        await until(ready.exists)
        async with channels.channel(ready.read_text("utf-8")) as link:
            stub = health_pb2_grpc.HealthStub(link)
            watching = aiter(stub.Watch(health_pb2.HealthCheckRequest()))
            assert (await anext(watching)).status == health_pb2.HealthCheckResponse.SERVING
            os.kill(process.pid, signal.SIGSTOP)
            with pytest.raises(grpc.aio.AioRpcError) as broken:
                await anext(watching)
            assert broken.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        process.kill()
        process.communicate(timeout=60)


# attack: I1
def test_a_process_whose_loop_stands_still_ends_and_shows_where(tmp_path: Path) -> None:
    process = serve(tmp_path / "ready", STAND_IN="gateway stalls")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Timeout (0:00:01)!" in said
    assert "run_service" in said


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"STAND_IN": "gateway refuses"}, "nothing is as it should be"),
        ({"ESG_GATEWAY_BRUST": "1"}, "unknown variable 'ESG_GATEWAY_BRUST'"),
        ({"ESG_LOG_LEVEL": "loud"}, "log_level: unknown level 'loud'"),
    ],
)
def test_a_process_that_cannot_do_as_told_says_why_in_one_line(
    environ: dict[str, str], words: str, tmp_path: Path
) -> None:
    process = serve(tmp_path / "ready", **environ)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said.startswith("error: gateway: ")
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "ready").exists()
