"""Small results come with reports and leave with answers, to every gateway that asks."""

from pathlib import Path
from typing import Any

from esg.protos import controller_v1_pb2 as wire
from tests.support.controller_peers import (
    Peer,
    Running,
    gateway,
    greeting,
    invoker,
    joined,
    numbered,
    running_controller,
    submission,
)
from tests.support.waiting import until

FOLLOW = wire.GatewayNote(follow="r1")
LATER = {"fetched_later": True}


def brought(order: wire.Order, content: bytes) -> wire.InvokerNote:
    """The report of a task of one job, with its result."""
    finished = wire.TaskFinished(task=order.start.task, running_us=10_000)
    finished.brought.add(request_id=order.start.jobs[0].request_id, content=content)
    return wire.InvokerNote(finished=finished)


def outputs(note: wire.ControllerNote) -> dict[str, bytes]:
    return {output.stage: output.content for output in note.outputs}


async def ordered(controller: Running, node: Peer, door: Peer, **more: Any) -> wire.Order:
    """A request comes in, and its only task is ordered."""
    node.say(greeting(), joined())
    await until(lambda: controller.state.nodes)
    door.say(submission("r1", **more))
    (order,) = await node.hears("start")
    return order


async def test_a_result_goes_to_all_who_wait_and_to_who_asks_later() -> None:
    async with (
        running_controller() as controller,
        gateway(controller) as first,
        gateway(controller) as second,
        gateway(controller) as third,
        invoker(controller) as node,
    ):
        order = await ordered(controller, node, first)
        assert order.start.jobs[0].bring_bytes == 2**14
        second.say(FOLLOW)
        await second.hears("accepted")
        node.say(brought(order, b"cat"))
        for door in (first, second):
            (note,) = await door.hears("result")
            assert outputs(note) == {"resize": b"cat"}
        third.say(submission("r1"))  # a repeat
        (note,) = await third.hears("result")
        assert outputs(note) == {"resize": b"cat"}


async def test_who_wants_it_later_gets_it_for_as_long_as_it_can_be_fetched() -> None:
    async with (
        running_controller(repeats_s=1, remembered_s=300) as controller,
        gateway(controller) as door,
        gateway(controller) as other,
        invoker(controller) as node,
    ):
        order = await ordered(controller, node, door)
        node.say(brought(order, b"cat"))
        await door.hears("result")
        other.say(submission("r1", **LATER))
        await other.hears("result")
        controller.clock[0] += 200_000_000
        other.say(FOLLOW)
        note = (await other.hears("result", 2))[1]
        assert outputs(note) == {"resize": b"cat"}
        assert note.fetch_within_us > 0
        controller.clock[0] += 200_000_000
        other.say(FOLLOW)
        await other.hears("refused")
        assert controller.live.shell.requests.held_bytes == 0


async def test_a_request_for_which_nobody_waits_has_its_result_stored() -> None:
    async with (
        running_controller() as controller,
        gateway(controller) as door,
        invoker(controller) as node,
    ):
        order = await ordered(controller, node, door, **LATER)
        assert order.start.jobs[0].bring_bytes == 0


async def test_a_result_survives_a_controller_that_ends_before_it_answers(tmp_path: Path) -> None:
    journal = {"journal": str(tmp_path), "sync": False}
    async with (
        running_controller(**journal) as first,
        gateway(first) as door,
        invoker(first) as node,
    ):
        order = await ordered(first, node, door)
        first.live.gateways.answered = lambda *_: None  # type: ignore[method-assign] # it dies here
        node.say(numbered(1, brought(order, b"cat")))
        await until(lambda: not first.state.requests)
    for _ in range(2):  # it is in the journal, and then in a snapshot
        async with running_controller(**journal) as second, gateway(second) as door:
            door.say(submission("r1"))
            (note,) = await door.hears("result")
            assert outputs(note) == {"resize": b"cat"}


async def test_a_report_that_was_not_acknowledged_brings_the_result_again(tmp_path: Path) -> None:
    journal = {"journal": str(tmp_path)}
    async with (
        running_controller(**journal) as first,
        gateway(first) as door,
        invoker(first) as node,
    ):
        order = await ordered(first, node, door)
    async with (
        running_controller(**journal) as second,
        gateway(second) as door,
        invoker(second) as node,
    ):
        door.say(FOLLOW)
        report = numbered(1, brought(order, b"cat"))
        node.say(greeting(), report, joined(latest_task=1), report)
        (note,) = await door.hears("result")
        assert outputs(note) == {"resize": b"cat"}
