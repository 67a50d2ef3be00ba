"""A whole mesh in virtual time, in which things go wrong.

Clients ask, the controller journals and decides, nodes run, and every fault of `schedule` can be
visited upon them. When all faults are over (`heal`), everything that was asked for has to be
answered.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, assert_never

from esg.core.durations import Durations
from esg.core.journal.format import Memo
from esg.core.messages.commands import Command, StartTask, invoker_order
from esg.core.messages.events import Event, InvokerJoined, InvokerLost, InvokerNews
from esg.core.messages.node import ExecutionEnded, SliceBack, SliceLost
from esg.core.pool.pool import Pool
from esg.core.scheduler.scheduler import Scheduler
from esg.core.sessions.settings import SessionSettings
from esg.emulator.world import Action, World
from esg.units import ms
from tests.simulation.faults.clients import Clients
from tests.simulation.faults.controller import Controller
from tests.simulation.faults.links import Links
from tests.simulation.faults.observer import MeshObserver
from tests.simulation.faults.schedule import (
    ApplicationChanges,
    Cancellation,
    ClientLeaves,
    ClockJumps,
    ControllerCrashes,
    DataExpires,
    EventPoisoned,
    Fault,
    GatewayLinkBreaks,
    NodeCrashes,
    NodeLeaves,
    NodeReports,
    RequestComes,
    SliceFails,
    StreamBreaks,
    StreamStalls,
)
from tests.simulation.faults.storage import Storage

DEFAULT_SESSIONS = SessionSettings()


class SimulatedMesh:
    """`build` makes a scheduler from a snapshot, or a new one; `make_pool` the brain of a node in a
    life of it, counted from 0. Its slices may be of other kinds in another life, but when all is
    mended, they are as they were at first.

    `latency_us` is how long a message takes at most, and `fragile` the share of the nodes' streams
    that break as soon as they are made, until all is mended.
    """

    def __init__(
        self,
        build: Callable[[Any], Scheduler],
        make_pool: Callable[[str, int], Pool],
        nodes: Iterable[str],
        durations: Durations,
        *,
        observer: MeshObserver,
        seed: int,
        latency_us: int = ms(2),
        fragile: float = 0.0,
        sync_us: int = 0,
        snapshot_every: int = 1000,
        charge_us: Callable[[StartTask], int] = lambda _: 0,
        sessions: SessionSettings = DEFAULT_SESSIONS,
    ) -> None:
        self._make_pool = make_pool
        self._nodes = tuple(nodes)
        self._mended = False
        self._chance = Random(f"{seed}:mesh")
        self.controller = Controller(
            build,
            observer=observer,
            perform=self._perform,
            commit=self._commit,
            refused=self._put_aside,
            sync_us=sync_us,
            snapshot_every=snapshot_every,
        )
        self.storage = Storage()
        self._lives = dict.fromkeys(self._nodes, 0)
        pools = {node: make_pool(node, 0) for node in self._nodes}
        self.world = World(
            self.controller, pools, durations, outputs=self.storage, charge_us=charge_us
        )
        self.clients = Clients(self.world, self.controller)
        self.links = Links(
            self.world,
            self.storage,
            self._tell,
            observer,
            latency_us=lambda: self._chance.randrange(latency_us + 1),
            is_fragile=lambda: not self._mended and self._chance.random() < fragile,
            settings=sessions,
        )
        self.world.wire = self.links
        self.links.controller_started({})
        for node in pools:
            self.links.node_started(node)

    def run(self, faults: Iterable[Fault], heal_us: int) -> None:
        """Until nothing happens any more. At `heal_us` all that is broken is mended."""
        for fault in faults:
            self.world.at(fault.at_us, lambda fault=fault: self._suffer(fault))  # type: ignore[misc]
        self.world.at(heal_us, self._heal)
        self.world.run()

    def _suffer(self, fault: Fault) -> None:
        world, links, now_us = self.world, self.links, self.world.now_us
        match fault:
            case RequestComes(gateway=gateway, event=event):
                self.clients.gateways[gateway].submit(event, later=fault.later)
            case ClientLeaves(gateway=gateway, request=request):
                self.clients.gateways[gateway].leave(request)
            case ApplicationChanges(event=change):
                self.clients.change(change)
            case Cancellation(request=request):
                self.clients.gateways["g0"].cancel(request)
            case NodeCrashes(node=node):
                self._end_process(node, noticed=fault.noticed)
                world.at(now_us + fault.for_us, lambda: self._start_process(node))
            case NodeLeaves(node=node):
                links.leave(node)
                world.at(now_us + fault.after_us, lambda: self._end_process(node))
                back_us = now_us + fault.after_us + fault.for_us
                world.at(back_us, lambda: self._start_process(node))
            case NodeReports(node=node):
                links.beat(node)
            case SliceFails():
                self._fail_slice(fault)
            case StreamBreaks(node=node):
                links.cut(node, fault.for_us)
            case StreamStalls(node=node):
                links.stall(node, fault.for_us)
            case GatewayLinkBreaks():
                self.clients.gateways[fault.gateway].cut(fault.for_us)
            case ControllerCrashes():
                self._crash_controller(fault)
            case ClockJumps(by_us=by_us):
                self.controller.skew_us += by_us
                world.look_again()
            case DataExpires():
                self.storage.expire()
            case EventPoisoned(kind=kind):
                self.controller.poisoned.append(kind)
            case _:
                assert_never(fault)

    def _heal(self) -> None:
        self._mended = True
        self.controller.poisoned.clear()
        self._restart_controller()
        for node in self._nodes:
            if node in self.world.pools and self._has_other_kinds(node):
                self._end_process(node)
            self._start_process(node)
        self.links.mended()

    def _has_other_kinds(self, node: str) -> bool:
        first = self._make_pool(node, 0)
        return [p.kind for p in self.world.pools[node].slices] != [p.kind for p in first.slices]

    def _end_process(self, node: str, *, noticed: bool = True) -> None:
        if node in self.world.pools:
            self.world.stop(node)
            self.links.node_ended(node, noticed=noticed)

    def _start_process(self, node: str) -> None:
        if node not in self.world.pools:
            self._lives[node] = 0 if self._mended else self._lives[node] + 1
            self.world.start(self._make_pool(node, self._lives[node]))
            self.links.node_started(node)

    def _fail_slice(self, fault: SliceFails) -> None:
        world, node, index = self.world, fault.node, fault.slice
        pool = world.pools.get(node)
        if pool is None:
            return
        holder = pool.slices[index].holder
        world.to_pool(node, SliceLost(slice=index, reason="slice lost"))
        if holder in pool.running:
            world.to_pool(node, ExecutionEnded(task=holder, failure="slice lost"))

        def back() -> None:
            if world.pools.get(node) is pool:
                world.to_pool(node, SliceBack(slice=index))

        world.at(world.now_us + fault.for_us, back)

    def _crash_controller(self, fault: ControllerCrashes) -> None:
        if self.controller.scheduler is not None:
            self.controller.crash(fault.torn)
            self.links.controller_ended()
            self.clients.controller_ended()
            self.world.at(self.world.now_us + fault.for_us, self._restart_controller)

    def _restart_controller(self) -> None:
        if self.controller.scheduler is not None:
            return
        self.controller.restart()
        self.world.look_again()
        self.links.controller_started(self.controller.sessions)
        self.clients.controller_started()

    def _tell(self, event: Event, memo: Memo | None, then: Action) -> None:
        self.controller.tell(event, memo, then)
        self.world.tell(self.world.now_us, event)

    def _perform(self, event: Event, commands: list[Command]) -> list[Command]:
        """An event is written: as live, its orders go to those who are there at that time."""
        if isinstance(event, InvokerJoined):
            self.links.scheduled(event)
        self.clients.hear(commands)
        return [command for command in commands if self._can_leave(command)]

    def _commit(self, event: Event, commands: list[Command]) -> list[Command]:
        """An event is on disk, and these are the orders that waited for that."""
        self.clients.on_disk(event)
        self.clients.hear(commands)
        return [command for command in commands if self._can_leave(command)]

    def _put_aside(self, event: Event) -> None:
        if isinstance(event, InvokerNews | InvokerLost):
            self.links.put_aside(event)
        else:
            self.clients.put_aside(event)

    def _can_leave(self, command: Command) -> bool:
        order = invoker_order(command)
        return order is None or self.links.reachable(order.invoker)
