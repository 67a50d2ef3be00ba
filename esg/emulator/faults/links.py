"""The streams between controller and nodes, one for each, as they are live.

Within a stream messages arrive in the order they were sent; what is under way when it breaks is
lost. A node keeps its news until the controller has them on disk, and says the rest again on its
next stream, before it joins with what it has and runs; so news may come twice. Orders that are
decided while a node is away are not kept for it.

A node whose stream broke has `rejoin_us` to come back. After that, or after a silence of
`lost_after_us`, it is lost, and should it come back it must start afresh: stop every task and
forget all data. The same holds for a process that was started again.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from esg.core.messages.commands import DiscardData, InvokerOrder
from esg.core.messages.events import Event, InvokerJoined, InvokerLost
from esg.core.messages.node import TaskEnded
from esg.emulator.faults.controller import Controller
from esg.emulator.faults.storage import Storage
from esg.emulator.world import World
from esg.units import ms


@dataclass(slots=True)
class NodeStream:
    """A node's stream, if it is up, and what both ends remember beyond it."""

    number: int = 0
    up: bool = False
    joined: bool = False  # the controller has heard, so orders may be sent
    known: bool = False  # the controller remembers this process
    silent: bool = False  # a node that starts afresh says nothing about it
    stalled_until_us: int = 0
    orders: deque[InvokerOrder] = field(default_factory=deque)
    news: deque[Event] = field(default_factory=deque)
    unacknowledged: list[Event] = field(default_factory=list)


