"""A controller that starts again goes on where the other one was killed."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from esg.controller.durability.journal import Journal
from esg.controller.durability.recovery import recover
from esg.controller.durability.segment_writer import SegmentWriter
from esg.core.journal.format import FORMAT, Segment, read_header
from esg.core.messages.codec import encode
from esg.core.scheduler.scheduler import TASKS_AHEAD
from esg.core.sessions.controller_end import NodeSession
from esg.core.sessions.settings import SessionSettings
from esg.errors import Rejected
from esg.names import payload_stage
from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model
from esg.runtime.settings import ControllerSettings
from esg.runtime.trained_configs import learnt_text
from esg.units import ms
from tests.support.controller_peers import (
    Running,
    finished,
    gateway,
    greeting,
    invoker,
    joined,
    numbered,
    put_application,
    running_controller,
    submission,
)
from tests.support.sealed import plain, sealed
from tests.support.small_catalog import SMALL
from tests.support.waiting import until


@asynccontextmanager
async def journaled(folder: Path, **settings: Any) -> AsyncIterator[Running]:
    """A controller that is killed at the end of the block: nothing is said or written any more."""
    async with running_controller(journal=str(folder), **settings) as controller:
        yield controller


def running(order: Any) -> wire.RunningTask:
    return wire.RunningTask(task=order.start.task, vcpus=1, slices=order.start.slices)


async def test_a_task_that_ran_through_a_restart_is_not_run_again(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
    async with journaled(tmp_path) as second, gateway(second) as door, invoker(second) as node:
        door.say(wire.GatewayNote(follow="r1"))
        await door.hears("accepted")
        node.say(greeting())
        (welcome,) = await node.hears("welcome")
        assert not welcome.welcome.start_afresh
        node.say(joined(running(order), latest_task=1), finished(order.start.task))
        (note,) = await door.hears("result")
        assert note.result.outcome == model.OUTCOME_DONE
        assert note.result.stages[0].task == order.start.task
        assert node.of("start") == []


async def test_a_task_that_finished_meanwhile_is_not_run_again(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        door.say(submission("r1", "photo"))
        (order,) = await node.hears("start")
    async with journaled(tmp_path) as second, gateway(second) as door, invoker(second) as node:
        node.say(greeting(), numbered(1, finished(order.start.task)), joined(latest_task=1))
        (following,) = await node.hears("start")
        assert following.start.stage == "detect"
        door.say(wire.GatewayNote(follow="r1"))
        notes = await door.hears("progress", 3)
        told = [(note.progress.stage, note.progress.finished) for note in notes]
        assert told == [("resize", False), ("resize", True), ("detect", False)]


async def test_news_are_acknowledged_once_they_are_written_and_taken_once(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        door.say(submission("r1", "photo"))
        (order,) = await node.hears("start")
        node.say(numbered(5, finished(order.start.task)))
        _, second = await node.hears("start", 2)
        assert node.acknowledged < 5
        await first.live.driver.rest()  # it is on disk
        node.say(numbered(6, finished(second.start.task)))
        await until(lambda: node.acknowledged == 5)
    journal = Journal(tmp_path, ControllerSettings())
    past = journal.past()
    assert past is not None
    assert [type(entry.event).__name__ for entry in past.entries][-1] == "TaskFinished"
    journal.close()


async def test_an_order_that_was_never_heard_is_decided_again(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        door.say(submission("r1", content_hash=b"f"))
        await node.hears("start")
    async with journaled(tmp_path) as second, invoker(second) as node:
        node.say(greeting(), joined())
        (order,) = await node.hears("start")
        assert order.start.task == f"t{TASKS_AHEAD + 2}"
        assert order.start.jobs[0].inputs[0].payload == payload_stage(b"f")


async def test_a_node_that_does_not_come_back_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = partial(SessionSettings, return_us=ms(10))
    monkeypatch.setattr("esg.controller.invoker_streams.SessionSettings", hasty)
    async with journaled(tmp_path) as first, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
    async with journaled(tmp_path, lost_after_ms=10) as second:
        assert second.state.nodes
        await until(lambda: not second.state.nodes)


async def test_invoker_process_that_the_journal_does_not_know_starts_afresh(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, invoker(first) as node:
        node.say(greeting(session="s1"), joined())
        await until(lambda: first.state.nodes)
    async with journaled(tmp_path) as second, invoker(second) as node:
        node.say(greeting(session="s2"))
        (welcome,) = await node.hears("welcome")
        assert welcome.welcome.start_afresh


async def test_a_process_is_remembered_with_the_node_that_it_joined_as(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first:
        invokers = first.live.invokers
        async with invoker(first) as node:
            node.say(greeting(session="s1"), joined())
            await until(lambda: first.live.shell.sessions)
        await until(lambda: _is_away(invokers._sessions.of("n0")))
        invokers._greet(greeting(session="s2").greeting)
        assert first.state.nodes  # of the other process: its end is not in the journal yet
        assert first.live.shell.sessions == {"n0": "s1"}
        await until(lambda: not first.state.nodes)
        await until(lambda: not first.live.shell.sessions)


def _is_away(session: NodeSession | None) -> bool:
    return session is not None and session.stream is None


async def test_answers_and_fingerprints_are_remembered(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        door.say(submission("r1", content_hash=b"one"), submission("r2", fetched_later=True))
        for order in await node.hears("start", 2):
            node.say(finished(order.start.task))
        before = {note.request_id: note.result for note in await door.hears("result", 2)}
    for _ in range(2):  # from the entries, and then from a snapshot
        async with journaled(tmp_path) as later, gateway(later) as door:
            door.say(submission("r1", content_hash=b"one"), wire.GatewayNote(follow="r2"))
            after = {note.request_id: note.result for note in await door.hears("result", 2)}
            assert after == before
            door.say(submission("r1", content_hash=b"another"))
            await door.hears("refused")


@pytest.fixture(params=[True, False], ids=["synced", "not synced"])
def brief(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path], AbstractAsyncContextManager[Running]]:
    """Controllers that begin a segment with every turn."""
    monkeypatch.setattr(SegmentWriter, "is_full", True)
    return lambda folder: journaled(folder, sync=request.param)


async def test_no_answer_is_forgotten_when_a_segment_ends(
    tmp_path: Path, brief: Callable[[Path], AbstractAsyncContextManager[Running]]
) -> None:
    names = [f"r{number}" for number in range(12)]
    async with brief(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        for count, name in enumerate(names, 1):
            door.say(submission(name))
            order = (await node.hears("start", count))[-1]
            node.say(finished(order.start.task))
            await door.hears("result", count)
        before = {note.request_id: note.result for note in door.of("result")}
    async with brief(tmp_path) as second, gateway(second) as door:
        door.say(*(wire.GatewayNote(follow=name) for name in names))
        await until(lambda: len(door.of("result")) + len(door.of("refused")) == len(names))
        assert {note.request_id: note.result for note in door.of("result")} == before


async def test_no_order_is_forgotten_when_a_segment_ends(
    tmp_path: Path, brief: Callable[[Path], AbstractAsyncContextManager[Running]]
) -> None:
    async with brief(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        door.say(submission("r1"))
        (order,) = await node.hears("start")
    async with brief(tmp_path) as second, gateway(second) as door, invoker(second) as node:
        door.say(wire.GatewayNote(follow="r1"))
        await door.hears("accepted")
        node.say(greeting(), joined(running(order), latest_task=1))
        await until(lambda: second.live.invokers._sessions.reachable("n0"))
        node.say(finished(order.start.task))
        await door.hears("result")
        assert [note.progress.finished for note in door.of("progress")] == [False, True]


async def test_a_request_under_way_is_followed_from_its_snapshot(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        door.say(submission("r1", content_hash=b"one"))
        (order,) = await node.hears("start")
    for _ in range(3):
        async with journaled(tmp_path) as later, gateway(later) as door:
            door.say(submission("r1", content_hash=b"one"))
            (note,) = await door.hears("accepted")
            assert note.accepted.repeated
    async with journaled(tmp_path) as last, gateway(last) as door, invoker(last) as node:
        door.say(wire.GatewayNote(follow="r1"))
        node.say(greeting(), joined(running(order), latest_task=1), finished(order.start.task))
        (note,) = await door.hears("result")
        assert note.result.stages[0].task == order.start.task


async def test_deadlines_do_not_wait_for_a_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000_000)
    async with journaled(tmp_path) as first, gateway(first) as door:
        first.clock[0] = 5_000
        door.say(submission("r1"))
        await door.hears("accepted")
    monkeypatch.setattr("time.time_ns", lambda: 1_007_000_000_000)
    async with journaled(tmp_path) as second:
        assert second.live.driver.now_us == 7_000_000
        assert second.state.requests["r1"].arrived_us == 5_000
    monkeypatch.setattr("time.time_ns", lambda: 1_009_000_000_000)
    async with journaled(tmp_path) as third:
        assert third.live.driver.now_us == 9_000_000  # though nothing had happened in the second
    monkeypatch.setattr("time.time_ns", lambda: 0)
    async with journaled(tmp_path) as fourth:
        assert fourth.live.driver.now_us >= third.state.now_us


async def test_applications_that_were_registered_are_still_there(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first:
        await put_application(
            first.address, name="tag", stages=[model.Stage(function="label")], slo_scale=2.0
        )
    async with journaled(tmp_path) as second, gateway(second) as door:
        door.say(submission("r1", "tag"))
        (note,) = await door.hears("accepted")
        assert note.accepted.application == "tag"


async def test_another_policy_goes_on_with_the_same_requests(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door:
        door.say(submission("r1", "photo"))
        await door.hears("accepted")
    async with journaled(tmp_path, policy="infless") as second, invoker(second) as node:
        node.say(greeting(), joined())
        (order,) = await node.hears("start")
        assert order.start.jobs[0].request_id == "r1"


@pytest.mark.parametrize("policy", ["esg", "aquatope"])
async def test_learnt_file_is_not_needed_to_go_on_from_a_journal(
    policy: str, tmp_path: Path
) -> None:
    then, now = tmp_path / "then.json", tmp_path / "now.json"
    for file, which in ((then, 0), (now, -1)):
        learnt = {
            name: {stage.name: stage.function.profile.configs[which] for stage in a.stages.values()}
            for name, a in SMALL.applications.items()
        }
        file.write_text(learnt_text(learnt))
    journal = tmp_path / "journal"
    async with (
        journaled(journal, policy="aquatope", trained=str(then)) as first,
        gateway(first) as door,
        invoker(first) as node,
    ):
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
        door.say(submission("r1", "scan"))
        await node.hears("start")
    then.unlink()
    chosen = {"trained": str(now)} if policy == "aquatope" else {}
    async with journaled(journal, policy=policy, **chosen) as second:
        assert list(second.state.requests) == ["r1"]


OTHER = replace(SMALL, cluster=SMALL.cluster.resized(nodes=2), applications={})


async def test_another_catalog_goes_on_only_from_a_good_end(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door:
        door.say(submission("r1"))
        await door.hears("accepted")
    journal = Journal(tmp_path, ControllerSettings())
    past = journal.past()
    assert past is not None
    with pytest.raises(Rejected, match=r"another catalog .* requests were under way"):
        recover(past, OTHER, ControllerSettings())
    journal.close()


@pytest.fixture(params=["format", "settings"])
def older(request: pytest.FixtureRequest) -> Callable[[Segment], Segment]:
    """Makes a segment one of an older build, of the same version."""

    def made(past: Segment) -> Segment:
        raw = encode(past.header)
        if request.param == "format":
            raw["journal"] = 1
        else:
            del raw["settings"]["without"]
        return replace(past, header=read_header(json.dumps(raw), any_version=True))

    return made


async def test_another_build_goes_on_only_from_a_good_end(
    tmp_path: Path, older: Callable[[Segment], Segment]
) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door:
        door.say(submission("r1"))
        await door.hears("accepted")
    journal = Journal(tmp_path, ControllerSettings())
    past = journal.past()
    assert past is not None
    with pytest.raises(Rejected, match=r"another version of ESG .* requests were under way"):
        recover(older(past), SMALL, ControllerSettings())
    journal.close()


async def test_another_build_goes_on_from_a_good_end(
    tmp_path: Path, older: Callable[[Segment], Segment]
) -> None:
    async with journaled(tmp_path) as first, invoker(first) as node:
        await put_application(
            first.address, name="tag", stages=[model.Stage(function="label")], slo_scale=2.0
        )
        node.say(greeting(), joined())
        await until(lambda: first.state.nodes)
    async with journaled(tmp_path):
        pass  # its segment has nothing but a snapshot
    journal = Journal(tmp_path, ControllerSettings())
    past = journal.past()
    assert past is not None
    assert past.snapshot is not None
    past.snapshot.state["traffic"] = {}  # as states had it once
    state = recover(older(past), SMALL, ControllerSettings()).state
    journal.close()
    assert state["registrations"]
    assert not state["nodes"]  # the nodes join anew


@pytest.mark.parametrize("under_way", [False, True])
async def test_a_journal_of_the_format_before_carries_over_after_a_good_end(
    tmp_path: Path, under_way: bool
) -> None:
    """That one had no checksums."""
    async with journaled(tmp_path) as first, gateway(first) as door:
        await put_application(
            first.address, name="tag", stages=[model.Stage(function="label")], slo_scale=2.0
        )
        if under_way:
            door.say(submission("r1"))
            await door.hears("accepted")
    async with journaled(tmp_path):
        pass  # its segment has nothing but a snapshot
    header, snapshot = plain(tmp_path / "00000002.journal")
    before = header.replace(f'"journal":{FORMAT},', f'"journal":{FORMAT - 1},')
    (tmp_path / "00000002.journal").write_text(f"{before}\n{snapshot}\n", "utf-8")
    journal = Journal(tmp_path, ControllerSettings())
    past = journal.past()
    assert past is not None
    if under_way:
        with pytest.raises(Rejected, match=r"another version of ESG .* requests were under way"):
            recover(past, SMALL, ControllerSettings())
    else:
        assert recover(past, SMALL, ControllerSettings()).state["registrations"]
    journal.close()


async def test_an_edited_journal_is_refused(tmp_path: Path) -> None:
    async with journaled(tmp_path) as first, gateway(first) as door, invoker(first) as node:
        node.say(greeting(), joined())
        door.say(submission("r1"))
        await node.hears("start")
    path = tmp_path / "00000001.journal"
    path.write_bytes(
        sealed(line.replace('"request":"r1"', '"request":"r9"') for line in plain(path))
    )
    journal = Journal(tmp_path, ControllerSettings())
    past = journal.past()
    assert past is not None
    with pytest.raises(Rejected, match="does not lead where it says"):
        recover(past, SMALL, ControllerSettings(prewarm=False))
    journal.close()
