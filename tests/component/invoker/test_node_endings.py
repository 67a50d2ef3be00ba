"""How things end on a live node: stopped, idle, forgotten or finished, and nothing is left."""

import asyncio
from pathlib import Path

import pytest

from esg.core.messages.commands import DiscardData, DropInstance, StopTask, WarmInstance
from esg.core.messages.events import (
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    TaskFailed,
    TaskFinished,
)
from esg.core.messages.task_order import Output
from esg.storage.redis_store import RedisStore
from tests.support.live_node import LiveNode, job, live_node, output_of, start
from tests.support.waiting import until

HERE_A = Output(stage="a", invoker="i0")


def stop(task: str) -> StopTask:
    return StopTask(invoker="i0", task=task)


class SlowStore(RedisStore):
    """What it was given is in Redis, but that is not known for an hour."""

    async def put(self, request: str, stage: str, content: bytes | memoryview) -> None:
        await super().put(request, stage, content)
        if stage:
            await asyncio.sleep(3600)


# ---- stopped


async def test_a_task_that_waits_for_its_model_is_stopped_at_once(live: LiveNode) -> None:
    live.node.order(start("t1", "heavy", job("r1")))
    await until(lambda: live.servers[0].repository.models["heavy"].state == "LOADING")
    live.node.order(stop("t1"))
    assert live.told(TaskFailed) == [
        TaskFailed(task="t1", invoker="i0", reason="stopped before it began")
    ]
    assert live.idle


async def test_a_task_that_is_stopped_before_its_first_step_ends_as_well(live: LiveNode) -> None:
    live.node.order(WarmInstance(invoker="i0", slice=0, function="quick"))
    await live.tells(InstanceReady)
    live.node.order(start("t1", "quick", job("r1")))
    live.node.order(stop("t1"))
    assert (await live.tells(TaskFailed)).reason == "stopped"
    assert live.idle


async def test_a_task_that_waits_for_an_input_can_be_stopped(live: LiveNode) -> None:
    live.node.order(start("t1", "quick", job("r1")))
    await live.tells(InstanceReady)
    await asyncio.sleep(0)  # it asks for its payload, which nobody has sent
    live.node.order(stop("t1"))
    assert (await live.tells(TaskFailed)).reason == "stopped"
    assert live.idle


async def test_a_stopped_task_frees_its_slices(live: LiveNode) -> None:
    for request in ("r1", "r2"):
        await live.payload(request, b"picture")
    live.node.order(start("t1", "endless", job("r1"), job("r2"), slices=[0, 1]))
    await until(lambda: all(server.busy for server in live.servers))
    live.node.order(stop("t1"))
    live.node.order(stop("t1"))  # heard twice
    assert (await live.tells(TaskFailed)).reason == "stopped"
    assert live.idle
    await until(lambda: not any(server.busy for server in live.servers))
    live.node.order(start("t2", "quick", job("r1"), job("r2"), slices=[0, 1]))
    await live.tells(TaskFinished)
    assert live.store.local.get("r2", "stage") == output_of("quick", b"picture")
    assert [failed.task for failed in live.told(TaskFailed)] == ["t1"]


@pytest.mark.parametrize("requests", [["r1"], ["r1", "r2"]])
async def test_results_of_a_stopped_task_do_not_stay_behind(
    redis_url: str, tmp_path: Path, requests: list[str]
) -> None:
    async with live_node(redis_url, tmp_path, SlowStore) as live:
        for request in requests:
            await live.payload(request, b"picture")
        live.node.order(start("t1", "quick", *map(job, requests), publish=True))
        await until(lambda: len(live.keys()) == len(requests))
        live.node.order(stop("t1"))
        for request in requests:  # as the scheduler orders when a request has been cancelled
            live.node.order(DiscardData(invoker="i0", request=request))
        assert (await live.tells(TaskFailed)).reason == "stopped"
        assert live.keys() == []
        assert live.files() == []


async def test_a_task_that_cannot_store_everything_stores_nothing(live: LiveNode) -> None:
    for request in ("r1", "no/name"):
        await live.store.keep(request, "a", b"output", local=True, publish=False)
    jobs = job("r1", HERE_A), job("no/name", HERE_A)
    live.node.order(start("t1", "quick", *jobs, publish=True))
    failed = await live.tells(TaskFailed)
    assert failed.reason.startswith("request 'no/name', stage 'stage': names of requests")
    assert live.keys() == []


# ---- idle


async def test_an_idle_model_is_unloaded_and_loaded_again_when_needed(
    redis_url: str, tmp_path: Path
) -> None:
    async with live_node(redis_url, tmp_path, keep_alive_s=0.001) as live:
        model = live.servers[0].repository.models["quick"]
        for number in (1, 2):
            await live.payload(f"r{number}", b"picture")
            live.node.order(start(f"t{number}", "quick", job(f"r{number}")))
            await live.tells(TaskFinished, number)
            gone = await live.tells(InstanceGone, number)
            assert (gone.slice, gone.function, gone.reason) == (0, "quick", "idle")
            await until(lambda: not live.pool.slices[0].models)
            assert model.state == "UNAVAILABLE"
        assert live.pool.next_wake is None


