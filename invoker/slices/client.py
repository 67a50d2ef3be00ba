"""A slice as the invoker sees it: one Triton server, called over gRPC.

A real Triton on a MIG instance, a real Triton on CPU and an emulated slice speak the same protocol,
so there is one way to call them all. The messages and the stub are `tritonclient`'s; its client
class is not used, because it sends byte strings through numpy element by element and cannot wait
for a server that is about to start.

A call has jobs whose tensors are alike, stacked along the batch dimension; a slice on this host
that has been given shared memory gets and gives large ones through it. Whatever goes wrong is a
`Fault` that names the slice and says what Triton said.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import grpc
from tritonclient.grpc import service_pb2 as triton
from tritonclient.grpc import service_pb2_grpc

from esg.errors import Fault
from esg.invoker.slices.infer_request import (
    Parameters,
    Row,
    infer_request,
    plain_of,
    plain_outputs,
    plain_request,
    plain_stack,
)
from esg.invoker.slices.shm.transfer import WORTH_IT_BYTES, SharedMemory, SharedMemoryRefused
from esg.invoker.tensors.arrays import Stacked, Tensors, outputs_of, per_job, stacked
from esg.invoker.tensors.raw_encoding import serialized
from esg.runtime.rpc.channels import TO_ANYBODY, plain_channel

T = TypeVar("T")

SERVICE = "inference.GRPCInferenceService"
READY, UNAVAILABLE = "READY", "UNAVAILABLE"

CALL_S = 10.0
LOAD_S = 600.0
UNLOAD_S = 60.0
"""Limits for what takes no time, for reading a model's weights, and for giving them up."""
POLL_S = 0.02


class NoAnswer(Fault):
    """A slice that did not answer at all: asking it again, or for less, is no use."""


class SliceGone(NoAnswer):
    """A slice whose server is not there, or not any more."""


class ModelGone(Fault):
    """A slice that has not got the model, or not any more."""


