"""Many requests over one stream, which may break."""

import asyncio

import pytest

from client import (
    AsyncClient,
    Exhausted,
    InvalidRequest,
    NoGateway,
    Outcome,
    Result,
    Unavailable,
)
from mesh import problems
from tests.unit.gateway.conftest import Keys
from tests.unit.gateway.running import Gateways
from tests.unit.gateway.scripted import KNOWN, LIMIT_S, ScriptedController, until

LARGE = bytes(range(256)) * 40_000


async def test_many_requests_are_answered(
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


async def test_the_end_of_the_block_waits_for_all_answers(
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


async def test_what_was_not_answered_is_sent_again_when_the_gateway_is_back(
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
    # A gateway that is slow to begin may have asked for it once more: it is the same, by its id
    assert all(said == first for said in controller.said)


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


async def test_without_a_gateway_everything_fails_when_patience_ends() -> None:
    async with AsyncClient("127.0.0.1:1", patience_s=0.1) as mesh, mesh.stream() as stream:
        answers = [stream.submit(KNOWN, b"abc") for _ in range(2)]
        for answer in answers:
            with pytest.raises(NoGateway):
                await answer


async def test_a_block_that_fails_does_not_wait(
    mesh: AsyncClient, controller: ScriptedController
) -> None:
    async def broken() -> None:
        async with mesh.stream() as stream:
            answers.append(stream.submit(KNOWN, b"abc", request_id="r1"))
            await controller.takes_in("r1")
            raise ZeroDivisionError

    answers: list[asyncio.Future[Result]] = []
    with pytest.raises(ZeroDivisionError):
        await broken()
    assert answers[0].cancelled()
    assert await controller.hears("cancel") == "r1"
