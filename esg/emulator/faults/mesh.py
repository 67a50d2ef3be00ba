"""A whole mesh in virtual time, in which things go wrong.

Clients ask, the controller journals and decides, nodes run, and every fault of `schedule` can be
visited upon them. When all faults are over (`heal`), everything that was asked for has to be
answered.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, assert_never

from esg.core.durations import Durations
from esg.core.messages.commands import Command, StartTask
from esg.core.messages.events import Event, InvokerLeaving, RequestCancelled
from esg.core.messages.node import SliceBack, SliceLost, TaskEnded
from esg.core.pool import Pool
from esg.core.scheduler.scheduler import Scheduler
from esg.emulator.faults.clients import Clients
from esg.emulator.faults.controller import Answer, Controller
from esg.emulator.faults.links import Links
from esg.emulator.faults.schedule import (
    ApplicationChanges,
    Cancellation,
    ClockJumps,
    ControllerCrashes,
    DataExpires,
    Fault,
    NodeCrashes,
    NodeLeaves,
    NodeReports,
    RequestComes,
    SliceFails,
    StreamBreaks,
    StreamStalls,
)
from esg.emulator.faults.storage import Storage
from esg.emulator.world import World
from esg.units import ms

Watch = Callable[[Scheduler, Event, list[Command]], None]


class SimulatedMesh:
    """`build` makes a scheduler from a snapshot, or a new one; `make_pool` a node's brain.

    `latency_us` is how long a message takes at most.
    """

    def __init__(
        self,
        build: Callable[[Any], Scheduler],
        make_pool: Callable[[str], Pool],
        nodes: Iterable[str],
        durations: Durations,
        *,
        watch: Watch,
        seed: int,
        latency_us: int = ms(2),
        sync_us: int = 0,
        snapshot_every: int = 1000,
        charge_us: Callable[[StartTask], int] = lambda _: 0,
    ) -> None:
        self._make_pool = make_pool
        self._chance = Random(f"{seed}:mesh")
        self._latency_us = latency_us
        self.controller = Controller(
            build,
            watch=watch,
            durable=self._durable,
            sync_us=sync_us,
            snapshot_every=snapshot_every,
        )
        self.storage = Storage()
        pools = {node: make_pool(node) for node in nodes}
        self.world = World(
            self.controller, pools, durations, outputs=self.storage, charge_us=charge_us
        )
        self.clients = Clients(self.world, self.controller)
        self.links = Links(
            self.world, self.controller, self.storage, latency_us=self._draw_latency_us
        )
        self.world.wire = self.links
        for node in pools:
            self.world.at(0, lambda node=node: self.links.attach(node))  # type: ignore[misc]

    def run(self, faults: Iterable[Fault], heal_us: int) -> None:
        """Until nothing happens any more. At `heal_us` all that is broken is mended."""
        for fault in faults:
            self.world.at(fault.at_us, lambda fault=fault: self._suffer(fault))  # type: ignore[misc]
        self.world.at(heal_us, self._heal)
        self.world.run()

    def _suffer(self, fault: Fault) -> None:
        world, links, now_us = self.world, self.links, self.world.now_us
        match fault:
            case RequestComes(event=event) | ApplicationChanges(event=event):
                self.clients.ask(event)
            case Cancellation(request=request):
                self.clients.ask(RequestCancelled(request=request))
            case NodeCrashes(node=node):
                self._end_process(node)
                world.at(now_us + fault.for_us, lambda: self._start_process(node))
            case NodeLeaves(node=node):
                if links.streams[node].joined:
                    world.tell(now_us, InvokerLeaving(invoker=node))
                world.at(now_us + fault.after_us, lambda: self._end_process(node))
                back_us = now_us + fault.after_us + fault.for_us
                world.at(back_us, lambda: self._start_process(node))
            case NodeReports(node=node):
                links.beat(node)
            case SliceFails():
                self._fail_slice(fault)
            case StreamBreaks(node=node):
                links.cut(node)
                world.at(now_us + fault.for_us, lambda: links.attach(node))
            case StreamStalls(node=node):
                links.stall(node, fault.for_us)
            case ControllerCrashes():
                self._crash_controller(fault)
            case ClockJumps(by_us=by_us):
                self.controller.skew_us += by_us
                world.look_again()
            case DataExpires():
                self.storage.expire()
            case _:
                assert_never(fault)

    def _heal(self) -> None:
        self._restart_controller()
        for node in self.links.streams:
            self._start_process(node)
            self.links.attach(node)

    def _end_process(self, node: str) -> None:
        if node in self.world.pools:
            self.world.stop(node)
            self.links.process_ended(node)

    def _start_process(self, node: str) -> None:
        if node not in self.world.pools:
            self.world.start(self._make_pool(node))
            self.links.attach(node)

    def _fail_slice(self, fault: SliceFails) -> None:
        world, node, index = self.world, fault.node, fault.slice
        pool = world.pools.get(node)
        if pool is None:
            return
        holder = pool.slices[index].holder
        world.to_pool(node, SliceLost(slice=index, reason="slice lost"))
        if holder in pool.running:
            world.to_pool(node, TaskEnded(task=holder, failure="slice lost"))

        def back() -> None:
            if world.pools.get(node) is pool:
                world.to_pool(node, SliceBack(slice=index))

        world.at(world.now_us + fault.for_us, back)

    def _crash_controller(self, fault: ControllerCrashes) -> None:
        if self.controller.scheduler is not None:
            self.controller.crash(fault.torn)
            self.links.cut_all()
            self.world.at(self.world.now_us + fault.for_us, self._restart_controller)

    def _restart_controller(self) -> None:
        if self.controller.scheduler is not None:
            return
        self.controller.restart()
        self.world.look_again()
        self.clients.ask_again()
        for node in self.controller.running.state.nodes:
            self.links.give_up_later(node)
        for node in self.world.pools:
            delay_us = self._chance.randrange(2 * self.links.rejoin_us)
            self.world.at(
                self.world.now_us + delay_us,
                lambda node=node: self.links.attach(node),  # type: ignore[misc]
            )

    def _durable(self, event: Event, answers: list[Answer]) -> None:
        self.clients.durable(event, answers)
        self.links.durable(event)

    def _draw_latency_us(self) -> int:
        return self._chance.randrange(self._latency_us + 1)
