"""The cheapest fleet on which a policy keeps enough deadlines: bounds first, then emulation.

No policy comes up to the bound, and how far it stays below depends on the fleet. So there are
several approaches (see `Approach`): layouts to choose from, and how much of the deadline plans may
use up. Each makes a ladder of fleets, which have more and more room: the cheapest that could carry
the load with so much to spare. On every ladder the lowest rung that holds is looked for, by
bisection, below what the others have found; and what was found is then trimmed, a node or some
vCPUs at a time, as long as it holds.

A fleet holds if enough requests are in time, as a mean over seeds. Since the cheapest of many is
also the luckiest, it is run again with other seeds, and only if it holds there, too, it is the
answer; else it is refuted, and the next one is looked at.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.model import Application, Catalog
from esg.core.catalog.on_kinds import OnKinds
from esg.core.catalog.slice_kinds import NodeClass
from esg.emulator.scenario import Scenario, applied, sized
from esg.emulator.sizing.cheapest_fleet import Fleet, FleetPlanner, Kinds, NodeShape, Room
from esg.emulator.sizing.fluid_bound import FluidModel
from esg.emulator.sweep import Estimate, RunOutcome, Source, SweepRun, run_job, sweep
from esg.errors import Rejected
from esg.units import to_ms

STEP = 1.06
"""From one rung of a ladder to the next."""
FIRST_RUNG, GALLOP = 4, 6
LAST_RUNG = 44
"""With 13 times what the fluid needs: enough for bursts."""

MORE_VCPUS = 1.25
"""vCPUs are cheap beside GPUs: a little more room than of slices."""
HURRY = 0.8
"""The share of a deadline that hurried plans take: the rest is for waiting."""

FEWER_VCPUS, FEWER_NODES, INSTEAD = 0.85, 0.96, 1.4
"""Trimming: how many vCPUs, or nodes, are left, and what vCPUs a node then has instead."""
MOST_TRIMS = 8
MOST_CONFIRMATIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeQuestion:
    """What is asked: which fleet of such nodes keeps a share of deadlines under this load?

    `mix` has the applications that come by their weights, `layouts` are those that GPUs can have.
    """

    catalog: Catalog
    scenario: Scenario
    shape: NodeShape
    layouts: tuple[Kinds, ...]
    per_s: float
    mix: Mapping[str, float]
    load: Source
    target: float
    seeds: Sequence[int]
    other_seeds: Sequence[int]

    def on(self, cluster: Cluster) -> Scenario:
        """The scenario on another cluster."""
        return replace(self.scenario, **{"classes": (), **sized(cluster)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Approach:
    """A way to choose fleets: by name, with the layouts that it takes and its planner."""

    name: str
    layouts: tuple[Kinds, ...]
    planner: FleetPlanner

    def rung(self, number: int) -> Fleet | None:
        room = STEP**number
        return self.planner.cheapest(self.layouts, Room(vcpus=MORE_VCPUS * room, slices=room))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A fleet that was emulated, with what came of every seed."""

    fleet: Fleet
    approach: str
    runs: tuple[dict[str, Any], ...]

    @property
    def hit_rates(self) -> list[float]:
        return [share_in_time(run) for run in self.runs]

    @property
    def hit_rate(self) -> float:
        return Estimate.of(self.hit_rates).mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is known without emulation: no fleet that could carry the load is cheaper."""

    usd_per_hour: float
    fleet: Fleet
    by_layout: Mapping[Kinds, float]
    """The same where all GPUs have one layout, of those that can do."""


@dataclass(slots=True)
class SizeFindings:
    """What is known so far. The confirmed one is the answer."""

    bounds: Bounds | None = None
    tried: list[Tried] = field(default_factory=list)
    again: list[Tried] = field(default_factory=list)
    """With other seeds."""
    confirmed: Tried | None = None
    """One of those."""

    def first_time(self, fleet: Fleet) -> Tried | None:
        return next((one for one in self.tried if one.fleet == fleet), None)


def share_in_time(summary: Mapping[str, Any]) -> float:
    """Of all requests that came: one that was refused because nothing there keeps its deadline is
    not in time, either."""
    in_time: int = summary["in_time"]
    requests: int = summary["requests"]
    return in_time / max(1, requests)


class FluidLoad:
    """A load as a fluid, on any fleet that could be asked for."""

    def __init__(self, question: SizeQuestion) -> None:
        self._question = question
        layouts, shape = question.layouts, question.shape
        self.kinds = tuple(dict.fromkeys(kind for layout in layouts for kind in layout))
        most = {k: max(layout.count(k) for layout in layouts) for k in self.kinds}
        widest = NodeClass(
            count=1,
            vcpus=shape.most_vcpus,
            slices=tuple(k for k, count in most.items() for _ in range(count * shape.gpus)),
        )
        whole = applied(question.catalog, question.on(Cluster(classes=(widest,))))
        seen = OnKinds(self.kinds).of(whole)
        self.mix = {seen.applications[name]: part for name, part in question.mix.items()}

    def check(self) -> None:
        """Refuse deadlines that no kind of slices can keep."""
        for application in self.mix:
            if application.fastest_us()[application.root] > application.slo_us:
                by_kind = ", ".join(
                    f"{to_ms(us):.0f} ms on {self._name(kind)}"
                    for kind, us in self._fastest_us(application).items()
                )
                raise Rejected(
                    f"{application.name} cannot be done within {to_ms(application.slo_us):.0f} ms "
                    f"on nodes with up to {self._question.shape.most_vcpus} vCPUs; the fastest is "
                    f"{by_kind}: give a longer deadline, more vCPUs, or GPUs with other slices"
                )

    def planner(self, hurry: float = 1.0) -> FleetPlanner:
        mix = {
            replace(application, slo_us=round(application.slo_us * hurry)): part
            for application, part in self.mix.items()
        }
        question = self._question
        model = FluidModel(mix, self.kinds)
        return FleetPlanner(model, question.shape, per_s=question.per_s, target=question.target)

    def _fastest_us(self, application: Application) -> dict[str, int]:
        """By kind, where it can run on slices of this kind alone."""
        found = {}
        for kind in self.kinds:
            if all(kind in f.profile.kinds for f in application.functions()):
                alone = application.with_profiles(lambda p, kind=kind: p.on_kinds([kind]))  # type: ignore[misc]
                found[kind] = alone.fastest_us()[alone.root]
        return found

    def _name(self, kind: str) -> str:
        return self._question.catalog.kinds[kind].name or "usual slices"


def find_bounds(question: SizeQuestion, planner: FleetPlanner) -> Bounds:
    """The least that any fleet costs, and one that could do at that."""
    fleet = planner.cheapest(question.layouts)
    least = planner.least_usd_per_hour(question.layouts)
    if fleet is None or least is None:
        raise Rejected(
            f"no number of such nodes could carry {question.per_s:.3g} requests/s, even if none "
            "ever waited; allow more vCPUs per node"
        )
    alone = {layout: planner.least_usd_per_hour([layout]) for layout in question.layouts}
    by_layout = {layout: usd for layout, usd in alone.items() if usd is not None}
    return Bounds(usd_per_hour=least, fleet=fleet, by_layout=by_layout)


def find_size(
    question: SizeQuestion,
    executor: Executor,
    progress: Callable[[SizeFindings], None] = lambda found: None,
    findings: SizeFindings | None = None,
) -> SizeFindings:
    """The whole search. `progress` hears of what is known after each step; what was found goes to
    `findings` as it comes, for whoever interrupts it."""
    search = _Search(question, executor, progress, findings or SizeFindings())
    search.run()
    return search.found


class _Search:
    def __init__(
        self,
        question: SizeQuestion,
        executor: Executor,
        progress: Callable[[SizeFindings], None],
        found: SizeFindings,
    ) -> None:
        self._question, self._executor, self._progress = question, executor, progress
        self.found = found
        self._fluid = FluidLoad(question)

    def run(self) -> None:
        self._fluid.check()
        planner = self._fluid.planner()
        self.found.bounds = find_bounds(self._question, planner)
        self._progress(self.found)
        for approach in self._approaches(planner):
            self._climb(approach)
        if self._cheapest is None:
            raise self._nothing_holds()
        self._trim()
        self._confirm()

    def _approaches(self, planner: FleetPlanner) -> Iterator[Approach]:
        """Those that give the least at first, so that others have less to try."""
        layouts, bounds = self._question.layouts, self.found.bounds
        assert bounds is not None
        finest = max(layouts, key=len)
        yield Approach(name="small slices", layouts=(finest,), planner=planner)
        if len(layouts) == 1:
            return
        others = [layout for layout in bounds.by_layout if layout != finest]
        if others:
            best = min(others, key=lambda layout: bounds.by_layout[layout])
            yield Approach(name="one layout", layouts=(best,), planner=planner)
        yield Approach(name="all layouts", layouts=layouts, planner=planner)
        yield Approach(name="in a hurry", layouts=layouts, planner=self._hurried)

    @cached_property
    def _hurried(self) -> FleetPlanner:
        return self._fluid.planner(HURRY)

    @property
    def _holding(self) -> list[Tried]:
        """What holds and was not refuted, the cheapest first."""
        refuted = [one.fleet for one in self.found.again]
        holding = [t for t in self.found.tried if self._holds(t) and t.fleet not in refuted]
        return sorted(holding, key=lambda one: (one.fleet.usd_per_hour, -one.hit_rate))

    @property
    def _cheapest(self) -> Tried | None:
        return next(iter(self._holding), None)

    def _holds(self, one: Tried) -> bool:
        return one.hit_rate >= self._question.target

    def _climb(self, approach: Approach) -> None:
        """Find the lowest rung that holds, if it is cheaper than what others have found."""
        failed, enough, rung = -1, None, FIRST_RUNG
        while True:
            fleet = approach.rung(rung)
            if fleet is None:
                return
            best = self._cheapest
            too_dear = best is not None and fleet.usd_per_hour >= best.fleet.usd_per_hour
            if too_dear or self._holds(self._try(fleet, approach.name)):
                enough = rung
            else:
                failed = rung
            if enough is None:
                if failed >= LAST_RUNG:
                    return
                rung = min(LAST_RUNG, failed + GALLOP)
            elif enough - failed <= 1:
                return
            else:
                rung = (failed + enough) // 2

    def _trim(self) -> None:
        """Make the cheapest one smaller as long as it holds."""
        for _ in range(MOST_TRIMS):
            best = self._cheapest
            assert best is not None
            smaller = [one for one in self._smaller(best.fleet) if not self.found.first_time(one)]
            if not smaller:
                return
            self._try(smaller[0], best.approach)

    def _smaller(self, fleet: Fleet) -> Iterator[Fleet]:
        shape = self._question.shape
        nodes = min(fleet.nodes - 1, math.ceil(fleet.nodes * FEWER_NODES))
        more = min(shape.most_vcpus, math.ceil(fleet.vcpus * INSTEAD))
        less = min(fleet.vcpus - 1, math.floor(fleet.vcpus * FEWER_VCPUS))
        for count, vcpus in ((nodes, fleet.vcpus), (nodes, more), (fleet.nodes, less)):
            smaller = shape.resized(fleet, nodes=count, vcpus=vcpus)
            if smaller is not None and smaller.usd_per_hour < fleet.usd_per_hour:
                yield smaller

    def _confirm(self) -> None:
        """Run the cheapest with other seeds, and if it fails, the next; when there is no other
        left, larger ones."""
        for _ in range(MOST_CONFIRMATIONS):
            best = self._cheapest
            if best is None:
                last = self.found.again[-1]
                larger = self._larger(last.fleet)
                if larger is None:
                    break
                best = self._try(larger, last.approach)
                if not self._holds(best):
                    continue
            again = self._emulated(best.fleet, best.approach, self._question.other_seeds)
            self.found.again.append(again)
            if self._holds(again):
                self.found.confirmed = again
                self._progress(self.found)
                return
            self._progress(self.found)
        raise self._nothing_holds()

    def _larger(self, fleet: Fleet) -> Fleet | None:
        """The next one that was not tried."""
        shape, nodes = self._question.shape, fleet.nodes
        while True:
            nodes = max(nodes + 1, math.ceil(nodes * STEP))
            larger = shape.resized(fleet, nodes=nodes, vcpus=fleet.vcpus)
            if larger is None or self.found.first_time(larger) is None:
                return larger

    def _try(self, fleet: Fleet, approach: str) -> Tried:
        known = self.found.first_time(fleet)
        if known is not None:
            return known
        tried = self._emulated(fleet, approach, self._question.seeds)
        self.found.tried.append(tried)
        self._progress(self.found)
        return tried

    def _emulated(self, fleet: Fleet, approach: str, seeds: Sequence[int]) -> Tried:
        question = self._question
        scenario = question.on(fleet.cluster)
        try:
            applied(question.catalog, scenario)
        except Rejected:  # some function has no config that fits on one of these nodes
            nothing = {"requests": 1, "in_time": 0}
            return Tried(fleet=fleet, approach=approach, runs=(nothing,) * len(seeds))
        jobs = [
            SweepRun(approach, question.catalog, replace(scenario, seed=seed), question.load)
            for seed in seeds
        ]
        outcomes = sweep(jobs, run=_summarised, executor=self._executor)
        return Tried(fleet=fleet, approach=approach, runs=tuple(one.summary for one in outcomes))

    def _nothing_holds(self) -> Rejected:
        runs = [*self.found.tried, *self.found.again]
        best = max(runs, key=lambda one: one.hit_rate)
        return Rejected(
            f"no fleet was found that has {100 * self._question.target:g}% in time under policy "
            f"{self._question.scenario.policy}: of {len(runs)} runs the best has "
            f"{100 * best.hit_rate:.1f}%, for {best.fleet.usd_per_hour:.2f} USD per hour; give "
            "longer deadlines or a lower --hit-rate"
        )


def _summarised(job: SweepRun) -> RunOutcome:
    """A run, without its latencies, which can be many."""
    return replace(run_job(job), series={})
