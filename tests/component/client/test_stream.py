"""Many requests over one stream, which may break."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from esg.client import (
    AsyncClient,
    Exhausted,
    InvalidRequest,
    NoGateway,
    Outcome,
    Result,
    TooLarge,
    Unavailable,
)
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc import status as problems
from tests.component.gateway.conftest import Keys
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import KNOWN, ScriptedController
from tests.support.waiting import LIMIT_S, until

LARGE = bytes(range(256)) * 40_000


async def test_stream_answers_many_requests(
    mesh: AsyncClient, controller: ScriptedController, keys: Keys
) -> None:
    controller.playing = True
    async with mesh.stream() as stream:
        answers = [stream.submit(KNOWN, b"%d" % i) for i in range(1000)]
        results = await asyncio.gather(*answers)
    assert [result.outputs["second"] for result in results] == [
        (b"%d" % i)[::-1] for i in range(1000)
    ]
    assert len({result.request_id for result in results}) == 1000
    await until(lambda: keys() == [])


async def test_stream_waits_for_all_answers_at_the_end_of_its_block(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    controller.playing = True
    async with mesh.stream() as stream:
        answers = [stream.submit(KNOWN, b"abc") for _ in range(10)]
        assert len(stream) == 10
    assert all(answer.result().outcome is Outcome.DONE for answer in answers)
    with pytest.raises(Unavailable, match="closed"):
        stream.submit(KNOWN, b"abc")


async def test_refusals_go_to_those_who_asked(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    controller.playing = True
    async with mesh.stream() as stream:
        bad, good = stream.submit(KNOWN, b""), stream.submit(KNOWN, b"abc")
        with pytest.raises(InvalidRequest, match="payload: is empty"):
            await bad
        assert (await good).outputs == {"second": b"cba"}


async def test_large_payloads_and_outputs_go_the_same_way(
    mesh: AsyncClient, controller: ScriptedController, keys: Keys
) -> None:
    controller.playing = True
    async with mesh.stream() as stream:
        large, small = stream.submit(KNOWN, LARGE), stream.submit(KNOWN, b"abc")
        assert (await small).outputs == {"second": b"cba"}
        assert (await large).outputs == {"second": LARGE[::-1]}
    await until(lambda: keys() == [])


async def test_a_payload_that_is_too_large_is_refused_alone(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start(max_payload_bytes=len(LARGE) - 2 * 2**20)
    async with AsyncClient(address) as mesh, mesh.stream() as stream:
        small = stream.submit(KNOWN, b"abc", request_id="r1")
        await controller.takes_in("r1")
        with pytest.raises(TooLarge, match="payload: is larger than"):
            await stream.submit(KNOWN, LARGE)
        await controller.finish("r1", second=b"y")
        assert (await small).outputs == {"second": b"y"}
    assert controller.said == []


async def test_a_large_request_is_the_same_as_a_small_one(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    async with mesh.stream() as stream:
        answer = stream.submit(KNOWN, LARGE, slo_ms=700, request_id="r1", all_stages=True)
        assert stream.submit(KNOWN, LARGE, request_id="r1") is answer
        assert len(stream) == 1
        first = await controller.hears("submission")
        assert (first.slo_us, first.all_stages) == (700_000, True)
        controller.refuse("r1", Unavailable("not now"))
        assert await controller.hears("submission") == first
        controller.accept("r1")
        controller.end("r1", model.OUTCOME_FAILED, reason="no luck")
    assert (answer.result().outcome, answer.result().reason) == (Outcome.FAILED, "no luck")


async def test_a_large_request_goes_on_when_nobody_waits_for_it(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    async with mesh.stream() as stream:
        answer = stream.submit(KNOWN, LARGE, request_id="r1")
        answer.cancel()
        assert await controller.takes_in("r1") == LARGE
        await controller.finish("r1", second=b"y")
    assert controller.said == []


async def test_unanswered_requests_are_sent_again_when_the_gateway_is_back(
    gateways: Gateways, controller: ScriptedController
) -> None:
    address = await gateways.start()
    port = int(address.rpartition(":")[2])
    # However long it takes the gateway to be back
    async with AsyncClient(address, patience_s=LIMIT_S) as mesh, mesh.stream() as stream:
        answer = stream.submit(KNOWN, b"abc", request_id="r1")
        first = await controller.hears("submission")
        controller.accept("r1")
        await controller.payload(first)
        await gateways.close()
        await gateways.start(port=port)
        assert await controller.hears("submission") == first
        controller.accept("r1", repeated=True)
        await controller.finish("r1", second=b"y")
        assert (await answer).outputs == {"second": b"y"}


async def test_request_that_another_stream_has_sent_is_not_sent_again(
    gateways: Gateways, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[Callable[[], object]] = []
    address = await gateways.start()
    port = int(address.rpartition(":")[2])
    async with AsyncClient(address, patience_s=LIMIT_S) as mesh, mesh.stream() as stream:
        answer = stream.submit(KNOWN, b"abc", request_id="r1")
        first = await controller.hears("submission")
        # It is to be tried again, but its stream breaks before that
        with monkeypatch.context() as patched:
            patched.setattr(
                stream, "_later", lambda _, call, *told: later.append(partial(call, *told))
            )
            controller.refuse("r1", Unavailable("not now"))
            await until(lambda: bool(later))
        await gateways.close()
        await gateways.start(port=port)
        assert await controller.hears("submission") == first
        later.pop()()
        assert len(stream._outbox) == 0
        controller.accept("r1")
        await controller.finish("r1", second=b"y")
        assert (await answer).outputs == {"second": b"y"}
    assert controller.said == []


async def test_request_whose_result_is_being_fetched_is_not_sent_again(
    gateways: Gateways, controller: ScriptedController, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await gateways.start()
    port = int(address.rpartition(":")[2])
    fetched: list[str] = []
    go_on = asyncio.Event()
    async with AsyncClient(address, patience_s=LIMIT_S) as mesh, mesh.stream() as stream:
        fetch = stream._calls.fetch

        async def slowly(request_id: str) -> Result:
            fetched.append(request_id)
            await go_on.wait()
            return await fetch(request_id)

        monkeypatch.setattr(stream._calls, "fetch", slowly)
        large = stream.submit(KNOWN, b"abc", request_id="r1")
        await controller.takes_in("r1")
        await controller.finish("r1", second=LARGE)
        await until(lambda: bool(fetched))
        small = stream.submit(KNOWN, b"def", request_id="r2")
        await controller.takes_in("r2")
        await gateways.close()
        await gateways.start(port=port)
        await controller.takes_in("r2", repeated=True)
        await controller.finish("r2", second=b"y")
        assert (await small).outputs == {"second": b"y"}
        go_on.set()
        assert await controller.hears("follow") == "r1"
        controller.accept("r1")
        assert (await large).outputs == {"second": LARGE}
    assert fetched == ["r1"]
    assert controller.said == []


async def test_a_belated_answer_does_not_count_for_a_later_request_of_the_same_id(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    async with mesh.stream() as stream:
        given_up = stream.submit(KNOWN, b"abc", request_id="r1")
        await controller.takes_in("r1")
        asked = stream._asked["r1"]
        stream._answer(asked, Unavailable("the stream broke while its outputs were fetched"))
        answer = stream.submit(KNOWN, b"abc", request_id="r1")
        stream._answer(asked, Unavailable("and so did the fetching"))
        assert len(stream) == 1
        await controller.finish("r1", second=b"y")
        assert (await answer).outputs == {"second": b"y"}
    assert isinstance(given_up.exception(), Unavailable)


async def test_a_request_that_is_unavailable_is_tried_again(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    async with mesh.stream() as stream:
        answer = stream.submit(KNOWN, b"abc", request_id="r1")
        first = await controller.hears("submission")
        controller.refuse("r1", Unavailable("not now"))
        assert await controller.hears("submission") == first
        controller.accept("r1")
        await controller.finish("r1", second=b"y")
        assert (await answer).outputs == {"second": b"y"}


async def test_a_request_that_is_refused_for_now_says_when_to_come_back(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    async with mesh.stream() as stream:
        answer = stream.submit(KNOWN, b"abc", request_id="r1")
        await controller.hears("submission")
        controller.refuse("r1", problems.Exhausted("too many", 1_500_000))
        with pytest.raises(Exhausted, match="too many") as caught:
            await answer
        assert caught.value.retry_after_s == 1.5


async def test_stream_without_a_gateway_fails_all_requests_when_patience_ends() -> None:
    async with AsyncClient("127.0.0.1:1", patience_s=0.1) as mesh, mesh.stream() as stream:
        answers = [stream.submit(KNOWN, payload) for payload in (b"abc", LARGE)]
        for answer in answers:
            with pytest.raises(NoGateway):
                await answer


@pytest.mark.parametrize("payload", [b"abc", LARGE], ids=["small", "large"])
async def test_a_block_that_fails_does_not_wait(
    mesh: AsyncClient, controller: ScriptedController, payload: bytes
) -> None:
    async def broken() -> None:
        async with mesh.stream() as stream:
            answers.append(stream.submit(KNOWN, payload, request_id="r1"))
            await controller.takes_in("r1")
            raise ZeroDivisionError

    answers: list[asyncio.Future[Result]] = []
    with pytest.raises(ZeroDivisionError):
        await broken()
    assert answers[0].cancelled()
    assert await controller.hears("cancel") == "r1"


@pytest.mark.parametrize("payload", [b"abc", LARGE], ids=["small", "large"])
async def test_a_client_that_is_closed_leaves_nobody_waiting(
    mesh: AsyncClient, controller: ScriptedController, payload: bytes
) -> None:
    async with asyncio.timeout(LIMIT_S):
        async with mesh.stream() as stream:
            answer = stream.submit(KNOWN, payload, request_id="r1")
            await controller.takes_in("r1")
            await mesh.close()
            with pytest.raises(Unavailable, match="this client is closed"):
                await answer
        with pytest.raises(Unavailable, match="closed"):
            stream.submit(KNOWN, payload)


async def test_a_stream_that_was_idle_when_its_client_was_closed_says_so(mesh: AsyncClient) -> None:
    made_before = mesh.stream()
    async with asyncio.timeout(LIMIT_S), mesh.stream() as stream:
        await mesh.close()
        async with made_before as late:
            for opened in (stream, late):
                for payload in (b"abc", LARGE):
                    with pytest.raises(Unavailable, match="closed"):
                        await opened.submit(KNOWN, payload)
