"""An event that the scheduler fails at is put aside, and everybody else's work goes on."""

import asyncio
import json
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest

from esg.controller import invoker_streams
from esg.controller.driver import Driver
from esg.controller.durability import dead_letters
from esg.controller.durability.dead_letters import DeadLetters, PutAside
from esg.core.journal.format import read_segment
from esg.core.journal.replay import replay
from esg.core.messages.codec import to_text
from esg.core.messages.events import (
    ApplicationRegistered,
    Event,
    InvokerJoined,
    InvokerLost,
    RequestArrived,
    TaskFinished,
    Woke,
)
from esg.core.scheduler.invariants import check
from esg.core.scheduler.scheduler import Scheduler, build_scheduler
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.journal_files import read_lines, segment_files
from esg.runtime.rpc.channels import channel
from esg.units import ms, seconds
from tests.support.controller_peers import (
    Running,
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    numbered,
    put_application,
    refusal_code,
    running_controller,
    submission,
)
from tests.support.small_catalog import SMALL
from tests.support.waiting import until

THUMB = [model.Stage(function="resize")]


class Poison:
    """Makes every scheduler fail at some events, when it has half handled them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at: Callable[[Event], bool] = lambda _: False
        self.failures = 0
        learn = Scheduler._learn

        def half_way(scheduler: Scheduler, now_us: int, event: Event) -> None:
            learn(scheduler, now_us, event)
            if self.at(event):
                self.failures += 1
                raise OverflowError("cannot convert float infinity to integer")

        monkeypatch.setattr(Scheduler, "_learn", half_way)

    def once(self, kind: type) -> None:
        """The next event of a kind, and no other."""
        failures = self.failures
        self.at = lambda event: isinstance(event, kind) and self.failures == failures


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Poison:
    return Poison(monkeypatch)


def bad_request(event: Event) -> bool:
    return isinstance(event, RequestArrived) and event.request.startswith("bad")


def files(folder: Path) -> list[Path]:
    return sorted((folder / dead_letters.FOLDER).iterdir())


def names_in(folder: Path) -> list[str]:
    """The kinds of events in the folder."""
    return [file.name.split("-")[0] for file in folder.iterdir()]


def on_disk(folder: Path) -> str:
    """The state that the journal comes to."""
    past = read_segment(read_lines(segment_files(folder)[-1]))
    assert past.snapshot is not None
    scheduler = build_scheduler(SMALL, past.header.settings, past.snapshot.state)
    return to_text(replay(scheduler, past.entries).state)


async def test_nobody_reads_what_is_half_changed_while_the_scheduler_is_built_again(
    poison: Poison, tmp_path: Path
) -> None:
    # attack: A1
    poison.at = bad_request
    may_end = threading.Event()

    def metrics() -> set[str]:
        return {family.name for family in controller.live.metrics.collect()}

    async with running_controller(journal=str(tmp_path)) as controller:
        letters = controller.live.driver._dead_letters
        assert letters is not None
        rebuild = letters.rebuild
        letters.rebuild = lambda: (may_end.wait(), rebuild())[1]
        async with gateway(controller) as door, channel(controller.address) as link:
            stub = wire_grpc.ControllerStub(link)
            door.say(submission("r1"), submission("bad"))
            await door.hears("accepted", 1)
            await until(lambda: poison.failures)
            assert "bad" in controller.state.requests  # half-changed, that is
            half_way = metrics()
            looking = asyncio.ensure_future(anext(aiter(stub.WatchMesh(wire.WatchMeshRequest()))))
            listed = asyncio.ensure_future(stub.ListApplications(wire.ListApplicationsRequest()))
            may_end.set()
            assert (await looking).under_way == 1
            assert (await listed).applications
            await door.hears("refused", 1)
        assert {"esg_dead_letters", "esg_tasks"} <= half_way
        assert metrics() - half_way >= {"esg_under_way", "esg_queue_jobs", "esg_slices"}


# attack: A1
@pytest.mark.parametrize("sync", [False, True])
async def test_a_request_at_which_the_scheduler_fails_is_refused_and_the_others_go_on(
    poison: Poison, tmp_path: Path, sync: bool
) -> None:
    poison.at = bad_request
    async with running_controller(journal=str(tmp_path), sync=sync) as controller:
        before = controller.live.scheduler
        async with gateway(controller) as door:
            door.say(*map(submission, ("r1", "bad", "r2", "bad2", "r3")))
            await door.hears("accepted", 3)
            refused = await door.hears("refused", 2)
        assert [note.request_id for note in refused] == ["bad", "bad2"]
        assert {refusal_code(note) for note in refused} == {grpc.StatusCode.INTERNAL}
        assert list(controller.state.requests) == ["r1", "r2", "r3"]
        assert controller.live.scheduler is not before
        check(controller.live.scheduler)
        assert to_text(controller.state) == on_disk(tmp_path)


async def test_what_was_put_aside_is_kept_with_its_story(poison: Poison, tmp_path: Path) -> None:
    poison.at = bad_request
    async with running_controller(journal=str(tmp_path)) as controller, gateway(controller) as door:
        door.say(submission("bad", slo_us=10**9))
        (note,) = await door.hears("refused")
    (file,) = files(tmp_path)
    kept = json.loads(file.read_text("utf-8"))
    told = RequestArrived(request="bad", application="thumb", slo_us=10**9)
    assert (kept["event"], kept["is"]) == ("RequestArrived", to_text(told))
    assert kept["memo"]["content_hash"] == b"1".hex()
    assert "OverflowError: cannot convert float infinity" in kept["traceback"]
    assert file.stem in note.refused.message
    assert str(tmp_path) not in note.refused.message
    assert file.stat().st_mode & 0o077 == 0


async def test_the_same_event_again_is_refused_without_being_handled(
    poison: Poison, tmp_path: Path
) -> None:
    """Also by the next process."""
    poison.at = bad_request
    for starts in range(2):
        async with running_controller(journal=str(tmp_path)) as controller:
            for repeats in range(2):
                async with gateway(controller) as door:
                    door.say(submission("bad"))
                    (note,) = await door.hears("refused")
                    assert refusal_code(note) is grpc.StatusCode.INTERNAL
                assert poison.failures == 1
                failed, refused = metrics(controller)
                assert (failed, refused) == (1 - starts, repeats + starts)
    (file,) = files(tmp_path)
    file.unlink()
    poison.at = lambda _: False
    async with running_controller(journal=str(tmp_path)) as controller, gateway(controller) as door:
        door.say(submission("bad"))
        assert await door.hears("accepted")


def metrics(controller: Running) -> tuple[float, float]:
    (family,) = [m for m in controller.live.metrics.collect() if m.name == "esg_dead_letters"]
    values = {sample.labels["how"]: sample.value for sample in family.samples}
    return values["failed"], values["refused"]


async def test_a_registration_at_which_the_scheduler_fails_is_an_error_and_no_application(
    poison: Poison, tmp_path: Path
) -> None:
    poison.at = lambda event: isinstance(event, ApplicationRegistered) and event.slo_us == 10**9
    async with running_controller(journal=str(tmp_path)) as controller:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await put_application(controller.address, name="new", stages=THUMB, slo_us=10**9)
        assert failed.value.code() is grpc.StatusCode.INTERNAL
        assert "new" not in controller.live.scheduler.applications
        await put_application(controller.address, name="new", stages=THUMB)
        assert controller.live.scheduler.version("new") == 1


async def test_a_node_whose_news_were_put_aside_joins_again_and_its_work_is_done(
    poison: Poison, tmp_path: Path
) -> None:
    async with running_controller(journal=str(tmp_path)) as controller, gateway(controller) as door:
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            await until(lambda: controller.state.nodes)
            door.say(submission("r1"))
            (order,) = await node.hears("start")
            poison.once(TaskFinished)
            node.say(numbered(1, finished(order.start.task)))
            await until(lambda: node.ended)
            assert node.error.code() is grpc.StatusCode.INTERNAL
        async with invoker(controller) as node:
            report = numbered(1, finished(order.start.task))
            node.say(greeting(), report, joined(latest_task=1))
            (order,) = await node.hears("start")
            node.say(numbered(2, finished(order.start.task)))
            (note,) = await door.hears("result")
            assert note.result.outcome == model.OUTCOME_DONE
        assert poison.failures == 1


async def test_a_node_is_let_in_when_its_inventory_is_no_longer_what_fails(
    poison: Poison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says the same again, as it should, and is not shut out for good."""
    monkeypatch.setattr(invoker_streams, "AGAIN_S", 0.0)
    async with running_controller(journal=str(tmp_path)) as controller:
        poison.once(InvokerJoined)
        for again in range(2):
            async with invoker(controller) as node:
                node.say(greeting(), joined())
                await until(lambda: node.ended)
            assert metrics(controller) == (1, again)
        controller.clock[0] += seconds(10)
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            await until(lambda: controller.state.nodes)
        assert poison.failures == 1


