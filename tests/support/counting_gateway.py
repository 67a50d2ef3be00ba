"""A gateway that does what a test tells it, over real gRPC, in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

import grpc

from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from tests.support.waiting import LIMIT_S

APPLICATIONS = {"image-classification": "super-resolution", "depth-recognition": "deblur"}
"""With their first functions: applications of the shipped catalog."""
# ruff: noqa: N802 - the names are gRPC's

Answer = Callable[[public.SubmitRequest], public.Reply | None]


def done(asked: public.SubmitRequest) -> public.Reply:
    stage = model.StageResult(
        stage="super-resolution", task="t1", node="node0", cost_usd=0.001, finished_us=30_000
    )
    stage.config.CopyFrom(model.Config(batch=2, vcpus=1, vgpus=1))
    result = model.Result(
        request_id=asked.request_id,
        application=asked.application,
        outcome=model.OUTCOME_DONE,
        slo_met=True,
        slo_us=526_000,
        latency_us=30_000,
        cost_usd=0.001,
        stages=[stage],
    )
    return public.Reply(request_id=asked.request_id, done=public.SubmitReply(result=result))


def refused(asked: public.SubmitRequest) -> public.Reply:
    code = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    refusal = public.Refusal(code=code, message="the mesh is full")
    return public.Reply(request_id=asked.request_id, refusal=refusal)


@dataclass
class Gateway(public_grpc.PipelinesServicer):
    """Answers as `answer` says at once. Where that says nothing, there is no answer; only when it
    `holds` so many it waits for `release`, and answers them."""

    answer: Answer = done
    holds: int = 0
    policy: str = "esg"
    nodes: int = 100
    vcpus: int = 16
    address: str = ""
    got: list[public.SubmitRequest] = field(default_factory=list)
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop | None = None

    async def ListApplications(self, asked: Any, context: Any) -> public.ListApplicationsReply:
        return public.ListApplicationsReply(
            applications=[
                model.Application(
                    name=name,
                    stages=[model.Stage(name=first, function=first)],
                    slo_us=526_000,
                    alone_us=526_000,
                    version=1,
                )
                for name, first in APPLICATIONS.items()
            ]
        )

    async def WatchMesh(self, asked: Any, context: Any) -> AsyncIterator[model.MeshStatus]:
        warm = model.SliceStatus(resident=list(APPLICATIONS.values()))
        nodes = [
            model.NodeStatus(node=f"node{n}", vcpus=self.vcpus, slices=[warm] * 7)
            for n in range(self.nodes)
        ]
        yield model.MeshStatus(policy=self.policy, nodes=nodes)

    async def SubmitMany(
        self, groups: AsyncIterator[public.SubmitGroup], context: Any
    ) -> AsyncIterator[public.ReplyGroup]:
        held: list[public.SubmitRequest] = []
        async for group in groups:
            self.got += group.requests
            replies = [(asked, self.answer(asked)) for asked in group.requests]
            held += [asked for asked, reply in replies if reply is None]
            yield public.ReplyGroup(replies=[reply for _, reply in replies if reply is not None])
            if len(held) == self.holds > 0:
                await self._released.wait()
                yield public.ReplyGroup(replies=[done(asked) for asked in held])

    async def SubmitChunked(
        self, chunks: AsyncIterator[public.SubmitChunk], context: Any
    ) -> AsyncIterator[public.ResultChunk]:
        """What is too large for a stream is always answered at once."""
        asked = public.SubmitRequest()
        async for chunk in chunks:
            if chunk.HasField("request"):
                asked.CopyFrom(chunk.request)
            else:
                asked.payload += chunk.payload
        self.got.append(asked)
        yield public.ResultChunk(result=done(asked).done.result)

    def release(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._released.set)

    def has_got(self, count: int) -> None:
        """Wait for so many requests."""
        give_up = monotonic() + LIMIT_S
        while len(self.got) < count:
            assert monotonic() < give_up, f"{len(self.got)} of {count} requests came"
            sleep(0.01)

    async def serve(self, started: threading.Event, ended: asyncio.Event) -> None:
        server = grpc.aio.server()
        public_grpc.add_PipelinesServicer_to_server(self, server)
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        started.set()
        await ended.wait()
        await server.stop(0)


@contextmanager
def serving(gateway: Gateway) -> Iterator[Gateway]:
    loop, started, ended = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    gateway._loop = loop
    thread = threading.Thread(
        target=loop.run_until_complete, args=(gateway.serve(started, ended),), daemon=True
    )
    thread.start()
    assert started.wait(LIMIT_S)
    try:
        yield gateway
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(LIMIT_S)
        loop.close()
