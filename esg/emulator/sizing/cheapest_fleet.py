"""The cheapest fleet of GPU nodes that could carry a load, by the fluid bound.

How many GPUs have which layout, and how many vCPUs there are, is a small mixed-integer program.
What it must satisfy, that the load can be carried, is known by its consequences only: at the prices
of any answer of the fluid bound, what a fleet has must be worth the load (a cut). So a fleet that
is cheapest by the cuts that are known is tried; if it cannot carry the load, the answer is a new
cut, and if it can, no cheaper one does (Benders' decomposition).

A fleet that could carry a load if it never waited is too small for real schedulers. How much larger
one should be is `Room`: the fluid gets only one part in so many of the vCPUs, and of the slices.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.slice_kinds import NodeClass, counts
from esg.emulator.sizing.fluid_bound import CLOSE, FluidAnswer, FluidModel
from esg.emulator.sizing.plan_columns import Resources
from esg.errors import Bug

Kinds = tuple[str, ...]
"""The slices of a GPU, by the kinds of a catalog."""

MOST_CUTS = 300
MOST_GPUS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """What nodes can be bought: GPUs, vCPUs from so many to so many, and the prices of both."""

    gpus: int
    least_vcpus: int
    most_vcpus: int
    gpu_usd_per_hour: float
    vcpu_usd_per_hour: float

    def usd_per_hour(self, nodes: int, vcpus: float) -> float:
        """The price of so many nodes with so many vCPUs each."""
        return nodes * (self.gpus * self.gpu_usd_per_hour + vcpus * self.vcpu_usd_per_hour)

    def fleet(self, gpus: Mapping[Kinds, int], vcpus: int) -> "Fleet":
        """Nodes with these GPUs, all of which they have."""
        nodes = sum(gpus.values()) // self.gpus
        return Fleet(
            gpus=tuple((layout, count) for layout, count in gpus.items() if count),
            nodes=nodes,
            vcpus=vcpus,
            usd_per_hour=self.usd_per_hour(nodes, vcpus),
        )

    def resized(self, fleet: "Fleet", *, nodes: int, vcpus: int) -> "Fleet | None":
        """A fleet of the same layouts, in the same proportions as far as possible, with other
        numbers; None if there are no such nodes."""
        if nodes < 1 or not self.least_vcpus <= vcpus <= self.most_vcpus:
            return None
        factor = nodes * self.gpus / fleet.gpu_count
        gpus = {layout: math.floor(count * factor) for layout, count in fleet.gpus}
        short = sorted(fleet.gpus, key=lambda one: (gpus[one[0]] - one[1] * factor, one[0]))
        for layout, _ in short[: nodes * self.gpus - sum(gpus.values())]:
            gpus[layout] += 1
        return self.fleet(gpus, vcpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Nodes of one shape: how many GPUs have each layout, and the vCPUs of a node."""

    gpus: tuple[tuple[Kinds, int], ...]
    nodes: int
    vcpus: int
    usd_per_hour: float

    @property
    def cluster(self) -> Cluster:
        """GPUs of one layout are on nodes next to each other."""
        return Cluster.of(
            NodeClass(count=1, vcpus=self.vcpus, slices=tuple(chain.from_iterable(gpus)))
            for gpus in self.each_node()
        )

    def each_node(self) -> Iterator[tuple[Kinds, ...]]:
        """The layouts of the GPUs of every node."""
        each = [layout for layout, count in self.gpus for _ in range(count)]
        per_node = len(each) // self.nodes
        for node in range(self.nodes):
            yield tuple(each[node * per_node : (node + 1) * per_node])

    @property
    def gpu_count(self) -> int:
        return sum(count for _, count in self.gpus)


@dataclass(frozen=True, slots=True)
class Room:
    """How much more there is than the fluid needs: of vCPUs, and of slices."""

    vcpus: float = 1.0
    slices: float = 1.0


NO_ROOM = Room()


