"""A slice as the invoker sees it: one Triton server, called over gRPC.

A real Triton on a MIG instance, a real Triton on CPU and an emulated slice speak the same protocol,
so there is one way to call them all. The messages and the stub are `tritonclient`'s; its client
class is not used, because it sends byte strings through numpy element by element and cannot wait
for a server that is about to start.

A model takes one tensor `INPUT` of byte strings, a row per job and a column per input of the job,
and gives one tensor `OUTPUT` with a row per job. Whatever goes wrong is a `Fault` that names the
slice and says what Triton said.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import grpc
from tritonclient.grpc import service_pb2 as triton
from tritonclient.grpc import service_pb2_grpc

from esg.errors import Fault, Rejected
from invoker.byte_tensors import elements_of, serialized
from mesh.serving import channel

T = TypeVar("T")

INPUT, OUTPUT, BYTES = "INPUT", "OUTPUT", "BYTES"
SERVICE = "inference.GRPCInferenceService"
READY, UNAVAILABLE = "READY", "UNAVAILABLE"

CALL_S = 10.0
LOAD_S = 600.0
UNLOAD_S = 60.0
"""Limits for what takes no time, for reading a model's weights, and for giving them up."""
POLL_S = 0.02

Row = Sequence[bytes | memoryview]

_WANTED = (triton.ModelInferRequest.InferRequestedOutputTensor(name=OUTPUT),)


def split(rows: Sequence[T], portions: int) -> list[Sequence[T]]:
    """A batch in portions as even as possible, in order; none is empty, so there may be fewer.

    >>> split("abcdefg", 3), split("ab", 4)
    (['abc', 'de', 'fg'], ['a', 'b'])
    """
    portions = min(portions, len(rows))
    ends = [-(-len(rows) * n // portions) for n in range(portions + 1)]
    return [rows[start:end] for start, end in pairwise(ends)]


class Slice:
    """One Triton server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._channel = channel(address)
        self._triton = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._conversations: dict[str, Conversation] = {}  # one per model, while nobody uses it

    async def ready(self, timeout_s: float) -> None:
        """Wait until the server is live and takes orders.

        Triton's own word "ready" is not asked for: it is taken back while any model is on its way
        in or out, and for good once one could not be loaded.
        """
        loop = asyncio.get_running_loop()
        limit = loop.time() + timeout_s
        doing = f"get ready within {timeout_s:g} s"
        while (left_s := limit - loop.time()) > 0:
            # A server that does not listen yet is waited for, not an error
            call = self._triton.ServerLive(
                triton.ServerLiveRequest(), timeout=left_s, wait_for_ready=True
            )
            if (await self._said(doing, call)).live:
                await self._states()
                return
            await asyncio.sleep(POLL_S)
        raise self._fault(doing, "it says that it is not live")

    async def resident(self) -> list[str]:
        """The models that are loaded."""
        return [name for name, state in (await self._states()).items() if state == READY]

    async def load(self, function: str) -> None:
        """Load a model; returns when it is ready."""
        request = triton.RepositoryModelLoadRequest(model_name=function)
        call = self._triton.RepositoryModelLoad(request, timeout=LOAD_S)
        await self._said(f"load {function}", call)

    async def unload(self, function: str) -> None:
        """Unload a model; returns when the server says that it is gone.

        Triton answers an order to unload at once, and holds the memory for more than a second yet.
        While a stream is open over which the model was called, it would hold it for good.
        """
        if function in self._conversations:
            self._conversations.pop(function).break_off()
        doing = f"unload {function}"
        request = triton.RepositoryModelUnloadRequest(model_name=function)
        await self._said(doing, self._triton.RepositoryModelUnload(request, timeout=UNLOAD_S))
        limit = asyncio.get_running_loop().time() + UNLOAD_S
        while (state := (await self._states()).get(function, "")) not in ("", UNAVAILABLE):
            if asyncio.get_running_loop().time() > limit:
                raise self._fault(doing, f"it is still {state} after {UNLOAD_S:g} s")
            await asyncio.sleep(POLL_S)

    async def infer(
        self,
        function: str,
        rows: Sequence[Row],
        *,
        parameters: Mapping[str, int | str],
        timeout_s: float,
    ) -> list[bytes]:
        """Run a batch, a row per job; returns an output per job."""
        request = infer_request(function, rows, parameters)
        doing = f"run {function}"
        answer = await self._answer(function, request, timeout_s)
        names = [tensor.name for tensor in answer.outputs]
        if names != [OUTPUT] or len(answer.raw_output_contents) != 1:
            raise self._fault(doing, f"the model gives {names}, not one tensor {OUTPUT}")
        try:
            outputs = elements_of(answer.raw_output_contents[0])
        except Rejected as error:
            raise self._fault(doing, str(error)) from None
        if len(outputs) != len(rows):
            raise self._fault(doing, f"{len(outputs)} outputs for {len(rows)} jobs")
        return [bytes(output) for output in outputs]

    async def close(self) -> None:
        for conversation in self._conversations.values():
            conversation.break_off()
        await self._channel.close()

    async def _answer(self, function: str, request: bytes, timeout_s: float) -> Any:
        """Over the open stream; one that failed, or whose answer nobody waited for, is not used
        again, and breaking it off tells the server to stop."""
        doing = f"run {function}"
        conversation = self._conversations.pop(function, None) or Conversation(self._channel)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._said(doing, conversation.ask(request))
        except TimeoutError:
            conversation.break_off()
            raise self._fault(doing, f"no answer within {timeout_s:g} s") from None
        except BaseException:
            conversation.break_off()
            raise
        if answer is grpc.aio.EOF:
            raise self._fault(doing, "it ended the conversation")
        self._conversations[function] = conversation
        if answer.error_message:
            raise self._fault(doing, answer.error_message)
        return answer.infer_response

    async def _states(self) -> dict[str, str]:
        """What the server says about its models: empty for those it was never asked for."""
        call = self._triton.RepositoryIndex(triton.RepositoryIndexRequest(), timeout=CALL_S)
        index = await self._said("list its models", call)
        return {model.name: model.state for model in index.models}

    async def _said(self, doing: str, call: Any) -> Any:
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise self._fault(doing, f"{error.code().name}: {error.details()}") from None

    def _fault(self, doing: str, why: str) -> Fault:
        return Fault(f"slice {self.address} did not {doing}: {why}")


class Conversation:
    """Calls to infer over one stream, one at a time: a call of its own costs five times as much."""

    def __init__(self, to_server: grpc.aio.Channel) -> None:
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        stream: grpc.aio.StreamStreamMultiCallable[bytes, Any] = to_server.stream_stream(
            f"/{SERVICE}/ModelStreamInfer",
            response_deserializer=triton.ModelStreamInferResponse.FromString,
        )
        self._call = stream(self._asked())

    async def ask(self, request: bytes) -> Any:
        self._requests.put_nowait(request)
        return await self._call.read()

    def break_off(self) -> None:
        self._call.cancel()

    async def _asked(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._requests.get()


def infer_request(function: str, rows: Sequence[Row], parameters: Mapping[str, int | str]) -> bytes:
    """The serialized message that asks for a batch."""
    shape = (len(rows), len(rows[0]))
    tensor = triton.ModelInferRequest.InferInputTensor(name=INPUT, datatype=BYTES, shape=shape)
    message = triton.ModelInferRequest(model_name=function, inputs=(tensor,), outputs=_WANTED)
    for name, value in parameters.items():
        if isinstance(value, str):
            message.parameters[name].string_param = value
        else:
            message.parameters[name].int64_param = value
    return serialized(message, "raw_input_contents", (item for row in rows for item in row))
