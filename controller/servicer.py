"""The controller as a gRPC service: the doors, the driver between them, and what orders mean."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, assert_never

import grpc

from esg.controller.convert import application_to_wire, refusal_error
from esg.controller.corrector import Corrector
from esg.controller.counters import Counters
from esg.controller.driver import Driver, EventLog
from esg.controller.gateway_streams import GatewayStreams, record_of
from esg.controller.invoker_streams import InvokerStreams
from esg.controller.metrics import MeshMetrics
from esg.controller.request_log import RequestLog
from esg.controller.shell_snapshot import ShellSnapshot, UnderWay, ended_rows
from esg.controller.status import mesh_status
from esg.core.catalog.model import plain_name
from esg.core.journal.format import Memo
from esg.core.messages.commands import (
    AcceptApplication,
    AdmitRequest,
    AnswerRequest,
    Command,
    CorrectProfiles,
    DiscardData,
    DropInstance,
    PublishData,
    RefusalKind,
    RefuseApplication,
    RefuseRequest,
    StartTask,
    StopTask,
    WarmInstance,
)
from esg.core.messages.events import (
    ApplicationRegistered,
    ApplicationRetired,
    Event,
    InvokerJoined,
    InvokerLost,
    InvokerReported,
    RequestArrived,
    StageSpec,
    TaskFailed,
    TaskFinished,
)
from esg.core.scheduler.scheduler import Scheduler
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.catalog import functions_digest
from esg.runtime.metrics_page import FORGET_S
from esg.runtime.rpc.status import AlreadyExists, NotFound, aborting
from esg.runtime.security.tls import check_peer
from esg.runtime.settings import ControllerSettings
from esg.runtime.wire.enums import late_requests_from_wire
from esg.suggest import did_you_mean
from esg.units import seconds

Context = grpc.aio.ServicerContext[Any, Any]


class ControllerServicer(wire_grpc.ControllerServicer):
    """All of it. Has to be made while a loop runs."""

    def __init__(
        self,
        scheduler: Scheduler,
        settings: ControllerSettings,
        journal: EventLog | None,
        clock_us: Callable[[], int],
    ) -> None:
        self.driver = Driver(scheduler, journal, self.perform, clock_us=clock_us)
        self._began_us = self.driver.now_us  # the clock goes on where an earlier process left it
        requests = RequestLog(
            remembered=settings.remembered,
            fetched_later_us=seconds(settings.remembered_s),
            waited_for_us=seconds(settings.repeats_s),
        )
        self.gateways = GatewayStreams(self.driver, requests)
        self.invokers = InvokerStreams(
            self.driver.tell, functions_digest(scheduler.catalog), settings
        )
        self.corrector = Corrector(scheduler, self.driver.tell)
        self._settings = settings
        self._scheduler = scheduler
        self._tally = Counters()
        self.metrics = MeshMetrics(scheduler, self._tally)
        self._requests = requests
        self._orders: dict[str, StartTask] = {}  # of the tasks that run
        self._idle = asyncio.Event()

    # ---- memory

    def recall(self, memory: ShellSnapshot) -> None:
        """Know again what was remembered, perhaps by another process."""
        under_way = self._scheduler.state.requests
        for name, known in memory.under_way.items():
            self._requests.begin(name, known.record(under_way[name].arrived_us))
        for ended in memory.ended:
            answered = ended.answered()
            self._requests.recall(ended.request, answered, fetched_later=ended.fetched_later)
        self._orders = {order.task: order for order in memory.orders}

    def go_on(self, memory: ShellSnapshot) -> None:
        """Go on where another process ended, with the invokers that it had."""
        self.recall(memory)
        nodes = self._scheduler.state.nodes
        self.invokers.expect({name: memory.sessions.get(name, "") for name in nodes})
        self.driver.start()

    def remembered(self) -> Callable[[], ShellSnapshot]:
        """What is to be remembered as of now. Putting it together may take a while, and may be
        done in another thread."""
        # A record without a request was submitted a moment ago: the journal does not know it yet
        under_way = {
            name: UnderWay.of(record)
            for name in self._scheduler.state.requests
            if (record := self._requests.under_way(name)) is not None
        }
        answered = self._requests.answered()
        orders = tuple(self._orders.values())
        sessions = self.invokers.sessions()
        return lambda: ShellSnapshot(
            under_way=under_way, ended=ended_rows(answered), orders=orders, sessions=sessions
        )

    def relive(self, event: RequestArrived, memo: Memo | None) -> None:
        """A request that was submitted to an earlier process."""
        if self._requests.under_way(event.request) is None:
            self._requests.begin(event.request, record_of(event, memo))

    async def watch(self) -> None:
        """Forget applications that are gone; runs as long as the controller does."""
        while True:
            await asyncio.sleep(FORGET_S)
            self.forget_gone()

    async def finish(self) -> None:
        """Take nothing new, and wait until everyone is answered: the scheduler is done with a
        request before its answer is on disk, and does not know yet of one that came just now."""
        self.gateways.draining = True
        if self._requests:
            await self._idle.wait()

    def forget_gone(self) -> None:
        """An application that was deleted is needed until its last request is answered."""
        traffic = self._scheduler.state.traffic
        under_way = {name for name, of_name in traffic.items() if of_name.under_way}
        self._tally.forget_gone(under_way.union(self._scheduler.applications))

    # ---- gRPC

    async def Admit(  # noqa: N802 - the names are gRPC's
        self, messages: AsyncIterator[wire.FromGateway], context: Context
    ) -> AsyncIterator[wire.ToGateway]:
        async with self._called(context, "gateway"):
            async for message in self.gateways.admit(messages):
                yield message

    async def Attach(  # noqa: N802
        self, messages: AsyncIterator[wire.FromInvoker], context: Context
    ) -> AsyncIterator[wire.ToInvoker]:
        async with self._called(context, "invoker"):
            async for message in self.invokers.attach(messages):
                yield message

    async def PutApplication(  # noqa: N802
        self, request: wire.PutApplicationRequest, context: Context
    ) -> model.Application:
        async with self._called(context, "gateway"):
            known = self._scheduler.current(request.name) is not None
            if request.update and not known:
                raise self._unknown_application(request.name)
            if known and not request.update:
                raise AlreadyExists(f"application {request.name} exists; update it instead")
            commands = await self.driver.ask(
                ApplicationRegistered(
                    application=request.name,
                    stages=tuple(
                        StageSpec(
                            name=stage.name or stage.function,
                            function=stage.function,
                            after=tuple(stage.after),
                        )
                        for stage in request.stages
                    ),
                    slo_us=request.slo_us if request.HasField("slo_us") else None,
                    slo_scale=request.slo_scale if request.HasField("slo_scale") else None,
                    late_requests=late_requests_from_wire(request.late_requests),
                )
            )
            _check_accepted(commands)
            return self._application(request.name)

    async def ListApplications(  # noqa: N802
        self, request: wire.ListApplicationsRequest, context: Context
    ) -> wire.ListApplicationsReply:
        async with self._called(context, "gateway"):
            names = sorted(self._scheduler.applications)
            found = [self._application(name) for name in names]
            return wire.ListApplicationsReply(applications=found)

    async def DeleteApplication(  # noqa: N802
        self, request: wire.DeleteApplicationRequest, context: Context
    ) -> wire.DeleteApplicationReply:
        async with self._called(context, "gateway"):
            if self._scheduler.current(request.name) is None:
                raise self._unknown_application(request.name)
            _check_accepted(await self.driver.ask(ApplicationRetired(application=request.name)))
            return wire.DeleteApplicationReply()

    async def WatchMesh(  # noqa: N802
        self, request: wire.WatchMeshRequest, context: Context
    ) -> AsyncIterator[model.MeshStatus]:
        async with self._called(context, "gateway"):
            while True:
                yield mesh_status(
                    self._scheduler.state,
                    self._scheduler.catalog,
                    self._tally,
                    self._orders,
                    policy=self._settings.policy,
                    began_us=self._began_us,
                    now_us=self.driver.now_us,
                )
                if request.interval_ms <= 0:
                    return
                await asyncio.sleep(max(0.05, request.interval_ms / 1000))

    @asynccontextmanager
    async def _called(self, context: Context, service: str) -> AsyncIterator[None]:
        """Around a call, which only this service may make. What it raises becomes its status."""
        async with aborting(context):
            check_peer(context, service)
            yield

    def _application(self, name: str) -> model.Application:
        application = self._scheduler.current(name)
        if application is None:
            raise self._unknown_application(name)
        return application_to_wire(application, name, self._scheduler.version(name))

    def _unknown_application(self, name: str) -> NotFound:
        return NotFound(did_you_mean("application", name, self._scheduler.applications))

    # ---- what was decided

    def perform(self, now_us: int, event: Event, commands: list[Command]) -> None:
        """Let everyone know who is concerned."""
        match event:
            case TaskFinished():
                self._task_finished(now_us, event)
            case TaskFailed():
                self._task_failed(event)
            case InvokerJoined():
                self.invokers.joined(event)
                self._forget_ended_tasks()
            case InvokerLost() | InvokerReported():
                self._forget_ended_tasks()
            case _:
                pass
        for command in commands:
            self._carry_out(now_us, command)
        if self.gateways.draining and not self._requests:
            self._idle.set()

    def _carry_out(self, now_us: int, command: Command) -> None:
        match command:
            case StartTask():
                self._orders[command.task] = command
                self._tally.started(command)
                self.invokers.send(self.gateways.with_payloads(command))
                self.gateways.started(command, now_us)
            case StopTask() | WarmInstance() | DropInstance() | PublishData() | DiscardData():
                self.invokers.send(command)
            case AdmitRequest():
                self._tally.accepted(plain_name(command.application))
                self.gateways.accepted(command.request, now_us)
            case AnswerRequest():
                self._tally.answered(plain_name(command.application), command, now_us)
                self.gateways.answered(command, now_us)
            case RefuseRequest():
                if command.kind is not RefusalKind.UNKNOWN_APPLICATION:
                    self._tally.refused(command)
                self.gateways.refused(command)
            case AcceptApplication() | RefuseApplication():
                pass  # whoever asked sees it
            case CorrectProfiles():
                self.corrector.correct(command.corrections)
            case _:
                assert_never(command)

    def _task_finished(self, now_us: int, event: TaskFinished) -> None:
        self._tally.finished(event)
        order = self._orders.pop(event.task, None)
        if order is not None:
            self.gateways.finished(order, now_us)

    def _task_failed(self, event: TaskFailed) -> None:
        order = self._orders.pop(event.task, None)
        if order is None or not event.missing:
            return
        payloads = [output.request for output in event.missing if not output.stage]
        for job in order.jobs:
            if job.request in payloads and job.request in self._scheduler.state.requests:
                self.gateways.payload_lost(job.request)

    def _forget_ended_tasks(self) -> None:
        running = self._scheduler.state.tasks
        if len(self._orders) > len(running):
            self._orders = {name: o for name, o in self._orders.items() if name in running}


def _check_accepted(commands: list[Command]) -> None:
    for command in commands:
        if isinstance(command, RefuseApplication):
            raise refusal_error(command.kind, command.reason)
