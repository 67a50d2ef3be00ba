"""Requests through a real mesh: right answers, and nothing left behind."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from esg.client import (
    AlreadyExists,
    AsyncClient,
    Client,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Outcome,
    PipelineStage,
    Progress,
    Result,
)
from esg.local.supervisor import Mesh
from esg.runtime.settings import ControllerSettings
from tests.integration.conftest import Launch
from tests.support.mesh_expectations import made, nothing_is_left, photo, scene, status_of
from tests.support.waiting import until


async def test_a_chain_gives_the_right_bytes_and_tells_how(mesh: Mesh, client: AsyncClient) -> None:
    result = await client.submit("photo", b"a picture")
    assert result.outputs == photo(b"a picture")
    assert (result.outcome, result.slo_met) == (Outcome.DONE, True)
    assert [stage.stage for stage in result.stages] == ["resize", "detect", "label"]
    for before, after in zip(result.stages, result.stages[1:], strict=False):
        assert before.ready_ms <= before.started_ms <= before.finished_ms <= after.ready_ms
    assert result.stages[-1].finished_ms <= result.latency_ms
    assert result.cost_usd == pytest.approx(sum(stage.cost_usd for stage in result.stages))
    assert {stage.node for stage in result.stages} <= set(mesh.nodes)
    await nothing_is_left(mesh, client)


async def test_branches_split_and_join(mesh: Mesh, client: AsyncClient) -> None:
    result = await client.submit("scene", b"a scene")
    assert result.outputs == scene(b"a scene")
    await nothing_is_left(mesh, client)


async def test_the_outputs_of_all_stages_can_be_had(mesh: Mesh, client: AsyncClient) -> None:
    result, plain = await asyncio.gather(
        client.submit("scene", b"a scene", all_stages=True), client.submit("scene", b"a scene")
    )
    small = made("resize", b"a scene")
    between = {"resize": small, "detect": made("detect", small), "depth": made("depth", small)}
    assert result.outputs == {**between, **scene(b"a scene")}
    assert plain.outputs == scene(b"a scene")
    await nothing_is_left(mesh, client)


async def test_a_repeat_must_want_the_same_outputs(mesh: Mesh, client: AsyncClient) -> None:
    await client.submit("photo", b"a picture", request_id="all-or-last", all_stages=True)
    with pytest.raises(AlreadyExists):
        await client.submit("photo", b"a picture", request_id="all-or-last")


async def test_two_clients_share_batches_and_each_gets_its_own(
    mesh: Mesh, client: AsyncClient
) -> None:
    payloads = [f"picture {n}".encode() for n in range(40)]
    async with (
        AsyncClient(mesh.gateway) as other,
        client.stream() as stream,
        other.stream() as other_stream,
    ):
        answers: list[Result] = await asyncio.gather(
            *(
                (stream, other_stream)[n % 2].submit("photo", payload)
                for n, payload in enumerate(payloads)
            )
        )
    for payload, answer in zip(payloads, answers, strict=True):
        assert answer.outputs == photo(payload)
    detected = [stage for answer in answers for stage in answer.stages if stage.stage == "detect"]
    together = Counter(stage.task for stage in detected)
    assert max(together.values()) > 1, "no batch was formed"
    for stage in detected:
        assert stage.config.batch == together[stage.task]
    await nothing_is_left(mesh, client)


async def test_data_stays_on_its_node_or_goes_through_redis(launch: Launch) -> None:
    """With one slice per node, the second branch of a scene has to run elsewhere."""
    async with launch(vgpus=1) as (mesh, client):
        result = await client.submit("scene", b"a scene")
        assert result.outputs == scene(b"a scene")
        nodes = {stage.stage: stage.node for stage in result.stages}
        assert nodes["detect"] != nodes["depth"]
        status = await status_of(client)
        assert status.local_transfers >= 1
        assert status.remote_transfers >= 1
        assert status.local_transfers + status.remote_transfers == 4  # an edge each
        await nothing_is_left(mesh, client)


async def test_a_large_payload_goes_in_pieces(mesh: Mesh, client: AsyncClient) -> None:
    payload = bytes(range(256)) * 50_000
    assert (await client.submit("photo", payload)).outputs == photo(payload)
    await nothing_is_left(mesh, client)


async def test_every_stage_can_be_watched(mesh: Mesh, client: AsyncClient) -> None:
    request = await client.submit_async("photo", b"watched")
    seen = [step async for step in client.watch(request)]
    *steps, end = seen
    told = [(s.stage, s.finished) for s in steps if isinstance(s, Progress)]
    stages = ("resize", "detect", "label")
    assert told == [(stage, done) for stage in stages for done in (False, True)]
    assert isinstance(end, Result)
    for _ in range(2):  # as often as wanted
        assert (await client.fetch(request)).outputs == photo(b"watched")
    state = await client.get(request)
    assert state.output_bytes == {"label": len(photo(b"watched")["label"])}
    assert 0 < (state.fetch_within_s or 0) <= ControllerSettings().remembered_s
    await nothing_is_left(mesh, client)


async def test_request_with_the_same_id_is_the_same_request(
    mesh: Mesh, client: AsyncClient
) -> None:
    first, second = await asyncio.gather(
        client.submit("photo", b"once", request_id="once-1"),
        client.submit("photo", b"once", request_id="once-1"),
    )
    assert first.stages == second.stages
    with pytest.raises(AlreadyExists, match="once-1"):
        await client.submit("photo", b"something else", request_id="once-1")
    assert (await client.get("once-1")).result is not None
    await nothing_is_left(mesh, client)


async def test_a_cancelled_request_frees_what_it_held(mesh: Mesh, client: AsyncClient) -> None:
    request = await client.submit_async("night", b"too long")
    async for step in client.watch(request):
        if isinstance(step, Progress) and step.stage == "slow":
            break
    assert await client.cancel(request)
    state = await client.get(request)
    assert state.result is not None
    assert state.result.outcome is Outcome.CANCELLED
    await nothing_is_left(mesh, client)


async def test_requests_that_are_given_up_at_any_moment_leave_nothing(
    mesh: Mesh, client: AsyncClient
) -> None:
    async def in_a_hurry(after_ms: int) -> None:
        with suppress(DeadlineExceeded, InvalidRequest):  # refused, if there is time to say so
            await client.submit("scene", b"too slow", timeout_s=after_ms / 1000)

    async def in_doubt(after_ms: int) -> None:
        request = await client.submit_async("scene", b"not wanted")
        await asyncio.sleep(after_ms / 1000)
        await client.cancel(request)

    moments_ms = [*range(1, 6), *range(6, 100, 4)] * 3
    await asyncio.gather(*(way(ms) for ms in moments_ms for way in (in_a_hurry, in_doubt)))
    await nothing_is_left(mesh, client)


async def under_way(client: AsyncClient) -> int:
    return (await status_of(client)).under_way


async def test_a_client_that_vanishes_takes_its_requests_with_it(
    mesh: Mesh, client: AsyncClient
) -> None:
    leaving = AsyncClient(mesh.gateway)
    async with leaving.stream() as stream:
        waiting = stream.submit("night", b"nobody waits for this", request_id="vanished-1")
        await until(lambda: under_way(client))
        await leaving.close()
        waiting.cancel()
        await nothing_is_left(mesh, client)
        stream._asked.clear()
        stream._idle.set()


async def test_applications_come_change_and_go(mesh: Mesh, client: AsyncClient) -> None:
    stages = [PipelineStage(function="resize"), PipelineStage(function="depth", after=("resize",))]
    registered = await client.register_application("relief", stages, slo_scale=500)
    assert registered.version == 1
    assert registered.slo_ms == pytest.approx(10_000)
    expected = {"depth": made("depth", made("resize", b"hill"))}
    assert (await client.submit("relief", b"hill")).outputs == expected
    updated = await client.update_application(
        "relief", [PipelineStage(function="depth")], slo_ms=9_000
    )
    assert updated.version == 2
    assert (await client.submit("relief", b"hill")).outputs == {"depth": made("depth", b"hill")}
    assert "relief" in [application.name for application in await client.list_applications()]
    await client.delete_application("relief")
    with pytest.raises(NotFound):
        await client.submit("relief", b"hill")
    await nothing_is_left(mesh, client)


async def test_impossible_request_is_refused_and_leaves_nothing(
    mesh: Mesh, client: AsyncClient
) -> None:
    with pytest.raises(NotFound, match="photo"):
        await client.submit("foto", b"x")
    with pytest.raises(InvalidRequest, match="payload"):
        await client.submit("photo", b"")
    with pytest.raises(InvalidRequest, match="cannot be met"):
        await client.submit("photo", b"x", slo_ms=1)
    with pytest.raises(InvalidRequest, match="slo"):
        await client.submit("photo", b"x", slo_ms=-1)
    with pytest.raises(InvalidRequest, match="cycle"):
        await client.register_application(
            "knot", [PipelineStage(name="a", function="resize", after=("a",))], slo_ms=100
        )
    await nothing_is_left(mesh, client)


async def test_garbage_on_the_port_harms_nobody(mesh: Mesh, client: AsyncClient) -> None:
    host, port = mesh.gateway.split(":")
    for garbage in (b"\0" * 1000, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 100):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        await reader.read(100)
        writer.close()
    assert (await client.submit("photo", b"still well")).outputs == photo(b"still well")


def test_the_client_without_asyncio_gets_the_same(mesh: Mesh) -> None:
    with Client(mesh.gateway) as client:
        assert client.submit("photo", b"plain").outputs == photo(b"plain")
