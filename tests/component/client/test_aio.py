"""The client against a real gateway."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from esg.client import (
    AlreadyExists,
    AsyncClient,
    Config,
    DeadlineExceeded,
    Exhausted,
    FailedPrecondition,
    InvalidRequest,
    NoGateway,
    NotFound,
    Outcome,
    PipelineStage,
    Progress,
    Result,
    ServerError,
    TooLarge,
    Unavailable,
)
from esg.controller.durability.dead_letters import PutAside
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc import status as problems
from tests.component.gateway.conftest import Keys
from tests.support.redis_server import RedisServer
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.waiting import LIMIT_S, until

LARGE = bytes(range(256)) * 40_000


async def test_a_result_has_everything_that_happened(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    controller.playing = True
    result = await mesh.submit(KNOWN, b"abc", slo_ms=900, request_id="r1")
    assert result.outputs == {"second": b"cba"}
    assert (result.request_id, result.application) == ("r1", KNOWN)
    assert (result.outcome, result.slo_met) == (Outcome.DONE, True)
    assert (result.latency_ms, result.slo_ms, result.cost_usd) == (70.0, 900.0, 0.00012)
    first, second = result.stages
    assert (first.stage, first.node, first.config) == ("first", "i0", Config(1, 2, 1))
    assert (second.wait_ms, second.run_ms) == (5.0, 25.0)


async def test_large_payloads_and_outputs_need_no_other_call(
    mesh: AsyncClient, controller: ScriptedController, keys: Keys
) -> None:
    controller.playing = True
    assert (await mesh.submit(KNOWN, LARGE)).outputs == {"second": LARGE[::-1]}
    request = await mesh.submit_async(KNOWN, LARGE)
    assert (await mesh.fetch(request)).outputs == {"second": LARGE[::-1]}
    await until(lambda: keys() == [])


async def test_a_small_payload_may_have_a_large_output(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    waiting = asyncio.create_task(mesh.submit(KNOWN, b"abc", request_id="r1"))
    await controller.takes_in("r1")
    await controller.finish("r1", second=LARGE)
    await controller.hears("follow")
    controller.accept("r1")
    assert (await waiting).outputs == {"second": LARGE}


async def test_an_output_is_fetched_in_what_is_left_of_the_timeout(
    gateways: Gateways, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_s: list[float] = []

    def noted(method: Any) -> Any:
        def call(message: Any, timeout: float) -> Any:
            given_s.append(timeout)
            return method(message, timeout=timeout)

        return call

    controller.playing = True
    payload = LARGE[:2000]
    async with AsyncClient(await gateways.start(inline_bytes=1024)) as mesh:
        stub = mesh._calls.gateways.current.stub
        for name in ("Submit", "Fetch"):
            monkeypatch.setattr(stub, name, noted(getattr(stub, name)))
        result = await mesh.submit(KNOWN, payload, timeout_s=LIMIT_S)
    assert result.outputs == {"second": payload[::-1]}
    submit_s, fetch_s = given_s
    assert fetch_s < submit_s


async def test_a_request_is_watched_to_its_result(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    controller.playing = True
    request = await mesh.submit_async(KNOWN, b"abc")
    *progress, result = [news async for news in mesh.watch(request)]
    assert [(p.stage, p.finished) for p in progress if isinstance(p, Progress)] == [
        ("first", False),
        ("first", True),
        ("second", False),
        ("second", True),
    ]
    assert isinstance(result, Result)
    assert result.outcome is Outcome.DONE
    state = await mesh.get(request)
    assert state.result == result


async def test_a_watch_goes_on_at_a_gateway_that_has_restarted(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start()
    port = int(address.rpartition(":")[2])
    # However long it takes the gateway to be back
    async with AsyncClient(address, patience_s=LIMIT_S) as mesh:
        waiting = asyncio.create_task(mesh.submit_async(KNOWN, b"abc", request_id="r1"))
        await controller.takes_in("r1")
        await waiting
        news = mesh.watch("r1")
        controller.progress("r1", "first", finished=False)
        first = asyncio.ensure_future(anext(news))
        await controller.hears("follow")
        controller.accept("r1")
        assert isinstance(await first, Progress)
        await gateways.close()
        await gateways.start(port=port)
        following = asyncio.ensure_future(anext(news))
        await controller.hears("follow")
        controller.accept("r1")
        controller.progress("r1", "first", finished=True)
        told = await following
        assert isinstance(told, Progress)
        assert told.finished
        await news.aclose()  # type: ignore[attr-defined]


async def test_waiting_that_is_cancelled_cancels_the_request(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    waiting = asyncio.create_task(mesh.submit(KNOWN, b"abc", request_id="r1"))
    await controller.takes_in("r1")
    waiting.cancel()
    assert await controller.hears("leave") == "r1"


async def test_a_request_is_cancelled_by_its_id(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    waiting = asyncio.create_task(mesh.submit(KNOWN, b"abc", request_id="r1"))
    await controller.takes_in("r1")
    cancelling = asyncio.create_task(mesh.cancel("r1"))
    await controller.hears("cancel")
    controller.end("r1", model.OUTCOME_CANCELLED, reason="as you wish")
    assert await cancelling
    result = await waiting
    assert (result.outcome, result.reason) == (Outcome.CANCELLED, "as you wish")


async def test_applications_are_managed(mesh: AsyncClient) -> None:
    stages = [PipelineStage("deblur"), PipelineStage("depth", after=("deblur",), name="far")]
    made = await mesh.register_application("new", stages, slo_ms=400)
    assert (made.version, made.slo_ms) == (1, 400.0)
    assert made.stages[1] == PipelineStage("depth", ("deblur",), "far")
    assert (await mesh.update_application("new", stages, slo_scale=2)).version == 2
    assert (await mesh.describe_application("new")).version == 2
    assert [a.name for a in await mesh.list_applications()] == [KNOWN, "new"]
    await mesh.delete_application("new")
    with pytest.raises(NotFound):
        await mesh.describe_application("new")


async def test_the_mesh_is_watched(mesh: AsyncClient) -> None:
    (status,) = [status async for status in mesh.watch_mesh(0)]
    assert (status.policy, status.nodes[0].node, status.nodes[0].vcpus_free) == ("esg", "i0", 12)
    assert status.nodes[0].slices[0].resident == ("deblur",)


async def test_refusals_are_errors_with_the_gateways_words(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    controller.playing = True
    with pytest.raises(InvalidRequest, match="payload: is empty; send"):
        await mesh.submit(KNOWN, b"")
    with pytest.raises(NotFound, match="unknown application 'x'"):
        await mesh.submit("x", b"abc")
    with pytest.raises(InvalidRequest, match="give one of them"):
        await mesh.register_application("x", [], slo_ms=1, slo_scale=1)
    await mesh.submit(KNOWN, b"abc", request_id="r1")
    with pytest.raises(AlreadyExists):
        await mesh.submit(KNOWN, b"abcd", request_id="r1")


@pytest.mark.parametrize("too_much", [1, 5 * 2**20], ids=["for the gateway", "for gRPC"])
async def test_a_payload_that_is_too_large_is_refused_in_the_same_words(
    gateways: Gateways, too_much: int
) -> None:
    """Whether it is the gateway that refuses it, or gRPC before that."""
    address = await gateways.start(max_payload_bytes=len(LARGE) - too_much)
    async with AsyncClient(address) as mesh:
        for submit in (mesh.submit, mesh.submit_async):
            with pytest.raises(TooLarge, match=r"^payload: is larger than .*max_payload_bytes"):
                await submit(KNOWN, LARGE)


@pytest.mark.parametrize("slo_ms", [-1, 0, 0.0004, 86_400_001, float("nan"), float("inf")])
async def test_a_deadline_that_cannot_be_is_refused_as_it_was_given(
    mesh: AsyncClient, slo_ms: float
) -> None:
    words = re.escape(f"slo_ms: is {slo_ms}; it must be from 0.001 to 86400000")
    with pytest.raises(InvalidRequest, match=words):
        await mesh.submit(KNOWN, b"abc", slo_ms=slo_ms)
    with pytest.raises(InvalidRequest, match=words):
        await mesh.submit_async(KNOWN, b"abc", slo_ms=slo_ms)
    async with mesh.stream() as stream:
        for payload in (b"abc", LARGE):
            with pytest.raises(InvalidRequest, match=words):
                await stream.submit(KNOWN, payload, slo_ms=slo_ms)


@pytest.mark.parametrize("slo_ms", [-1, float("nan"), 1e300])
async def test_slo_of_an_application_that_is_no_time_is_refused(
    mesh: AsyncClient, slo_ms: float
) -> None:
    with pytest.raises(InvalidRequest, match="slo_ms: is"):
        await mesh.register_application("new", [PipelineStage("deblur")], slo_ms=slo_ms)


async def test_a_call_ends_when_its_time_is_over(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    with pytest.raises(DeadlineExceeded, match="allow more with timeout_s"):
        await mesh.submit(KNOWN, b"abc", timeout_s=0.1)


async def test_client_says_that_no_gateway_is_at_the_address() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with AsyncClient(address, patience_s=0.1) as mesh:
            with pytest.raises(NoGateway, match=f"no gateway at {address}; start .* esg up, or"):
                await mesh.submit(KNOWN, b"abc")


async def test_unavailable_request_is_tried_again_under_the_same_id(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    waiting = asyncio.create_task(mesh.submit(KNOWN, b"abc"))
    first = await controller.hears("submission")
    controller.refuse(first.request_id, Unavailable("not now"))
    second = await controller.hears("submission")
    assert second == first
    controller.accept(first.request_id)
    await controller.finish(first.request_id, second=b"y")
    assert (await waiting).outputs == {"second": b"y"}


async def test_client_that_is_refused_for_now_is_told_when_to_come_back(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    waiting = asyncio.create_task(mesh.submit(KNOWN, b"abc"))
    submission = await controller.hears("submission")
    controller.refuse(submission.request_id, problems.Exhausted("too many", 1_234_001))
    with pytest.raises(Exhausted, match="too many") as caught:
        await waiting
    assert caught.value.retry_after_s == 1.235


async def test_submission_that_no_retry_cures_is_not_tried_again(
    mesh: AsyncClient, controller: ScriptedController, redis_server: RedisServer
) -> None:
    with redis_server.client() as inside:
        inside.config_set("appendonly", "no")
        try:
            waiting = asyncio.create_task(mesh.submit_async(KNOWN, b"abc", request_id="r1"))
            await controller.takes_in("r1")
            with pytest.raises(FailedPrecondition, match="appendonly yes"):
                await waiting
        finally:
            inside.config_set("appendonly", "yes")
    await controller.hears("leave")  # and no second submission before


# attack: A1
async def test_request_at_which_the_controller_failed_is_not_tried_again(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    waiting = asyncio.create_task(mesh.submit(KNOWN, b"abc"))
    submission = await controller.hears("submission")
    controller.refuse(submission.request_id, PutAside("RequestArrived-c0ffee", again=False))
    with pytest.raises(ServerError, match="kept it as RequestArrived-c0ffee"):
        await waiting


async def test_patience_has_an_end(address: str, controller: ScriptedController) -> None:
    async def refuse() -> None:
        while True:
            submission = await controller.hears("submission")
            controller.refuse(submission.request_id, Unavailable("not now"))

    refusing = asyncio.create_task(refuse())
    async with AsyncClient(address, patience_s=0.3) as mesh:
        with pytest.raises(Unavailable, match="not now"):
            await mesh.submit(KNOWN, b"abc")
        with pytest.raises((Unavailable, DeadlineExceeded)):
            await mesh.submit(KNOWN, b"abc", timeout_s=0.3)
    refusing.cancel()


async def test_a_client_that_is_closed_says_so(mesh: AsyncClient) -> None:
    async def watched(things: AsyncIterator[object]) -> None:
        async for _ in things:
            pass

    await mesh.close()
    await mesh.close()
    for use in (
        lambda: mesh.submit(KNOWN, b"abc"),
        lambda: mesh.list_applications(),
        lambda: watched(mesh.watch("r1")),
        lambda: watched(mesh.watch_mesh()),
    ):
        with pytest.raises(Unavailable, match="this client is closed; make another one"):
            await use()
    with pytest.raises(Unavailable, match="this client is closed; make another one"):
        mesh.stream()


async def test_caller_that_waits_while_the_client_is_closed_gets_an_error_and_is_not_cancelled(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    """An error of a task that nobody has cancelled must not look as if somebody had."""
    watching = mesh.watch_mesh(60_000)
    await anext(watching)
    waiting = asyncio.create_task(mesh.submit(KNOWN, b"abc", request_id="r1"))
    await controller.takes_in("r1")
    await mesh.close()
    with pytest.raises(Unavailable, match="this client is closed"):
        await waiting
    with pytest.raises(Unavailable, match="this client is closed"):
        await anext(watching)
