"""What a live node does with its orders: tasks, their data, and the models they need."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from esg.core.messages.commands import DiscardData, PublishData, WarmInstance
from esg.core.messages.events import (
    InstanceGone,
    InstanceReady,
    InvokerReported,
    JobFailure,
    MissingInput,
    TaskFailed,
    TaskFinished,
)
from esg.core.messages.node import ModelLoaded
from esg.core.messages.task_order import AwaitedJob, InlinePayload, Output, Payload
from esg.errors import Fault
from esg.invoker.emulated.repository import RepositoryState
from esg.invoker.execution import comes_along
from esg.invoker.slices.client import SliceClient, SliceGone
from esg.storage.errors import Missing
from esg.storage.node_store import NodeStore
from tests.support.live_node import LiveNode, job, live_node, output_of, start
from tests.support.redis_server import RedisServer
from tests.support.waiting import until

HERE_A, ELSEWHERE_B = Output(stage="a", invoker="i0"), Output(stage="b", invoker="i1")


async def test_a_task_runs_and_its_output_stays_here(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    finished = await live.tells(TaskFinished)
    assert (finished.task, finished.invoker) == ("t1", "i0")
    assert live.store.local.get("r1", "stage") == output_of("quick", b"picture")
    assert live.keys() == []
    assert live.idle


async def test_a_payload_that_came_with_the_order_is_not_looked_for(live: LiveNode) -> None:
    sent = InlinePayload(key="@c0ffee", content=b"picture")
    await live.payload("r2", b"another")
    live.node.order(start("t1", "quick", job("r1", sent), job("r2")))
    await live.tells(TaskFinished)
    assert live.store.local.get("r1", "stage") == output_of("quick", b"picture")
    assert live.store.local.get("r2", "stage") == output_of("quick", b"another")


async def test_a_model_is_loaded_before_its_first_task_and_stays(live: LiveNode) -> None:
    for number in (1, 2):
        await live.payload(f"r{number}", b"picture")
        live.node.order(start(f"t{number}", "quick", job(f"r{number}")))
        await live.tells(TaskFinished, number)
    (ready,) = live.told(InstanceReady)
    assert (ready.slice, ready.function) == (0, "quick")
    assert ready.loading_us > 0


async def test_results_go_to_redis_and_leave_no_file(live: LiveNode) -> None:
    for request in ("r1", "r2"):
        await live.payload(request, request.encode())
    live.node.order(start("t1", "quick", job("r1"), job("r2"), publish=True))
    await live.tells(TaskFinished)
    for request in ("r1", "r2"):
        result = await live.store.remote.get(request, "stage")
        assert result == output_of("quick", request.encode())
    assert live.files() == []


async def test_a_small_result_comes_along_with_the_report_and_is_kept_nowhere(
    live: LiveNode,
) -> None:
    small = len(output_of("quick", b"r1"))
    for number, most_bytes in ((1, small), (2, small - 1)):
        request = f"r{number}"
        await live.payload(request, request.encode())
        order = start(f"t{number}", "quick", job(request), publish=True)
        marked = AwaitedJob(
            request=request, inputs=(Payload(),), publish=True, bring_bytes=most_bytes
        )
        live.node.order(replace(order, jobs=(marked,)))
        await live.tells(TaskFinished, number)
    assert live.brought == {"r1": output_of("quick", b"r1")}
    assert live.keys() == ["test/r2/stage"]  # it is larger than was asked for
    assert live.store.kept == ("r2",)
    assert live.files() == []


@pytest.mark.parametrize(
    ("size", "most_bytes", "along"), [(0, 0, False), (0, 1, True), (1, 0, False)]
)
def test_nothing_comes_along_where_nothing_was_asked_for(
    size: int, most_bytes: int, along: bool
) -> None:
    """An output may be empty, and a later stage still reads it."""
    marked = AwaitedJob(request="r1", inputs=(Payload(),), publish=True, bring_bytes=most_bytes)
    assert comes_along(marked, bytes(size)) is along


async def test_a_join_gets_its_inputs_in_the_order_that_it_was_told(live: LiveNode) -> None:
    await live.store.keep("r1", "a", b"from here", local=True, publish=False)
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
        await live.store.keep("r2", "a", b"there", local=True, publish=False)
        live.node.order(start("t1", "quick", job("r1"), job("r3", HERE_A)))
        failed = await live.tells(TaskFailed)
        assert failed.missing == (MissingInput(request="r3", source=HERE_A),)
        assert failed.reason == "missing inputs: a of r3"

        jobs = job("r2", HERE_A, ELSEWHERE_B), job("r4", Payload(), HERE_A)
        live.node.order(start("t2", "quick", *jobs))
        failed = await live.tells(TaskFailed, 2)
        assert failed.missing == (
            MissingInput(request="r2", source=ELSEWHERE_B),
            MissingInput(request="r4", source=Payload()),
            MissingInput(request="r4", source=HERE_A),
        )
        assert failed.reason == "missing inputs: b of r2, payload of r4, a of r4"
        assert live.idle


async def test_task_without_redis_fails_and_names_no_missing_input(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    server.start()
    async with live_node(server.url, tmp_path / "store", fetch_timeout_s=0.1) as live:
        server.kill()
        live.node.order(start("t1", "quick", job("r1")))
        failed = await live.tells(TaskFailed)
        assert failed.reason.startswith("Redis at ")
        assert failed.missing == ()


async def test_a_slice_that_dies_fails_the_jobs_on_it_and_is_out_of_order(live: LiveNode) -> None:
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "endless", job("r1")))
    await until(lambda: live.servers[0].busy)
    await live.servers[0].stop()
    finished = await live.tells(TaskFinished)
    ((request, reason),) = [(f.request, f.reason) for f in finished.failed]
    assert request == "r1"
    assert reason.startswith(f"slice {live.servers[0].address} did not run endless: ")
    assert live.idle
    assert live.files() == []
    # the scheduler hears first that the slice is lost, and will not send the job there again
    reported = next(event for event in live.news if isinstance(event, InvokerReported))
    assert [part.usable for part in reported.slices] == [False, True]
    assert live.news.index(reported) < live.news.index(finished)
    live.node.order(start("t2", "quick", job("r1")))
    assert (await live.tells(TaskFailed)).reason == "slice 0 of i0 is out of order"


async def test_the_portion_of_a_slice_that_is_gone_is_done_by_another(live: LiveNode) -> None:
    requests = ["r1", "r2"]
    for number, slices in enumerate(([0], [1]), 1):
        await live.payload("r0", b"picture")
        live.node.order(start(f"t{number}", "quick", job("r0"), slices=slices))
        await live.tells(TaskFinished, number)
    for request in requests:
        await live.payload(request, request.encode())
    await live.servers[0].stop()
    live.node.order(start("t3", "quick", *(job(request) for request in requests), slices=[0, 1]))
    finished = await live.tells(TaskFinished, 3)
    assert finished.failed == ()
    for request in requests:
        expected = output_of("quick", request.encode())
        assert live.store.local.get(request, "stage") == expected
    assert [part.usable for part in live.pool.slices] == [False, True]


async def test_a_slice_that_is_back_is_used_again(live: LiveNode) -> None:
    live.node.slice_lost(0, "a test")
    live.node.order(WarmInstance(invoker="i0", slice=0, function="quick"))
    assert (await live.tells(InstanceGone)).reason == "slice 0 of i0 is out of order"
    await live.servers[0].repository.load("quick")
    live.node.slice_back(0, ["quick"])
    assert live.pool.joined().slices[0].resident == ("quick",)
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    assert (await live.tells(TaskFinished)).loading_us == 0


async def test_load_of_an_earlier_server_is_no_news_of_the_next(live: LiveNode) -> None:
    live.node.order(WarmInstance(invoker="i0", slice=0, function="heavy"))
    await until(lambda: live.servers[0].repository.models["heavy"].state == "LOADING")
    live.node.slice_lost(0, "a test")
    live.node.slice_back(0, [])
    live.node.order(WarmInstance(invoker="i0", slice=0, function="quick"))
    await live.servers[0].stop()  # the load of heavy fails, and so does that of quick
    await until(lambda: not live.pool.slices[0].usable)
    assert live.told(InstanceGone) == []


async def test_a_job_that_fails_by_itself_spares_the_others(live: LiveNode) -> None:
    for request, content in [("r1", b"picture"), ("r2", b"raise"), ("r3", b"drawing")]:
        await live.payload(request, content)
    jobs = [job(request) for request in ("r1", "r2", "r3")]
    live.node.order(start("t1", "failing", *jobs, slices=[0]))
    finished = await live.tells(TaskFinished)
    assert [failure.request for failure in finished.failed] == ["r2"]
    assert finished.failed[0].reason.endswith("Failing: prepare: ValueError: not a picture")
    assert live.store.local.get("r1", "stage") == output_of("failing", b"picture")
    assert live.store.local.get("r3", "stage") == output_of("failing", b"drawing")


# attack: H2
async def test_input_that_nobody_could_use_is_final_and_spares_the_others(
    live: LiveNode, caplog: pytest.LogCaptureFixture
) -> None:
    for request, content in [("r1", b"picture"), ("r2", b"refuse"), ("r3", b"drawing")]:
        await live.payload(request, content)
    jobs = [job(request) for request in ("r1", "r2", "r3")]
    live.node.order(start("t1", "failing", *jobs, slices=[0]))
    finished = await live.tells(TaskFinished)
    assert finished.failed == (JobFailure(request="r2", reason="no picture; send one", final=True),)
    assert live.store.local.get("r1", "stage") == output_of("failing", b"picture")
    assert live.store.local.get("r3", "stage") == output_of("failing", b"drawing")
    assert "jobs failed" not in caplog.messages  # nothing is wrong with the node


async def test_jobs_that_are_not_alike_go_in_calls_of_their_own(live: LiveNode) -> None:
    await live.payload("r1", b"one")
    await live.payload("r2", b"two")
    await live.store.keep("r2", "a", b"more", local=True, publish=False)
    live.node.order(start("t1", "quick", job("r1"), job("r2", Payload(), HERE_A)))
    assert (await live.tells(TaskFinished)).failed == ()
    assert live.store.local.get("r1", "stage") == output_of("quick", b"one")
    assert live.store.local.get("r2", "stage") == output_of("quick", b"two", b"more")
    assert live.servers[0].rows_of("quick") == [1]


async def test_a_portion_that_fails_is_tried_on_another_slice_and_then_job_by_job(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[bytes]]] = []
    really = SliceClient.infer_plain

    async def infer(part: SliceClient, function: str, jobs: Any, **more: Any) -> Any:
        contents = [content for (content,) in jobs]
        asked.append((part.address, contents))
        if b"poison" in contents:
            raise Fault("the model cannot bear it")
        return await really(part, function, jobs, **more)

    monkeypatch.setattr(SliceClient, "infer_plain", infer)
    contents = [b"a", b"poison", b"c", b"d"]
    for number, content in enumerate(contents, 1):
        await live.payload(f"r{number}", content)
    jobs = [job(f"r{number}") for number in range(1, 5)]
    live.node.order(start("t1", "quick", *jobs, slices=[0, 1]))
    finished = await live.tells(TaskFinished)
    first, second = (server.address for server in live.servers)
    assert sorted(asked) == sorted(
        [
            (first, [b"a", b"poison"]),
            (second, [b"c", b"d"]),
            (second, [b"a", b"poison"]),
            (second, [b"a"]),
            (second, [b"poison"]),
        ]
    )
    assert finished.failed == (JobFailure(request="r2", reason="the model cannot bear it"),)
    for number in (1, 3, 4):
        expected = output_of("quick", contents[number - 1])
        assert live.store.local.get(f"r{number}", "stage") == expected
    assert "r2/stage" not in live.files()


async def test_a_model_that_its_slice_has_lost_is_loaded_again(live: LiveNode) -> None:
    """As when a server was started again and nobody noticed."""
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    await live.tells(TaskFinished)
    model = live.servers[0].repository.models["quick"]
    model.state = RepositoryState.UNAVAILABLE
    live.node.order(start("t2", "quick", job("r1")))
    finished = await live.tells(TaskFinished, 2)
    assert "unknown model: 'quick'" in finished.failed[0].reason
    assert (await live.tells(InstanceGone)).reason == "slice 0 has lost it"
    live.node.order(start("t3", "quick", job("r1")))
    assert (await live.tells(TaskFinished, 3)).failed == ()


async def test_models_that_slices_have_lost_are_news_before_the_task_that_found_out_ends(
    live: LiveNode,
) -> None:
    """So that whoever tries again has them loaded, and does not find the next slice without."""
    # attack: G1
    await live.payload("r1", b"picture")
    await live.payload("r2", b"drawing")
    live.node.order(start("t1", "quick", job("r1"), job("r2"), slices=[0, 1]))
    live.node.order(WarmInstance(invoker="i0", slice=1, function="other"))
    await live.tells(TaskFinished)
    await live.tells(InstanceReady, 3)
    for server in live.servers:
        for model in server.repository.models.values():
            model.state = RepositoryState.UNAVAILABLE
    known = len(live.news)
    live.node.order(start("t2", "quick", job("r1")))
    await live.tells(TaskFinished, 2)
    *gone, finished = live.news[known:]
    assert isinstance(finished, TaskFinished)
    assert {(g.slice, g.function) for g in gone if isinstance(g, InstanceGone)} == {
        (0, "quick"),
        (1, "quick"),
        (1, "other"),
    }


async def test_a_model_that_one_of_two_slices_has_lost_fails_no_job(live: LiveNode) -> None:
    # attack: G1
    for request in ("r1", "r2"):
        await live.payload(request, b"picture")
    live.node.order(start("t1", "quick", job("r1"), job("r2"), slices=[0, 1]))
    await live.tells(TaskFinished)
    live.servers[0].repository.models["quick"].state = RepositoryState.UNAVAILABLE
    live.node.order(start("t2", "quick", job("r1"), job("r2"), slices=[0, 1]))
    assert (await live.tells(TaskFinished, 2)).failed == ()
    assert (await live.tells(InstanceGone)).slice == 0
    assert live.pool.joined().slices[0].resident == ()


async def test_a_slice_that_is_about_to_end_gets_no_more_work(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Triton gives its models up first, and answers for a while yet that it has none."""
    await live.payload("r1", b"picture")
    live.node.order(start("t1", "quick", job("r1")))
    await live.tells(TaskFinished)
    live.servers[0].repository.models["quick"].state = RepositoryState.UNAVAILABLE

    really = SliceClient.resident

    async def resident(part: SliceClient) -> list[str]:
        if part.address != live.servers[0].address:
            return await really(part)
        raise SliceGone(
            f"slice {part.address} did not list its models: UNAVAILABLE: Server exiting"
        )

    monkeypatch.setattr(SliceClient, "resident", resident)
    live.node.order(start("t2", "quick", job("r1")))
    assert "unknown model: 'quick'" in (await live.tells(TaskFinished, 2)).failed[0].reason
    await until(lambda: [part.usable for part in live.pool.slices] == [False, True])