class FleetPlanner:
    """The cheapest fleets for one load: so many requests per second, of which a share is in time.
    Cuts are kept from one question to the next."""

    def __init__(self, fluid: FluidModel, shape: NodeShape, *, per_s: float, target: float) -> None:
        self._fluid, self._shape = fluid, shape
        self._per_s, self._wanted = per_s, per_s * target
        self._cuts: list[FluidAnswer] = []

    def cheapest(self, layouts: Sequence[Kinds], room: Room = NO_ROOM) -> Fleet | None:
        """The cheapest fleet whose GPUs have some of these layouts; None if there is none."""
        found = self._cheapest(layouts, room)
        return None if found is None else found[0]

    def least_usd_per_hour(self, layouts: Sequence[Kinds]) -> float | None:
        """A bound on its cost that no fleet can beat: with vCPUs that can be divided."""
        found = self._cheapest(layouts, NO_ROOM)
        return None if found is None else found[1]

    def _cheapest(self, layouts: Sequence[Kinds], room: Room) -> tuple[Fleet, float] | None:
        for _ in range(MOST_CUTS):
            found = self._by_cuts(layouts, room)
            if found is None:
                return None
            gpus, nodes, vcpus, usd_per_hour = found
            usable = self._usable(zip(layouts, gpus, strict=True), vcpus, room)
            answer = self._fluid.most_in_time(usable, self._per_s)
            if answer.bound >= self._wanted * (1 - 10 * CLOSE):
                each = math.ceil(vcpus / nodes - CLOSE)
                has = dict(zip(layouts, gpus, strict=True))
                return self._shape.fleet(has, each), usd_per_hour
            self._cuts.append(answer)
        raise Bug(f"the cheapest fleet is not known after {MOST_CUTS} cuts")

    def _by_cuts(
        self, layouts: Sequence[Kinds], room: Room
    ) -> tuple[list[int], int, float, float] | None:
        """GPUs of each layout, nodes and vCPUs that satisfy all cuts, and what they cost."""
        shape, count = self._shape, len(layouts)
        has = [counts(layout) for layout in layouts]
        cost = np.array([shape.gpu_usd_per_hour] * count + [0.0, shape.vcpu_usd_per_hour])
        rows: list[list[float]] = [
            [1.0] * count + [-shape.gpus, 0.0],
            [0.0] * count + [shape.most_vcpus, -1.0],
            [0.0] * count + [-shape.least_vcpus, 1.0],
        ]
        least, most = [0.0, 0.0, 0.0], [0.0, np.inf, np.inf]
        for cut in self._cuts:
            values = [_value(kinds, cut.prices) / room.slices for kinds in has]
            rows.append([*values, 0.0, cut.prices.vcpus / room.vcpus])
            least.append(self._wanted - cut.constant)
            most.append(np.inf)
        solved = milp(
            cost,
            constraints=LinearConstraint(np.array(rows), least, most),
            integrality=np.array([1] * (count + 1) + [0]),
            bounds=Bounds(
                np.array([0.0] * count + [1.0, 0.0]), np.array([MOST_GPUS] * (count + 1) + [np.inf])
            ),
        )
        if solved.x is None:
            return None
        gpus, (nodes, vcpus) = [round(n) for n in solved.x[:count]], solved.x[count:]
        bound = solved.fun if solved.mip_dual_bound is None else solved.mip_dual_bound
        return gpus, round(nodes), float(vcpus), float(bound)

    def _usable(self, gpus: Iterable[tuple[Kinds, int]], vcpus: float, room: Room) -> Resources:
        slices: dict[str, float] = {}
        for layout, count in gpus:
            for kind, each in counts(layout).items():
                slices[kind] = slices.get(kind, 0.0) + each * count / room.slices
        return Resources(vcpus=vcpus / room.vcpus, slices=slices)


def _value(kinds: Mapping[str, int], prices: Resources) -> float:
    return sum(count * prices.slices.get(kind, 0.0) for kind, count in kinds.items())
