"""A gateway that is told to stop: whoever waits is answered, or told where else to ask."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from esg.client import Client
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel
from tests.component.gateway.conftest import Keys
from tests.support.running_gateway import Gateways, playing_mesh
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.waiting import LIMIT_S

ASKED = public.SubmitRequest(application=KNOWN, payload=b"abc", request_id="r1")
OTHER = public.SubmitRequest(application=KNOWN, payload=b"abc", request_id="r2")


async def test_draining_gateway_answers_who_waits_and_refuses_who_comes(
    gateways: Gateways, controller: ScriptedController, keys: Keys
) -> None:
    address = await gateways.start(drain_s=LIMIT_S)
    async with channel(address) as to_gateway:
        stub = public_grpc.PipelinesStub(to_gateway)
        waiting = stub.Submit(ASKED)
        await controller.takes_in("r1")
        (ended,) = gateways.tell_to_stop()
        health: Any = health_pb2_grpc.HealthStub(to_gateway)
        async for reply in health.Watch(health_pb2.HealthCheckRequest()):
            if reply.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                break
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Submit(OTHER)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "going away; try again" in (caught.value.details() or "")
        assert not ended.done()
        await controller.finish("r1", second=b"cba")
        assert (await waiting).outputs[0].content == b"cba"
        await ended
    assert keys() == []


async def test_a_stream_is_answered_and_then_ended(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start(drain_s=LIMIT_S)

    async def one() -> AsyncIterator[public.SubmitGroup]:
        yield public.SubmitGroup(requests=[ASKED])
        await asyncio.Event().wait()

    async with channel(address) as to_gateway:
        call = public_grpc.PipelinesStub(to_gateway).SubmitMany(one())
        await controller.takes_in("r1")
        (ended,) = gateways.tell_to_stop()
        await controller.finish("r1", second=b"cba")
        replies = aiter(call)
        assert (await anext(replies)).replies[0].done.outputs[0].content == b"cba"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(replies)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await ended


async def test_draining_gateway_hands_back_requests_that_take_too_long_and_cancels_none(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start(drain_s=0.05)
    async with channel(address) as to_gateway:
        call = public_grpc.PipelinesStub(to_gateway).Submit(ASKED)
        submission = await controller.hears("submission")
        controller.accept("r1")
        await controller.payload(submission)
        (ended,) = gateways.tell_to_stop()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        await ended
    assert controller.said == []
    assert await controller.payload(submission) == b"abc"


def test_the_process_ends_when_it_is_told_to(redis_url: str, tmp_path: Path) -> None:
    with playing_mesh(redis_url, tmp_path) as (child, address):
        with Client(address) as mesh:
            assert mesh.submit(KNOWN, b"abc", request_id="r1").outputs == {"second": b"cba"}
        child.send_signal(signal.SIGTERM)
        assert child.wait(LIMIT_S) == 0
    log = (tmp_path / "gateway" / "log").read_text("utf-8")
    assert '"request": "r1"' in log
    assert "Traceback" not in log


async def test_health_and_reflection_are_served(address: str) -> None:
    to_gateway: Any
    async with channel(address) as to_gateway:
        health: Any = health_pb2_grpc.HealthStub(to_gateway)
        for service in ("", "esg.gateway.v1.Pipelines"):
            reply = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(to_gateway)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        async for answer in reflection.ServerReflectionInfo(iter([asked])):
            names = [service.name for service in answer.list_services_response.service]
            assert "esg.gateway.v1.Pipelines" in names
