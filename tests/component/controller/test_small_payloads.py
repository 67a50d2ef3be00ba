"""Small payloads come with submissions and leave with the orders of first stages."""

from pathlib import Path

import grpc

from esg.protos import controller_v1_pb2 as wire
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


def failed(task: str) -> wire.InvokerNote:
    return wire.InvokerNote(failed=wire.TaskFailed(task=task, reason="it broke"))


def payloads(order: wire.Order) -> list[bytes]:
    return [job.payload for job in order.start.jobs]


async def test_a_payload_goes_with_the_first_stages_orders_until_the_request_has_ended() -> None:
    async with (
        running_controller() as controller,
        gateway(controller) as door,
        invoker(controller) as node,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(submission("r1", "photo", payload=b"a picture"))
        (first,) = await node.hears("start")
        assert payloads(first) == [b"a picture"]
        (source,) = first.start.jobs[0].inputs
        assert source.payload  # its key is there, too
        node.say(failed(first.start.task))
        again = (await node.hears("start", 2))[1]
        assert payloads(again) == [b"a picture"]
        node.say(finished(again.start.task))
        later = (await node.hears("start", 3))[2]
        assert payloads(later) == [b""]
        door.say(wire.GatewayNote(cancel="r1"))
        await door.hears("result")
        assert len(controller.live.gateways.payloads) == 0


async def test_a_payload_is_not_held_for_a_request_that_is_refused() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", slo_us=1, payload=b"a picture"))
        await door.hears("refused")
        assert len(controller.live.gateways.payloads) == 0


async def test_a_payload_that_is_not_small_is_refused() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", payload=bytes(2**16 + 1)))
        (refused,) = await door.hears("refused")
        assert refusal_code(refused) == grpc.StatusCode.INVALID_ARGUMENT
        assert len(controller.live.gateways.payloads) == 0


async def test_whoever_submits_it_hears_that_the_controller_has_it() -> None:
    async with running_controller() as controller, gateway(controller) as door:
        door.say(submission("r1", payload=b"a picture"), wire.GatewayNote(follow="r1"))
        door.say(submission("r2"), wire.GatewayNote(follow="r2"))
        accepted = await door.hears("accepted", 4)
        asked = {note.request_id: note.accepted.store_payload for note in accepted}
        assert asked == {"r1": False, "r2": True}


async def test_a_controller_that_was_started_again_asks_for_payloads(tmp_path: Path) -> None:
    journal = str(tmp_path)
    async with running_controller(journal=journal) as first, gateway(first) as door:
        door.say(wire.GatewayNote(session="g1"), submission("r1", payload=b"a picture"))
        await door.hears("accepted")
    async with (
        running_controller(journal=journal) as second,
        gateway(second) as door,
        gateway(second) as other,
        invoker(second) as node,
    ):
        door.say(wire.GatewayNote(session="g1"), wire.GatewayNote(follow="r1"))
        (accepted,) = await door.hears("accepted")
        assert accepted.accepted.store_payload
        # a client that submits it again brings it, too: what is waiting already looks in Redis
        other.say(wire.GatewayNote(session="g2"), submission("r1", payload=b"a picture"))
        (repeated,) = await other.hears("accepted")
        assert repeated.accepted.store_payload
        node.say(greeting(), joined())
        (order,) = await node.hears("start")
        assert payloads(order) == [b"a picture"]
        node.say(finished(order.start.task))
        await door.hears("result")
        other.say(submission("r1", payload=b"a picture"))
        assert not (await other.hears("accepted", 2))[1].accepted.store_payload
        await other.hears("result", 2)
        assert len(second.live.gateways.payloads) == 0
