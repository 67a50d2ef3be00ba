"""An invoker's end of its stream, against a controller that says what it is told to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from esg.backoff import Backoff
from esg.core.messages.commands import StopTask, WarmInstance
from esg.core.messages.events import InstanceReady, TaskFailed
from esg.core.sessions import node_end
from esg.invoker.controller_link import ControllerLink
from esg.protos import controller_v1_pb2 as wire
from esg.units import ms, seconds
from tests.support.live_node import LiveNode, job, live_node, output_of, start
from tests.support.scripted_invoker_controller import Attachment, ScriptedController, serving
from tests.support.waiting import LIMIT_S, until

WARM = WarmInstance(invoker="i0", slice=0, function="quick")


@dataclass
class Linked:
    """A node that is attached to a controller, or tries to be."""

    live: LiveNode
    link: ControllerLink
    running: asyncio.Task[None]
    joins: list[str]

    async def has_left(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            await self.running


@asynccontextmanager
async def linked(address: str, redis_url: str, folder: Path) -> AsyncIterator[Linked]:
    link = ControllerLink(address, "i0", "digest")
    async with live_node(redis_url, folder, report=link.report) as live:
        joins: list[str] = []
        running = asyncio.create_task(link.run(live.node, lambda: joins.append("joined")))
        try:
            yield Linked(live, link, running, joins)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def controller() -> ScriptedController:
    return ScriptedController()


@pytest.fixture
async def invoker(
    controller: ScriptedController, redis_url: str, tmp_path: Path
) -> AsyncIterator[Linked]:
    async with (
        serving(controller) as address,
        linked(address, redis_url, tmp_path / "store") as found,
    ):
        yield found


async def joined(controller: ScriptedController, count: int = 1) -> Attachment:
    """Welcome an invoker, without anything special, and wait until it has joined."""
    attachment = await controller.attached(count)
    attachment.welcome()
    await attachment.hears("joined")
    return attachment


async def runs_endlessly(invoker: Linked) -> None:
    """Have it run a task that does not end by itself."""
    await invoker.live.payload("r1", b"picture")
    invoker.live.node.order(start("t1", "endless", job("r1")))
    await until(lambda: invoker.live.servers[0].busy)


# ---- joining


async def test_invoker_greets_and_joins_when_it_is_welcome(
    controller: ScriptedController, invoker: Linked
) -> None:
    attachment = await controller.attached()
    greeting = attachment.notes[0].greeting
    assert (greeting.invoker, greeting.catalog) == ("i0", "digest")
    assert len(greeting.session) == 16
    assert attachment.kinds == ["greeting"]
    assert invoker.joins == []
    attachment.welcome()
    inventory = (await attachment.hears("joined")).joined
    assert inventory.vcpus == 4
    assert [part.memory_mb for part in inventory.slices] == [1100, 1100]
    assert invoker.joins == ["joined"]


async def test_orders_come_in_and_news_go_out(
    controller: ScriptedController, invoker: Linked
) -> None:
    attachment = await joined(controller)
    await invoker.live.payload("r1", b"picture")
    attachment.order(start("t1", "quick", job("r1")))
    finished = (await attachment.hears("finished")).finished
    assert finished.task == "t1"
    assert finished.running_us > 0
    assert attachment.kinds == ["greeting", "joined", "ready", "finished"]
    assert invoker.live.store.local.get("r1", "stage") == output_of("quick", b"picture")


async def test_news_from_before_the_welcome_comes_before_the_inventory(
    controller: ScriptedController, invoker: Linked
) -> None:
    attachment = await controller.attached()
    invoker.live.node.order(WARM)
    await invoker.live.tells(InstanceReady)
    attachment.welcome()
    await attachment.hears("joined")
    assert attachment.kinds == ["greeting", "ready", "joined"]


async def test_invoker_starts_afresh_when_told(
    controller: ScriptedController, invoker: Linked
) -> None:
    await runs_endlessly(invoker)
    await invoker.live.store.keep("r0", "a", b"output", local=True, publish=False)
    attachment = await controller.attached()
    attachment.welcome(start_afresh=True)
    inventory = (await attachment.hears("joined")).joined
    assert attachment.kinds == ["greeting", "joined"]
    assert list(inventory.running) == []
    assert inventory.latest_task == 1
    assert list(inventory.slices[0].resident) == ["endless"]
    assert invoker.live.files() == []
    assert invoker.live.idle


async def test_invoker_repeats_its_inventory_as_a_heartbeat(
    controller: ScriptedController, invoker: Linked
) -> None:
    attachment = await controller.attached()
    attachment.welcome(heartbeat_ms=10)
    await attachment.hears("inventory", 2)
    await runs_endlessly(invoker)
    known = attachment.kinds.count("inventory")
    heartbeat = (await attachment.hears("inventory", known + 2)).inventory
    assert [task.task for task in heartbeat.running] == ["t1"]
    assert heartbeat.latest_task == 1


# ---- coming back


async def test_invoker_comes_back_in_the_same_session_with_all_it_runs(
    controller: ScriptedController, invoker: Linked
) -> None:
    first = await joined(controller)
    await runs_endlessly(invoker)
    first.end()
    second = await joined(controller, 2)
    assert second.notes[0].greeting.session == first.notes[0].greeting.session
    inventory = (await second.hears("joined")).joined
    assert [task.task for task in inventory.running] == ["t1"]
    assert invoker.joins == ["joined"] * 2


async def test_news_from_while_the_link_was_broken_comes_before_the_inventory(
    controller: ScriptedController, invoker: Linked
) -> None:
    first = await joined(controller)
    await runs_endlessly(invoker)
    first.acknowledge((await first.hears("ready")).number)
    await until(lambda: invoker.link.unacknowledged == 0)
    first.end()
    second = await controller.attached(2)
    invoker.live.node.order(StopTask(invoker="i0", task="t1"))
    await invoker.live.tells(TaskFailed)
    second.welcome()
    inventory = (await second.hears("joined")).joined
    assert second.kinds == ["greeting", "failed", "joined"]
    assert list(inventory.running) == []
    second.order(WARM)
    await second.hears("ready")
    assert second.kinds == ["greeting", "failed", "joined", "ready"]
    assert "failed" not in first.kinds


async def test_news_that_were_not_acknowledged_are_said_again_under_their_numbers(
    controller: ScriptedController, invoker: Linked
) -> None:
    first = await joined(controller)
    await runs_endlessly(invoker)
    number = (await first.hears("ready")).number
    invoker.live.node.order(StopTask(invoker="i0", task="t1"))
    assert (await first.hears("failed")).number == number + 1
    first.acknowledge(number)
    await until(lambda: invoker.link.unacknowledged == 1)
    first.end()
    second = await joined(controller, 2)
    assert second.kinds == ["greeting", "failed", "joined"]
    assert second.notes[1].number == number + 1


async def test_inventory_names_the_requests_of_which_something_is_kept(
    controller: ScriptedController, invoker: Linked
) -> None:
    await invoker.live.store.keep("r1", "a", b"output", local=True, publish=False)
    await invoker.live.store.keep("r2", "b", b"result", local=False, publish=True)
    await invoker.live.store.keep("r3", "a", b"output", local=True, publish=False)
    await invoker.live.store.discard("r3")
    attachment = await joined(controller)
    assert list((await attachment.hears("joined")).joined.kept) == ["r1", "r2"]


async def test_news_from_before_a_fresh_start_is_not_reported(
    controller: ScriptedController, invoker: Linked
) -> None:
    first = await joined(controller)
    await runs_endlessly(invoker)
    first.end()
    second = await controller.attached(2)
    invoker.live.node.order(StopTask(invoker="i0", task="t1"))
    await invoker.live.tells(TaskFailed)
    second.welcome(start_afresh=True)
    await second.hears("joined")
    assert second.kinds == ["greeting", "joined"]


async def test_a_controller_that_is_started_again_is_found(redis_url: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first, second = ScriptedController(), ScriptedController()
        async with serving(first) as address:
            invoker = await stack.enter_async_context(linked(address, redis_url, tmp_path))
            await joined(first)
        await stack.enter_async_context(serving(second, int(address.rpartition(":")[2])))
        await joined(second)
        assert invoker.joins == ["joined"] * 2


async def test_invoker_that_had_joined_comes_back_at_once_however_often(
    controller: ScriptedController, invoker: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_end, "BACKOFF_US", Backoff(ms(10), seconds(3600)))
    for number in range(1, 20):  # the last delay would be more than an hour
        (await joined(controller, number)).end()
    await joined(controller, 20)


async def test_a_refusal_that_may_pass_is_no_reason_to_give_up(
    controller: ScriptedController, redis_url: str, tmp_path: Path
) -> None:
    controller.refusals = [
        (grpc.StatusCode.ALREADY_EXISTS, "another invoker named i0 is attached"),
        (grpc.StatusCode.UNAVAILABLE, "not now"),
    ]
    async with (
        serving(controller) as address,
        linked(address, redis_url, tmp_path) as invoker,
    ):
        await joined(controller, 3)
        assert not invoker.link.refused.done()


async def test_invoker_gives_up_when_it_is_refused_for_good(
    controller: ScriptedController, redis_url: str, tmp_path: Path
) -> None:
    controller.refusals = [(grpc.StatusCode.INVALID_ARGUMENT, "i0 has other functions")]
    async with (
        serving(controller) as address,
        linked(address, redis_url, tmp_path) as invoker,
    ):
        await invoker.has_left()
        assert invoker.link.refused.result() == "i0 has other functions"
        assert len(controller.attachments) == 1
        assert invoker.joins == []


# ---- leaving


async def test_invoker_says_that_it_is_leaving_and_leaves_when_all_is_said(
    controller: ScriptedController, invoker: Linked
) -> None:
    attachment = await joined(controller)
    await runs_endlessly(invoker)
    invoker.link.say_leaving()
    await attachment.hears("leaving")
    assert not invoker.running.done()
    attachment.order(StopTask(invoker="i0", task="t1"))
    await invoker.live.tells(TaskFailed)
    invoker.link.leave()
    await invoker.has_left()
    assert attachment.ended
    assert attachment.kinds == ["greeting", "joined", "ready", "leaving", "failed"]
    assert len(controller.attachments) == 1


async def test_leaving_invoker_says_so_again_when_it_comes_back(
    controller: ScriptedController, invoker: Linked
) -> None:
    (await joined(controller)).end()
    second = await controller.attached(2)
    invoker.link.say_leaving()
    second.welcome()
    await second.hears("leaving")
    assert second.kinds == ["greeting", "joined", "leaving"]


async def test_invoker_can_leave_before_it_is_welcome(
    controller: ScriptedController, invoker: Linked
) -> None:
    await controller.attached()
    invoker.link.leave()
    await invoker.has_left()
    assert invoker.joins == []


async def test_invoker_without_a_controller_leaves_without_waiting(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(node_end, "BACKOFF_US", Backoff(seconds(3600), seconds(3600)))
    async with linked("127.0.0.1:1", redis_url, tmp_path) as invoker:
        await until(lambda: "no controller" in caplog.messages)
        invoker.link.leave()
        await invoker.has_left()


async def test_a_controller_that_asks_is_answered_on_its_stream(
    controller: ScriptedController, invoker: Linked
) -> None:
    attachment = await joined(controller)
    for number, function in ((7, "quick"), (8, "wrapped")):
        order = wire.Order(reload=wire.Reload(number=number, function=function))
        attachment.outbox.put(order)
    await attachment.hears("reloaded", 2)
    notes = [note.reloaded for note in attachment.notes if note.HasField("reloaded")]
    assert {(note.number, note.failure) for note in notes} == {(7, ""), (8, "")}


async def test_a_reload_waits_for_tasks_that_run(
    controller: ScriptedController, invoker: Linked
) -> None:
    attachment = await joined(controller)
    await runs_endlessly(invoker)
    attachment.outbox.put(wire.Order(reload=wire.Reload(number=1, function="endless")))
    attachment.outbox.put(wire.Order(reload=wire.Reload(number=2, function="endless")))
    attachment.outbox.put(wire.Order(stop="t1"))
    await attachment.hears("reloaded", 2)
    kinds = [kind for kind in attachment.kinds if kind in ("failed", "reloaded")]
    assert kinds == ["failed", "reloaded", "reloaded"]
