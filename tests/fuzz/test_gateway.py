"""The public door, with a real controller behind it: every call is answered with a result or a
status that says why not, whatever bytes it brings."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as inference

from esg.gateway.inference.servicer import SERVICE as INFERENCE
from esg.local.health import is_serving
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.settings import CommonSettings
from esg.runtime.settings_file import Settings
from tests.fuzz.budget import fuzzed, within_bounds
from tests.fuzz.messages import any_message, bytes_of
from tests.support.controller_peers import running_controller
from tests.support.redis_server import RedisServer
from tests.support.running_gateway import surroundings
from tests.support.waiting import LIMIT_S, until

SERVICE = "esg.gateway.v1.Pipelines"
SERVICES = {
    SERVICE: public.DESCRIPTOR.services_by_name["Pipelines"],
    INFERENCE: inference.DESCRIPTOR.services_by_name["GRPCInferenceService"],
}
METHODS = {
    f"{name}/{method.name}": method
    for name, service in SERVICES.items()
    for method in service.methods
}
WAITING = {
    *(f"{SERVICE}/{name}" for name in ("Fetch", "Submit", "SubmitChunked", "SubmitMany")),
    *(f"{SERVICE}/{name}" for name in ("Watch", "WatchMesh")),
    *(f"{INFERENCE}/{name}" for name in ("ModelInfer", "ModelStreamInfer")),
}
ANSWER_TIMEOUT_S = 0.2
"""For calls that wait for the end of a request: no node is there to run any."""
REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
NOT_OFFERED = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.FAILED_PRECONDITION}
"""Of the inference protocol, what a mesh has not."""


class Background:
    """A loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def address(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    ready = tmp_path_factory.mktemp("gateway") / "ready"
    background = Background()
    ended = asyncio.Event()
    mesh = serving(redis_server.url, ready, ended)
    yield background.run(anext(mesh))
    with pytest.raises(StopAsyncIteration):
        background.run(anext(mesh))
    background.close()


async def serving(redis_url: str, ready: Path, stop: asyncio.Event) -> Any:
    from esg.gateway.__main__ import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESG_READY_FILE", str(ready))
        async with running_controller(prewarm=True) as controller:
            variables = surroundings(controller.address, redis_url, 0.0, {})
            given_settings = Settings(variables)
            task = asyncio.create_task(
                main(given_settings, given_settings.of(CommonSettings), stop)
            )
            await until(ready.exists)
            yield await asyncio.to_thread(ready.read_text, "utf-8")
            stop.set()
            await task


@pytest.fixture(scope="module")
def link(address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address) as channel:
        yield channel


def answered(link: grpc.Channel, method: str, messages: list[bytes]) -> grpc.StatusCode:
    """Make a call with these encoded messages, and read its answers. Nonsense never waits."""
    waits = method in WAITING and all(decodes(method, message) for message in messages)
    patience_s = ANSWER_TIMEOUT_S if waits else LIMIT_S
    call = link.stream_stream(f"/{method}")(iter(messages), timeout=patience_s)
    try:
        for number, _ in enumerate(call):
            if number > 1:
                call.cancel()
                return grpc.StatusCode.OK
    except grpc.RpcError as error:
        code, words = error.code(), error.details()
    else:
        code, words = grpc.StatusCode.OK, "done"
    assert words
    return code


def waited(method: str) -> set[grpc.StatusCode]:
    found = {grpc.StatusCode.DEADLINE_EXCEEDED} if method in WAITING else set()
    return found | NOT_OFFERED if method.startswith(INFERENCE) else found


def kind_of(method: str) -> Any:
    home = inference if method.startswith(INFERENCE) else public
    return getattr(home, METHODS[method].input_type.name)


def decodes(method: str, encoded: bytes) -> bool:
    try:
        kind_of(method).FromString(encoded)
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize("method", sorted(METHODS))
@fuzzed(0.2)
@given(data=st.data())
def test_a_message_that_protobuf_understands(
    link: grpc.Channel, method: str, data: st.DataObject
) -> None:
    streams = METHODS[method].client_streaming
    some = st.lists(any_message(kind_of(method)), min_size=1, max_size=3 if streams else 1)
    messages = data.draw(some)
    with within_bounds():
        code = answered(link, method, [message.SerializeToString() for message in messages])
    assert code in {grpc.StatusCode.OK, *REFUSALS, *waited(method)}


@pytest.mark.parametrize("method", sorted(METHODS))
@fuzzed(0.2)
@given(data=st.data())
def test_bytes_of_any_kind(link: grpc.Channel, method: str, data: st.DataObject) -> None:
    encoded = data.draw(bytes_of(kind_of(method)))
    with within_bounds():
        code = answered(link, method, [encoded])
    if decodes(method, encoded):
        assert code in {grpc.StatusCode.OK, *REFUSALS, *waited(method)}
    elif method == f"{SERVICE}/SubmitMany":  # its parts are counted before it is decoded
        assert code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED}
    else:
        assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_afterwards_the_gateway_is_well(link: grpc.Channel, address: str) -> None:
    assert asyncio.run(is_serving(address))
    submit = public.SubmitRequest(application="scan", payload=b"a picture", request_id="after-all")
    code = answered(link, f"{SERVICE}/SubmitAsync", [submit.SerializeToString()])
    assert code is grpc.StatusCode.OK
    cancel = public.CancelRequest(request_id="after-all")
    assert answered(link, f"{SERVICE}/Cancel", [cancel.SerializeToString()]) is grpc.StatusCode.OK
