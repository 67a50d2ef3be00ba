"""The Open Inference Protocol as a gRPC service: applications are its models.

What the protocol and Triton's additions have, and a pipeline has not, is refused with what there is
instead.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import grpc
from tritonclient.grpc import service_pb2 as wire

from esg.gateway.access.audit import AuditLog
from esg.gateway.access.identity import Caller, Identities
from esg.gateway.inference.describing import (
    index_of,
    model_config,
    model_metadata,
    server_metadata,
    statistics_of,
)
from esg.gateway.inference.infer_stream import InferStream
from esg.gateway.inference.inference import Inference
from esg.gateway.inference.messages import answer_to_wire, is_typed, request_of
from esg.gateway.inference.models import ModelDirectory
from esg.gateway.inference.statistics import ModelStatistics
from esg.gateway.request_table import RequestTable
from esg.gateway.requests import Context, Requests, going_away
from esg.runtime.rpc.status import NotFound, aborting
from esg.runtime.settings import GatewaySettings

# ruff: noqa: N802 - the names are gRPC's

SERVICE = "inference.GRPCInferenceService"
_METHODS = wire.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods

ELSEWHERE = (
    "applications are registered with the mesh: esg apps add, or RegisterApplication of "
    "esg.gateway.v1.Pipelines; models of functions are loaded by its nodes"
)
INSTEAD = {
    "SharedMemory": "there is no shared memory with clients here; send tensors as they are",
    "TraceSetting": "there are no trace settings here",
    "LogSettings": "logs are set by the mesh: log_level, log_format",
}


class InferenceServicer:
    def __init__(
        self,
        settings: GatewaySettings,
        table: RequestTable,
        requests: Requests,
        inference: Inference,
        models: ModelDirectory,
        identities: Identities,
        audit: AuditLog,
        statistics: ModelStatistics,
    ) -> None:
        self._settings = settings
        self._table = table
        self._requests = requests
        self._inference = inference
        self._models = models
        self._identities = identities
        self._audit = audit
        self._statistics = statistics
        self._streams: set[InferStream] = set()
        self._going = asyncio.Event()

    def handlers(self) -> grpc.GenericRpcHandler:
        """For all methods of the service, those that are not offered as well."""
        table = {method.name: self._handler(method) for method in _METHODS}
        return grpc.method_handlers_generic_handler(SERVICE, table)

    def close(self) -> None:
        """Take no new requests."""
        self._going.set()
        for stream in self._streams:
            stream.hear_no_more()

    def _handler(self, method: Any) -> Any:
        kinds = getattr(wire, method.input_type.name), getattr(wire, method.output_type.name)
        codec = {
            "request_deserializer": kinds[0].FromString,
            "response_serializer": kinds[1].SerializeToString,
        }
        call: Any = getattr(self, method.name, None)
        if method.client_streaming:
            return grpc.stream_stream_rpc_method_handler(call, **codec)
        return grpc.unary_unary_rpc_method_handler(call or partial(_refuse, method.name), **codec)

    # ---- the server

    async def ServerLive(self, asked: Any, context: Context) -> Any:
        async with self._called(context):
            return wire.ServerLiveResponse(live=True)

    async def ServerReady(self, asked: Any, context: Context) -> Any:
        async with self._called(context):
            return wire.ServerReadyResponse(ready=self._ready)

    async def ServerMetadata(self, asked: Any, context: Context) -> Any:
        async with self._called(context):
            return server_metadata()

    # ---- models

    async def ModelReady(self, asked: Any, context: Context) -> Any:
        async with self._called(context) as caller:
            try:
                await self._models.find(asked.name, caller.owner, asked.version)
            except NotFound:
                return wire.ModelReadyResponse(ready=False)
            return wire.ModelReadyResponse(ready=self._ready)

    async def ModelMetadata(self, asked: Any, context: Context) -> Any:
        async with self._called(context) as caller:
            return model_metadata(await self._models.find(asked.name, caller.owner, asked.version))

    async def ModelConfig(self, asked: Any, context: Context) -> Any:
        async with self._called(context) as caller:
            model = await self._models.find(asked.name, caller.owner, asked.version)
            return model_config(model, self._inference.largest_batch)

    async def ModelStatistics(self, asked: Any, context: Context) -> Any:
        """Of this gateway's requests."""
        async with self._called(context) as caller:
            owner = caller.owner
            if asked.name:
                models = [await self._models.find(asked.name, owner, asked.version)]
            else:
                models = await self._models.all(owner)
            found = wire.ModelStatisticsResponse()
            for model in models:
                own = self._models.inside(model.name, owner)
                found.model_stats.append(statistics_of(model, self._statistics.of(own)))
            return found

    async def RepositoryIndex(self, asked: Any, context: Context) -> Any:
        async with self._called(context) as caller:
            return index_of(await self._models.all(caller.owner))

    # ---- requests

    async def ModelInfer(self, asked: Any, context: Context) -> Any:
        async with self._called(context) as caller, AsyncExitStack() as stack:
            caller = self._requests.admit(caller)
            request, typed = request_of(asked), is_typed(asked)
            asked.ClearField("inputs")
            asked.ClearField("raw_input_contents")
            left_s = context.time_remaining()
            answer = await self._inference.infer(request, caller, left_s, stack, paid=True)
            reply = answer_to_wire(request, answer, typed=typed)
            for made in answer.requests:
                self._requests.wait_until_sent(made, context, whole=True)
            return reply

    async def ModelStreamInfer(
        self, messages: AsyncIterator[Any], context: Context
    ) -> AsyncIterator[Any]:
        async with self._called(context) as caller:
            if self._going.is_set():
                raise going_away()
            peer = context.peer()

            def refused(what: str, code: grpc.StatusCode) -> None:
                self._audit.ended(caller.name, peer, "ModelStreamInfer", what, code)

            stream = InferStream(
                self._inference,
                self._requests,
                caller,
                context.time_remaining(),
                self._settings,
                refused,
            )
            with self._requests.quotas.stream(caller):
                self._streams.add(stream)
                try:
                    async for reply in stream.replies(messages):
                        yield reply
                finally:
                    self._streams.discard(stream)
            if self._going.is_set():
                raise going_away()

    # ---- pieces

    @property
    def _ready(self) -> bool:
        return self._table.linked and not self._going.is_set()

    @asynccontextmanager
    async def _called(self, context: Context) -> AsyncIterator[Caller]:
        """Around a call: who makes it. What it raises becomes its status."""
        async with aborting(context):
            yield self._identities.caller(context.peer())


async def _refuse(method: str, asked: Any, context: Context) -> None:
    """What is not offered."""
    if method in ("RepositoryModelLoad", "RepositoryModelUnload"):
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, ELSEWHERE)
    words = next(words for part, words in INSTEAD.items() if part in method)
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, words)