def split(rows: Sequence[T], portions: int) -> list[Sequence[T]]:
    """A batch in portions as even as possible, in order; none is empty, so there may be fewer.

    >>> split("abcdefg", 3), split("ab", 4)
    (['abc', 'de', 'fg'], ['a', 'b'])
    """
    portions = min(portions, len(rows))
    ends = [-(-len(rows) * n // portions) for n in range(portions + 1)]
    return [rows[start:end] for start, end in pairwise(ends)]


class SliceClient:
    """One Triton server."""

    def __init__(
        self,
        address: str,
        memory: SharedMemory | None = None,
        dial: Callable[[str], grpc.aio.Channel] | None = None,
    ) -> None:
        self._memory = memory
        # Without keepalive: Triton ends a connection on which it is often pinged
        self._dial = dial or partial(plain_channel, options=TO_ANYBODY)
        self._connect(address)

    def _connect(self, address: str) -> None:
        self.address = address
        self._channel = self._dial(address)
        self._triton = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
        self._conversations: dict[str, InferStream] = {}  # one per model, while nobody uses it

    async def connect_again(self, address: str) -> None:
        """To a server that was started anew, here or elsewhere; calls to the old one fail."""
        await self.close()
        self._connect(address)

    async def ready(self, timeout_s: float) -> None:
        """Wait until the server is live and takes orders.

        Triton's own word "ready" is not asked for: it is taken back while any model is on its way
        in or out, and for good once one could not be loaded.
        """
        loop = asyncio.get_running_loop()
        limit = loop.time() + timeout_s
        doing = f"get ready within {timeout_s:g} s"
        reason: Fault | None = None
        while (left_s := limit - loop.time()) > 0:
            # A server that does not listen yet is waited for, not an error
            call = self._triton.ServerLive(
                triton.ServerLiveRequest(), timeout=left_s, wait_for_ready=True
            )
            try:
                live = (await self._said(doing, call)).live
            except NoAnswer as fault:
                raise (reason or fault) from None
            if live:
                await self._states()
                return
            reason = self._fault(doing, "it says that it is not live")
            await asyncio.sleep(POLL_S)
        raise reason or self._fault(doing, "there was no time to ask", NoAnswer)

    async def check(self, timeout_s: float) -> None:
        """Make sure that the server is there and answers."""
        call = self._triton.ServerLive(triton.ServerLiveRequest(), timeout=timeout_s)
        await self._said("answer", call)

    async def give_back(self) -> None:
        """Let go of shared memory that is not needed any more."""
        if self._memory is not None:
            await self._memory.give_back(self._triton)

    async def name(self) -> str:
        """What the server calls itself."""
        call = self._triton.ServerMetadata(triton.ServerMetadataRequest(), timeout=CALL_S)
        return str((await self._said("say its name", call)).name)

    async def resident(self) -> list[str]:
        """The models that are loaded."""
        return [name for name, state in (await self._states()).items() if state == READY]

    async def load(self, function: str, timeout_s: float = LOAD_S) -> None:
        """Load a model; returns when it is ready."""
        request = triton.RepositoryModelLoadRequest(model_name=function)
        call = self._triton.RepositoryModelLoad(request, timeout=timeout_s)
        await self._said(f"load {function}", call)

    async def reload(self, function: str, timeout_s: float = LOAD_S) -> None:
        """Load a model anew, as it is on disk now, while nobody calls it. If that fails, the one
        that was loaded stays; if Triton finds nothing changed, it may stay as well."""
        if function in self._conversations:
            self._conversations.pop(function).end()  # or the old one would be kept as well
        await self.load(function, timeout_s)

    async def unload(self, function: str) -> None:
        """Unload a model; returns when the server says that it is gone.

        Triton answers an order to unload at once, and holds the memory for more than a second yet.
        While a stream is open over which the model was called, it would hold it for good.
        """
        if function in self._conversations:
            self._conversations.pop(function).end()
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
        jobs: Sequence[Tensors],
        *,
        parameters: Parameters,
        timeout_s: float,
    ) -> list[Tensors]:
        """Run jobs whose tensors are alike as one call; returns each one's outputs."""
        inputs = stacked(jobs)
        with self._explained(function):
            outputs = await self._through_memory(function, inputs, parameters, timeout_s)
            if outputs is None:
                request = infer_request(function, inputs, parameters)
                pieces = [given.pieces for given in inputs]
                message = serialized(request, "raw_input_contents", pieces)
                outputs = outputs_of(await self._answer(function, message, timeout_s))
            return per_job(outputs, len(jobs))

    async def infer_plain(
        self,
        function: str,
        rows: Sequence[Row],
        *,
        parameters: Parameters,
        timeout_s: float,
    ) -> list[bytes | Fault]:
        """Run jobs of a function without a handler, each with as many inputs, as one call; returns
        each one's output. There is no array on the way."""
        given = plain_stack(rows)
        with self._explained(function):
            if given.size >= WORTH_IT_BYTES:  # byte strings come back over the wire
                outputs = await self._through_memory(function, [given], parameters, timeout_s)
                if outputs is not None:
                    return plain_of(outputs, len(rows))
            message = plain_request(function, given, parameters)
            return plain_outputs(await self._answer(function, message, timeout_s), len(rows))

    async def _through_memory(
        self, function: str, inputs: Sequence[Stacked], parameters: Parameters, timeout_s: float
    ) -> Tensors | None:
        """What the model gives if the call is made through shared memory."""
        if self._memory is None:
            return None
        request = infer_request(function, inputs, parameters)
        ask = partial(self._answer, function, timeout_s=timeout_s)
        return await self._memory.call(self._triton, request, inputs, ask)

    @contextmanager
    def _explained(self, function: str) -> Iterator[None]:
        """Around a call: whatever goes wrong names the slice."""
        try:
            yield
        except NoAnswer:
            raise
        except Fault as fault:
            kind = ModelGone if isinstance(fault, ModelGone) else Fault
            raise self._fault(f"run {function}", str(fault), kind) from None

    async def close(self) -> None:
        for conversation in self._conversations.values():
            conversation.end()
        self._conversations.clear()
        await self._channel.close()
        if self._memory is not None:
            self._memory.close()

    async def _answer(self, function: str, request: bytes, timeout_s: float) -> Any:
        """Over the open stream; one that failed, or whose answer nobody waited for, is not used
        again, and breaking it off tells the server to stop."""
        doing = f"run {function}"
        conversation = self._conversations.pop(function, None) or InferStream(self._channel)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._said(doing, conversation.ask(request))
        except TimeoutError:
            conversation.break_off()
            raise self._fault(doing, f"no answer within {timeout_s:g} s", NoAnswer) from None
        except BaseException:
            conversation.break_off()
            raise
        if answer is grpc.aio.EOF:
            raise self._fault(doing, "it ended the conversation", SliceGone)
        kind = _kind(answer.error_message)
        if kind is ModelGone:
            conversation.end()  # while it is open, the server may keep what is left of the model
        elif self._conversations.setdefault(function, conversation) is not conversation:
            conversation.end()  # there were two calls at once; one stream is enough
        if answer.error_message:
            raise kind(answer.error_message)
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
            kind = _KINDS.get(error.code()) or _kind(error.details() or "")
            raise self._fault(doing, f"{error.code().name}: {error.details()}", kind) from None
        except asyncio.CancelledError:
            # a call whose channel was closed says that it was cancelled: the caller was not
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise self._fault(doing, "its connection was given up", SliceGone) from None
        except grpc.aio.UsageError:
            raise self._fault(doing, "its connection was given up", SliceGone) from None

    def _fault(self, doing: str, why: str, kind: type[Fault] = Fault) -> Fault:
        return kind(f"slice {self.address} did not {doing}: {why}")


def _kind(said: str) -> type[Fault]:
    """By what Triton says: it has no code for it."""
    if "Request for unknown model" in said:
        return ModelGone
    return SharedMemoryRefused if "shared memory" in said else Fault


_KINDS: dict[grpc.StatusCode, type[Fault]] = {
    grpc.StatusCode.UNAVAILABLE: SliceGone,
    grpc.StatusCode.CANCELLED: SliceGone,
    grpc.StatusCode.DEADLINE_EXCEEDED: NoAnswer,
}


class InferStream:
    """Calls to infer over one stream, one at a time: a call of its own costs five times as much.

    Messages are read and written, not iterated over: gRPC's iterators keep the last one until the
    next comes, which may be megabytes for every slice and model.
    """

    def __init__(self, to_server: grpc.aio.Channel) -> None:
        stream: grpc.aio.StreamStreamMultiCallable[bytes, Any] = to_server.stream_stream(
            f"/{SERVICE}/ModelStreamInfer",
            response_deserializer=triton.ModelStreamInferResponse.FromString,
        )
        self._call = stream()
        self._ending: asyncio.Task[None] | None = None

    async def ask(self, request: bytes) -> Any:
        try:
            await self._call.write(request)
        except asyncio.InvalidStateError:
            pass  # it has ended: reading says why
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.INTERNAL:
                raise
            return grpc.aio.EOF  # gRPC's own word for one that ends while it is written to
        return await self._call.read()

    def end(self) -> None:
        """In peace, while nobody waits for an answer. Triton may keep a model for ever that was
        called over a stream which was cancelled."""
        self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        # What is wrong with a stream that nobody uses any more is nobody's business
        with suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError, grpc.aio.UsageError):
            await self._call.done_writing()

    def break_off(self) -> None:
        """Though an answer is due: the server is to stop."""
        self._call.cancel()
