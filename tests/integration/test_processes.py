"""What the processes of a mesh do when they are asked, told to stop, or killed."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from esg.client import AsyncClient, Outcome
from esg.core.catalog.file import load_catalog
from esg.emulator.history import replay_strictly
from esg.local.supervisor import Mesh
from tests.integration.conftest import Launch
from tests.support.emulated_process import emulated
from tests.support.mesh_expectations import nothing_is_left, photo, scene, status_of
from tests.support.waiting import until


def _health(channel: Any) -> Any:
    return health_pb2_grpc.HealthStub(channel)


async def services_of(address: str) -> set[str]:
    """What server reflection lists."""
    channel: Any
    async with grpc.aio.insecure_channel(address) as channel:
        health = await _health(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        async for answer in stub.ServerReflectionInfo(iter([asked])):
            return {service.name for service in answer.list_services_response.service}
    return set()


async def test_every_service_has_health_and_reflection(mesh: Mesh) -> None:
    assert "esg.gateway.v1.Pipelines" in await services_of(mesh.gateway)
    assert "esg.controller.v1.Controller" in await services_of(mesh.controller)
    record = mesh.directory.read()
    assert record is not None
    addresses = {process["name"]: process["address"] for process in record["processes"]}
    for name in mesh.nodes:
        assert "grpc.health.v1.Health" in await services_of(addresses[name])


async def test_requests_survive_a_node_that_dies(launch: Launch) -> None:
    async with launch(more={"controller": {"rejoin_ms": 0}}) as (mesh, client):
        async with client.stream() as stream:
            answers = [stream.submit("photo", f"{n}".encode()) for n in range(30)]
            await answers[0]
            await mesh.kill("node0")
            for n, answer in enumerate(answers):
                assert (await answer).outputs == photo(f"{n}".encode())

        async def are_there(*names: str) -> bool:
            return {node.node for node in (await status_of(client)).nodes} == {*names}

        await until(lambda: are_there("node1"))
        await mesh.restart("node0")
        await until(lambda: are_there("node0", "node1"))
        assert (await client.submit("scene", b"again")).outputs == scene(b"again")


async def test_models_that_are_unloaded_behind_the_nodes_back_fail_no_request(
    launch: Launch, catalog: Path
) -> None:
    # attack: G1
    functions = load_catalog(catalog).functions
    async with (
        emulated(4, catalog, invoker_warm_start="true") as process,
        launch(nodes=1, vgpus=None, slices=",".join(process.addresses)) as (_, client),
    ):
        assert (await client.submit("scene", b"before")).outputs == scene(b"before")
        for address in process.addresses:
            async with grpc.aio.insecure_channel(address) as channel:
                stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                for name in functions:
                    order = service_pb2.RepositoryModelUnloadRequest(model_name=name)
                    await stub.RepositoryModelUnload(order)
        for n in range(3):
            assert (await client.submit("scene", b"%d" % n)).outputs == scene(b"%d" % n)


async def test_a_node_that_is_told_to_stop_finishes_what_it_runs(launch: Launch) -> None:
    async with launch() as (mesh, client), client.stream() as stream:
        answers = [stream.submit("photo", f"{n}".encode()) for n in range(30)]
        await answers[0]
        await mesh.kill("node1", signal.SIGTERM)
        for n, answer in enumerate(answers):
            assert (await answer).outputs == photo(f"{n}".encode())
        journal = mesh.journal
        assert journal is not None
        text = "".join(path.read_text() for path in journal.glob("*.journal"))
        assert '"InvokerLeaving"' in text
        assert '"TaskFailed"' not in text


# attack: I1
async def test_requests_survive_a_controller_that_hangs(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("esg.local.liveness.PROBE_EVERY_S", 1.0)
    async with launch() as (mesh, client), client.stream() as stream:
        pid = mesh.processes["controller"]
        answers = [stream.submit("photo", f"{n}".encode()) for n in range(10)]
        await answers[0]
        os.kill(pid, signal.SIGSTOP)
        answers += [stream.submit("photo", f"{n}".encode()) for n in range(10, 20)]
        for n, answer in enumerate(answers):
            assert (await answer).outputs == photo(f"{n}".encode())
        assert mesh.processes["controller"] != pid


async def test_a_mesh_that_is_told_to_stop_answers_what_it_accepted(
    launch: Launch,
) -> None:
    async with launch() as (mesh, client):
        async with client.stream() as stream:
            answers = [stream.submit("photo", f"{n}".encode()) for n in range(20)]

            async def accepted() -> bool:
                async with AsyncClient(mesh.gateway) as other:
                    return (await status_of(other)).under_way > 0

            await until(accepted)
            scratch = mesh.directory.scratch
            assert scratch is not None
            stopping = asyncio.create_task(mesh.stop())
            done = [await answer for answer in answers]
            await stopping
        assert {answer.outcome for answer in done} == {Outcome.DONE}
    assert not scratch.exists()


async def test_a_live_journal_replays_order_by_order(launch: Launch, catalog: Path) -> None:
    async with launch(scale=0.5) as (mesh, client):
        async with client.stream() as stream:
            for n in range(30):
                stream.submit(("photo", "scene")[n % 2], f"{n}".encode())
        await nothing_is_left(mesh, client)
        journal = mesh.journal
        assert journal is not None
    replayed = replay_strictly(journal, load_catalog(catalog))
    assert replayed.report.summary()["requests"] == 30
    assert replayed.report.summary()["failed"] == 0
