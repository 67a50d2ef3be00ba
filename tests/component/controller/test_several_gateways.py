"""A request belongs to the mesh, not to a gateway: who may leave it, and who still waits for it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.units import seconds
from tests.support.controller_peers import (
    Peer,
    Running,
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    running_controller,
    submission,
)

# attack: F1

LEAVE = wire.GatewayNote(leave="r1")
FOLLOW = wire.GatewayNote(follow="r1")
LATER = {"fetched_later": True}


@asynccontextmanager
async def gateways(controller: Running, *sessions: str) -> AsyncIterator[list[Peer]]:
    """Each with a stream, on which it has said which process it is."""
    async with AsyncExitStack() as stack:
        doors = [await stack.enter_async_context(gateway(controller)) for _ in sessions]
        for door, session in zip(doors, sessions, strict=True):
            door.say(wire.GatewayNote(session=session))
        yield doors


async def settled(door: Peer) -> None:
    """Until the controller has handled all that was said on this stream."""
    count = len(door.of("refused")) + 1
    door.say(submission("no such application", "nothing"))
    await door.hears("refused", count)


async def submitted(door: Peer, **more: Any) -> None:
    count = len(door.of("accepted")) + 1
    door.say(submission("r1", **more))
    await door.hears("accepted", count)


async def test_who_leaves_does_not_cancel_what_another_gateway_waits_for() -> None:
    async with running_controller() as controller, gateways(controller, "a", "b") as (a, b):
        await submitted(a)
        await submitted(b)
        a.say(LEAVE)
        await settled(a)
        assert "r1" in controller.state.requests
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            (order,) = await node.hears("start")
            node.say(finished(order.start.task))
            (note,) = await b.hears("result")
        assert (note.result.outcome, note.shared) == (model.OUTCOME_DONE, True)


async def test_when_the_last_gateway_leaves_a_request_is_cancelled() -> None:
    async with running_controller() as controller, gateways(controller, "a", "b") as (a, b):
        await submitted(a)
        await submitted(b)
        for door in (a, b):
            door.say(LEAVE)
            await settled(door)
        for door in (a, b):
            (note,) = await door.hears("result")
            assert note.result.outcome == model.OUTCOME_CANCELLED


async def test_what_is_to_be_fetched_later_is_kept_whoever_leaves() -> None:
    async with running_controller() as controller, gateways(controller, "a", "b") as (a, b):
        await submitted(a)
        await submitted(b, **LATER)
        a.say(LEAVE)
        await settled(a)
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            (order,) = await node.hears("start")
            node.say(finished(order.start.task))
            (note,) = await b.hears("result")
        assert note.result.outcome == model.OUTCOME_DONE
        assert note.shared  # whoever waited does not delete what is to be fetched


async def test_what_is_to_be_fetched_later_stays_for_as_long_as_its_result_is_remembered() -> None:
    async with (
        running_controller(remembered_s=300) as controller,
        gateways(controller, "a", "b") as (a, b),
    ):
        await submitted(a, **LATER)
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            (order,) = await node.hears("start")
            node.say(finished(order.start.task))
            (first,) = await a.hears("result")
        b.say(wire.GatewayNote(follow="r1"))
        (second,) = await b.hears("result")
    assert (first.shared, second.shared) == (True, True)
    assert 0 < second.fetch_within_us <= first.fetch_within_us <= seconds(300)
    assert first.fetch_within_us > seconds(240)


async def test_what_is_waited_for_is_not_to_be_fetched_later() -> None:
    async with running_controller() as controller, gateways(controller, "a") as (a,):
        await submitted(a)
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            (order,) = await node.hears("start")
            node.say(finished(order.start.task))
            (note,) = await a.hears("result")
    assert (note.shared, note.fetch_within_us) == (False, 0)


async def test_a_cancellation_by_a_client_is_for_all() -> None:
    async with running_controller() as controller, gateways(controller, "a", "b") as (a, b):
        await submitted(a, **LATER)
        await submitted(b)
        b.say(wire.GatewayNote(cancel="r1"))
        for door in (a, b):
            (note,) = await door.hears("result")
            assert note.result.outcome == model.OUTCOME_CANCELLED


async def test_a_gateway_may_take_back_that_a_request_is_to_be_kept() -> None:
    keep_not = wire.GatewayNote(keep_not="r1")
    async with running_controller() as controller, gateways(controller, "a", "b") as (a, b):
        await submitted(a, **LATER)
        await submitted(b, **LATER)
        a.say(keep_not, keep_not)
        await settled(a)
        assert "r1" in controller.state.requests
        b.say(keep_not)
        (note,) = await b.hears("result")
        assert note.result.outcome == model.OUTCOME_CANCELLED


async def test_leaving_what_is_not_known_or_left_already_changes_nothing() -> None:
    async with running_controller() as controller, gateways(controller, "a", "b") as (a, b):
        await submitted(a)
        b.say(LEAVE, wire.GatewayNote(leave="r9"))
        await settled(b)
        assert "r1" in controller.state.requests
        assert [note.request_id for note in b.of("refused")] == ["no such application"]


async def test_a_gateway_that_is_away_still_waits_and_is_known_when_it_is_back() -> None:
    async with running_controller() as controller, gateways(controller, "b") as (b,):
        async with gateways(controller, "a") as (a,):
            await submitted(a)
        b.say(FOLLOW)
        await b.hears("accepted")
        b.say(LEAVE)
        await settled(b)
        assert "r1" in controller.state.requests
        async with gateways(controller, "a") as (a,):
            a.say(FOLLOW)
            await a.hears("accepted")
            a.say(LEAVE)
            (note,) = await a.hears("result")
            assert note.result.outcome == model.OUTCOME_CANCELLED


async def test_who_waits_is_known_after_a_restart(tmp_path: Path) -> None:
    journal = str(tmp_path)
    async with running_controller(journal=journal) as first, gateways(first, "a", "b") as (a, b):
        await submitted(a)
        await submitted(b)
    async with running_controller(journal=journal) as second, gateways(second, "a") as (a,):
        a.say(FOLLOW)
        await a.hears("accepted")
        a.say(LEAVE)
        await settled(a)
        assert "r1" in second.state.requests  # the other gateway is not back yet
        async with gateways(second, "b") as (b,):
            b.say(FOLLOW)
            await b.hears("accepted")
            b.say(LEAVE)
            (note,) = await b.hears("result")
            assert note.result.outcome == model.OUTCOME_CANCELLED


async def test_what_was_kept_by_a_repeat_is_kept_after_restarts(tmp_path: Path) -> None:
    """In the first restart it is in the journal's entries, in the second in a snapshot."""
    journal = str(tmp_path)
    times = {"journal": journal, "repeats_s": 60, "remembered_s": 600}
    async with running_controller(**times) as first, gateways(first, "a", "b") as (a, b):
        await submitted(a)
        await submitted(b, **LATER)
    async with running_controller(**times):
        pass
    async with running_controller(**times) as third, gateways(third, "a") as (a,):
        a.say(FOLLOW)
        await a.hears("accepted")
        a.say(LEAVE)
        await settled(a)
        async with invoker(third) as node:
            node.say(greeting(), joined())
            (order,) = await node.hears("start")
            node.say(finished(order.start.task))
            await a.hears("result")
        third.clock[0] += seconds(300)
        a.say(FOLLOW)
        (_, note) = await a.hears("result", 2)
        assert note.result.outcome == model.OUTCOME_DONE


