"""Servers that do not behave: what the invoker's view of a slice makes of them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2 as triton

from esg.errors import Fault
from esg.invoker.slices import client as slices
from esg.invoker.slices.client import SERVICE, SliceClient
from esg.invoker.tensors.arrays import plain_input
from esg.invoker.tensors.raw_encoding import serialized
from esg.runtime.rpc.server import Server
from esg.tensors import behind_lengths
from tests.support.waiting import LIMIT_S

Pretend = Callable[..., Awaitable[SliceClient]]


@pytest.fixture
async def pretend() -> AsyncIterator[Pretend]:
    """A slice whose server gives these answers: messages or bytes by the name of the method."""
    ends: list[Callable[[], Awaitable[None]]] = []

    async def make(**answers: Any) -> SliceClient:
        server = Server()
        handlers = {
            name: _streaming(answer) if name == "ModelStreamInfer" else _handler(answer)
            for name, answer in answers.items()
        }
        server.grpc.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        slice_ = SliceClient(f"127.0.0.1:{await server.start('127.0.0.1', 0, [])}")
        ends.extend((slice_.close, lambda: server.stop(0)))
        return slice_

    yield make
    for end in ends:
        await end()


def _handler(answer: Any) -> Any:
    async def reply(request: bytes, context: Any) -> bytes:
        given = answer() if callable(answer) else answer
        found: bytes = given if isinstance(given, bytes) else given.SerializeToString()
        return found

    return grpc.unary_unary_rpc_method_handler(reply)


def _streaming(answer: Any) -> Any:
    async def replies(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for _ in requests:
            inner = answer if isinstance(answer, bytes) else answer.SerializeToString()
            yield serialized(triton.ModelStreamInferResponse(), "infer_response", [[inner]])

    return grpc.stream_stream_rpc_method_handler(replies)


def index(state: str) -> Any:
    model = triton.RepositoryIndexResponse.ModelIndex(name="quick", state=state)
    return triton.RepositoryIndexResponse(models=[model])


def answer(shape: list[int], elements: list[bytes], datatype: str = "BYTES") -> bytes:
    tensor = triton.ModelInferResponse.InferOutputTensor(
        name="OUTPUT", datatype=datatype, shape=shape
    )
    message = triton.ModelInferResponse(outputs=[tensor])
    return serialized(message, "raw_output_contents", [behind_lengths(elements)])


async def test_a_server_that_nobody_started_is_a_fault() -> None:
    slice_ = SliceClient("127.0.0.1:1")
    with pytest.raises(Fault, match=r"127\.0\.0\.1:1 did not get ready within 0\.05 s: DEADLINE"):
        await slice_.ready(0.05)
    with pytest.raises(Fault, match="did not list its models: UNAVAILABLE"):
        await slice_.resident()
    await slice_.close()


async def test_a_server_that_starts_late_is_waited_for() -> None:
    server = Server()
    handlers = {
        "ServerLive": _handler(triton.ServerLiveResponse(live=True)),
        "RepositoryIndex": _handler(index("READY")),
    }
    generic = grpc.method_handlers_generic_handler(SERVICE, handlers)
    server.grpc.add_generic_rpc_handlers((generic,))
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # but nobody listens
        port = reserved.getsockname()[1]
        slice_ = SliceClient(f"127.0.0.1:{port}")
        with pytest.raises(Fault):
            await slice_.resident()
        waiting = asyncio.create_task(slice_.ready(LIMIT_S))
        await asyncio.sleep(0)
    await server.start("127.0.0.1", port, [])
    await waiting
    assert await slice_.resident() == ["quick"]
    await slice_.close()
    await server.stop(0)


async def test_a_server_that_is_not_live_is_not_ready(pretend: Pretend) -> None:
    slice_ = await pretend(ServerLive=triton.ServerLiveResponse(live=False))
    with pytest.raises(Fault, match=r"within 1 s: it says that it is not live"):
        await slice_.ready(1.0)


async def test_a_model_that_never_goes_is_a_fault(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "UNLOAD_S", 0.5)
    slice_ = await pretend(
        RepositoryModelUnload=triton.RepositoryModelUnloadResponse(),
        RepositoryIndex=index("UNLOADING"),
    )
    with pytest.raises(Fault, match="did not unload quick: it is still UNLOADING"):
        await slice_.unload("quick")


@pytest.mark.parametrize("gone", [index("UNAVAILABLE"), triton.RepositoryIndexResponse()])
async def test_unloading_returns_when_the_index_says_that_the_model_is_gone(
    pretend: Pretend, gone: Any
) -> None:
    answers = iter([index("READY"), index("UNLOADING"), index("UNLOADING"), gone])
    slice_ = await pretend(
        RepositoryModelUnload=triton.RepositoryModelUnloadResponse(),
        RepositoryIndex=lambda: next(answers),
    )
    await slice_.unload("quick")
    assert next(answers, None) is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (answer([2, 1], [b"one", b"two"]), "2 outputs OUTPUT for 1 jobs"),
        (answer([0, 1], []), "0 outputs OUTPUT for 1 jobs"),
        (answer([], [b"one"]), "no outputs OUTPUT for 1 jobs"),
        (answer([1, 2], [b"one"]), r"a tensor of shape \[1, 2\] has 1 elements"),
        (answer([1, 1], [b"one"], "FP32"), "a tensor of FP32 has 7 bytes"),
        (answer([1, 1], [b"one"], "COMPLEX"), "the model gives a tensor of type COMPLEX"),
        (
            triton.ModelInferResponse(
                outputs=[
                    triton.ModelInferResponse.InferOutputTensor(
                        name="OUTPUT", datatype="BYTES", shape=[1, 1]
                    )
                ],
                raw_output_contents=[b"\1\0"],
            ),
            "a tensor of byte strings ends within element 0",
        ),
        (
            triton.ModelInferResponse(
                outputs=[triton.ModelInferResponse.InferOutputTensor(name="OUTPUT")]
            ),
            "0 contents for 1 tensors",
        ),
    ],
)
async def test_an_answer_that_breaks_the_contract_is_a_fault(
    pretend: Pretend, wrong: Any, words: str
) -> None:
    slice_ = await pretend(ModelStreamInfer=wrong)
    with pytest.raises(Fault, match=f"did not run quick: {words}"):
        await slice_.infer("quick", [plain_input([b"x"])], parameters={}, timeout_s=LIMIT_S)
