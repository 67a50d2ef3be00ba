"""What a live node does with its orders: tasks, their data, and the models they need."""

from pathlib import Path
from typing import Any

import pytest

from esg.commands import DiscardData, Input, PublishData, WarmInstance
from esg.events import InstanceGone, InstanceReady, StageOutput, TaskFailed, TaskFinished
from esg.pool_messages import ModelLoaded
from invoker.slices import Slice
from storage.errors import Missing
from storage.node import NodeStore
from tests.redis_server import RedisServer
from tests.unit.invoker.live_node import LiveNode, job, live_node, output_of, start, until

HERE_A, ELSEWHERE_B = Input(stage="a", invoker="i0"), Input(stage="b", invoker="i1")


async def test_a_task_runs_and_its_output_stays_here(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    finished = await live.tells(TaskFinished)
    assert (finished.task, finished.invoker) == ("t1", "i0")
    assert live.store.local.get("r1", "stage") == output_of("quick", b"picture")
    assert live.keys() == []
    assert live.idle


async def test_a_model_is_loaded_before_its_first_task_and_stays(live: LiveNode) -> None:
    for number in (1, 2):
        await live.payload(f"r{number}", b"picture")
        live.node.order(start(f"t{number}", "quick", job(f"r{number}")))
        await live.tells(TaskFinished, number)
    assert live.told(InstanceReady) == [InstanceReady(invoker="i0", slice=0, function="quick")]


async def test_results_go_to_redis_and_leave_no_file(live: LiveNode) -> None:
    for request in ("r1", "r2"):
        await live.payload(request, request.encode())
    live.node.order(start("t1", "quick", job("r1"), job("r2"), publish=True))
    await live.tells(TaskFinished)
    for request in ("r1", "r2"):
        result = await live.store.remote.get(request, "stage")
        assert result == output_of("quick", request.encode())
    assert live.files() == []


async def test_a_join_gets_its_inputs_in_the_order_that_it_was_told(live: LiveNode) -> None:
    await live.store.keep("r1", "a", b"from here", publish=False)
    await live.store.remote.put("r1", "b", b"from elsewhere")
    live.node.order(start("t1", "quick", job("r1", HERE_A, ELSEWHERE_B), stage="ab"))
    live.node.order(start("t2", "quick", job("r1", ELSEWHERE_B, HERE_A), stage="ba", slices=[1]))
    await live.tells(TaskFinished, 2)
    assert live.store.local.get("r1", "ab") == output_of("quick", b"from here", b"from elsewhere")
    assert live.store.local.get("r1", "ba") == output_of("quick", b"from elsewhere", b"from here")


async def test_a_batch_over_several_slices_comes_back_in_order(live: LiveNode) -> None:
    requests = [f"r{number}" for number in range(5)]
    for request in requests:
        await live.payload(request, request.encode())
    live.node.order(
        start("t1", "quick", *(job(request) for request in requests), slices=[1, 0], vcpus=2)
    )
    await live.tells(TaskFinished)
    for request in requests:
        expected = output_of("quick", request.encode())
        assert live.store.local.get(request, "stage") == expected
    assert [server.rows_of("quick") for server in live.servers] == [[2], [3]]


async def test_an_input_that_comes_late_is_waited_for(live: LiveNode) -> None:
    live.node.order(start("t1", "quick", job("r1", ELSEWHERE_B)))
    await until(lambda: live.told(InstanceReady))
    await live.store.remote.put("r1", "b", b"at last")
    await live.tells(TaskFinished)
    assert live.store.local.get("r1", "stage") == output_of("quick", b"at last")


async def test_the_cpu_part_is_around_the_model(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    await live.payload("r2", b"drawing")
    live.node.order(start("t1", "wrapped", job("r1"), job("r2")))
    await live.tells(TaskFinished)
    for request, content in [("r1", b"<picture>"), ("r2", b"<drawing>")]:
        expected = b"[" + output_of("wrapped", content) + b"]"
        assert live.store.local.get(request, "stage") == expected


async def test_missing_inputs_are_named(redis_url: str, tmp_path: Path) -> None:
    async with live_node(redis_url, tmp_path, fetch_timeout_s=0.0) as live:
        await live.payload("r1", b"picture")
        await live.store.keep("r2", "a", b"there", publish=False)
        live.node.order(start("t1", "quick", job("r1"), job("r3", HERE_A)))
        failed = await live.tells(TaskFailed)
        assert failed.missing == (StageOutput(request="r3", stage="a"),)
        assert failed.reason == "missing inputs: a of r3"

        jobs = job("r2", HERE_A, ELSEWHERE_B), job("r4", Input(), HERE_A)
        live.node.order(start("t2", "quick", *jobs))
        failed = await live.tells(TaskFailed, 2)
        assert failed.missing == (
            StageOutput(request="r2", stage="b"),
            StageOutput(request="r4", stage=""),
            StageOutput(request="r4", stage="a"),
        )
        assert failed.reason == "missing inputs: b of r2, payload of r4, a of r4"
        assert live.idle


async def test_without_redis_a_task_fails_and_misses_nothing(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    server.start()
    async with live_node(server.url, tmp_path / "store") as live:
        server.kill()
        live.node.order(start("t1", "quick", job("r1")))
        failed = await live.tells(TaskFailed)
        assert failed.reason.startswith("Redis at ")
        assert failed.missing == ()


async def test_a_slice_that_dies_fails_its_task_and_frees_the_others(live: LiveNode) -> None:
    for request in ("r1", "r2"):
        await live.payload(request, b"picture")
    live.node.order(start("t1", "endless", job("r1"), job("r2"), slices=[0, 1]))
    await until(lambda: all(server.busy for server in live.servers))
    await live.servers[0].stop()
    failed = await live.tells(TaskFailed)
    assert failed.task == "t1"
    assert failed.reason.startswith(f"slice {live.servers[0].address} did not run endless: ")
    assert live.idle
    await until(lambda: live.servers[1].given_up("endless") == 1)
    live.node.order(start("t2", "quick", job("r1"), slices=[1]))
    await live.tells(TaskFinished)


async def test_an_error_that_nobody_foresaw_is_told_by_its_kind(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def infer(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(Slice, "infer", infer)
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    assert (await live.tells(TaskFailed)).reason == "ZeroDivisionError: by nought"
    (record,) = caplog.records
    assert record.exc_info is not None


async def test_a_load_that_fails_is_told_and_fails_who_waits_for_it(live: LiveNode) -> None:
    live.node.order(WarmInstance(invoker="i0", slice=1, function="large"))
    gone = await live.tells(InstanceGone)
    assert (gone.slice, gone.function) == (1, "large")
    assert "did not load large: INVALID_ARGUMENT" in gone.reason
    assert "out of memory: 1001 MB wanted, 1000 MB free" in gone.reason

    live.node.order(start("t1", "large", job("r1")))
    failed = await live.tells(TaskFailed)
    assert failed.reason.startswith("large could not be loaded: slice ")
    assert live.idle


async def test_a_model_that_was_there_before_is_made_known_and_used(live: LiveNode) -> None:
    await live.servers[0].repository.load("quick")
    live.node.found(ModelLoaded(slice=0, function="quick"))
    assert live.pool.joined().slices[0].resident == ("quick",)
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    assert (await live.tells(TaskFinished)).loading_us == 0


async def test_an_output_is_published_when_told(live: LiveNode) -> None:
    await live.store.keep("r1", "a", b"output", publish=False)
    live.node.order(PublishData(invoker="i0", request="r1", stage="a"))
    assert await live.store.remote.wait("r1", "a", 20) == b"output"


async def test_what_is_gone_cannot_be_published_and_does_no_harm(
    live: LiveNode, caplog: pytest.LogCaptureFixture
) -> None:
    live.node.order(PublishData(invoker="i0", request="r1", stage="a"))
    await until(lambda: caplog.records)
    assert [record.message for record in caplog.records] == ["could not publish"]
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    await live.tells(TaskFinished)


async def test_discarding_leaves_the_result_to_the_gateway(live: LiveNode) -> None:
    store: NodeStore = live.store
    await store.keep("r1", "a", b"output", publish=False)
    await store.publish("r1", "a")
    await store.keep("r1", "z", b"result", publish=True)
    live.node.order(DiscardData(invoker="i0", request="r1"))
    await until(lambda: live.keys() == ["test/r1/z"])
    assert live.files() == []


async def test_discarding_takes_the_result_along_if_nobody_will_come_for_it(
    live: LiveNode,
) -> None:
    await live.store.keep("r1", "z", b"result", publish=True)
    live.node.order(DiscardData(invoker="i0", request="r1", results=True))
    await until(lambda: live.keys() == [])
    with pytest.raises(Missing):
        await live.store.remote.get("r1", "z")


async def test_files_are_discarded_also_without_redis(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path / "redis")
    server.start()
    async with live_node(server.url, tmp_path / "store") as live:
        await live.store.keep("r1", "a", b"output", publish=False)
        await live.store.publish("r1", "a")
        server.kill()
        live.node.order(DiscardData(invoker="i0", request="r1"))
        await until(lambda: caplog.records)
        assert [record.message for record in caplog.records] == ["could not discard"]
        assert live.files() == []
