"""The controller's gRPC servicer: calls in, replies and statuses out, and nothing else."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from esg.controller.convert import application_from_wire, application_to_wire, refusal_error
from esg.controller.live import LiveController
from esg.controller.requests.quotas import ApplicationQuotas
from esg.controller.status import mesh_status
from esg.core.messages.commands import Command, RefuseApplication
from esg.core.messages.events import ApplicationRetired
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import AlreadyExists, NotFound, Unavailable, aborting
from esg.runtime.security.tls import check_peer
from esg.runtime.settings import ControllerSettings
from esg.suggest import did_you_mean

Context = grpc.aio.ServicerContext[Any, Any]


class ControllerServicer(wire_grpc.ControllerServicer):
    """The service `Controller` of `controller_v1.proto`."""

    def __init__(self, controller: LiveController, settings: ControllerSettings) -> None:
        self._controller = controller
        self._policy = settings.policy
        self._quotas = ApplicationQuotas(settings, time.monotonic)
        self._changing = asyncio.Lock()

    async def Admit(  # noqa: N802 - the names are gRPC's
        self, messages: AsyncIterator[wire.FromGateway], context: Context
    ) -> None:
        async with self._called(context, "gateway"):
            await self._controller.gateways.admit(messages, context.write)

    async def Attach(  # noqa: N802
        self, messages: AsyncIterator[wire.FromInvoker], context: Context
    ) -> None:
        async with self._called(context, "invoker"):
            await self._controller.invokers.attach(messages, context.write)

    async def PutApplication(  # noqa: N802
        self, request: wire.PutApplicationRequest, context: Context
    ) -> model.Application:
        # One at a time: what is there is counted before more comes
        async with self._called(context, "gateway"), self._changing:
            self._check_taking()
            self._quotas.take_change(request.client)
            await self._controller.driver.whole.wait()
            known = self._controller.scheduler.current(request.name) is not None
            if request.update and not known:
                raise self._unknown_application(request.name)
            if known and not request.update:
                raise AlreadyExists(f"application {request.name} exists; update it instead")
            event = application_from_wire(request)
            self._quotas.check_room(self._controller.scheduler.state.registrations, event)
            _check_accepted(await self._controller.driver.ask(event))
            return self._application(request.name)

    async def ListApplications(  # noqa: N802
        self, request: wire.ListApplicationsRequest, context: Context
    ) -> wire.ListApplicationsReply:
        async with self._called(context, "gateway"):
            await self._controller.driver.whole.wait()
            names = sorted(self._controller.scheduler.applications)
            found = [self._application(name) for name in names]
            return wire.ListApplicationsReply(applications=found)

    async def DeleteApplication(  # noqa: N802
        self, request: wire.DeleteApplicationRequest, context: Context
    ) -> wire.DeleteApplicationReply:
        async with self._called(context, "gateway"):
            self._check_taking()
            self._quotas.take_change(request.client)
            retired = ApplicationRetired(application=request.name)
            _check_accepted(await self._controller.driver.ask(retired))
            return wire.DeleteApplicationReply()

    async def WatchMesh(  # noqa: N802
        self, request: wire.WatchMeshRequest, context: Context
    ) -> AsyncIterator[model.MeshStatus]:
        async with self._called(context, "gateway"):
            while True:
                await self._controller.driver.whole.wait()
                yield mesh_status(
                    self._controller.scheduler.state,
                    self._controller.scheduler.whole_catalog,
                    self._controller.shell.counters,
                    self._controller.shell.orders,
                    policy=self._policy,
                    began_us=self._controller.began_us,
                    now_us=self._controller.driver.now_us,
                    refusing=self._controller.refusing(),
                )
                if request.interval_ms <= 0:
                    return
                await asyncio.sleep(max(0.05, request.interval_ms / 1000))

    async def ReloadFunction(  # noqa: N802
        self, request: wire.ReloadFunctionRequest, context: Context
    ) -> wire.ReloadFunctionReply:
        async with self._called(context, "gateway"):
            functions = self._controller.scheduler.catalog.functions
            if request.function not in functions:
                raise NotFound(did_you_mean("function", request.function, functions))
            failures = await self._controller.invokers.reload(request.function)
            nodes = [model.NodeReload(node=n, failure=why) for n, why in failures.items()]
            return wire.ReloadFunctionReply(nodes=nodes)

    @asynccontextmanager
    async def _called(self, context: Context, service: str) -> AsyncIterator[None]:
        """Around a call, which only this service may make. What it raises becomes its status."""
        async with aborting(context):
            check_peer(context, service)
            yield

    def _check_taking(self) -> None:
        why = self._controller.refusing()
        if why:
            raise Unavailable(why)

    def _application(self, name: str) -> model.Application:
        application = self._controller.scheduler.current(name)
        if application is None:
            raise self._unknown_application(name)
        return application_to_wire(application, name, self._controller.scheduler.version(name))

    def _unknown_application(self, name: str) -> NotFound:
        return NotFound(did_you_mean("application", name, self._controller.scheduler.applications))


def _check_accepted(commands: list[Command]) -> None:
    for command in commands:
        if isinstance(command, RefuseApplication):
            raise refusal_error(command.kind, command.reason)