async def test_an_answer_that_somebody_will_fetch_later_is_remembered_for_longer() -> None:
    times = {"repeats_s": 60, "remembered_s": 600}
    async with running_controller(**times) as controller, gateways(controller, "a") as (a,):
        await submitted(a)
        a.say(LEAVE)
        await a.hears("result")
        await submitted(a, **LATER)
        controller.clock[0] += seconds(300)
        a.say(FOLLOW)
        assert len(await a.hears("result", 3)) == 3


async def test_repeats_of_what_is_being_decided_hear_what_was_decided() -> None:
    async with running_controller() as controller, gateways(controller, "a", "b") as (a, b):
        a.say(submission("r1", slo_us=1), submission("r1", slo_us=1, **LATER))
        assert len(await a.hears("refused", 2)) == 2
        b.say(submission("r1"), FOLLOW, submission("r1", **LATER))
        await b.hears("accepted", 3)
        assert controller.state.requests_admitted == 1
        record = controller.live.shell.requests.under_way["r1"]
        assert (record.gateways, record.fetched_later) == (("b",), True)


async def test_a_gateway_whose_client_has_come_back_waits_again() -> None:
    async with running_controller() as controller, gateways(controller, "a", "b") as (a, b):
        await submitted(a)
        await submitted(b)
        a.say(LEAVE, FOLLOW)
        await a.hears("accepted", 2)
        b.say(LEAVE)
        await settled(b)
        assert "r1" in controller.state.requests
