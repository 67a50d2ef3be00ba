"""One request, as a gateway knows it, and what the controller was asked about it."""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from copy import copy
from typing import Any

from esg.core.sessions.inquiry import Inquiry
from esg.names import payload_stage
from esg.protos import controller_v1_pb2 as controller
from esg.protos import model_v1_pb2 as model
from esg.runtime.security.ownership import seen
from esg.units import US_PER_S

Step = tuple[str, str, bool]
"""A stage, its task, and whether it has finished."""


class PendingReply:
    """Something the controller was asked about a request: it will accept or refuse."""

    __slots__ = ("_answered", "_refusal", "note")

    def __init__(self, note: controller.GatewayNote) -> None:
        self.note = note
        self._answered = asyncio.Event()
        self._refusal: Exception | None = None

    def settle(self, refusal: Exception | None) -> None:
        self._refusal = refusal
        self._answered.set()

    async def accepted(self) -> None:
        """Wait for the answer; raises a refusal."""
        await self._answered.wait()
        if self._refusal is not None:
            raise copy(self._refusal)  # see `RequestHistory.end`


class RequestPayload:
    """What was submitted here under an idempotency key (the request's id), and its storing.

    A small one went with its submission, and is kept there until the request has ended: should the
    controller lose it, it is stored after all. A large one may be where its reader has it at once
    (`shared`), and be stored if the reader does not.
    """

    def __init__(self, submission: controller.Submission) -> None:
        self.content_hash = submission.content_hash
        self.went_along = bool(submission.payload)
        self.in_store = False
        """Whether it may be in the remote store from here."""
        self.shared = False
        self._submission = submission
        self._durable = False  # whether the storing ends when it is on disk
        self._storing: asyncio.Task[None] | None = None  # unless that has failed

    @property
    def stage(self) -> str:
        """Under what name it is stored."""
        return payload_stage(self.content_hash)

    @property
    def content(self) -> bytes:
        """What went along; a copy of it."""
        return self._submission.payload

    @property
    def on_its_way(self) -> bool:
        return self._storing is not None and not self._storing.done()

    def storing(self, *, durably: bool) -> asyncio.Task[None] | None:
        """The storing of it that was begun before, if that is good enough."""
        return None if durably and not self._durable else self._storing

    def store(self, put: Coroutine[Any, Any, None], *, durably: bool) -> asyncio.Task[None]:
        """Begin to store it. If that fails, a repeat brings it again."""

        def stored(storing: asyncio.Task[None]) -> None:
            failed = storing.cancelled() or storing.exception() is not None
            if failed and self._storing is storing:
                self._storing = None

        self.in_store = True
        self._storing, self._durable = asyncio.create_task(put), durably
        self._storing.add_done_callback(stored)
        return self._storing


class RequestHistory:
    """What has happened to a request: how its stages began and ended, and its own end."""

    def __init__(self) -> None:
        self.result: model.Result | None = None
        self.ended = asyncio.Event()
        self.news = asyncio.Event()  # another one after each news
        self._heard: dict[Step, model.StageProgress] = {}
        self._lost: Exception | None = None

    def hear(self, progress: model.StageProgress) -> None:
        """After a link broke, the past is told once more; it is no news then."""
        if self._heard.setdefault(_step(progress), progress) is progress:
            self._tell()

    def stages(self) -> list[model.StageProgress]:
        """How its stages began and ended, as far as that is known."""
        heard = list(self._heard.values())
        if self.result is None:
            return heard
        return heard + [past for past in _past(self.result) if _step(past) not in self._heard]

    async def end(self) -> model.Result:
        """Wait for its result."""
        await self.ended.wait()
        if self.result is None:
            assert self._lost is not None
            # An error that is raised refers to those who wait, and what they hold: their payload
            # too. So it is not the one that is kept here, to which they refer
            raise copy(self._lost)
        return self.result

    def finish(self, result: model.Result | None, lost: Exception | None = None) -> None:
        self.result, self._lost = result, lost
        self.ended.set()
        self._tell()

    def _tell(self) -> None:
        """Wake those who watch."""
        self.news.set()
        self.news = asyncio.Event()


class TrackedRequest:
    """One request, as far as this gateway knows it: the lifecycle is the table's to advance."""

    def __init__(self, request_id: str, asked: Inquiry[PendingReply], owner: str = "") -> None:
        self.id = request_id  # as the mesh has it
        self.asked = asked  # what the controller was asked about it
        self.owner = owner
        self.application = ""
        self.history = RequestHistory()
        self.payload: RequestPayload | None = None  # if it was submitted here
        self.accepted_payload = ""  # under what name the controller expects it
        # Who is interested in it
        self.waiting = 0  # calls
        self.kept = False  # it goes on although nobody waits
        self.told_to_keep = False  # that is what the controller was told
        self.delivered = False  # somebody got its outputs
        self.shared = False  # others may come for them: through other gateways, or later
        self.outputs: dict[str, bytes] = {}  # those that came with the result, by stage
        self._fetch_until_s = 0.0

    def fetch_for(self, left_us: int) -> None:
        """It was submitted to be fetched later, and can be for so long yet."""
        self._fetch_until_s = time.monotonic() + left_us / US_PER_S

    @property
    def fetch_within_s(self) -> float:
        """For how long its outputs can be fetched yet; 0 if it is not known to be fetched later."""
        return max(0.0, self._fetch_until_s - time.monotonic())

    def in_store(self, stages: Iterable[str]) -> list[str]:
        """The stages whose outputs are in the remote store, if they are anywhere."""
        return [stage for stage in stages if stage not in self.outputs]

    @property
    def leaves_payload(self) -> bool:
        """Whether its payload may be in the remote store: unless it went along with what was
        submitted here, and that was enough."""
        return self.payload is None or self.payload.in_store or not self.payload.went_along

    @property
    def name(self) -> str:
        """What its client calls it."""
        return seen(self.owner, self.id) or self.id


def _step(progress: model.StageProgress) -> Step:
    return progress.stage, progress.task, progress.finished


def _past(result: model.Result) -> list[model.StageProgress]:
    """What would have been heard of a request, had one been listening."""
    past = [
        model.StageProgress(
            stage=stage.stage,
            task=stage.task,
            node=stage.node,
            config=stage.config,
            finished=finished,
            at_us=at_us,
        )
        for stage in result.stages
        for at_us, finished in ((stage.started_us, False), (stage.finished_us, True))
    ]
    return sorted(past, key=lambda progress: progress.at_us)
