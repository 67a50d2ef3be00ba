"""One emulated slice, as a gRPC service: Triton's protocol, and the profile's times.

A slice runs one call at a time; others wait in line. The time of a call is reckoned from its coming
in, or from the end of the one before it, so what this process itself needs for the call (reading
it, making the answer) is part of the profiled time and not added to it. The answer is serialized
before the wait for the same reason: megabytes would take milliseconds afterwards.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as triton

from esg.core.catalog.slice_kinds import USUAL
from esg.core.durations import Durations
from esg.errors import Rejected
from esg.invoker.emulated.alarm import Alarm
from esg.invoker.emulated.repository import (
    EmulatedModel,
    Repository,
    RepositoryState,
    TritonRefusal,
)
from esg.invoker.emulated.shared_regions import SharedRegions
from esg.invoker.emulated.task import VERSION, EmulatedTask, asked_for
from esg.invoker.slices.client import SERVICE
from esg.invoker.tensors.arrays import INPUT, OUTPUT
from esg.invoker.tensors.raw_encoding import serialized
from esg.runtime.rpc.status import status
from esg.tensors import BYTES
from esg.version import __version__

_NS_PER_US = 1_000
_LARGE_BYTES = 65_536
"""Inputs from this size on are digested in a thread, so that other slices are not kept waiting."""

Method = Callable[[Any], Awaitable[Any]]


class EmulatedSlice:
    """Answers for one slice, of a kind."""

    def __init__(
        self,
        name: str,
        repository: Repository,
        durations: Durations,
        payload_scale: float,
        kind: str = USUAL,
    ) -> None:
        self._name = name
        self._kind = kind
        self._repository = repository
        self._nature = durations
        self._payload_scale = payload_scale
        self._regions = SharedRegions()
        self._alarm = Alarm()
        self._turn = asyncio.Lock()
        self._free_ns = 0  # when the last call that had its turn was over

    def handlers(self) -> grpc.GenericRpcHandler:
        """To be added to a server. Infer gives bytes that are serialized already."""

        def handler(method: Method, request: Any, serializer: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                _answering(method), request.FromString, serializer
            )

        methods: dict[str, Method] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ServerMetadata": self._server_metadata,
            "ModelReady": self._model_ready,
            "ModelMetadata": self._model_metadata,
            "ModelStatistics": self._model_statistics,
            "RepositoryIndex": self._repository_index,
            "RepositoryModelLoad": self._repository_model_load,
            "RepositoryModelUnload": self._repository_model_unload,
            "SystemSharedMemoryStatus": self._regions.status,
            "SystemSharedMemoryRegister": self._regions.register,
            "SystemSharedMemoryUnregister": self._regions.unregister,
        }
        table = {
            name: handler(
                method,
                getattr(triton, f"{name}Request"),
                getattr(triton, f"{name}Response").SerializeToString,
            )
            for name, method in methods.items()
        }
        table["ModelInfer"] = handler(self._model_infer, triton.ModelInferRequest, None)
        table["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(
            self._model_stream_infer, triton.ModelInferRequest.FromString, None
        )
        return grpc.method_handlers_generic_handler(SERVICE, table)

    def close(self) -> None:
        self._alarm.close()

    async def _server_live(self, request: Any) -> Any:
        return triton.ServerLiveResponse(live=True)

    async def _server_ready(self, request: Any) -> Any:
        return triton.ServerReadyResponse(ready=self._repository.is_settled)

    async def _server_metadata(self, request: Any) -> Any:
        return triton.ServerMetadataResponse(
            name=self._name,
            version=__version__,
            extensions=("model_repository", "parameters", "statistics", "system_shared_memory"),
        )

    async def _model_ready(self, request: Any) -> Any:
        known = request.version in ("", VERSION)
        return triton.ModelReadyResponse(ready=known and self._repository.is_ready(request.name))

    async def _model_metadata(self, request: Any) -> Any:
        tensor = triton.ModelMetadataResponse.TensorMetadata
        return triton.ModelMetadataResponse(
            name=self._repository.ready(request.name).function.name,
            versions=(VERSION,),
            platform="emulated",
            inputs=(tensor(name=INPUT, datatype=BYTES, shape=(-1, -1)),),
            outputs=(tensor(name=OUTPUT, datatype=BYTES, shape=(-1, 1)),),
        )

    async def _model_statistics(self, request: Any) -> Any:
        ready = [n for n in self._repository.models if self._repository.is_ready(n)]
        if request.name and request.name not in ready:
            raise Rejected(f"requested model '{request.name}' is not available")
        return triton.ModelStatisticsResponse(
            model_stats=[
                self._repository.models[name].statistics.message(name)
                for name in ready
                if request.name in ("", name)
            ]
        )

    async def _repository_index(self, request: Any) -> Any:
        index = triton.RepositoryIndexResponse
        return index(
            models=[
                index.ModelIndex(
                    name=name,
                    version=VERSION if model.state else "",
                    state=model.state,
                    reason=model.reason,
                )
                for name, model in self._repository.models.items()
                if model.state is RepositoryState.READY or not request.ready
            ]
        )

    async def _repository_model_load(self, request: Any) -> Any:
        await self._repository.load(request.model_name)
        return triton.RepositoryModelLoadResponse()

    async def _repository_model_unload(self, request: Any) -> Any:
        await self._repository.unload(request.model_name)
        return triton.RepositoryModelUnloadResponse()

    async def _model_infer(self, request: Any) -> bytes:
        came_ns = time.monotonic_ns()
        model = self._repository.ready(request.model_name)
        try:
            task = asked_for(model.function, request, self._regions, self._kind)
            profiled_us = task.profiled_us
        except Rejected:
            model.statistics.failed(time.monotonic_ns() - came_ns)
            raise
        working_us = self._nature.work_us(task.function.name, task.key, profiled_us)
        duration_ns = _NS_PER_US * task.share_us(working_us)
        async with self._turn:
            return await self._run(model, task, came_ns, duration_ns)

    async def _model_stream_infer(
        self, _: object, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        """The same over a stream, where an error is an answer like any other. As with Triton, a
        model that was called cannot be unloaded before the stream has ended.

        Nothing is held between two messages: gRPC's iterators would keep the last ones."""
        called: dict[str, EmulatedModel] = {}
        try:
            while await self._stream_one(context, called):
                pass
        finally:
            for model in called.values():
                model.streams -= 1

    async def _stream_one(
        self, context: grpc.aio.ServicerContext[Any, Any], called: dict[str, EmulatedModel]
    ) -> bool:
        """Answer the next message of a stream; whether there was one."""
        request = await context.read()
        if request is grpc.aio.EOF:
            return False
        await context.write(await self._streamed(request, called))
        return True

    async def _streamed(self, request: Any, called: dict[str, EmulatedModel]) -> bytes:
        try:
            model = self._repository.ready(request.model_name)
            if request.model_name not in called:
                called[request.model_name] = model
                model.streams += 1
            answer = await self._model_infer(request)
        except (TritonRefusal, Rejected) as error:
            failed = triton.ModelInferResponse(id=request.id)
            message = triton.ModelStreamInferResponse(
                error_message=str(error), infer_response=failed
            )
            return message.SerializeToString()  # type: ignore[no-any-return]
        return serialized(triton.ModelStreamInferResponse(), "infer_response", [[answer]])

    async def _run(
        self, model: EmulatedModel, task: EmulatedTask, came_ns: int, duration_ns: int
    ) -> bytes:
        begun_ns = max(came_ns, self._free_ns)
        try:
            if task.size_bytes < _LARGE_BYTES:
                answer = task.answer(self._payload_scale)
            else:
                answer = await asyncio.to_thread(task.answer, self._payload_scale)
            await self._alarm.until(begun_ns + duration_ns)
        except asyncio.CancelledError:  # whoever called gave up: the slice is free from now on
            self._free_ns = time.monotonic_ns()
            model.statistics.failed(self._free_ns - came_ns)
            raise
        self._free_ns = begun_ns + duration_ns
        model.statistics.ran(len(task.rows), queued_ns=begun_ns - came_ns, computed_ns=duration_ns)
        return answer


def _answering(method: Method) -> Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Any]:
    """The method as gRPC calls it: what it refuses becomes a status."""

    async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await method(request)
        except TritonRefusal as error:
            await context.abort(error.code, str(error))
        except Rejected as error:
            await context.abort(*status(error))

    return answer
