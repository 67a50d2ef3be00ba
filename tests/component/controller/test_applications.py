"""Applications are registered, updated, used, deleted and forgotten."""

import asyncio
import sys
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.channels import channel
from tests.support.controller_peers import (
    gateway,
    put_application,
    refusal_code,
    running_controller,
    submission,
)
from tests.support.waiting import until


async def test_an_application_is_registered_updated_used_and_deleted() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        stages = [model.Stage(function="resize"), model.Stage(function="label", after=["resize"])]
        made = await put_application(controller.address, name="tag", stages=stages, slo_scale=2.0)
        assert (made.version, made.alone_us, made.slo_us) == (1, 30_000, 60_000)
        assert [stage.name for stage in made.stages] == ["resize", "label"]
        changed = await put_application(
            controller.address, name="tag", stages=stages, slo_us=50_000, update=True
        )
        assert (changed.version, changed.slo_us) == (2, 50_000)
        door.say(submission("r1", "tag"))
        (note,) = await door.hears("accepted")
        assert note.accepted.application == "tag"
        async with channel(controller.address) as to_controller:
            stub = wire_grpc.ControllerStub(to_controller)
            await stub.DeleteApplication(wire.DeleteApplicationRequest(name="tag"))
            listed = await stub.ListApplications(wire.ListApplicationsRequest())
        assert "tag" not in [a.name for a in listed.applications]
        door.say(submission("r2", "tag"))
        (refused,) = await door.hears("refused")
        assert refusal_code(refused) is grpc.StatusCode.NOT_FOUND


# attack: A1
@pytest.mark.parametrize("slo_scale", [1e300, 1e308, sys.float_info.max])
async def test_an_slo_beyond_all_numbers_is_refused_and_the_controller_goes_on(
    slo_scale: float,
) -> None:
    async with running_controller() as controller:
        stages = [model.Stage(name="a", function="depth")]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await put_application(controller.address, name="x", stages=stages, slo_scale=slo_scale)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert (await put_application(controller.address, name="x", stages=stages)).version == 1


async def test_of_two_who_delete_an_application_at_once_one_hears_that_it_is_gone() -> None:
    async with running_controller() as controller, channel(controller.address) as to_controller:
        stub = wire_grpc.ControllerStub(to_controller)
        gone = wire.DeleteApplicationRequest(name="scan")
        calls = [stub.DeleteApplication(gone) for _ in range(2)]
        first, second = await asyncio.gather(*calls, return_exceptions=True)
        (error,) = [one for one in (first, second) if isinstance(one, grpc.aio.AioRpcError)]
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert "unknown application 'scan'" in (error.details() or "")


async def test_figures_of_a_deleted_application_are_forgotten_once_all_are_answered() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        live = controller.live

        async def arrived() -> dict[str, int]:
            looks = stub.WatchMesh(wire.WatchMeshRequest())
            told = [row async for look in looks for row in look.applications]
            return {row.application: row.arrived for row in told}

        def look_often() -> None:
            for _ in range(3):
                live.forget_gone()

        await put_application(
            controller.address, name="trial", stages=[model.Stage(function="label")]
        )
        door.say(submission("r1", "trial"), submission("r2", "thumb"))
        await door.hears("accepted", 2)
        async with channel(controller.address) as to_controller:
            stub = wire_grpc.ControllerStub(to_controller)
            await stub.DeleteApplication(wire.DeleteApplicationRequest(name="trial"))
            look_often()
            assert await arrived() == {"trial": 1, "thumb": 1}
            door.say(wire.GatewayNote(cancel="r1"), wire.GatewayNote(cancel="r2"))
            await door.hears("result", 2)
            live.forget_gone()
            assert await arrived() == {"trial": 1, "thumb": 1}  # for whoever looks now and then
            look_often()
            assert await arrived() == {"thumb": 1}


async def test_a_controller_looks_by_itself_for_applications_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("esg.controller.live.FORGET_S", 0.001)
    registry = CollectorRegistry()
    async with running_controller() as controller, gateway(controller) as door:
        registry.register(controller.live.metrics)
        await put_application(
            controller.address, name="trial", stages=[model.Stage(function="label")]
        )
        door.say(submission("r1", "trial"), wire.GatewayNote(cancel="r1"))
        await door.hears("result")
        assert b'esg_cost_dollars_total{application="trial"}' in generate_latest(registry)
        async with channel(controller.address) as to_controller:
            stub = wire_grpc.ControllerStub(to_controller)
            await stub.DeleteApplication(wire.DeleteApplicationRequest(name="trial"))
        await until(lambda: b'"trial"' not in generate_latest(registry))


@pytest.mark.parametrize(
    ("fields", "expected", "words"),
    [
        ({"name": "photo"}, grpc.StatusCode.ALREADY_EXISTS, "update"),
        ({"name": "new", "update": True}, grpc.StatusCode.NOT_FOUND, "known"),
        ({"name": "new"}, grpc.StatusCode.INVALID_ARGUMENT, "no stages"),
        ({"name": "", "stages": [{"function": "label"}]}, grpc.StatusCode.INVALID_ARGUMENT, "name"),
        ({"name": "new", "stages": [{"function": "x"}]}, grpc.StatusCode.INVALID_ARGUMENT, "label"),
        (
            {"name": "new", "stages": [{"function": "label", "after": ["label"]}]},
            grpc.StatusCode.INVALID_ARGUMENT,
            "cycle",
        ),
        (
            {"name": "new", "stages": [{"function": "label"}], "slo_us": -1},
            grpc.StatusCode.INVALID_ARGUMENT,
            "SLO",
        ),
    ],
)
async def test_a_malformed_application_is_refused(
    fields: dict[str, Any], expected: grpc.StatusCode, words: str
) -> None:
    async with running_controller() as controller:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await put_application(controller.address, **fields)
        assert error.value.code() is expected
        assert words in (error.value.details() or "")
