"""A seed is a story: a small mesh, some requests, and what goes wrong for them.

Every seed draws which kinds of faults there are at all, so that some stories are about one thing
alone and others about everything at once. When a story is told, promises are checked after every
event and at the end; `Broken` says which one was not kept, and by which command to see it again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

import msgspec

from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.model import Application, Catalog
from esg.core.catalog.phases import TaskMode
from esg.core.durations import DurationSettings
from esg.core.messages.events import (
    EVENTS,
    ApplicationRegistered,
    ApplicationRetired,
    RequestArrived,
    RequestWanted,
    StageSpec,
)
from esg.core.policies.interface import Policy
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy_maker
from esg.core.pool.pool import Pool
from esg.core.scheduler.scheduler import Scheduler
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.sessions.settings import SessionSettings
from esg.units import ms, seconds
from tests.simulation.faults.fault_injection import Luck, Misfortune, Slowness
from tests.simulation.faults.mesh import SimulatedMesh
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
from tests.support.small_catalog import SMALL, in_phases

SPAN_US = ms(1500)
"""When the last request arrives, and the last fault begins."""

SESSIONS = SessionSettings()
"""As they are live, unless somebody sets them."""

HEAL_US = SPAN_US + 2 * SESSIONS.lost_after_us
"""When everything is mended that is still broken."""

POLICIES = ("esg", "infless", "fast-gshare", "apex")
DROPPING = replace(
    SMALL,
    applications={
        name: Application.of(
            name,
            application.stages.values(),
            slo_us=application.slo_us,
            late_requests=LateRequests.DROP if name in ("scan", "photo") else LateRequests.FINISH,
        )
        for name, application in SMALL.applications.items()
    },
)
"""The small catalog, with two applications that drop late requests."""

APPLICATIONS = (*SMALL.applications, "fresh")
CHAINS = (("resize",), ("detect", "label"), ("resize", "depth", "label"))
MEMORIES_MB = ((700, 700), (1000, 1000), (500, 500), (700,), (700, 1000, 500))


@dataclass(frozen=True, kw_only=True)
class Story:
    """Unless told otherwise, all goes well.

    Once nothing goes wrong any more, nobody waits for longer than `patience_us` beyond what all the
    work takes at most.
    """

    seed: int
    faults: tuple[Fault, ...]
    policy: str = "esg"
    engine: str = "frontier"
    catalog: Catalog = field(default=SMALL, repr=False)
    nodes: tuple[str, ...] = ("i0", "i1", "i2", "i3")
    vcpus: int = 4
    memories_mb: tuple[int, ...] = (700, 700)
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)
    luck: Luck = field(default_factory=Luck)
    durations: DurationSettings = field(default_factory=DurationSettings)
    latency_us: int = 0
    fragile: float = 0.0
    sync_us: int = 0
    snapshot_every: int = 1000
    charge_us_per_effort: int = 0
    patience_us: int = seconds(20)

    def mesh(self, observer: MeshObserver) -> SimulatedMesh:
        return SimulatedMesh(
            self.scheduler,
            self.pool,
            self.nodes,
            Misfortune(self.catalog, self.seed, self.luck, self.durations),
            observer=observer,
            seed=self.seed,
            latency_us=self.latency_us,
            fragile=self.fragile,
            sync_us=self.sync_us,
            snapshot_every=self.snapshot_every,
            charge_us=lambda command: command.decision.effort * self.charge_us_per_effort,
            sessions=SESSIONS,
        )

    def scheduler(self, snapshot: Any) -> Scheduler:
        policy_for, chosen = _policies(self.policy, self.engine, self.catalog)
        return Scheduler(
            self.catalog, chosen, self.settings, snapshot=snapshot, policy_for=policy_for
        )

    def pool(self, node: str) -> Pool:
        return Pool(self.catalog, node, vcpus=self.vcpus, memories_mb=self.memories_mb)

    @property
    def work_us(self) -> int:
        """All requests, as if each were for the longest application and no slice ever found the
        model there that it needs next, as on a single slice with room for one."""
        longest_us = max(
            sum(
                self.durations.unload_us + f.cold_start_us + f.profile.time_us_of(f.profile.minimum)
                for f in (stage.function for stage in application.stages.values())
            )
            for application in self.catalog.applications.values()
        )
        slices = len(self.nodes) * len(self.memories_mb)
        return len(self.requests()) * longest_us // slices

    def requests(self, gateway: str = "") -> set[str]:
        """All that are asked for; of one gateway, those that come through it."""
        return {
            fault.event.request
            for fault in self.faults
            if isinstance(fault, RequestComes) and gateway in ("", fault.gateway)
        }


@cache
def _policies(
    name: str, engine: str, catalog: Catalog
) -> tuple[Callable[[Catalog], Policy], Policy]:
    """How to make a policy for any catalog, and the one for this; engines are dear to build."""
    policy_for = policy_maker(name, PolicySettings(engine=engine))
    return policy_for, policy_for(catalog)


@cache
def _phased(catalog: Catalog) -> Catalog:
    return in_phases(catalog)


def draw(seed: int, policy_name: str | None = None) -> Story:
    """The story of a seed; with a policy, the same one under that policy."""
    chance = Random(f"{seed}:story")
    chosen = chance.choice(POLICIES)
    nodes = tuple(f"i{n}" for n in range(chance.randint(1, 3)))
    memories_mb = chance.choice(MEMORIES_MB)
    teller = _Teller(chance, nodes, slices=len(memories_mb))
    story = Story(
        seed=seed,
        policy=policy_name or chosen,
        nodes=nodes,
        vcpus=chance.choice((2, 4, 8)),
        memories_mb=memories_mb,
        catalog=chance.choice((SMALL, DROPPING)),
        settings=teller.settings(),
        luck=teller.luck(),
        durations=DurationSettings(
            abort_us=chance.choice((0, ms(1), ms(50))),
            fetch_timeout_us=chance.choice((ms(1), ms(30))),
            unload_us=chance.choice((ms(1), ms(200))),
        ),
        faults=tuple(
            sorted([*_through_two_gateways(seed, teller.all()), *poison(seed)], key=_when)
        ),
        latency_us=chance.choice((0, ms(1), ms(5))),
        fragile=chance.choice((0.0, 0.0, 0.0, 0.3)),
        sync_us=chance.choice((0, 0, ms(1), ms(5))),
        snapshot_every=chance.choice((7, 50, 1000)),
        charge_us_per_effort=chance.choice((0, 0, 1, 100)),
    )
    if Random(f"{seed}:tasks").random() < 0.4:
        story = in_turn(story)
    roomy = Random(f"{seed}:room").random() < 0.25
    return with_room(story, policy_name or "apex") if roomy else story


def in_turn(story: Story) -> Story:
    """The same story, with tasks in phases."""
    settings = replace(story.settings, tasks=TaskMode.PHASED)
    return replace(story, catalog=_phased(story.catalog), settings=settings)


def with_room(story: Story, policy: str) -> Story:
    """The same story where nobody competes: requests for a chain have time, and slices room for all
    of its models. So nodes get standing orders, if the policy is one that gives any."""
    return replace(
        story,
        policy=policy,
        nodes=("i0", "i1", "i2"),
        vcpus=8,
        memories_mb=(1000,) * max(2, len(story.memories_mb)),
        faults=tuple(map(_for_the_chain, story.faults)),
    )


def _for_the_chain(fault: Fault) -> Fault:
    if not isinstance(fault, RequestComes):
        return fault
    event = msgspec.structs.replace(fault.event, application="photo", slo_us=ms(2000))
    return replace(fault, event=event)


def poison(seed: int) -> list[Fault]:
    """Events at which the scheduler fails: in some stories none, in others a few."""
    chance = Random(f"{seed}:poison")
    count = chance.randint(1, 4) if chance.random() < 0.35 else 0
    # Who asks for a request that is there would be refused alone, and not ask again: no story
    kinds = [kind.__name__ for kind in EVENTS if kind is not RequestWanted]
    return [
        EventPoisoned(at_us=chance.randrange(SPAN_US), kind=chance.choice(kinds))
        for _ in range(count)
    ]


def _when(fault: Fault) -> int:
    return fault.at_us


def _through_two_gateways(seed: int, faults: list[Fault]) -> list[Fault]:
    """In some stories, clients of another gateway ask for the same requests, and any may leave."""
    chance = Random(f"{seed}:gateways")
    if chance.random() < 0.5:
        return faults
    more: list[Fault] = []
    for index, fault in enumerate(faults):
        if isinstance(fault, GatewayLinkBreaks):
            faults[index] = replace(fault, gateway=chance.choice(("g0", "g1")))
        if not isinstance(fault, RequestComes):
            continue
        both = [fault]
        if chance.random() < 0.5:
            at_us, later = fault.at_us + chance.randrange(ms(50)), chance.random() < 0.3
            both.append(replace(fault, gateway="g1", at_us=at_us, later=later))
        more += both[1:]
        for comes in both:
            if chance.random() < 0.4:
                at_us = comes.at_us + chance.randrange(ms(200))
                name = comes.event.request
                more.append(ClientLeaves(at_us=at_us, request=name, gateway=comes.gateway))
    return faults + more


class _Teller:
    """Draws what happens."""

    def __init__(self, chance: Random, nodes: tuple[str, ...], slices: int) -> None:
        self._chance = chance
        self._nodes = nodes
        self._slices = slices

    def all(self) -> list[Fault]:
        kinds = (
            self._crashes,
            self._leaves,
            self._slice_failures,
            self._breaks,
            self._stalls,
            self._gateway_breaks,
            self._controller_crashes,
            self._clock_jumps,
            self._expiries,
            self._reports,
            self._changes,
        )
        faults = self._requests()
        for kind in kinds:
            if self._chance.random() < 0.35:
                for _ in range(self._chance.randint(1, 4)):
                    faults.append(kind())
        return faults

    def settings(self) -> SchedulerSettings:
        chance = self._chance
        return SchedulerSettings(
            max_attempts=chance.choice((1, 3, 3, 5)),
            prewarm=chance.random() < 0.8,
            follow_profiles=chance.random() < 0.5,
            max_wait_us=chance.choice((0, 0, ms(200))),
            max_waiting=chance.choice((0, 0, 2, 8)),
            max_waiting_in_all=chance.choice((0, 0, 6)),
            fair_quantum_us=chance.choice((0, ms(50), ms(1000))),
        )

    def luck(self) -> Luck:
        chance = self._chance
        slow = []
        if chance.random() < 0.3:
            begin_us = self._when()
            slow.append(
                Slowness(
                    invoker=self._node(),
                    from_us=begin_us,
                    until_us=begin_us + self._while(1000),
                    factor=chance.choice((2, 5, 20)),
                )
            )
        return Luck(
            task_failures=chance.choice((0.0, 0.0, 0.03, 0.15)),
            job_failures=chance.choice((0.0, 0.0, 0.0, 0.1)),
            load_failures=chance.choice((0.0, 0.0, 0.1, 0.4)),
            unloadable=chance.choice(((), (), (), (), (), ("label",), ("detect",))),
            slow=tuple(slow),
            invalid_inputs=chance.choice((0.0, 0.0, 0.0, 0.1)),
        )

    def _requests(self) -> list[Fault]:
        """Some come one by one, some in a burst, and some are cancelled a little later."""
        chance = self._chance
        names = [f"r{n}" for n in range(chance.choice((5, 15, 30)))]
        wanted = chance.sample(sorted(SMALL.applications), chance.randint(1, 3))
        wanted += ["fresh"] * (chance.random() < 0.2)
        clients = chance.choice((("",), ("alice", "bob"), ("", "alice", "bob", "carol")))
        cancelled = chance.choice((0.0, 0.1, 0.3))
        burst_us = self._when() if chance.random() < 0.3 else None
        faults: list[Fault] = []
        for name in names:
            at_us = burst_us if burst_us is not None and chance.random() < 0.7 else self._when()
            event = RequestArrived(
                request=name,
                application=chance.choice(wanted),
                slo_us=ms(2000) if chance.random() < 0.2 else None,
                all_stages=chance.random() < 0.1,
                client=chance.choice(clients),
            )
            faults.append(RequestComes(at_us=at_us, event=event))
            if chance.random() < cancelled:
                faults.append(Cancellation(at_us=at_us + self._while(400), request=name))
        return faults

    def _when(self) -> int:
        return self._chance.randrange(SPAN_US)

    def _while(self, at_most_ms: int) -> int:
        return self._chance.randrange(1, ms(at_most_ms))

    def _node(self) -> str:
        return self._chance.choice(self._nodes)

    def _crashes(self) -> Fault:
        noticed = self._chance.random() < 0.7
        return NodeCrashes(
            at_us=self._when(), node=self._node(), for_us=self._while(600), noticed=noticed
        )

    def _leaves(self) -> Fault:
        return NodeLeaves(
            at_us=self._when(),
            node=self._node(),
            after_us=self._while(300),
            for_us=self._while(300),
        )

    def _slice_failures(self) -> Fault:
        return SliceFails(
            at_us=self._when(),
            node=self._node(),
            slice=self._chance.randrange(self._slices),
            for_us=self._while(800),
        )

    def _breaks(self) -> Fault:
        """Some are back at once, some in time, some too late."""
        for_us = self._while(self._chance.choice((10, 1000, 2000)))
        return StreamBreaks(at_us=self._when(), node=self._node(), for_us=for_us)

    def _stalls(self) -> Fault:
        for_us = self._while(self._chance.choice((400, 8000)))
        return StreamStalls(at_us=self._when(), node=self._node(), for_us=for_us)

    def _gateway_breaks(self) -> Fault:
        return GatewayLinkBreaks(at_us=self._when(), for_us=self._while(400))

    def _controller_crashes(self) -> Fault:
        torn = min(1.0, 2 * self._chance.random())  # half the time the machine goes on
        return ControllerCrashes(at_us=self._when(), for_us=self._while(400), torn=torn)

    def _clock_jumps(self) -> Fault:
        return ClockJumps(at_us=self._when(), by_us=self._chance.randrange(-ms(500), ms(500)))

    def _expiries(self) -> Fault:
        return DataExpires(at_us=self._when())

    def _reports(self) -> Fault:
        return NodeReports(at_us=self._when(), node=self._node())

    def _changes(self) -> Fault:
        chance, at_us = self._chance, self._when()
        name = chance.choice(APPLICATIONS)
        if chance.random() < 0.3:
            return ApplicationChanges(at_us=at_us, event=ApplicationRetired(application=name))
        chain = chance.choice(CHAINS)
        stages = tuple(
            StageSpec(name=function, function=function, after=chain[:index][-1:])
            for index, function in enumerate(chain)
        )
        event = ApplicationRegistered(
            application=name, stages=stages, late_requests=chance.choice(tuple(LateRequests))
        )
        return ApplicationChanges(at_us=at_us, event=event)
