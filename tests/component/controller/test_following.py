"""Requests are followed, cancelled and asked about later."""

import grpc

from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.units import seconds
from tests.support.controller_peers import (
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    refusal_code,
    running_controller,
    submission,
)
from tests.support.waiting import until


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
        assert [refusal_code(note) for note in notes] == [grpc.StatusCode.NOT_FOUND] * 2


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
        assert refusal_code(note) is grpc.StatusCode.NOT_FOUND


async def test_gateway_hears_of_a_missing_payload_while_attempts_are_left() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1"))
        missing = [
            wire.MissingInput(request_id=name, source=wire.Input(payload="@"))
            for name in ("r1", "somebody-elses")
        ]
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