class Links:
    """A `World`'s wire. `latency_us` draws how long a message takes."""

    def __init__(
        self,
        world: World,
        controller: Controller,
        storage: Storage,
        *,
        latency_us: Callable[[], int] = lambda: 0,
        rejoin_us: int = ms(100),
        lost_after_us: int = ms(200),
        discard_delay_us: int = ms(20),
    ) -> None:
        self.streams = {invoker: NodeStream() for invoker in world.pools}
        self.rejoin_us = rejoin_us
        self.lost_after_us = lost_after_us
        self._world = world
        self._controller = controller
        self._storage = storage
        self._latency_us = latency_us
        self._discard_delay_us = discard_delay_us

    # ---- messages

    def send(self, at_us: int, order: InvokerOrder) -> None:
        stream = self.streams[order.invoker]
        number = stream.number
        if not stream.up or not stream.joined:
            return
        if isinstance(order, DiscardData):  # nobody waits for it, so it waits for company
            later_us = at_us + self._discard_delay_us
            self._world.at(later_us, lambda: self._discard(stream, number, order))
        else:
            stream.orders.append(order)
            at_us += self._latency_us()
            self._world.at(at_us, lambda: self._next_order(stream, number))

    def report(self, invoker: str, event: Event) -> None:
        stream = self.streams[invoker]
        if not stream.silent:
            stream.unacknowledged.append(event)
            self._say(stream, event)

    def beat(self, invoker: str) -> None:
        """A node's inventory, as it sends it from time to time."""
        stream = self.streams[invoker]
        if stream.joined and invoker in self._world.pools:
            self._say(stream, self._world.pools[invoker].report())

    def durable(self, event: Event) -> None:
        """The controller has this event on disk. It tells the node so, if there is a stream."""
        invoker = getattr(event, "invoker", "")
        stream = self.streams.get(invoker)
        if stream is None or not stream.up:
            return
        if isinstance(event, InvokerJoined):
            stream.joined = True
        number = stream.number
        self._world.at(
            self._world.now_us + self._latency_us(),
            lambda: self._acknowledge(stream, number, event),
        )

    def _say(self, stream: NodeStream, event: Event) -> None:
        if stream.up:
            number = stream.number
            stream.news.append(event)
            at_us = self._world.now_us + self._latency_us()
            self._world.at(at_us, lambda: self._next_news(stream, number))

    def _next_order(self, stream: NodeStream, number: int) -> None:
        """One message is due: the next one, so that none overtakes another."""
        if number != stream.number:
            return
        if self._world.now_us < stream.stalled_until_us:
            self._world.at(stream.stalled_until_us, lambda: self._next_order(stream, number))
        else:
            self._world.deliver(stream.orders.popleft())

    def _next_news(self, stream: NodeStream, number: int) -> None:
        if number != stream.number:
            return
        if self._world.now_us < stream.stalled_until_us:
            self._world.at(stream.stalled_until_us, lambda: self._next_news(stream, number))
        else:
            self._world.tell(self._world.now_us, stream.news.popleft())

    def _discard(self, stream: NodeStream, number: int, order: DiscardData) -> None:
        if number == stream.number:
            self._world.deliver(order)

    def _acknowledge(self, stream: NodeStream, number: int, event: Event) -> None:
        if number == stream.number:
            stream.unacknowledged = [kept for kept in stream.unacknowledged if kept is not event]

    # ---- streams

    def attach(self, invoker: str) -> None:
        """A node makes a stream, if somebody listens and there is none."""
        stream, pool = self.streams[invoker], self._world.pools.get(invoker)
        if pool is None or stream.up or self._controller.scheduler is None:
            return
        self._break(stream)
        if not stream.known:
            self._world.tell(self._world.now_us, InvokerLost(invoker=invoker))
            self._start_afresh(invoker)
            stream.known = True
        stream.up = True
        for event in stream.unacknowledged:
            self._say(stream, event)
        self._say(stream, replace(pool.joined(), kept=self._storage.requests_of(invoker)))

    def cut(self, invoker: str) -> None:
        """The stream breaks. Both ends notice; the controller waits for a moment."""
        stream = self.streams[invoker]
        self._break(stream)
        self.give_up_later(invoker)

    def cut_all(self) -> None:
        """The controller's process is gone; nobody waits for anyone."""
        for stream in self.streams.values():
            self._break(stream)

    def stall(self, invoker: str, for_us: int) -> None:
        """Nothing gets through for a while, and nobody is told. The node notices afterwards that
        it was given up, if it was."""
        stream = self.streams[invoker]
        now_us, number = self._world.now_us, stream.number
        stream.stalled_until_us = max(stream.stalled_until_us, now_us + for_us)
        if for_us > self.lost_after_us:
            self._world.at(
                now_us + self.lost_after_us, lambda: self._give_up(invoker, stream, number)
            )
        self._world.at(now_us + for_us, lambda: self.attach(invoker))

    def process_ended(self, invoker: str) -> None:
        """With it goes what it had to say, and whoever comes next is somebody else."""
        stream = self.streams[invoker]
        self.cut(invoker)
        stream.known = False
        stream.unacknowledged.clear()
        self._storage.forget_node(invoker)

    def give_up_later(self, invoker: str) -> None:
        """A node that the controller knows, and that is not there, has a moment to come back."""
        stream = self.streams[invoker]
        number = stream.number
        self._world.at(
            self._world.now_us + self.rejoin_us, lambda: self._give_up(invoker, stream, number)
        )

    def _give_up(self, invoker: str, stream: NodeStream, number: int) -> None:
        if number == stream.number and self._controller.scheduler is not None:
            self._break(stream)
            stream.known = False
            self._world.tell(self._world.now_us, InvokerLost(invoker=invoker))

    def _break(self, stream: NodeStream) -> None:
        stream.number += 1
        stream.up = stream.joined = False
        stream.orders.clear()
        stream.news.clear()

    def _start_afresh(self, invoker: str) -> None:
        stream = self.streams[invoker]
        stream.unacknowledged.clear()
        stream.silent = True
        for task in list(self._world.pools[invoker].running):
            self._world.to_pool(invoker, TaskEnded(task=task, failure="given up"))
        stream.silent = False
        self._storage.forget_node(invoker)
