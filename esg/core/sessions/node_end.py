"""A node's end of its session with the controller: what it says, and what it says again.

Reports are numbered, and kept until the controller has acknowledged them: then they are in its
journal. Whenever the node joins, be it that a stream broke or that the controller was started anew,
it first says what was not acknowledged, and then its inventory. So no task that ended is missed,
and the controller takes no report twice.

A node that is told to start afresh stops every task and forgets its data and its reports. Nobody
waits for any of it, so it says nothing about that either.
"""

from collections import deque
from typing import NamedTuple

from esg.backoff import Backoff
from esg.core.messages.events import InvokerJoined, InvokerLeaving, InvokerNews
from esg.core.sessions.brought import NOTHING, Brought
from esg.core.sessions.controller_end import Greeting
from esg.units import ms

BACKOFF_US = Backoff(ms(50), ms(500))
"""Between attempts to attach."""


class NodeNote(NamedTuple):
    """Something a node says; reports have a number, the first of which is 1. That a task has
    finished may be said with what it `brought`."""

    number: int
    event: InvokerNews
    brought: Brought = NOTHING


class NodeReporter:
    """What one process of a node has to say, for as long as it lives."""

    def __init__(self, node: str, session: str, functions: str) -> None:
        self.greeting = Greeting(node, session, functions)
        self.joined = False
        """Whether there is a stream on which the node has joined."""
        self.leaving = False
        self._unacknowledged: deque[NodeNote] = deque()
        self._reported = 0
        self._silent = False
        self._retries = 0  # since it last joined

    @property
    def unacknowledged(self) -> tuple[NodeNote, ...]:
        """What the controller may not have in its journal."""
        return tuple(self._unacknowledged)

    def report(self, event: InvokerNews, brought: Brought = NOTHING) -> NodeNote | None:
        """Something has happened. None while nobody wants to know: the node starts afresh."""
        if self._silent:
            return None
        self._reported += 1
        note = NodeNote(self._reported, event, brought)
        self._unacknowledged.append(note)
        return note

    def acknowledged(self, number: int) -> list[NodeNote]:
        """The controller has all up to this one in its journal; returns what is now forgotten."""
        known = []
        while self._unacknowledged and self._unacknowledged[0].number <= number:
            known.append(self._unacknowledged.popleft())
        return known

    def start_afresh(self) -> None:
        """The controller has given this node up. Until it joins, it has nothing to say."""
        self._unacknowledged.clear()
        self._silent = True

    def join(self, inventory: InvokerJoined) -> list[NodeNote]:
        """What is to be said on a stream that was welcomed, in this order. What the controller may
        not know comes first: a task that ended is then not missed."""
        self.joined, self._silent = True, False
        self._retries = 0  # if this stream breaks, the controller waits for a moment
        leaving = [NodeNote(0, InvokerLeaving(invoker=inventory.invoker))] if self.leaving else []
        return [*self._unacknowledged, NodeNote(0, inventory), *leaving]

    def leave(self) -> NodeNote:
        """No new work, please; this is also said whenever it joins again before it has left."""
        self.leaving = True
        return NodeNote(0, InvokerLeaving(invoker=self.greeting.node))

    def ended(self) -> int:
        """The stream has ended, or there was none to be had; returns how long to wait until the
        next attempt."""
        self.joined = False
        self._retries += 1
        return BACKOFF_US.pause(self._retries - 1)