async def test_a_model_whose_slice_is_gone_is_forgotten_all_the_same(live: LiveNode) -> None:
    live.node.order(WarmInstance(invoker="i0", slice=0, function="quick"))
    await live.tells(InstanceReady)
    await live.servers[0].stop()
    live.node.order(DropInstance(invoker="i0", slice=0, function="quick"))
    await until(lambda: not live.pool.slices[0].models)


# ---- forgotten


async def test_starting_afresh_leaves_nothing(live: LiveNode) -> None:
    """That it says nothing about it is for its link (`NodeReporter.start_afresh`)."""
    await live.payload("r1", b"picture")
    await live.store.keep("r0", "a", b"output", local=True, publish=False)
    live.node.order(start("t1", "endless", job("r1"), slices=[0]))
    live.node.order(start("t2", "heavy", job("r1"), slices=[1]))
    await until(lambda: live.servers[0].busy)
    await live.node.start_afresh()
    given_up = live.told(TaskFailed)
    assert {failed.task for failed in given_up} == {"t1", "t2"}
    assert live.idle
    assert live.files() == []
    assert live.pool.joined() == InvokerJoined(
        invoker="i0",
        vcpus=4,
        slices=live.pool.joined().slices,
        running=(),
        latest_task=2,
    )

    live.node.order(start("t3", "quick", job("r1"), slices=[0]))
    await live.tells(TaskFinished)
    assert live.store.local.get("r1", "stage") == output_of("quick", b"picture")
    assert live.told(TaskFailed) == given_up


async def test_results_of_a_forgotten_task_are_gone_when_the_node_begins_afresh(
    redis_url: str, tmp_path: Path
) -> None:
    async with live_node(redis_url, tmp_path, SlowStore) as live:
        for request in ("r1", "r2"):
            await live.payload(request, b"picture")
        live.node.order(start("t1", "quick", job("r1"), job("r2"), publish=True))
        await until(lambda: len(live.keys()) == 2)
        await live.node.start_afresh()
        assert live.keys() == []
        assert live.idle


async def test_a_node_with_nothing_to_forget_starts_afresh_too(live: LiveNode) -> None:
    await live.node.start_afresh()
    assert live.news == []
    assert live.idle


# ---- finished


async def test_a_node_is_finished_when_nobody_needs_its_data(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    finishing = asyncio.create_task(live.node.finish())
    await live.tells(TaskFinished)
    await _turns_of_the_loop()
    assert not finishing.done()
    live.node.order(DiscardData(invoker="i0", request="r1"))
    async with asyncio.timeout(60):
        await finishing
    assert live.files() == []


async def test_a_node_is_not_finished_while_a_task_runs(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "endless", job("r1")))
    finishing = asyncio.create_task(live.node.finish())
    await until(lambda: live.servers[0].busy)
    assert not finishing.done()
    live.node.order(stop("t1"))
    async with asyncio.timeout(60):
        await finishing


async def test_a_node_that_begins_afresh_is_finished(live: LiveNode) -> None:
    await live.store.keep("r1", "a", b"output", local=True, publish=False)
    finishing = asyncio.create_task(live.node.finish())
    await _turns_of_the_loop()
    assert not finishing.done()
    await live.node.start_afresh()
    async with asyncio.timeout(60):
        await finishing


async def test_an_idle_node_is_finished_at_once(live: LiveNode) -> None:
    async with asyncio.timeout(60):
        await live.node.finish()


async def test_closing_gives_up_whatever_is_under_way(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "endless", job("r1"), slices=[0]))
    live.node.order(WarmInstance(invoker="i0", slice=1, function="heavy"))
    await until(lambda: live.servers[0].busy)
    await live.node.close()
    await until(lambda: not live.servers[0].busy)
    await until(lambda: live.servers[1].repository.models["heavy"].state == "UNAVAILABLE")
    assert live.idle


async def test_closing_also_gives_up_what_only_then_gets_its_turn(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "endless", job("r1"), slices=[0]))
    await until(lambda: live.servers[0].busy)
    # It needs the memory of the model that is in use, which is unloaded when the task ends
    live.node.order(WarmInstance(invoker="i0", slice=0, function="large"))
    await live.node.close()
    assert live.idle
    left = [repr(task.get_coro()) for task in asyncio.all_tasks()]
    assert [coroutine for coroutine in left if "Node." in coroutine] == []


async def _turns_of_the_loop() -> None:
    """Enough for whatever is ready to run."""
    for _ in range(100):
        await asyncio.sleep(0)