async def test_a_function_that_has_no_model_here_says_so(live: LiveNode) -> None:
    live.node.order(start("t1", "absent", job("r1")))
    failed = await live.tells(TaskFailed)
    assert failed.reason == "absent could not be loaded: absent has no folder"


async def test_a_load_that_hangs_is_given_up(redis_url: str, tmp_path: Path) -> None:
    async with live_node(redis_url, tmp_path, load_timeout_s=0.1) as live:
        live.node.order(WarmInstance(invoker="i0", slice=0, function="heavy"))
        gone = await live.tells(InstanceGone)
        assert "did not load heavy: DEADLINE_EXCEEDED" in gone.reason
        assert all(part.usable for part in live.pool.slices)


async def test_an_error_that_nobody_foresaw_is_told_by_its_kind(
    live: LiveNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def infer(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(SliceClient, "infer_plain", infer)
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
    await live.store.keep("r1", "a", b"output", local=True, publish=False)
    live.node.order(PublishData(invoker="i0", request="r1", stage="a"))
    assert await live.store.remote.wait("r1", "a", 20) == b"output"


async def test_order_to_publish_what_is_gone_does_no_harm(
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
    await store.keep("r1", "a", b"output", local=True, publish=False)
    await store.publish("r1", "a")
    await store.keep("r1", "z", b"result", local=False, publish=True)
    live.node.order(DiscardData(invoker="i0", request="r1"))
    await until(lambda: live.keys() == ["test/r1/z"])
    assert live.files() == []


async def test_discarding_takes_the_result_along_if_nobody_will_come_for_it(
    live: LiveNode,
) -> None:
    await live.store.keep("r1", "z", b"result", local=False, publish=True)
    live.node.order(DiscardData(invoker="i0", request="r1", results=True))
    await until(lambda: live.keys() == [])
    with pytest.raises(Missing):
        await live.store.remote.get("r1", "z")


async def test_files_are_discarded_also_without_redis(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path / "redis")
    server.start()
    async with live_node(server.url, tmp_path / "store", patience_s=0.1) as live:
        await live.store.keep("r1", "a", b"output", local=True, publish=False)
        await live.store.publish("r1", "a")
        server.kill()
        live.node.order(DiscardData(invoker="i0", request="r1"))
        await until(lambda: caplog.records)
        assert [record.message for record in caplog.records] == ["could not discard"]
        assert live.files() == []
