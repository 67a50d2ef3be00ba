"""The scheduler against a world that does anything, where slices are of different kinds.

Nodes come with any slices, and come back with others. What it says of each request is compared with
the profiles of the functions on the slices that there are.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from esg.core.catalog.model import Application
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.commands import RefuseApplication
from esg.core.messages.events import Correction, ProfilesCorrected
from esg.core.scheduler.settings import SchedulerSettings
from esg.units import PPM
from tests.property.test_scheduler_machine import (
    CHAINS,
    NAMES,
    NODES,
    VGPUS,
    Node,
    SchedulerMachine,
    fastest_us,
    nodes,
    policy_for,
)
from tests.support.desk import registered
from tests.support.small_catalog import CPU, KINDS, LARGE, MIXED, in_phases

PHASED = in_phases(MIXED)
ALL_KINDS = {"i0": (USUAL, LARGE), "i1": (LARGE, CPU), "i2": (USUAL, CPU)}
"""What the nodes have first, and last."""

layouts = st.sampled_from([(kind,) * VGPUS for kind in KINDS] + list(ALL_KINDS.values()))


class MixedMachine(SchedulerMachine):
    catalog, policy = MIXED, policy_for(MIXED)

    def __init__(self, settings: SchedulerSettings | None = None) -> None:
        self.layouts = dict(ALL_KINDS)
        super().__init__(settings)

    def new_node(self, name: str) -> Node:
        return Node(kinds=self.layouts[name])

    def kinds_here(self) -> set[str]:
        """Those of all slices; if there is none, those of the catalog's cluster."""
        return {kind for node in self.nodes.values() for kind in node.kinds} or set(KINDS)

    def is_possible(self, found: Application, slo_us: int) -> bool:
        here, known = self.kinds_here(), self.catalog.functions
        profiles = {f.name: known[f.name].profile for f in found.functions()}
        if any(here.isdisjoint(profile.kinds) for profile in profiles.values()):
            return False
        whole = found.with_profiles(lambda profile: profiles[profile.function].on_kinds(here))
        return slo_us >= fastest_us(whole)

    @rule(names=st.lists(nodes, min_size=1, unique=True), kinds=layouts)
    def slices_are_cut_anew(self, names: list[str], kinds: tuple[str, ...]) -> None:
        for name in names:
            self.layouts[name] = kinds
            self.join(name, self.new_node(name))

    @rule(kind=st.sampled_from(list(KINDS)))
    def all_slices_are_cut_alike(self, kind: str) -> None:
        self.slices_are_cut_anew(list(self.nodes), (kind,) * VGPUS)

    @rule(name=st.sampled_from(NAMES), chain=st.sampled_from(CHAINS), scale=st.sampled_from([1, 5]))
    def an_application_is_registered(self, name: str, chain: tuple[str, ...], scale: int) -> None:
        """If it can be in time on the slices that there are, or could run on none of them."""
        before = self.witness.scheduler.version(name)
        event = registered(name, *chain, slo_scale=float(scale))
        refused = [c for c in self.tell(event) if isinstance(c, RefuseApplication)]
        profiles = [self.catalog.functions[function].profile for function in chain]
        slo_us = scale * sum(profile.alone_us for profile in profiles)
        here = self.kinds_here()
        fastest_us = sum(profile.on_kinds(here).fastest_us for profile in profiles)
        assert bool(refused) == (slo_us < fastest_us)
        assert (self.witness.scheduler.version(name) > before) != bool(refused)

    @rule(
        functions=st.lists(st.sampled_from(sorted(MIXED.functions)), max_size=2, unique=True),
        pace_ppm=st.sampled_from([250_000, PPM, 1_700_000, 4_000_000]),
        kind=st.sampled_from(list(KINDS)),
    )
    def profiles_turn_out_to_be_wrong(
        self, functions: list[str], pace_ppm: int, kind: str = USUAL
    ) -> None:
        """On slices of a kind, of which nothing follows for others."""
        corrections = [
            Correction(function=f, batch=1, pace_ppm=pace_ppm, kind=kind) for f in functions
        ]
        self.tell(ProfilesCorrected(corrections=tuple(corrections)))
        planned = self.witness.scheduler.planned.functions
        for name in functions:
            profiled, now = self.catalog.functions[name].profile, planned[name].profile
            for config in now.configs:
                ppm = pace_ppm if config.kind == kind else PPM
                assert now.time_us_of(config) * PPM == profiled.time_us_of(config) * ppm

    def teardown(self) -> None:
        for name in NODES:
            self.layouts[name] = ALL_KINDS[name]
            if name in self.nodes and self.nodes[name].kinds != ALL_KINDS[name]:
                self.join(name, self.new_node(name))
        super().teardown()


class PhasedMixedMachine(MixedMachine):
    """The same, with tasks in phases."""

    catalog, policy = PHASED, policy_for(PHASED)

    def __init__(self) -> None:
        super().__init__(SchedulerSettings(tasks=TaskMode.PHASED))


TestMixedMachine = MixedMachine.TestCase
TestMixedMachine.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestPhasedMixedMachine = PhasedMixedMachine.TestCase
TestPhasedMixedMachine.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
