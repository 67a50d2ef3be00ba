"""The gateway as a gRPC service: every call of `Pipelines`, in a few lines each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

import grpc

from esg.gateway.access.identity import Caller, Identities
from esg.gateway.applications import Applications
from esg.gateway.inference.models import ModelDirectory
from esg.gateway.limits.rate_limits import PayloadCharge
from esg.gateway.limits.uploads import Upload, detached
from esg.gateway.request import TrackedRequest
from esg.gateway.request_table import RequestTable
from esg.gateway.requests import Context, Requests, going_away
from esg.gateway.submit_stream import SubmitStream
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.chunks import pieces
from esg.runtime.rpc.status import aborting
from esg.runtime.settings import GatewaySettings
from esg.units import seconds

# ruff: noqa: N802 - the names are gRPC's


class Pipelines(public_grpc.PipelinesServicer):
    def __init__(
        self,
        settings: GatewaySettings,
        table: RequestTable,
        requests: Requests,
        applications: Applications,
        models: ModelDirectory,
        identities: Identities,
    ) -> None:
        self._settings = settings
        self._table = table
        self._identities = identities
        self._requests = requests
        self._applications = applications
        self._models = models
        self._streams: set[SubmitStream] = set()
        self._going = asyncio.Event()

    def close(self) -> None:
        """Take no new requests."""
        self._table.handing_back = True
        self._going.set()
        for stream in self._streams:
            stream.hear_no_more()

    async def drain(self, limit_s: float) -> None:
        """Answer those who wait, or when time is up, send them elsewhere."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._table.idle.wait(), limit_s)
        self._table.give_up(going_away())

    # ---- applications

    async def RegisterApplication(
        self, asked: public.RegisterApplicationRequest, context: Context
    ) -> model.Application:
        async with self._called(context) as caller:
            with self._models.changed():
                return await self._applications.put(asked, caller, update=False)

    async def UpdateApplication(
        self, asked: public.UpdateApplicationRequest, context: Context
    ) -> model.Application:
        async with self._called(context) as caller:
            with self._models.changed():
                return await self._applications.put(asked.application, caller, update=True)

    async def ListApplications(
        self, asked: public.ListApplicationsRequest, context: Context
    ) -> public.ListApplicationsReply:
        async with self._called(context) as caller:
            found = await self._applications.all(caller.owner)
            return public.ListApplicationsReply(applications=found)

    async def DescribeApplication(
        self, asked: public.DescribeApplicationRequest, context: Context
    ) -> model.Application:
        async with self._called(context) as caller:
            return await self._applications.one(asked.name, caller.owner)

    async def DeleteApplication(
        self, asked: public.DeleteApplicationRequest, context: Context
    ) -> public.DeleteApplicationReply:
        async with self._called(context) as caller:
            with self._models.changed():
                await self._applications.delete(asked.name, caller)
            return public.DeleteApplicationReply()

    async def ReloadFunction(
        self, asked: public.ReloadFunctionRequest, context: Context
    ) -> public.ReloadFunctionReply:
        async with self._called(context) as caller:
            nodes = await self._applications.reload_function(asked.function, caller)
            return public.ReloadFunctionReply(nodes=nodes)

    async def WatchMesh(
        self, asked: public.WatchMeshRequest, context: Context
    ) -> AsyncIterator[model.MeshStatus]:
        async with self._called(context) as caller:
            with self._requests.quotas.stream(caller):
                statuses = self._applications.watch_mesh(asked.interval_ms, caller.owner)
                async for status in statuses:
                    self._identities.still(caller)
                    yield status
                    if self._going.is_set():
                        raise going_away()

    # ---- submitting

    async def Submit(self, asked: public.SubmitRequest, context: Context) -> public.SubmitReply:
        async with self._called(context) as caller:
            caller = self._requests.admit(caller)
            asked, payload = detached(asked)
            with self._requests.charge(asked, caller) as charge:
                charge.add_received(payload)
                del payload
                left_s = context.time_remaining()
                async with self._requests.submitted(asked, charge, caller, left_s) as request:
                    reply = await self._requests.reply(request)
                    whole = not reply.fetch_outputs
                    self._requests.wait_until_sent(request, context, whole=whole)
                    return reply

    async def SubmitAsync(
        self, asked: public.SubmitRequest, context: Context
    ) -> public.SubmitAsyncReply:
        async with self._called(context) as caller:
            caller = self._requests.admit(caller)
            asked, payload = detached(asked)
            with self._requests.charge(asked, caller) as charge:
                charge.add_received(payload)
                del payload
                # Its client does not wait for the result, so the deadline says nothing about it
                async with self._requests.submitted(
                    asked, charge, caller, None, fetched_later=True
                ) as request:
                    return public.SubmitAsyncReply(request_id=request.name)

    async def SubmitChunked(
        self, chunks: AsyncIterator[public.SubmitChunk], context: Context
    ) -> AsyncIterator[public.ResultChunk]:
        async with self._called(context) as caller:
            caller = self._requests.admit(caller)
            with self._requests.quotas.stream(caller), ExitStack() as paid:

                def charge(asked: public.SubmitRequest) -> PayloadCharge:
                    return paid.enter_context(self._requests.charge(asked, caller))

                upload = Upload(self._settings)
                asked, payload = await upload.receive(chunks, charge)
                await _still_there(context)
                left_s = None if upload.fetched_later else context.time_remaining()
                async with self._requests.submitted(
                    asked, payload, caller, left_s, fetched_later=upload.fetched_later
                ) as request:
                    if upload.fetched_later:
                        yield public.ResultChunk(accepted=request.name)
                        return
                    await self._requests.valid_end(request)
                    async for chunk in self._results(request):
                        yield chunk

    async def SubmitMany(
        self, groups: AsyncIterator[public.SubmitGroup], context: Context
    ) -> AsyncIterator[public.ReplyGroup]:
        async with self._called(context) as caller:
            if self._going.is_set():
                raise going_away()
            stream = SubmitStream(self._requests, caller, context.time_remaining(), self._settings)
            with self._requests.quotas.stream(caller):
                self._streams.add(stream)
                try:
                    async for replies in stream.replies(groups):
                        yield replies
                finally:
                    self._streams.discard(stream)
            if self._going.is_set():
                raise going_away()

    # ---- requests that were submitted before

    async def Get(self, asked: public.GetRequest, context: Context) -> public.RequestState:
        async with (
            self._called(context) as caller,
            self._requests.followed(asked.request_id, caller, stages=True) as request,
        ):
            outputs = await self._requests.stored_outputs(request)
            return public.RequestState(
                request_id=request.name,
                application=request.application,
                progress=request.history.stages(),
                result=request.history.result,
                outputs=outputs,
                fetch_within_us=seconds(request.fetch_within_s) if outputs else 0,
            )

    async def Fetch(
        self, asked: public.FetchRequest, context: Context
    ) -> AsyncIterator[public.ResultChunk]:
        async with self._called(context) as caller:
            with self._requests.quotas.stream(caller):
                async with self._requests.followed(asked.request_id, caller) as request:
                    async for chunk in self._results(request):
                        yield chunk

    async def Watch(
        self, asked: public.WatchRequest, context: Context
    ) -> AsyncIterator[public.WatchReply]:
        async with self._called(context) as caller:
            with self._requests.quotas.stream(caller):
                found = self._requests.followed(asked.request_id, caller, stages=True)
                async with found as request:
                    async for progress in self._requests.progress(request):
                        yield public.WatchReply(progress=progress)
                    yield public.WatchReply(result=await request.history.end())

    async def Cancel(self, asked: public.CancelRequest, context: Context) -> public.CancelReply:
        async with (
            self._called(context) as caller,
            self._requests.followed(asked.request_id, caller) as request,
        ):
            return public.CancelReply(cancelled=await self._requests.cancel(request))

    # ---- pieces

    @asynccontextmanager
    async def _called(self, context: Context) -> AsyncIterator[Caller]:
        """Around a call: who makes it. What it raises becomes its status."""
        async with aborting(context):
            yield self._identities.caller(context.peer())

    async def _results(self, request: TrackedRequest) -> AsyncIterator[public.ResultChunk]:
        """A request's result, then its outputs in pieces. When all were taken they are deleted,
        unless others may come for them."""
        result = await request.history.end()
        outputs = await self._requests.outputs(request, result)
        yield public.ResultChunk(result=result)
        for stage, content in outputs:
            for piece in pieces(content):
                yield public.ResultChunk(output=public.Output(stage=stage, content=bytes(piece)))
        request.delivered = True


async def _still_there(context: Context) -> None:
    """A client that goes away between pieces ends its stream, too, and gRPC says that first: half a
    payload would be taken for the whole. But nothing can be sent to a client that has gone."""
    try:
        await context.send_initial_metadata(())
    except grpc.aio.InternalError:
        raise asyncio.CancelledError("its client has gone") from None
