"""A controller that does what a test tells it, or, if `playing`, runs everything at once.

It speaks the real protocol, and tells nobody more than the real one would: the gateway that
submitted a request hears of its end, one that follows it hears of its stages too. When it plays, an
application has the stages "first" and "second", the output of which is the payload backwards;
requests for "endless" end when they are cancelled.
`python -m tests.support.scripted_controller REDIS_URL` is one that plays, as a process: it says
where it listens in the file that ESG_READY_FILE names.
"""

import asyncio
import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from esg.core.catalog.ports import OPAQUE
from esg.core.sessions.brought import NOTHING
from esg.errors import Rejected
from esg.names import payload_stage
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.batched_sender import BatchedSender
from esg.runtime.rpc.server import Server, say_ready
from esg.runtime.rpc.status import AlreadyExists, NotFound, aborting, refusal
from esg.runtime.security.ownership import owned
from esg.storage.redis_store import RedisStore
from esg.units import seconds
from tests.support.waiting import LIMIT_S

PREFIX = "test"
KNOWN = "reversal"
ENDLESS = "endless"
FAILING = "failing"
"""Its requests fail, for the reason that is their payload."""
REMEMBERED_US = seconds(60)
"""How long the result of a request that is fetched later is remembered."""
Context = grpc.aio.ServicerContext[Any, Any]
# ruff: noqa: N802 - the names are gRPC's


Link = BatchedSender[wire.ControllerNote]


@dataclass
class Told:
    """What there is to know about one request, and who wants to."""

    unanswered: deque[tuple[Link, wire.GatewayNote]] = field(default_factory=deque)
    followers: list[Link] = field(default_factory=list)
    watchers: list[Link] = field(default_factory=list)
    past: list[wire.ControllerNote] = field(default_factory=list)
    result: wire.ControllerNote | None = None


