"""One request, as a gateway knows it, and what the controller was asked about it."""

import asyncio
from collections import deque

from protos import controller_v1_pb2 as controller
from protos import model_v1_pb2 as model


class Question:
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
            raise self._refusal


class Request:
    """One request, as far as this gateway knows it."""

    def __init__(self, request_id: str, origin: Question) -> None:
        self.id = request_id
        self.origin = origin  # how this gateway came to know it
        self.submission: Question | None = None
        self.fingerprint = b""
        self.open: deque[Question] = deque((origin,))
        self.application = ""
        self.watched = False  # the controller tells of its stages
        self.first = False  # it runs because it was submitted here
        self.progress: dict[tuple[str, str, bool], model.StageProgress] = {}
        self.result: model.Result | None = None
        self._lost: Exception | None = None
        self.ended = asyncio.Event()
        self.news = asyncio.Event()  # another one after each news
        self.waiting = 0
        self.kept = False  # it goes on although nobody waits
        self.stored = False  # its payload is on its way to the store, or there
        self.cancelled = False
        self.delivered = False  # somebody got its outputs

    async def end(self) -> model.Result:
        """Wait for its result."""
        await self.ended.wait()
        if self.result is None:
            assert self._lost is not None
            raise self._lost
        return self.result

    def finish(self, result: model.Result | None, lost: Exception | None = None) -> None:
        self.result, self._lost = result, lost
        self.ended.set()
        self.tell()

    def tell(self) -> None:
        """Wake those who watch."""
        self.news.set()
        self.news = asyncio.Event()