async def test_a_lost_node_is_told_of_until_that_is_handled(
    poison: Poison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invoker_streams, "AGAIN_S", 0.001)
    settings = {"journal": str(tmp_path), "rejoin_ms": 1}
    async with running_controller(**settings) as controller:
        async with invoker(controller) as node:
            node.say(greeting(), joined())
            await until(lambda: controller.state.nodes)
            poison.once(InvokerLost)
        await until(lambda: poison.failures)
        controller.clock[0] += seconds(10)
        await until(lambda: not controller.state.nodes)


# ---- the loop


class Failing:
    """A scheduler that fails at its alarm so many times, and at nothing else."""

    class state:  # noqa: N801 - as a scheduler's
        now_us = 0

    next_wake: int | None = 0

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.tries_us: list[int] = []

    def handle(self, now_us: int, event: Event) -> list[Any]:
        self.tries_us.append(now_us)
        if len(self.tries_us) <= self.failures:
            raise KeyError("a queue")
        self.next_wake = None
        return []


def driver_of(scheduler: Any, folder: Path, rebuild: Callable[[], Any]) -> Driver:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    return Driver(
        scheduler,
        None,
        lambda *_: None,
        clock_us=lambda: int((loop.time() - began_s) * 1e6),
        dead_letters=DeadLetters(folder, rebuild),
    )


