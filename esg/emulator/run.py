"""One emulated run: build the brains of a scenario, let the world go, and report."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter, perf_counter_ns
from typing import Any, TextIO

from esg.core.catalog.model import Catalog
from esg.core.durations import Durations, DurationSettings
from esg.core.estimation.transfer import EMULATED_LOCAL, DataLink
from esg.core.journal.checksums import sealed_group, sealed_header
from esg.core.journal.format import JournalEntry, entry_line, header_line, orders_digest
from esg.core.messages.codec import Fingerprint
from esg.core.messages.commands import Command, StartTask
from esg.core.messages.events import Event, RequestArrived
from esg.core.messages.node import ModelLoaded
from esg.core.pool.pool import Pool
from esg.core.report import Report
from esg.core.scheduler.scheduler import Scheduler, build_scheduler
from esg.emulator.scenario import Scenario, applied, applied_to_events
from esg.emulator.world import World
from esg.errors import Bug
from esg.names import node_names
from esg.units import US_PER_MS, ms
from esg.workload.arrivals import Arrival

Progress = Callable[[int], None]


@dataclass(slots=True)
class Emulation:
    """What came of a run. `decision_ms` is what a decision was charged on average."""

    scenario: Scenario
    report: Report
    digest: str
    wall_s: float
    decision_ms: float

    def summary(self) -> dict[str, Any]:
        return {
            "policy": self.scenario.policy,
            **self.report.summary(),
            "decision_ms": self.decision_ms,
            "wall_s": self.wall_s,
            "digest": self.digest,
        }


def build_pools(catalog: Catalog, scenario: Scenario) -> dict[str, Pool]:
    """The nodes; with a warm start every model that fits is loaded on every slice."""
    pools: dict[str, Pool] = {}
    cluster = scenario.cluster
    for name, node in zip(node_names(cluster.nodes), cluster.each(), strict=True):
        memories_mb = catalog.memories_mb(node.slices)
        pool = pools[name] = Pool(
            catalog, name, vcpus=node.vcpus, memories_mb=memories_mb, kinds=node.slices
        )
        if scenario.warm_start:
            for index, part in enumerate(pool.slices):
                for function in catalog.functions.values():
                    fits = function.memory_mb <= part.memory_free_mb
                    if fits and part.kind in function.profile.kinds:
                        pool.handle(0, ModelLoaded(slice=index, function=function.name))
    return pools


def build_durations(catalog: Catalog, scenario: Scenario) -> Durations:
    local = replace(EMULATED_LOCAL, delay_us=ms(scenario.stage_delay_ms))
    remote = DataLink(
        delay_us=ms(scenario.remote_delay_ms), bytes_per_s=round(scenario.remote_mb_per_s * 1e6)
    )
    settings = DurationSettings(noise=scenario.noise, local=local, remote=remote)
    return Durations(catalog, scenario.seed, settings)


class _Charge:
    """Scheduling time, charged to each task before its invoker hears of it.

    To take it by the clock, it stands between the world and the scheduler.
    """

    def __init__(self, scheduler: Scheduler, scenario: Scenario) -> None:
        self._scheduler = scheduler
        modes = {"counted": self._counted, "measured": self._measured, "none": lambda _: 0}
        self.charge_us: Callable[[StartTask], int] = modes[scenario.overhead]
        self._nodes_per_ms = scenario.search_steps_per_ms or scheduler.policy.search_steps_per_ms
        self._measured_us = 0
        self.total_us = 0

    def handle(self, now_us: int, event: Event) -> list[Command]:
        began = perf_counter_ns()
        commands = self._scheduler.handle(now_us, event)
        started = sum(isinstance(command, StartTask) for command in commands)
        self._measured_us = (perf_counter_ns() - began) // 1000 // max(1, started)
        return commands

    @property
    def next_wake(self) -> int | None:
        return self._scheduler.next_wake

    def _counted(self, command: StartTask) -> int:
        # rounded up: no decision is free, and an instant lasts a microsecond here
        charge_us = -(-command.decision.effort * US_PER_MS // self._nodes_per_ms)
        self.total_us += charge_us
        return charge_us

    def _measured(self, command: StartTask) -> int:
        self.total_us += self._measured_us
        return self._measured_us


def requests(arrivals: Iterable[Arrival]) -> Iterator[tuple[int, Event]]:
    """Arrivals as events, with names by their order."""
    for number, arrival in enumerate(arrivals, 1):
        name = f"r{number}"
        yield arrival.at_us, RequestArrived(request=name, application=arrival.application)


def emulate(
    catalog: Catalog,
    scenario: Scenario,
    arrivals: Iterable[tuple[int, Event]],
    *,
    pools: dict[str, Pool] | None = None,
    durations: Durations | None = None,
    journal: TextIO | None = None,
    observe: Callable[[int, Event, list[Command]], None] | None = None,
    progress: Progress | None = None,
) -> Emulation:
    """Run a scenario to its end. Arrivals come in order of time; `progress` hears their count.

    Nodes and durations are the scenario's, unless others are given.
    """
    arrivals = applied_to_events(arrivals, catalog, scenario)
    catalog = applied(catalog, scenario)
    scheduler = build_scheduler(catalog, scenario)
    charge = _Charge(scheduler, scenario)
    pools = build_pools(catalog, scenario) if pools is None else pools
    report = Report()
    content_hash = Fingerprint()
    check = 0
    if journal is not None:
        line, check = sealed_header(header_line(scenario.header(catalog)))
        journal.write(line.decode())

    def watch(now_us: int, event: Event, commands: list[Command]) -> None:
        nonlocal check
        report.observe(now_us, event, commands)
        content_hash.add(commands)
        if journal is not None:
            entry = JournalEntry(now_us, event, orders_digest(commands))
            line, check = sealed_group([entry_line(entry)], check)
            journal.write(line.decode())
        if observe is not None:
            observe(now_us, event, commands)
        if progress is not None and isinstance(event, RequestArrived):
            progress(1)

    durations = build_durations(catalog, scenario) if durations is None else durations
    brain = charge if scenario.overhead == "measured" else scheduler
    world = World(brain, pools, durations, charge_us=charge.charge_us, observe=watch)
    for pool in pools.values():
        world.tell(0, pool.joined())
    began = perf_counter()
    world.run(arrivals)
    wall_s = perf_counter() - began
    _check_the_end(scheduler, pools, report)
    decision_ms = charge.total_us / US_PER_MS / max(1, report.tasks)
    return Emulation(scenario, report, content_hash.hexdigest(), wall_s, decision_ms)


def _check_the_end(scheduler: Scheduler, pools: dict[str, Pool], report: Report) -> None:
    """When nothing happens any more, everything was given back and everyone was answered."""
    state = scheduler.state
    ended = report.served.ended
    if ended != report.arrived or state.requests:
        raise Bug(f"{report.arrived} requests came, {ended} have ended: the rest is lost")
    if state.tasks:
        raise Bug(f"{next(iter(state.tasks))} never ended")
    for node in state.nodes.values():
        pool = pools[node.invoker]
        if (
            node.vcpus_free != node.vcpus
            or node.vgpus_free != len(node.slices)
            or any(part.holder for part in node.slices)
            or pool.vcpus_free != pool.vcpus
            or any(part.holder or part.wanted for part in pool.slices)
            or pool.running
        ):
            raise Bug(f"{node.invoker} still holds something at the end")