class ScriptedController(wire_grpc.ControllerServicer):
    def __init__(self, store: RedisStore, *, playing: bool = False) -> None:
        self.store = store
        self.playing = playing
        self.said: list[wire.GatewayNote] = []
        """What gateways have said, and no `hears` has asked for yet."""
        self.played: list[wire.GatewayNote] = []
        """What they have said while it played."""
        self.sessions: list[str] = []
        """Of each stream, which gateway's it was."""
        self.applications = {KNOWN: application(KNOWN)}
        self._heard = asyncio.Condition()
        self._links: list[Link] = []
        self._requests: defaultdict[str, Told] = defaultdict(Told)
        self._accepted: dict[str, wire.Submission] = {}
        self._playing: set[asyncio.Task[None]] = set()
        self._server = Server()
        wire_grpc.add_ControllerServicer_to_server(self, self._server.grpc)

    async def start(self, port: int = 0) -> str:
        bound = await self._server.start("127.0.0.1", port, [])
        return f"127.0.0.1:{bound}"

    async def stop(self) -> None:
        await self._server.stop(0)

    # ---- what a test asks

    async def hears(self, kind: str) -> Any:
        """The next note of this kind."""

        def found() -> Iterator[wire.GatewayNote]:
            return (note for note in self.said if note.WhichOneof("note") == kind)

        async with asyncio.timeout(LIMIT_S), self._heard:
            await self._heard.wait_for(lambda: any(True for _ in found()))
        note = next(found())
        self.said.remove(note)
        return getattr(note, kind)

    async def takes_in(self, request: str, *, repeated: bool = False) -> bytes:
        """The next submission, which is for this request, is accepted: its payload."""
        submission = await self.hears("submission")
        assert submission.request_id == request
        self.accept(request, repeated=repeated)
        return await self.payload(submission)

    async def payload(self, submission: wire.Submission) -> bytes:
        """As the first stage would read it."""
        if submission.payload:
            return submission.payload
        name = payload_stage(submission.content_hash)
        return await self.store.wait(submission.request_id, name, LIMIT_S)

    # ---- what a test tells

    def accept(
        self,
        request: str,
        *,
        repeated: bool = False,
        application: str = KNOWN,
        store_payload: bool = False,
    ) -> None:
        """Whoever asked first, and has not been answered yet, hears that, and then what is past."""
        told = self._requests[request]
        link, asked = told.unanswered.popleft()
        if asked.HasField("submission"):
            self._accepted[request] = asked.submission
        submission = self._accepted.get(request, wire.Submission())
        accepted = wire.Accepted(
            application=application,
            repeated=repeated,
            content_hash=submission.content_hash,
            store_payload=store_payload,
        )
        link.put(wire.ControllerNote(request_id=request, accepted=accepted))
        if not asked.HasField("submission") and told.result is None:
            told.watchers.append(link)
            for note in told.past:
                link.put(note)
        if told.result is not None:
            link.put(told.result)
        elif link not in told.followers:
            told.followers.append(link)

    def refuse(self, request: str, error: Exception) -> None:
        link, _ = self._requests[request].unanswered.popleft()
        refused = refusal(wire.Refused, error)
        link.put(wire.ControllerNote(request_id=request, refused=refused))

    def lose_payload(self, request: str) -> None:
        """Whoever submitted it hears that its payload was not found."""
        for link in self._requests[request].followers:
            link.put(wire.ControllerNote(request_id=request, payload_lost=True))

    def progress(self, request: str, stage: str, *, finished: bool, at_us: int = 0) -> None:
        progress = model.StageProgress(
            stage=stage,
            task=f"t-{stage}",
            node="i0",
            config=model.Config(batch=1, vcpus=2, vgpus=1),
            finished=finished,
            at_us=at_us,
        )
        told, note = self._requests[request], wire.ControllerNote(request_id=request)
        note.progress.CopyFrom(progress)
        told.past.append(note)
        for link in told.watchers:
            link.put(note)

    async def finish(self, request: str, **outputs: bytes) -> None:
        """It is done, with these outputs, by their stages."""
        for stage, content in outputs.items():
            await self.store.put(request, stage, content)
        self.end(request, model.OUTCOME_DONE, output_stages=list(outputs))

    def finish_with(self, request: str, **outputs: bytes | None) -> None:
        """It is done, and these outputs come with the answer, apart from those that are None."""
        small = {stage: content for stage, content in outputs.items() if content is not None}
        self.end(request, model.OUTCOME_DONE, output_stages=list(outputs), outputs=small)

    def end(
        self,
        request: str,
        outcome: Any,
        *,
        reason: str = "",
        output_stages: Sequence[str] = (),
        outputs: Mapping[str, bytes] = NOTHING,
    ) -> None:
        result = model.Result(
            request_id=request,
            application=KNOWN,
            outcome=outcome,
            reason=reason,
            slo_met=outcome == model.OUTCOME_DONE,
            slo_us=900_000,
            latency_us=70_000,
            cost_usd=0.00012,
            stages=_stages() if outcome == model.OUTCOME_DONE else [],
            output_stages=output_stages,
        )
        told = self._requests[request]
        later = self._accepted.get(request, wire.Submission()).fetched_later
        told.result = wire.ControllerNote(
            request_id=request,
            result=result,
            shared=later,
            fetch_within_us=REMEMBERED_US if later else 0,
            outputs=[wire.StageContent(stage=s, content=made) for s, made in outputs.items()],
        )
        for link in told.followers:
            link.put(told.result)
        told.followers, told.watchers = [], []

    def forget(self, request: str) -> None:
        """As if it had started anew, without a memory."""
        self._accepted.pop(request)
        self._requests[request] = Told(unanswered=self._requests[request].unanswered)

    def break_links(self) -> None:
        for link in self._links:
            link.close()

    # ---- the service

    async def Admit(
        self, messages: AsyncIterator[wire.FromGateway], context: Context
    ) -> AsyncIterator[wire.ToGateway]:
        link: Link = BatchedSender()
        self._links.append(link)
        reading = asyncio.create_task(self._read(link, messages))
        try:
            async for notes in link.groups():
                yield wire.ToGateway(notes=notes)
        finally:
            self._links.remove(link)
            self._forget(link)
            reading.cancel()

    def _forget(self, gone: Link) -> None:
        for told in self._requests.values():
            told.unanswered = deque(asked for asked in told.unanswered if asked[0] is not gone)
            told.followers = [link for link in told.followers if link is not gone]
            told.watchers = [link for link in told.watchers if link is not gone]

    async def _read(self, link: Link, messages: AsyncIterator[wire.FromGateway]) -> None:
        async for message in messages:
            for note in message.notes:
                self._note(link, note)
            async with self._heard:
                self._heard.notify_all()

    def _note(self, link: Link, note: wire.GatewayNote) -> None:
        if note.HasField("session"):
            self.sessions.append(note.session)
            return
        if note.HasField("submission"):
            self._requests[note.submission.request_id].unanswered.append((link, note))
        elif note.HasField("follow"):
            self._requests[note.follow].unanswered.append((link, note))
        if self.playing:
            self.played.append(note)
            self._play(note)
        else:
            self.said.append(note)

    async def PutApplication(
        self, request: wire.PutApplicationRequest, context: Context
    ) -> model.Application:
        async with aborting(context):
            if not request.stages:
                raise Rejected("stages: there are none; name at least one")
            if not request.update and request.name in self.applications:
                raise AlreadyExists(f"application {request.name} exists; update it instead")
            version = self.applications[request.name].version + 1 if request.update else 1
            told = model.Application(
                name=request.name,
                stages=request.stages,
                slo_us=request.slo_us or int(request.slo_scale * 1e6),
                version=version,
                late_requests=request.late_requests,
            )
            self.applications[request.name] = told
            return told

    async def ListApplications(
        self, request: wire.ListApplicationsRequest, context: Context
    ) -> wire.ListApplicationsReply:
        return wire.ListApplicationsReply(applications=self.applications.values())

    async def DeleteApplication(
        self, request: wire.DeleteApplicationRequest, context: Context
    ) -> wire.DeleteApplicationReply:
        async with aborting(context):
            if self.applications.pop(request.name, None) is None:
                raise NotFound(f"unknown application {request.name!r}")
            return wire.DeleteApplicationReply()

    async def ReloadFunction(
        self, request: wire.ReloadFunctionRequest, context: Context
    ) -> wire.ReloadFunctionReply:
        async with aborting(context):
            if request.function not in ("first", "second"):
                raise NotFound(f"unknown function {request.function!r}")
            failure = "no module named x" if request.function == "second" else ""
            nodes = [model.NodeReload(node="i0"), model.NodeReload(node="i1", failure=failure)]
            return wire.ReloadFunctionReply(nodes=nodes)

    async def WatchMesh(
        self, request: wire.WatchMeshRequest, context: Context
    ) -> AsyncIterator[model.MeshStatus]:
        slices = [model.SliceStatus(resident=["deblur"])]
        node = model.NodeStatus(node="i0", vcpus=16, vcpus_free=12, slices=slices)
        under_way = 0
        while True:
            under_way += 1
            yield model.MeshStatus(
                policy="esg",
                under_way=under_way,
                nodes=[node],
                applications=[model.ApplicationStatus(application=n) for n in self.applications],
                queues=[model.QueueStatus(application=n) for n in self.applications],
            )
            if not request.interval_ms:
                return
            await asyncio.sleep(request.interval_ms / 1000)

    # ---- playing

    def _play(self, note: wire.GatewayNote) -> None:
        match note.WhichOneof("note"):
            case "submission":
                self._play_submission(note.submission)
            case "follow" if note.follow in self._accepted:
                self.accept(note.follow)
            case "follow":
                self.refuse(note.follow, NotFound(f"unknown request {note.follow!r}"))
            case "cancel" | "leave" as kind:
                self.end(getattr(note, kind), model.OUTCOME_CANCELLED, reason="cancelled")
            case _:
                pass

    def _play_submission(self, submission: wire.Submission) -> None:
        request = submission.request_id
        known = self._accepted.get(request)
        own = owned(submission.owner, submission.application)
        if not {own, submission.application} & self.applications.keys():
            self.refuse(request, NotFound(f"unknown application {submission.application!r}"))
        elif known is not None and known.content_hash != submission.content_hash:
            self.refuse(request, AlreadyExists(f"request id {request} was used before"))
        elif known is not None:
            self.accept(request, repeated=True)
        else:
            self.accept(request)
            if submission.application != ENDLESS:
                self.run(self._played(submission))

    def run(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._playing.add(task)
        task.add_done_callback(self._playing.discard)

    async def _played(self, submission: wire.Submission) -> None:
        payload, request = await self.payload(submission), submission.request_id
        if submission.application == FAILING:
            self.end(request, model.OUTCOME_FAILED, reason=payload.decode())
            return
        for stage in _stages():
            self.progress(request, stage.stage, finished=False, at_us=stage.started_us)
            self.progress(request, stage.stage, finished=True, at_us=stage.finished_us)
        await self.finish(request, second=payload[::-1])


def application(name: str) -> model.Application:
    return model.Application(
        name=name,
        stages=[
            model.Stage(name="first", function="deblur"),
            model.Stage(name="second", function="depth", after=["first"]),
        ],
        slo_us=900_000,
        version=1,
        alone_us=900_000,
        fastest_us=200_000,
        inputs=[model.Port(name="input", media_type=OPAQUE)],
        outputs=[model.Port(name="output", media_type=OPAQUE, stage="second", output="output")],
    )


def _stages() -> list[model.StageResult]:
    config = model.Config(batch=1, vcpus=2, vgpus=1)
    times = {"first": (0, 10_000, 40_000), "second": (40_000, 45_000, 70_000)}
    return [
        model.StageResult(
            stage=stage,
            task=f"t-{stage}",
            node="i0",
            config=config,
            ready_us=ready,
            started_us=started,
            finished_us=finished,
            cost_usd=0.00006,
        )
        for stage, (ready, started, finished) in times.items()
    ]


async def _serve(redis_url: str) -> None:
    store = RedisStore(redis_url, prefix=PREFIX, ttl_s=600)
    controller = ScriptedController(store, playing=True)
    for name in (ENDLESS, FAILING):
        controller.applications[name] = application(name)
    say_ready(await controller.start())
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