async def test_an_alarm_at_which_the_scheduler_fails_is_tried_again_after_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = dead_letters.Backoff(ms(5), ms(50))
    monkeypatch.setattr(dead_letters, "BACKOFF_US", pauses)
    scheduler = Failing(failures=4)
    driver = driver_of(scheduler, tmp_path, lambda: scheduler)
    driver.start()
    await until(lambda: scheduler.next_wake is None)
    tries_us = scheduler.tries_us
    gaps_us = [later - earlier for earlier, later in pairwise(tries_us)]
    assert len(gaps_us) == 4
    assert all(gap >= pauses.pause(number) for number, gap in enumerate(gaps_us))
    assert names_in(tmp_path) == ["Woke"]


@pytest.mark.parametrize(("failures", "ends"), [(1, False), (2, True)])
async def test_a_scheduler_that_cannot_be_built_again_is_the_end(
    tmp_path: Path, failures: int, ends: bool
) -> None:
    scheduler, tries = Failing(failures=1), []

    def rebuild() -> Any:
        tries.append(1)
        if len(tries) <= failures:
            raise OSError("no such file")
        return scheduler

    driver = driver_of(scheduler, tmp_path, rebuild)
    driver.tell(Woke())
    if ends:
        with pytest.raises(OSError, match="no such file"):
            await asyncio.wait_for(asyncio.shield(driver.failed), 10)
    else:
        await driver.rest()
        assert len(tries) == 2


# ---- the folder


def arrival(number: int) -> RequestArrived:
    return RequestArrived(request=f"r{number}", application="thumb")


def test_only_so_many_are_kept_and_the_oldest_gives_way(tmp_path: Path) -> None:
    folder = tmp_path / "q"
    kept = DeadLetters(folder, lambda: pytest.fail("not asked for"))
    for number in range(dead_letters.MOST_FILES + 5):
        kept.put_aside(0, arrival(number), None, ValueError("x"))
    assert len(list(folder.iterdir())) == dead_letters.MOST_FILES
    assert kept.refusal(10**15, arrival(4)) is None
    assert isinstance(kept.refusal(10**15, arrival(5)), PutAside)
    again = DeadLetters(folder, lambda: pytest.fail("not asked for"))
    assert again.refusal(0, arrival(4)) is None
    assert isinstance(again.refusal(0, arrival(5)), PutAside)


def test_a_file_is_bounded_whatever_the_event_is(tmp_path: Path) -> None:
    kept = DeadLetters(tmp_path, lambda: pytest.fail("not asked for"))
    huge = RequestArrived(request="x" * 10**6, application="\ud800", slo_us=2**70)
    kept.put_aside(0, huge, None, ValueError("y" * 10**6))
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size < 4 * dead_letters.LONGEST_TEXT
    assert kept.refusal(0, huge)


def test_a_folder_that_cannot_be_written_to_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = DeadLetters(tmp_path / "file", lambda: pytest.fail("not asked for"))
    kept.put_aside(0, arrival(1), None, ValueError("x"))
    assert kept.refusal(0, arrival(1))
