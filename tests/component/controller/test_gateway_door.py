"""Requests are accepted, refused, repeated, followed and cancelled."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from esg.controller.request_log import AnsweredRequest, RequestLog, RequestRecord
from esg.core.messages.events import Woke
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.channels import channel
from esg.units import seconds
from tests.support.controller_peers import (
    LIMIT_S,
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    running_controller,
    submission,
    until,
)


def code(note: Any) -> grpc.StatusCode:
    return next(c for c in grpc.StatusCode if c.value[0] == note.refused.code)


async def test_a_request_is_accepted_and_answered_once() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1", "photo"))
        for number in range(3):
            orders = await node.hears("start", number + 1)
            controller.clock[0] += 10_000
            node.say(finished(orders[number].start.task))
        (note,) = await door.hears("result")
        result = note.result
        assert [n.WhichOneof("note") for n in door.heard] == ["accepted", "result"]
        assert (result.outcome, result.slo_met) == (model.OUTCOME_DONE, True)
        assert [stage.stage for stage in result.stages] == ["resize", "detect", "label"]
        assert list(result.output_stages) == ["label"]
        assert (result.latency_us, result.slo_us) == (30_000, 600_000)
        assert result.cost_usd == pytest.approx(sum(s.cost_usd for s in result.stages))


@pytest.mark.parametrize(
    ("application", "more", "expected", "words"),
    [
        ("nothing", {}, grpc.StatusCode.NOT_FOUND, "thumb"),
        ("photo", {"slo_us": 1}, grpc.StatusCode.INVALID_ARGUMENT, "cannot be met"),
        ("photo", {"slo_us": -5}, grpc.StatusCode.INVALID_ARGUMENT, "cannot be met"),
    ],
)
async def test_what_cannot_be_is_refused_with_a_reason(
    application: str, more: dict[str, int], expected: grpc.StatusCode, words: str
) -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", application, **more))
        (note,) = await door.hears("refused")
        assert code(note) is expected
        assert words in note.refused.message
        assert not controller.state.requests
        assert not any(of.due for of in controller.service._tally.applications.values())


@pytest.mark.parametrize(
    ("more", "slo_us"),
    [
        ({}, 600_000),
        ({"deadline_us": 300_000}, 300_000),
        ({"deadline_us": 900_000}, 600_000),
        ({"deadline_us": 300_000, "slo_us": 250_000}, 250_000),
        ({"deadline_us": 300_000, "slo_us": 350_000}, 300_000),
    ],
)
async def test_a_deadline_that_is_shorter_than_the_slo_becomes_it(
    more: dict[str, int], slo_us: int
) -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", "photo", **more))
        await door.hears("accepted")
        request = controller.state.requests["r1"]
        assert request.deadline_us - request.arrived_us == slo_us


async def test_while_there_is_too_much_to_do_requests_are_refused_with_a_time() -> None:
    async with running_controller(max_waiting=1) as controller, gateway(controller) as door:
        door.say(submission("r1", "photo"), submission("r2", "photo"))
        (note,) = await door.hears("refused")
        assert (note.request_id, code(note)) == ("r2", grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert "try again in 1000 ms" in note.refused.message
        assert note.refused.retry_after_us == 1_000_000
        assert controller.service._tally.applications["photo"].overloaded == 1


async def test_a_request_of_an_application_that_drops_late_ones_is_dropped() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        stages = [model.Stage(function="resize")]
        drop = model.LATE_REQUESTS_DROP
        made = await put(controller.address, name="now", stages=stages, late_requests=drop)
        assert made.late_requests == drop
        door.say(submission("r1", "now"))  # takes 10 ms, which is its SLO, and there are no nodes
        await door.hears("accepted")
        controller.clock[0] += 1
        door.say(submission("r2", "photo"))
        (note,) = await door.hears("result")
        assert (note.request_id, note.result.outcome) == ("r1", model.OUTCOME_DROPPED)
        assert note.result.reason.startswith("dropped before resize")


async def test_an_id_that_was_refused_may_be_tried_again() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", "nothing"))
        await door.hears("refused")
        door.say(submission("r1", "thumb", content_hash=b"2"))
        await door.hears("accepted")


async def test_the_same_again_is_the_same_request() -> None:
    async with (
        running_controller() as controller,
        gateway(controller) as door,
        gateway(controller) as other,
    ):
        door.say(submission("r1"))
        await door.hears("accepted")
        other.say(submission("r1"))
        (note,) = await other.hears("accepted")
        assert note.accepted.repeated
        assert controller.state.requests_admitted == 1
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            (order,) = await node.hears("start")
            node.say(finished(order.start.task))
            assert await door.hears("result") == await other.hears("result")
        other.say(submission("r1"))
        assert len(await other.hears("result", 2)) == 2
        assert controller.state.requests_admitted == 1


async def test_an_id_with_other_content_is_refused() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1"), submission("r1", content_hash=b"2"))
        (note,) = await door.hears("refused")
        assert code(note) is grpc.StatusCode.ALREADY_EXISTS
        assert "r1" in controller.state.requests


async def test_a_request_outlives_its_gateway_and_another_can_follow_it() -> None:
    async with running_controller() as controller, invoker(controller) as node:
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        async with gateway(controller) as door:
            door.say(submission("r1", "photo"))
            await door.hears("accepted")
        orders = await node.hears("start")
        node.say(finished(orders[0].start.task))
        await node.hears("start", 2)
        async with gateway(controller) as other:
            other.say(wire.GatewayNote(follow="r1"))
            past = await other.hears("progress", 3)
            told = [(n.progress.stage, n.progress.finished) for n in past]
            assert told == [("resize", False), ("resize", True), ("detect", False)]
            node.say(finished(node.of("start")[1].start.task))
            (new, _) = (await other.hears("progress", 5))[3:]
            assert (new.progress.stage, new.progress.finished) == ("detect", True)


async def test_an_unknown_request_cannot_be_followed_or_cancelled() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(wire.GatewayNote(follow="r9"), wire.GatewayNote(cancel="r8"))
        notes = await door.hears("refused", 2)
        assert [code(note) for note in notes] == [grpc.StatusCode.NOT_FOUND] * 2


async def test_a_cancelled_request_stops_what_runs_for_it() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
        door.say(wire.GatewayNote(cancel="r1"))
        (note,) = await door.hears("result")
        assert note.result.outcome == model.OUTCOME_CANCELLED
        (stop,) = await node.hears("stop")
        assert stop.stop == order.start.task


async def test_a_controller_that_goes_takes_nothing_new_and_answers_the_rest() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
        controller.service.gateways.draining = True
        door.say(submission("r2"))
        (note,) = await door.hears("refused")
        assert code(note) is grpc.StatusCode.UNAVAILABLE
        node.say(finished(order.start.task))
        await controller.service.finish()
        await door.hears("result")


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], threading.Event]:
    """From when it is called, nothing is on disk until the event is set."""
    synced, sync = threading.Event(), os.fdatasync

    def slow(handle: int) -> None:
        assert synced.wait(LIMIT_S)
        sync(handle)

    def begin() -> threading.Event:
        monkeypatch.setattr(os, "fdatasync", slow)
        return synced

    return begin


async def test_a_controller_that_goes_waits_for_an_answer_that_is_being_written(
    tmp_path: Path, slow_disk: Callable[[], threading.Event]
) -> None:
    async with (
        running_controller(journal=str(tmp_path)) as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
        synced = slow_disk()
        node.say(finished(order.start.task))
        await until(lambda: not controller.state.requests)
        finishing = asyncio.create_task(controller.service.finish())
        await asyncio.sleep(0)
        early = finishing.done()
        synced.set()
        await finishing
        await door.hears("result")
        assert not early


async def test_a_controller_that_goes_waits_for_a_request_that_it_has_only_just_heard(
    tmp_path: Path, slow_disk: Callable[[], threading.Event]
) -> None:
    async with (
        running_controller(journal=str(tmp_path)) as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        synced = slow_disk()
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        await until(lambda: controller.service._requests)
        assert not controller.state.requests
        finishing = asyncio.create_task(controller.service.finish())
        await asyncio.sleep(0)
        early = finishing.done()
        synced.set()
        (order,) = await node.hears("start")
        node.say(finished(order.start.task))
        await finishing
        await door.hears("result")
        assert not early


def test_memory_of_answered_requests_is_bounded_in_number_and_time() -> None:
    requests = RequestLog(remembered=2, fetched_later_us=100, waited_for_us=10)
    for number in range(4):
        for name, later in ((f"r{number}", True), (f"w{number}", False)):
            requests.begin(name, RequestRecord("thumb", b"", later))
            requests.answer(name, model.Result(request_id=name), now_us=number)

    def known(kind: str, now_us: int = 3) -> list[bool]:
        return [requests.find(f"{kind}{number}", now_us) is not None for number in range(4)]

    assert known("r") == known("w") == [False, False, True, True]
    assert known("w", now_us=12) == [False, False, True, True]
    assert known("w", now_us=13) == [False, False, False, True]  # though nothing else was answered
    assert known("w", now_us=14) == [False] * 4
    assert known("r", now_us=50) == [False, False, True, True]
    found = requests.find("r3", 50)
    assert isinstance(found, AnsweredRequest)
    assert found.result.request_id == "r3"


async def test_an_answer_is_forgotten_in_time_if_nothing_else_happens() -> None:
    async with running_controller(repeats_s=60) as controller, gateway(controller) as door:
        door.say(submission("r1"))
        await door.hears("accepted")
        door.say(wire.GatewayNote(cancel="r1"))
        await door.hears("result")
        controller.clock[0] += seconds(60)
        door.say(wire.GatewayNote(follow="r1"))
        await door.hears("result", 2)
        controller.clock[0] += 1
        door.say(wire.GatewayNote(follow="r1"))
        (note,) = await door.hears("refused")
        assert code(note) is grpc.StatusCode.NOT_FOUND


async def put(address: str, **fields: Any) -> model.Application:
    async with channel(address) as to_controller:
        stub = wire_grpc.ControllerStub(to_controller)
        reply: model.Application = await stub.PutApplication(wire.PutApplicationRequest(**fields))
        return reply


async def test_an_application_is_registered_updated_used_and_deleted() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        stages = [model.Stage(function="resize"), model.Stage(function="label", after=["resize"])]
        made = await put(controller.address, name="tag", stages=stages, slo_scale=2.0)
        assert (made.version, made.alone_us, made.slo_us) == (1, 30_000, 60_000)
        assert [stage.name for stage in made.stages] == ["resize", "label"]
        changed = await put(
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
        assert code(refused) is grpc.StatusCode.NOT_FOUND


async def test_how_a_deleted_application_fared_is_forgotten_once_all_are_answered() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        service = controller.service

        async def arrived() -> dict[str, int]:
            looks = stub.WatchMesh(wire.WatchMeshRequest())
            told = [row async for look in looks for row in look.applications]
            return {row.application: row.arrived for row in told}

        def look_often() -> None:
            for _ in range(3):
                service.forget_gone()

        await put(controller.address, name="trial", stages=[model.Stage(function="label")])
        door.say(submission("r1", "trial"), submission("r2", "thumb"))
        await door.hears("accepted", 2)
        async with channel(controller.address) as to_controller:
            stub = wire_grpc.ControllerStub(to_controller)
            await stub.DeleteApplication(wire.DeleteApplicationRequest(name="trial"))
            look_often()
            assert await arrived() == {"trial": 1, "thumb": 1}
            door.say(wire.GatewayNote(cancel="r1"), wire.GatewayNote(cancel="r2"))
            await door.hears("result", 2)
            service.forget_gone()
            assert await arrived() == {"trial": 1, "thumb": 1}  # for whoever looks now and then
            look_often()
            assert await arrived() == {"thumb": 1}


async def test_a_controller_looks_by_itself_for_applications_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("esg.controller.servicer.FORGET_S", 0.001)
    registry = CollectorRegistry()
    async with running_controller() as controller, gateway(controller) as door:
        registry.register(controller.service.metrics)
        await put(controller.address, name="trial", stages=[model.Stage(function="label")])
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
            await put(controller.address, **fields)
        assert error.value.code() is expected
        assert words in (error.value.details() or "")


async def test_the_mesh_tells_its_state() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
        channel(controller.address) as to_controller,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(*(submission(f"r{n}", "scan") for n in range(4)))
        await node.hears("start")
        await until(lambda: len(controller.state.requests) == 4)
        stub = wire_grpc.ControllerStub(to_controller)
        (status,) = [s async for s in stub.WatchMesh(wire.WatchMeshRequest())]
        assert status.under_way == 4
        (queue,) = [q for q in status.queues if q.application == "scan"]
        assert queue.waiting + queue.running == 4
        (node,) = status.nodes
        assert {part.function for part in node.slices if part.task} == {"detect"}
        (scan,) = status.applications
        assert (scan.application, scan.arrived) == ("scan", 4)


async def test_a_controller_that_goes_on_has_an_uptime_of_its_own(tmp_path: Path) -> None:
    kept = {"journal": str(tmp_path / "journal")}
    for clock_us in (0, seconds(5)):  # the second one goes on with the clock of the first
        async with (
            running_controller(**kept) as controller,
            channel(controller.address) as to_controller,
        ):
            assert controller.clock[0] >= clock_us
            controller.clock[0] += seconds(5)
            await controller.service.driver.ask(Woke())
            stub = wire_grpc.ControllerStub(to_controller)
            (status,) = [s async for s in stub.WatchMesh(wire.WatchMeshRequest())]
            assert status.uptime_us == seconds(5)


async def test_while_there_is_hope_a_gateway_hears_that_a_payload_was_not_found() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        missing = [wire.StageOutput(request_id=name) for name in ("r1", "somebody-elses")]
        for tries in (1, 2, 3):
            order = (await node.hears("start", tries))[-1].start
            failed = wire.TaskFailed(task=order.task, reason="no payload", missing=missing)
            node.say(wire.InvokerNote(failed=failed))
            await until(lambda task=order.task: task not in controller.state.tasks)
            controller.clock[0] += 1_000_000  # the pause before the next try is over
            door.say(submission(f"another {tries}", "nothing"))
        (note,) = await door.hears("result")
        assert note.result.outcome == model.OUTCOME_FAILED
        assert [note.request_id for note in door.of("payload_lost")] == ["r1", "r1"]
