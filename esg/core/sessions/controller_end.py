"""The controller's end of the nodes' sessions: who is attached, who may come back, who is lost.

A session is one process of a node, for as long as the controller knows it; a stream is one
connection within it. A node greets with its name and a session id that is new with every process,
is welcomed, says again what was not acknowledged, and joins with its inventory. From then on orders
go to it. Its reports are numbered, and acknowledged once they are in the journal: after that, and
only then, the node forgets them.

    its stream breaks       it has `rejoin_us` to come back, with everything it ran and kept
    it is silent            for `lost_after_us`: it is given up, and its stream is closed
    the controller starts   the sessions in its journal have `return_us`, or `lost_after_us` if that
    again                   is longer
    another process has     while the other one's stream is up, it is refused; it tries again
    its name
    it said that it leaves  it is given up when its stream ends

A session that is given up is over, and the scheduler hears that the node is lost. Should the
process come back, it is told to start afresh: to stop every task and to forget its reports and all
data. It is told so again until it has joined, since the first welcome may have been lost with its
stream.

Nothing here reads a clock or sends anything. Its driver calls `wake` at `next_wake`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from esg.core.messages.events import Event, InvokerJoined, InvokerLeaving, InvokerLost
from esg.core.sessions.settings import SessionSettings
from esg.names import is_printable


class Greeting(NamedTuple):
    """The first word on a stream. `functions` is the digest of the functions of its catalog."""

    node: str
    session: str
    functions: str


class GreetingRefused(NamedTuple):
    """The other end of a stream was not let in. If that is `passing`, it may try again."""

    reason: str
    passing: bool = False


class GivenUp(NamedTuple):
    """A session is over: its node is lost."""

    node: str
    why: str
    left: bool
    """Whether it had said that it would leave."""


@dataclass(slots=True, eq=False)
class NodeSession:
    """One process of a node, as long as it is not given up.

    While it has a stream, `deadline_us` is when it will have been silent for too long; otherwise it
    is when it will have been away for too long.
    """

    node: str
    session: str
    deadline_us: int
    why: str
    """What the matter is, should the deadline pass."""
    stream: int | None = None
    fresh: bool = True
    """Whether it has yet to join for the first time: until then it is to start afresh."""
    joining: InvokerJoined | None = None
    """Its inventory, until the scheduler has heard of it."""
    joined: bool = False
    leaving: bool = False
    heard_number: int = 0
    durable_number: int = 0
    """Its reports up to this one are in the journal."""

    def take(self, number: int, event: Event) -> bool:
        """Something it says. Whether that is new: what has a number may be said again."""
        if number and number <= self.heard_number:
            return False
        self.heard_number = max(self.heard_number, number)
        if isinstance(event, InvokerJoined):
            self.joining, self.joined, self.fresh = event, False, False
        elif isinstance(event, InvokerLeaving):
            self.leaving = True
        return True

    def acknowledge(self, number: int) -> None:
        """A report is in the journal. The node is told along with its next orders."""
        self.durable_number = max(self.durable_number, number)

    def detach(self) -> None:
        """Its stream is no more."""
        self.stream, self.joining, self.joined = None, None, False


class Welcome(NamedTuple):
    """A greeting was accepted. All that comes on this stream belongs to `session`, which may be in
    the place of one that was `given_up`."""

    session: NodeSession
    stream: int
    start_afresh: bool
    given_up: GivenUp | None


class NodeSessions:
    """The sessions of all nodes, by name. `functions` is the digest that all have to have."""

    def __init__(self, functions: str, settings: SessionSettings) -> None:
        self._functions = functions
        self._settings = settings
        self._sessions: dict[str, NodeSession] = {}
        self._streams = 0

    @property
    def next_wake(self) -> int | None:
        """When the next session is given up, unless its node is heard of before."""
        return min((known.deadline_us for known in self._sessions.values()), default=None)

    def of(self, node: str) -> NodeSession | None:
        return self._sessions.get(node)

    def reachable(self, node: str) -> bool:
        """Whether orders can be sent. Those that are decided while it is away are not kept."""
        known = self._sessions.get(node)
        return known is not None and known.joined

    def expect(self, now_us: int, sessions: Mapping[str, str]) -> None:
        """Nodes that an earlier process of the controller knew have a while to come back."""
        until_us = now_us + max(self._settings.return_us, self._settings.lost_after_us)
        why = "not back after the controller was"
        for node, session in sessions.items():
            self._sessions[node] = NodeSession(node, session, until_us, why, fresh=False)

    def greet(self, now_us: int, greeting: Greeting) -> Welcome | GreetingRefused:
        """A node attaches with a new stream."""
        node = greeting.node
        if not is_printable(node):
            return GreetingRefused("an invoker needs a name; set invoker.node")
        if greeting.functions != self._functions:
            return GreetingRefused(
                f"invoker {node} has other functions or another time scale than the controller; "
                "start both with the same catalog and time_scale"
            )
        known, given_up = self._sessions.get(node), None
        if known is not None and known.session != greeting.session:
            if known.stream is not None:
                return GreetingRefused(
                    f"another invoker named {node} is attached; give each a name of its own "
                    "(invoker.node), or wait until the other one is gone",
                    passing=True,
                )
            given_up = self._give_up(known, "started again")
            known = None
        if known is None:
            known = self._sessions[node] = NodeSession(node, greeting.session, 0, "")
        known.detach()  # perhaps from a stream that broke without our noticing
        self._streams += 1
        known.stream = self._streams
        self._heard(now_us, known)
        return Welcome(known, self._streams, known.fresh, given_up)

    def hear(self, now_us: int, session: NodeSession, stream: int) -> bool:
        """Something came on a stream. Whether it counts: a stream that was replaced, or whose
        session was given up, has nothing to say any more."""
        if session.stream != stream:
            return False
        self._heard(now_us, session)
        return True

    def scheduled(self, inventory: InvokerJoined) -> None:
        """The scheduler has compared its books with this inventory. If it is still the latest, the
        orders that follow are meant for the node; what was decided before is decided anew."""
        known = self._sessions.get(inventory.invoker)
        if known is not None and known.joining is inventory:
            known.joining, known.joined = None, True

    def ended(self, now_us: int, session: NodeSession, stream: int) -> None:
        """A stream has ended. Unless the node said that it leaves, it may come back."""
        if session.stream == stream:
            session.detach()
            session.deadline_us = now_us + (0 if session.leaving else self._settings.rejoin_us)
            session.why = "left" if session.leaving else "its connection broke"

    def wake(self, now_us: int) -> list[GivenUp]:
        """Give up those whose time is over. A stream that one still had is to be closed."""
        late = [known for known in self._sessions.values() if known.deadline_us <= now_us]
        return [self._give_up(known, known.why) for known in late]

    def _heard(self, now_us: int, session: NodeSession) -> None:
        session.deadline_us = now_us + self._settings.lost_after_us
        session.why = "silent for too long"

    def _give_up(self, session: NodeSession, why: str) -> GivenUp:
        del self._sessions[session.node]
        session.detach()
        return GivenUp(session.node, why, session.leaving)


def session_memo(session: str) -> dict[str, str]:
    """What stands in the journal beside an inventory with which a node joined."""
    return {"session": session}


def remember(sessions: dict[str, str], event: Event, memo: Mapping[str, str] | None) -> None:
    """The sessions by node that a journal comes to, after one more event: who has joined and is not
    lost may come back with all it runs and keeps."""
    if isinstance(event, InvokerJoined):
        sessions[event.invoker] = (memo or {}).get("session", "")
    elif isinstance(event, InvokerLost):
        sessions.pop(event.invoker, None)
