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
from esg.core.catalog.model import Application, Catalog, Function
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.slice_kinds import USUAL
from esg.core.durations import DurationSettings
from esg.core.policies.interface import Policy
from esg.core.policies.settings import PolicySettings
from esg.core.policies.table import policy_maker
from esg.core.pool.pool import Pool
from esg.core.scheduler.scheduler import Scheduler
from esg.core.scheduler.settings import SchedulerSettings
from esg.core.sessions.settings import SessionSettings
from esg.units import ms, seconds
from tests.simulation.faults.fault_injection import Luck, Misfortune
from tests.simulation.faults.mesh import SimulatedMesh
from tests.simulation.faults.observer import MeshObserver
from tests.simulation.faults.schedule import (
    Fault,
    RequestComes,
)
from tests.simulation.teller import SPAN_US, Teller, poison, through_two_gateways
from tests.support.small_catalog import CPU, LARGE, MIXED, SMALL, in_phases, with_slices

SESSIONS = SessionSettings()
"""As they are live, unless somebody sets them."""

HEAL_US = SPAN_US + 2 * SESSIONS.lost_after_us
"""When everything is mended that is still broken."""

POLICIES = ("esg", "infless", "fast-gshare", "apex")


def _dropping(catalog: Catalog) -> Catalog:
    """The same catalog, with two applications that drop late requests."""
    applications = {
        name: Application.of(
            name,
            application.stages.values(),
            slo_us=application.slo_us,
            late_requests=LateRequests.DROP if name in ("scan", "photo") else LateRequests.FINISH,
        )
        for name, application in catalog.applications.items()
    }
    return replace(catalog, applications=applications)


DROPPING = _dropping(SMALL)

MEMORIES_MB = ((700, 700), (1000, 1000), (500, 500), (700,), (700, 1000, 500))

Kinds = tuple[str, ...]
"""Of the slices of a node."""


@dataclass(frozen=True, kw_only=True)
class Story:
    """Unless told otherwise, all goes well.

    `kinds` says of which kinds the slices of each node are; all are usual ones if it is empty. What
    starts in the place of a node has the slices of another one, until all is mended.

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
    kinds: tuple[Kinds, ...] = ()
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

    def pool(self, node: str, life: int) -> Pool:
        kinds = self._kinds_of(self.nodes.index(node) + life)
        return Pool(self.catalog, node, vcpus=self.vcpus, memories_mb=self.memories_mb, kinds=kinds)

    def _kinds_of(self, number: int) -> Kinds:
        if self.kinds:
            return self.kinds[number % len(self.kinds)]
        return (USUAL,) * len(self.memories_mb)

    @property
    def work_us(self) -> int:
        """All requests, as if each were for the longest application and no slice ever found the
        model there that it needs next, as on a single slice with room for one; where slices are of
        different kinds, as if there were no more than one for each."""
        longest_us = max(
            sum(self._at_most_us(stage.function) for stage in application.stages.values())
            for application in self.catalog.applications.values()
        )
        slices = 1 if self.kinds else len(self.nodes) * len(self.memories_mb)
        return len(self.requests()) * longest_us // slices

    def _at_most_us(self, function: Function) -> int:
        profile = function.profile
        slowest_us = max(profile.time_us_of(profile.minimum_of(kind)) for kind in profile.kinds)
        return self.durations.unload_us + function.cold_start_us + slowest_us

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
    teller = Teller(chance, nodes, slices=len(memories_mb))
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
        faults=tuple(sorted([*through_two_gateways(seed, teller.all()), *poison(seed)], key=_when)),
        latency_us=chance.choice((0, ms(1), ms(5))),
        fragile=chance.choice((0.0, 0.0, 0.0, 0.3)),
        sync_us=chance.choice((0, 0, ms(1), ms(5))),
        snapshot_every=chance.choice((7, 50, 1000)),
        charge_us_per_effort=chance.choice((0, 0, 1, 100)),
    )
    if Random(f"{seed}:tasks").random() < 0.4:
        story = in_turn(story)
    if Random(f"{seed}:room").random() < 0.25:
        story = with_room(story, policy_name or "apex")
    return of_kinds(story) if Random(f"{seed}:kinds").random() < 0.3 else story


def in_turn(story: Story) -> Story:
    """The same story, with tasks in phases."""
    settings = replace(story.settings, tasks=TaskMode.PHASED)
    return replace(story, catalog=_phased(story.catalog), settings=settings)


def of_kinds(story: Story) -> Story:
    """The same story, with slices of different kinds. What no kind that is there can run is asked
    for in vain."""
    chance = Random(f"{story.seed}:layouts")
    here = chance.choice(((USUAL, LARGE), (USUAL, LARGE), (USUAL, LARGE, CPU), (LARGE,), (CPU,)))
    kinds = tuple(tuple(chance.choice(here) for _ in story.memories_mb) for _ in story.nodes)
    late = story.catalog.applications["scan"].late_requests
    catalog = _mixed(tuple(sorted({k for each in kinds for k in each})), story.settings.tasks, late)
    return replace(story, kinds=kinds, catalog=catalog)


@cache
def _mixed(kinds: Kinds, tasks: TaskMode, late: LateRequests) -> Catalog:
    catalog = with_slices(MIXED, kinds)
    catalog = in_phases(catalog) if tasks is TaskMode.PHASED else catalog
    return _dropping(catalog) if late is LateRequests.DROP else catalog


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


def _when(fault: Fault) -> int:
    return fault.at_us
