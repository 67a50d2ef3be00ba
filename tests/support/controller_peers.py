"""A controller that serves, and the two kinds of peer it has, speaking the real protocol."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from esg.controller.durability.journal import Journal
from esg.controller.durability.recovery import (
    Remembered,
    dead_letters_beside,
    deciding,
    opening,
    recover,
)
from esg.controller.live import LiveController
from esg.controller.servicer import ControllerServicer
from esg.core.journal.format import Header, catalog_digest, functions_digest
from esg.core.scheduler.scheduler import build_scheduler
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.server import Server
from esg.runtime.settings import ControllerSettings
from tests.support.small_catalog import SMALL
from tests.support.waiting import until

PATIENT = {"lost_after_ms": 600_000, "rejoin_ms": 600_000}


@dataclass
class Running:
    """A controller on a port of its own, whose clock stands still unless it is set."""

    live: LiveController
    address: str
    clock: list[int]

    @property
    def state(self) -> Any:
        return self.live.scheduler.state


@asynccontextmanager
async def running_controller(**settings: Any) -> AsyncIterator[Running]:
    """As `python -m controller` has it. With a journal, it goes on from there; at the end of the
    block it is gone without another word. Peers send no heartbeats, and may take their time."""
    own = ControllerSettings(**{**PATIENT, "prewarm": False, **settings})
    journal = Journal(Path(own.journal), own) if own.journal else None
    past = None if journal is None else journal.past()
    known = Remembered() if past is None else recover(past, SMALL, own)
    clock = [known.now_us]
    scheduler = build_scheduler(SMALL, deciding(own), known.state, epoch=known.epoch)
    dead_letters = (
        None if journal is None else dead_letters_beside(journal, Path(own.journal), SMALL)
    )
    refusing = (lambda: "") if journal is None else journal.refusing
    live = LiveController(
        scheduler, own, journal, lambda: clock[0], known.memory, dead_letters, refusing
    )
    live.start()
    if journal is not None:
        header = Header(catalog=catalog_digest(SMALL), settings=deciding(own), epoch=known.epoch)
        journal.begin(header, lambda: opening(live.driver, live.shell))
    server = Server()
    servicer = ControllerServicer(live, own)
    wire_grpc.add_ControllerServicer_to_server(servicer, server.grpc)
    port = await server.start("127.0.0.1", 0, [])
    watching = asyncio.create_task(live.watch())
    try:
        yield Running(live, f"127.0.0.1:{port}", clock)
        if live.driver.failed.done():
            live.driver.failed.result()
    finally:
        watching.cancel()
        live.driver.failed.cancel()
        await server.stop(0)
        if journal is not None:
            journal.close()


@dataclass
class Peer:
    """One end of a stream: what it says goes out, what it hears is kept."""

    outbox: BatchedSender[Any]
    heard: list[Any] = field(default_factory=list)
    acknowledged: int = 0
    ended: bool = False
    error: grpc.aio.AioRpcError | None = None

    def say(self, *notes: Any) -> None:
        for note in notes:
            self.outbox.put(note)

    def of(self, kind: str) -> list[Any]:
        """What it heard of one kind."""
        return [item for item in self.heard if item.WhichOneof(_ONEOF[type(item)]) == kind]

    async def hears(self, kind: str, count: int = 1) -> list[Any]:
        await until(lambda: len(self.of(kind)) >= count or self.ended)
        return self.of(kind)


_ONEOF = {wire.Order: "order", wire.ControllerNote: "note"}


@asynccontextmanager
async def _connected(
    address: str,
    call: Callable[[Any, AsyncIterator[Any]], Any],
    wrap: Callable[[list[Any]], Any],
    unwrap: Callable[[Any], Any],
) -> AsyncIterator[Peer]:
    peer = Peer(BatchedSender())

    async def messages() -> AsyncIterator[Any]:
        async for notes in peer.outbox.groups():
            yield wrap(notes)

    async with channel(address) as to_controller:
        stream = call(wire_grpc.ControllerStub(to_controller), messages())

        async def listen() -> None:
            try:
                async for message in stream:
                    peer.heard.extend(unwrap(message))
                    peer.acknowledged = getattr(message, "acknowledged", 0)
            except grpc.aio.AioRpcError as error:
                peer.error = error
            peer.ended = True

        listening = asyncio.create_task(listen())
        try:
            yield peer
        finally:
            stream.cancel()
            listening.cancel()
            await _settled(listening)


async def _settled(task: Awaitable[Any]) -> None:
    await asyncio.gather(task, return_exceptions=True)


def gateway(controller: Running) -> Any:
    return _connected(
        controller.address,
        lambda stub, messages: stub.Admit(messages),
        lambda notes: wire.FromGateway(notes=notes),
        lambda message: message.notes,
    )


def invoker(controller: Running) -> Any:
    return _connected(
        controller.address,
        lambda stub, messages: stub.Attach(messages),
        lambda notes: wire.FromInvoker(notes=notes),
        lambda message: message.orders,
    )


def greeting(name: str = "n0", session: str = "s1", catalog: str | None = None) -> wire.InvokerNote:
    digest = functions_digest(SMALL) if catalog is None else catalog
    return wire.InvokerNote(greeting=wire.Greeting(invoker=name, session=session, catalog=digest))


def joined(*running: wire.RunningTask, latest_task: int = 0) -> wire.InvokerNote:
    """Four vCPUs and two slices on which every model is loaded that fits."""
    resident = ("resize", "detect", "label")
    return wire.InvokerNote(
        joined=wire.Inventory(
            vcpus=4,
            slices=[wire.Slice(memory_mb=1000, resident=resident) for _ in range(2)],
            running=running,
            latest_task=latest_task,
        )
    )


def finished(task: str) -> wire.InvokerNote:
    return wire.InvokerNote(finished=wire.TaskFinished(task=task, running_us=10_000))


def numbered(number: int, note: wire.InvokerNote) -> wire.InvokerNote:
    """News as an invoker sends them, to be acknowledged."""
    note.number = number
    return note


def submission(request: str, application: str = "thumb", **more: Any) -> wire.GatewayNote:
    said = {"content_hash": b"1", **more}
    return wire.GatewayNote(
        submission=wire.Submission(request_id=request, application=application, **said)
    )


def refusal_code(note: wire.ControllerNote) -> grpc.StatusCode:
    return next(code for code in grpc.StatusCode if code.value[0] == note.refused.code)


async def put_application(address: str, **fields: Any) -> model.Application:
    async with channel(address) as to_controller:
        stub = wire_grpc.ControllerStub(to_controller)
        reply: model.Application = await stub.PutApplication(wire.PutApplicationRequest(**fields))
        return reply
