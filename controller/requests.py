"""What is remembered of each request, and who wants to know about it.

The scheduler forgets a request once it is answered. Clients ask later, or ask again because they
are not sure to have been heard; so the answer is kept for a while, and an id that comes again finds
the request it named the first time. The memory is bounded, in number and in time.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from protos import controller_v1_pb2 as wire
from protos import model_v1_pb2 as model


class Follower(Protocol):
    """Someone who wants to know about a request: a gateway."""

    def put(self, note: wire.ControllerNote) -> None: ...


@dataclass(slots=True)
class Record:
    application: str
    fingerprint: bytes
    followers: list[Follower] = field(default_factory=list)  # who hear of its end
    watchers: list[Follower] = field(default_factory=list)  # who hear of every stage as well
    arrived_us: int = 0
    result: model.Result | None = None
    answered_us: int = 0

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


class Requests:
    """Records by request id."""

    def __init__(self, *, remembered: int, remembered_us: int) -> None:
        self._under_way: dict[str, Record] = {}
        self._answered: OrderedDict[str, Record] = OrderedDict()
        self._remembered = remembered
        self._remembered_us = remembered_us

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._under_way)

    def find(self, request: str) -> Record | None:
        return self._under_way.get(request) or self._answered.get(request)

    def under_way(self, request: str) -> Record | None:
        return self._under_way.get(request)

    def begin(self, request: str, record: Record) -> None:
        self._under_way[request] = record

    def refuse(self, request: str) -> Record | None:
        """It was never taken in; the same id may be tried again."""
        return self._under_way.pop(request, None)

    def answer(self, request: str, result: model.Result, now_us: int) -> Record | None:
        record = self._under_way.pop(request, None)
        if record is not None:
            record.result = result
            record.answered_us = now_us
            self._answered[request] = record
        self.forget_old(now_us)
        return record

    def forget_old(self, now_us: int) -> None:
        while self._answered:
            oldest = next(iter(self._answered.values()))
            old = now_us - oldest.answered_us > self._remembered_us
            if not old and len(self._answered) <= self._remembered:
                return
            self._answered.popitem(last=False)

    def forget_follower(self, follower: Follower) -> None:
        for record in self._records():
            record.forget(follower)

    def _records(self) -> Iterator[Record]:
        yield from self._under_way.values()
        yield from self._answered.values()
