"""Bytes that are no message: the caller's mistake, and told as such."""

import grpc
import pytest

from esg.protos import gateway_v1_pb2 as public
from esg.runtime.rpc.channels import channel
from tests.support.scripted_controller import KNOWN, ScriptedController

SERVICE = "/esg.gateway.v1.Pipelines"


@pytest.mark.parametrize("method", ["Submit", "Watch", "SubmitChunked", "SubmitMany"])
async def test_bytes_that_are_no_message_are_the_callers_mistake(
    method: str, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with channel(address) as link:
        call = link.stream_stream(f"{SERVICE}/{method}")(iter([b"\xff\xff\xff"]))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "the message cannot be decoded" in (refused.value.details() or "")
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("method", ["Submit", "Get", "ListApplications"])
async def test_who_goes_on_sending_in_a_call_of_one_message_is_refused(
    method: str, address: str
) -> None:
    """What is sent while a call is served fills memory that nobody has paid for."""
    async with channel(address) as link:
        call = link.stream_stream(f"{SERVICE}/{method}")(iter([b"", b""]))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "several messages" in (refused.value.details() or "")


async def test_a_stream_that_goes_wrong_still_answers_what_came_before(
    address: str, controller: ScriptedController
) -> None:
    controller.playing = True
    good = public.SubmitGroup(
        requests=[public.SubmitRequest(application=KNOWN, payload=b"abc", request_id="r1")]
    )
    async with channel(address) as link:
        messages = iter([good.SerializeToString(), b"\xff\xff\xff"])
        call = link.stream_stream(f"{SERVICE}/SubmitMany")(messages)
        reply = public.ReplyGroup.FromString(await call.read())
        assert reply.replies[0].done.outputs[0].content == b"cba"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
