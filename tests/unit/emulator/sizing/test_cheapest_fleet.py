"""The cheapest fleet that could carry a load: worked examples, and all small fleets tried."""

from itertools import product

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application
from esg.emulator.sizing.cheapest_fleet import FleetPlanner, NodeShape, Room
from esg.emulator.sizing.fluid_bound import FluidModel
from esg.emulator.sizing.plan_columns import Resources
from tests.support.kinds import chain, function

SMALL, MIXED, WHOLE = ("",) * 7, ("3g.40gb", "", "", "", ""), ("7g.80gb",)
LAYOUTS = [WHOLE, MIXED, SMALL]
KINDS = ("", "3g.40gb", "7g.80gb")

SHAPE = NodeShape(gpus=1, least_vcpus=4, most_vcpus=32, gpu_usd_per_hour=7.0, vcpu_usd_per_hour=0.1)


def batching() -> Application:
    """Large slices batch well, and cost as much vCPU time."""
    cells = {
        Config(batch, vcpus, 1, kind): (40 * batch / vcpus, 100 * (0.4 + 0.6 * batch) / speed, 0)
        for batch in (1, 2, 4)
        for vcpus in (1, 2, 4)
        for kind, speed in (("", 1.0), ("3g.40gb", 3.2), ("7g.80gb", 5.0))
    }
    return chain("app", function("f", cells), function("g", cells), slo_ms=400)


def planner(per_s: float, target: float = 1.0, shape: NodeShape = SHAPE) -> FleetPlanner:
    model = FluidModel({batching(): 1.0}, KINDS)
    return FleetPlanner(model, shape, per_s=per_s, target=target)


def test_a_fleet_has_just_what_a_load_takes() -> None:
    """Ten requests per second on a slice, for 0.1 s on one vCPU each: 140 take 14 of both."""
    app = chain("app", function("f", {Config(1, 1, 1): 100}), slo_ms=1000)
    plan = FleetPlanner(FluidModel({app: 1.0}, KINDS), SHAPE, per_s=140, target=1)
    found = plan.cheapest(LAYOUTS)
    assert found is not None
    assert (found.gpus, found.nodes, found.vcpus) == (((SMALL, 2),), 2, 7)
    assert found.usd_per_hour == pytest.approx(2 * (7 + 7 * 0.1))
    assert plan.least_usd_per_hour(LAYOUTS) == pytest.approx(found.usd_per_hour)
    roomy = plan.cheapest(LAYOUTS, Room(vcpus=2, slices=1.5))
    assert roomy is not None
    assert (roomy.gpus, roomy.vcpus) == (((SMALL, 3),), 10)


def test_a_share_that_may_be_late_need_not_be_carried() -> None:
    app = chain("app", function("f", {Config(1, 1, 1): 100}), slo_ms=1000)
    plan = FleetPlanner(FluidModel({app: 1.0}, KINDS), SHAPE, per_s=140, target=0.5)
    found = plan.cheapest(LAYOUTS)
    assert found is not None
    assert (found.gpu_count, found.vcpus) == (1, 7)


def test_nodes_have_whole_gpus_and_vcpus_within_their_range() -> None:
    shape = NodeShape(
        gpus=4, least_vcpus=40, most_vcpus=64, gpu_usd_per_hour=7.0, vcpu_usd_per_hour=0.1
    )
    app = chain("app", function("f", {Config(1, 1, 1): 100}), slo_ms=1000)
    plan = FleetPlanner(FluidModel({app: 1.0}, KINDS), shape, per_s=300, target=1)
    found = plan.cheapest(LAYOUTS)
    assert found is not None
    assert (found.gpu_count, found.nodes, found.vcpus) == (8, 2, 40)
    assert [one.count for one in found.cluster.classes] in ([2], [1, 1])
    assert all(len(one.slices) >= 4 for one in found.cluster.classes)


def test_what_no_fleet_can_carry_has_none() -> None:
    app = chain("app", function("f", {Config(1, 1, 1): 100}), slo_ms=50)
    plan = FleetPlanner(FluidModel({app: 1.0}, KINDS), SHAPE, per_s=1, target=1)
    assert plan.cheapest(LAYOUTS) is None
    assert plan.least_usd_per_hour(LAYOUTS) is None


@pytest.mark.parametrize("per_s", [20, 45, 80])
def test_no_smaller_fleet_could_carry_the_load(per_s: float) -> None:
    """All fleets of few GPUs, with as many vCPUs as they can have, and with one vCPU less."""
    plan = planner(per_s)
    found = plan.cheapest(LAYOUTS)
    assert found is not None
    least = plan.least_usd_per_hour(LAYOUTS)
    assert least is not None
    model = FluidModel({batching(): 1.0}, KINDS)

    def carries(gpus: tuple[int, ...], vcpus: float) -> bool:
        slices: dict[str, float] = {}
        for layout, count in zip(LAYOUTS, gpus, strict=True):
            for kind in layout:
                slices[kind] = slices.get(kind, 0) + count
        return (
            model.most_in_time(Resources(vcpus=vcpus, slices=slices), per_s).bound >= per_s - 1e-4
        )

    cheapest = min(
        7 * sum(gpus) + 0.1 * vcpus
        for gpus in product(range(6), repeat=3)
        if 0 < sum(gpus) <= found.gpu_count
        for vcpus in [least_vcpus(gpus, carries)]
        if vcpus is not None
    )
    assert least == pytest.approx(cheapest, abs=0.02)
    assert least <= found.usd_per_hour <= least + 0.1 * found.nodes


def least_vcpus(gpus: tuple[int, ...], carries: object) -> float | None:
    """By bisection: what can be carried grows with vCPUs."""
    assert callable(carries)
    low, high = 4.0 * sum(gpus), 32.0 * sum(gpus)
    if not carries(gpus, high):
        return None
    if carries(gpus, low):
        return low
    while high - low > 0.05:
        middle = (low + high) / 2
        low, high = (low, middle) if carries(gpus, middle) else (middle, high)
    return high
