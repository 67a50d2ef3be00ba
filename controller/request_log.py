"""What is remembered of each request, and who wants to know about it.

The scheduler forgets a request once it is answered. Clients ask later, or ask again because they
are not sure to have been heard; so the answer is kept for a while, and an id that comes again finds
the request it named the first time. The memory is bounded, in number and in time.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from esg.protos import controller_v1_pb2 as wire
from esg.protos import model_v1_pb2 as model


class Follower(Protocol):
    """Someone who wants to know about a request: a gateway."""

    def put(self, note: wire.ControllerNote) -> None: ...


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """What stays of a request: as little as possible, since there are many."""

    application: str
    content_hash: bytes
    answered_us: int
    written: bytes

    @property
    def result(self) -> model.Result:
        return model.Result.FromString(self.written)


@dataclass(slots=True)
class RequestRecord:
    """A request that is under way."""

    application: str
    content_hash: bytes
    fetched_later: bool = False
    followers: list[Follower] = field(default_factory=list)  # who hear of its end
    watchers: list[Follower] = field(default_factory=list)  # who hear of every stage as well
    arrived_us: int = 0

    def tell(self, note: wire.ControllerNote) -> None:
        for follower in self.followers:
            follower.put(note)

    def follow(self, follower: Follower) -> None:
        if follower not in self.followers:
            self.followers.append(follower)

    def watch(self, follower: Follower) -> None:
        self.follow(follower)
        if follower not in self.watchers:
            self.watchers.append(follower)

    def forget(self, follower: Follower) -> None:
        for listeners in (self.followers, self.watchers):
            if follower in listeners:
                listeners.remove(follower)


class AnswerCache:
    """Answered requests, the oldest first, up to a number and an age."""

    def __init__(self, most: int, longest_us: int) -> None:
        self._most = most
        self._longest_us = longest_us
        self._answered: OrderedDict[str, AnsweredRequest] = OrderedDict()

    def get(self, request: str) -> AnsweredRequest | None:
        return self._answered.get(request)

    def items(self) -> list[tuple[str, AnsweredRequest]]:
        return list(self._answered.items())

    def add(self, request: str, answered: AnsweredRequest) -> None:
        self._answered[request] = answered
        self.forget_old(answered.answered_us)

    def forget_old(self, now_us: int) -> None:
        while self._answered:
            oldest = next(iter(self._answered.values()))
            old = now_us - oldest.answered_us > self._longest_us
            if not old and len(self._answered) <= self._most:
                return
            self._answered.popitem(last=False)


class RequestLog:
    """Records by request id. Those that nobody waited for are remembered for longer."""

    def __init__(self, *, remembered: int, fetched_later_us: int, waited_for_us: int) -> None:
        self._under_way: dict[str, RequestRecord] = {}
        self._fetched_later = AnswerCache(remembered, fetched_later_us)
        self._waited_for = AnswerCache(remembered, waited_for_us)

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._under_way)

    def find(self, request: str, now_us: int) -> RequestRecord | AnsweredRequest | None:
        self._forget_old(now_us)  # perhaps nothing has been answered for long
        return (
            self._under_way.get(request)
            or self._waited_for.get(request)
            or self._fetched_later.get(request)
        )

    def under_way(self, request: str) -> RequestRecord | None:
        return self._under_way.get(request)

    def answered(self) -> list[tuple[str, AnsweredRequest, bool]]:
        """All that is remembered of those that have ended, the oldest first; and whether each was
        to be fetched later."""
        memories = ((self._waited_for, False), (self._fetched_later, True))
        return [(*item, later) for memory, later in memories for item in memory.items()]

    def recall(self, request: str, answered: AnsweredRequest, *, fetched_later: bool) -> None:
        """Remember a request again that ended before this process began."""
        (self._fetched_later if fetched_later else self._waited_for).add(request, answered)

    def begin(self, request: str, record: RequestRecord) -> None:
        self._under_way[request] = record

    def refuse(self, request: str) -> RequestRecord | None:
        """It was never taken in; the same id may be tried again."""
        return self._under_way.pop(request, None)

    def answer(self, request: str, result: model.Result, now_us: int) -> RequestRecord | None:
        record = self._under_way.pop(request, None)
        if record is not None:
            written = result.SerializeToString()
            answered = AnsweredRequest(record.application, record.content_hash, now_us, written)
            self.recall(request, answered, fetched_later=record.fetched_later)
        self._forget_old(now_us)
        return record

    def _forget_old(self, now_us: int) -> None:
        for memory in (self._fetched_later, self._waited_for):
            memory.forget_old(now_us)

    def forget_follower(self, follower: Follower) -> None:
        for record in self._under_way.values():
            record.forget(follower)
