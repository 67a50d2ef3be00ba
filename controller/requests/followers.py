"""Who wants to hear of which request. Gateways that come back say so again.

To hear of a request is not to wait for it: see `esg.core.sessions.interest`.
"""

import secrets

from esg.protos import controller_v1_pb2 as wire
from esg.runtime.rpc.batched_sender import BatchedSender


class Follower:
    """Someone who hears of requests: one stream of a gateway's session."""

    def __init__(self) -> None:
        self.outbox: BatchedSender[wire.ControllerNote] = BatchedSender()
        self.session = secrets.token_hex(8)  # until it says which it is
        self.gone = False

    def put(self, note: wire.ControllerNote, *, lazily: bool = False) -> None:
        if lazily:
            self.outbox.put_lazily(note)
        else:
            self.outbox.put(note)


class Followers:
    """Those who hear of a request's end, and, of these, the watchers, who hear of every stage."""

    def __init__(self) -> None:
        self._followers: dict[str, list[Follower]] = {}
        self._watchers: dict[str, list[Follower]] = {}

    def follow(self, request: str, follower: Follower) -> None:
        _add(self._followers, request, follower)

    def watch(self, request: str, follower: Follower) -> None:
        _add(self._followers, request, follower)
        _add(self._watchers, request, follower)

    def watchers(self, request: str) -> list[Follower]:
        return self._watchers.get(request, [])

    def tell(self, request: str, note: wire.ControllerNote, *, lazily: bool = False) -> None:
        for follower in self._followers.get(request, ()):
            follower.put(note, lazily=lazily)

    def tell_end(self, request: str, note: wire.ControllerNote) -> None:
        """The last word about a request: nobody follows it any more."""
        self.tell(request, note)
        self._followers.pop(request, None)
        self._watchers.pop(request, None)

    def forget(self, follower: Follower) -> None:
        """Its stream has ended. What it asked and is being written will be of no use to it."""
        follower.gone = True
        for listeners in (*self._followers.values(), *self._watchers.values()):
            if follower in listeners:
                listeners.remove(follower)


def _add(listeners: dict[str, list[Follower]], request: str, follower: Follower) -> None:
    known = listeners.setdefault(request, [])
    if follower not in known and not follower.gone:
        known.append(follower)
