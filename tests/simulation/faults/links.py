"""The streams between controller and nodes in virtual time: the network, not the protocol.

What is said on them, what is said again and who is given up is decided by the same two ends of a
session as live (`esg.core.sessions`). Here messages take time, arrive in the order in which they
were sent, are held up, and are lost with the stream that breaks. Either end notices a break a
little later, each in its own time; if a node's power fails, the controller's end never does.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from esg.core.journal.format import Memo
from esg.core.messages.commands import DiscardData, InvokerOrder
from esg.core.messages.events import Event, InvokerJoined, InvokerLost, InvokerNews
from esg.core.messages.node import ExecutionEnded
from esg.core.sessions.controller_end import (
    GivenUp,
    GreetingRefused,
    NodeSession,
    NodeSessions,
    session_memo,
)
from esg.core.sessions.node_end import NodeNote, NodeReporter
from esg.core.sessions.settings import SessionSettings
from esg.emulator.world import Action, World
from esg.errors import Bug
from esg.units import ms
from tests.simulation.faults.observer import MeshObserver
from tests.simulation.faults.storage import Storage

DISCARD_DELAY_US = ms(20)
"""Nobody waits for data to be discarded, so such an order waits for company."""

LOST_AGAIN_US = ms(1000)

MOST_ATTEMPTS = 200
"""Whoever has tried in vain so often to attach will never be let in."""

Tell = Callable[[Event, Memo | None, Action], None]
"""An event for the controller, its memo, and what to do when it is on disk."""


@dataclass(slots=True, eq=False)
class NodeStream:
    """One connection of a node to the controller, and what is under way on it."""

    node: str
    up: bool = True
    session: NodeSession | None = None  # once its greeting has been accepted, as this number
    number: int = 0
    to_controller: deque[Action] = field(default_factory=deque)
    to_node: deque[Action] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class NodeProcess:
    """What one process of a node has to say, and the stream that it has, if any."""

    reporter: NodeReporter
    stream: NodeStream | None = None
    attempts: int = 0


class Links:
    """A `World`'s wire. `latency_us` draws how long a message takes, and `is_fragile` whether a
    stream breaks as soon as it is made, before the node has heard that it is welcome."""

    def __init__(
        self,
        world: World,
        storage: Storage,
        tell: Tell,
        observer: MeshObserver,
        *,
        latency_us: Callable[[], int],
        is_fragile: Callable[[], bool],
        settings: SessionSettings,
    ) -> None:
        self._world = world
        self._storage = storage
        self._tell = tell
        self._observer = observer
        self._latency_us = latency_us
        self._is_fragile = is_fragile
        self._settings = settings
        self._processes: dict[str, NodeProcess] = {}
        self._processes_started = 0
        self._sessions: NodeSessions | None = None
        self._streams: dict[str, NodeStream] = {}  # at the controller's end
        self._cut_until_us: dict[str, int] = {}
        self._stalled_until_us: dict[str, int] = {}
        self._mended = False
        self._alarm_us: int | None = None

    # ---- processes

    def controller_started(self, sessions: Mapping[str, str]) -> None:
        """It knows these sessions from its journal."""
        self._sessions = NodeSessions("", self._settings)
        self._sessions.expect(self._world.now_us, sessions)
        self._watch()

    def controller_ended(self) -> None:
        self._sessions = self._alarm_us = None
        for process in self._processes.values():
            if process.stream is not None:
                self._break(process.stream)
        for stream in self._streams.values():
            stream.up = False  # also if the node's process has ended: nobody reads it any more
        self._streams.clear()

    def node_started(self, node: str) -> None:
        self._processes_started += 1
        reporter = NodeReporter(node, f"process {self._processes_started}", "")
        process = self._processes[node] = NodeProcess(reporter)
        self._attach(node, process)

    def leave(self, node: str) -> None:
        """A node wants no new work."""
        process = self._processes.get(node)
        if process is not None:
            self._say(process, process.reporter.leave())

    def node_ended(self, node: str, *, noticed: bool) -> None:
        """With it goes what it had to say. One that leaves has said it all; of one that crashes the
        system ends the stream, so that it is `noticed`, unless the power has failed."""
        process = self._processes.pop(node)
        self._storage.forget_node(node)
        stream = process.stream
        if stream is None:
            return
        if process.reporter.leaving:
            self._carry(stream, stream.to_controller, lambda: self._noticed(stream))
        else:
            stream.up = False
            if noticed:
                self._later(lambda: self._noticed(stream))

    # ---- the network

    def cut(self, node: str, for_us: int) -> None:
        """A node's stream breaks, and for a while it cannot make another one."""
        until_us = self._world.now_us + for_us
        self._cut_until_us[node] = max(until_us, self._cut_until_us.get(node, 0))
        process = self._processes.get(node)
        if process is not None and process.stream is not None:
            self._break(process.stream)

    def stall(self, node: str, for_us: int) -> None:
        """Nothing gets through for a while, and nobody is told."""
        until_us = self._world.now_us + for_us
        self._stalled_until_us[node] = max(until_us, self._stalled_until_us.get(node, 0))

    def mended(self) -> None:
        """Nothing will break any more. When all nodes are back there is nothing to watch for: the
        heartbeats and the watch for silence, which would go on for ever, end."""
        self._mended = True

    def _is_calm(self) -> bool:
        sessions = self._sessions
        return (
            self._mended
            and sessions is not None
            and all(sessions.reachable(node) for node in self._processes)
        )

    def _later(self, action: Action) -> None:
        self._world.at(self._world.now_us + self._latency_us(), action)

    def _carry(self, stream: NodeStream, way: deque[Action], arrival: Action) -> None:
        """Have something arrive at the other end, after whatever was sent there before."""
        if stream.up:
            way.append(arrival)
            self._later(lambda: self._arrive(stream, way))

    def _arrive(self, stream: NodeStream, way: deque[Action]) -> None:
        stalled_until_us = self._stalled_until_us.get(stream.node, 0)
        if not stream.up:
            return
        if self._world.now_us < stalled_until_us:
            self._world.at(stalled_until_us, lambda: self._arrive(stream, way))
        else:
            way.popleft()()

    def _break(self, stream: NodeStream) -> None:
        """Nothing arrives any more, and both ends will notice."""
        if stream.up:
            stream.up = False
            self._later(lambda: self._lost_stream(stream))
            self._later(lambda: self._noticed(stream))

    # ---- the controller's end

    def send(self, at_us: int, order: InvokerOrder) -> None:
        if not self.reachable(order.invoker):
            return
        stream = self._streams[order.invoker]
        if isinstance(order, DiscardData):
            at_us += DISCARD_DELAY_US
        self._world.at(at_us, lambda: self._leave(stream, order))

    def reachable(self, node: str) -> bool:
        return self._sessions is not None and self._sessions.reachable(node)

    def scheduled(self, inventory: InvokerJoined) -> None:
        """The scheduler has heard of a node's inventory, and that is on disk."""
        if self._sessions is not None:
            self._sessions.scheduled(inventory)

    def _leave(self, stream: NodeStream, order: InvokerOrder) -> None:
        if stream.session is not None:
            number = stream.session.durable_number
            self._carry(stream, stream.to_node, lambda: self._ordered(stream, number, order))

    def _greeted(self, stream: NodeStream, process: NodeProcess) -> None:
        if self._sessions is None:
            self._break(stream)
            return
        answer = self._sessions.greet(self._world.now_us, process.reporter.greeting)
        if isinstance(answer, GreetingRefused):
            self._break(stream)
            return
        self._close(stream.node)
        if answer.given_up is not None:
            self._lost(answer.given_up)
        stream.session, stream.number = answer.session, answer.stream
        self._streams[stream.node] = stream
        self._watch()
        afresh = answer.start_afresh
        self._carry(stream, stream.to_node, lambda: self._welcomed(stream, process, afresh))
        if self._is_fragile():
            self._break(stream)

    def _heard(self, stream: NodeStream, note: NodeNote) -> None:
        sessions, session, now_us = self._sessions, stream.session, self._world.now_us
        if sessions is None or session is None:
            return
        if sessions.hear(now_us, session, stream.number) and session.take(note.number, note.event):
            is_join = isinstance(note.event, InvokerJoined)
            memo = session_memo(session.session) if is_join else None
            self._tell(note.event, memo, lambda: session.acknowledge(note.number))

    def _noticed(self, stream: NodeStream) -> None:
        """That a stream has ended."""
        stream.up = False
        if self._sessions is not None and stream.session is not None:
            self._sessions.ended(self._world.now_us, stream.session, stream.number)
            self._watch()

    def _watch(self) -> None:
        """An alarm may be early: whoever has been heard of since it was set has more time."""
        wake_us = self._sessions.next_wake if self._sessions is not None else None
        if wake_us is not None and (self._alarm_us is None or wake_us < self._alarm_us):
            self._alarm_us = wake_us
            self._world.at(max(wake_us, self._world.now_us), lambda: self._wake(wake_us))

    def _wake(self, alarm_us: int) -> None:
        if alarm_us != self._alarm_us:
            return  # an earlier one was set since
        self._alarm_us = None
        if self._sessions is not None and not self._is_calm():
            for given_up in self._sessions.wake(self._world.now_us):
                self._lost(given_up)
            self._watch()

    def _lost(self, given_up: GivenUp) -> None:
        self._close(given_up.node)
        self._tell(InvokerLost(invoker=given_up.node), None, lambda: None)

    def put_aside(self, event: InvokerNews | InvokerLost) -> None:
        """The scheduler failed at it: a node's stream ends, and that a node is lost is said again,
        unless it is back."""
        if not isinstance(event, InvokerLost):
            stream = self._streams.pop(event.invoker, None)
            if stream is not None:
                self._noticed(stream)
                self._later(lambda: self._lost_stream(stream))
            return

        def again() -> None:
            if self._sessions is not None and self._sessions.of(event.invoker) is None:
                self._tell(InvokerLost(invoker=event.invoker), None, lambda: None)

        self._world.at(self._world.now_us + LOST_AGAIN_US, again)

    def _close(self, node: str) -> None:
        stream = self._streams.pop(node, None)
        if stream is not None:
            self._break(stream)

    # ---- a node's end

    def report(self, invoker: str, event: InvokerNews) -> None:
        process = self._processes[invoker]
        note = process.reporter.report(event)
        if note is not None:
            self._observer.said(invoker, event, numbered=True)
            self._say(process, note)

    def beat(self, node: str) -> None:
        """A node sends its inventory."""
        process = self._processes.get(node)
        if process is not None and process.reporter.joined:
            self._say_unnumbered(process, NodeNote(0, self._world.pools[node].report()))

    def _say_unnumbered(self, process: NodeProcess, note: NodeNote) -> None:
        self._observer.said(process.reporter.greeting.node, note.event, numbered=False)
        self._say(process, note)

    def _say(self, process: NodeProcess, note: NodeNote) -> None:
        stream = process.stream
        if stream is not None and process.reporter.joined:
            self._carry(stream, stream.to_controller, lambda: self._heard(stream, note))

    def _attach(self, node: str, process: NodeProcess) -> None:
        now_us, stalled_until_us = self._world.now_us, self._stalled_until_us.get(node, 0)
        if self._processes.get(node) is not process:
            return
        if now_us < stalled_until_us:
            self._world.at(stalled_until_us, lambda: self._attach(node, process))
        elif self._sessions is None or now_us < self._cut_until_us.get(node, 0):
            self._attach_later(node, process)
        else:
            stream = process.stream = NodeStream(node)
            self._carry(stream, stream.to_controller, lambda: self._greeted(stream, process))

    def _attach_later(self, node: str, process: NodeProcess) -> None:
        process.attempts += 1
        if process.attempts > MOST_ATTEMPTS:
            raise Bug(f"{node} is never let in")
        pause_us = process.reporter.ended()
        self._world.at(self._world.now_us + pause_us, lambda: self._attach(node, process))

    def _welcomed(self, stream: NodeStream, process: NodeProcess, start_afresh: bool) -> None:
        node, reporter = stream.node, process.reporter
        if self._processes.get(node) is not process:
            return
        if start_afresh:
            reporter.start_afresh()
            for task in list(self._world.pools[node].running):
                self._world.to_pool(node, ExecutionEnded(task=task, failure="given up"))
            self._storage.forget_node(node)
            self._observer.started_afresh(node)
        process.attempts = 0
        kept = self._storage.requests_of(node)
        for note in reporter.join(replace(self._world.pools[node].joined(), kept=kept)):
            if note.number:
                self._say(process, note)
            else:
                self._say_unnumbered(process, note)
        self._beat_later(stream)

    def _beat_later(self, stream: NodeStream) -> None:
        def beat() -> None:
            if stream.up and not self._is_calm():
                self.beat(stream.node)
                self._beat_later(stream)

        self._world.at(self._world.now_us + self._settings.heartbeat_us, beat)

    def _ordered(self, stream: NodeStream, acknowledged: int, order: InvokerOrder) -> None:
        process = self._processes.get(stream.node)
        if process is None or process.stream is not stream:
            return
        for note in process.reporter.acknowledged(acknowledged):
            self._observer.acknowledged(stream.node, note.event)
        self._world.deliver(order)

    def _lost_stream(self, stream: NodeStream) -> None:
        """The node notices that its stream has ended."""
        process = self._processes.get(stream.node)
        if process is not None and process.stream is stream:
            process.stream = None
            self._attach_later(stream.node, process)
