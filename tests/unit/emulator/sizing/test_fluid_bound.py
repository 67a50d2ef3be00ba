"""The linear program over plans: worked examples, brute force, and what was emulated."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Catalog
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.slice_kinds import NodeClass
from esg.emulator.run import emulate, requests
from esg.emulator.scenario import Scenario, applied, sized
from esg.emulator.sizing.fluid_bound import FluidModel
from esg.emulator.sizing.plan_columns import Resources
from esg.emulator.throughput import Size, most_per_s
from esg.units import US_PER_S
from esg.workload.plan import Workload
from tests.support.kinds import PRICES, catalog, chain, function

ONE, BIG = Config(1, 1, 1), Config(1, 1, 1, "3g.40gb")
TWO_KINDS = ("", "3g.40gb")


def have(vcpus: float, usual: float = 0, big: float = 0) -> Resources:
    return Resources(vcpus=vcpus, slices={"": usual, "3g.40gb": big})


def test_slices_of_each_kind_are_used_up() -> None:
    """Ten requests per second on a usual slice, twenty on a large one."""
    app = chain("app", function("f", {ONE: 100, BIG: 50}), slo_ms=1000)
    found = FluidModel({app: 1.0}, TWO_KINDS).most_per_s(have(100, 3, 2))
    assert found.bound == pytest.approx(70)
    assert found.prices.vcpus == pytest.approx(0, abs=1e-6)
    assert found.prices.slices == pytest.approx({"": 10, "3g.40gb": 20})
    assert found.by_application() == pytest.approx({"app": 70})


def test_deadlines_leave_what_can_keep_them() -> None:
    """Two stages of which one at least must be on a large slice."""
    f, g = (function(name, {ONE: 100, BIG: 50}) for name in "fg")
    app = chain("app", f, g, slo_ms=150)
    found = FluidModel({app: 1.0}, TWO_KINDS).most_per_s(have(100, 1, 1))
    assert found.bound == pytest.approx(brute_force({app: 1.0}, have(100, 1, 1)))


def test_shares_of_applications_are_kept_and_without_them_the_cheap_ones_go_first() -> None:
    light = chain("light", function("f", {ONE: 10}), slo_ms=1000)
    heavy = chain("heavy", function("g", {ONE: 90}), slo_ms=1000)
    model = FluidModel({light: 3.0, heavy: 1.0}, ("",))
    fair = model.most_per_s(have(10, 1))
    assert fair.bound == pytest.approx(1 / (0.75 * 0.01 + 0.25 * 0.09))
    assert fair.by_application()["light"] == pytest.approx(3 * fair.by_application()["heavy"])
    some = model.most_in_time(have(10, 1), 100)
    assert some.by_application() == pytest.approx({"light": 75, "heavy": 0.25 / 0.09})
    assert some.bound == pytest.approx(75 + 0.25 / 0.09)


def test_an_application_that_nothing_can_serve_leaves_no_rate_but_the_others_hits() -> None:
    able = chain("able", function("f", {ONE: 10}), slo_ms=1000)
    late = chain("late", function("g", {ONE: 90}), slo_ms=50)
    model = FluidModel({able: 1.0, late: 1.0}, ("",))
    assert model.unserved == ["late"]
    assert model.most_per_s(have(10, 10)).bound == 0
    assert model.most_in_time(have(10, 10), 20).bound == pytest.approx(10)
    assert model.least_cost(have(10, 10), 20, Resources.priced(PRICES, ("",))) is None


def test_least_cost_takes_the_cheaper_kind_until_it_is_used_up() -> None:
    """A request takes 0.1 s of a usual slice at one dollar per hour, or 0.05 s of one at three."""
    app = chain("app", function("f", {ONE: 100, BIG: 50}), slo_ms=1000)
    model, paid = FluidModel({app: 1.0}, TWO_KINDS), Resources.priced(PRICES, TWO_KINDS)
    alone = model.least_cost(have(100, 3, 2), 10, paid)
    assert alone is not None
    assert alone.bound == pytest.approx(10 * (0.1 * 1 + 0.1 * 0.1))
    both = model.least_cost(have(100, 3, 2), 50, paid)
    assert both is not None
    assert both.bound == pytest.approx(30 * 0.11 + 20 * (0.05 * 3 + 0.05 * 0.1))
    assert both.prices.slices[""] == pytest.approx((0.155 - 0.11) / 0.1)  # saved by one more
    assert model.least_cost(have(100, 3, 2), 71, paid) is None


def test_prices_bound_other_amounts_too() -> None:
    app = chain("app", function("f", {ONE: 100, BIG: 50, Config(2, 4, 1): 120}), slo_ms=1000)
    model = FluidModel({app: 1.0}, TWO_KINDS)
    at = model.most_in_time(have(8, 3, 2), 60)
    for other in (have(1, 1, 1), have(100, 9, 0), have(8, 0, 5)):
        prices = at.prices
        worth = prices.vcpus * other.vcpus + sum(
            prices.slices[kind] * count for kind, count in other.slices.items()
        )
        assert model.most_in_time(other, 60).bound <= at.constant + worth + 1e-6


def plans(application: Application) -> Iterator[np.ndarray]:
    """What every plan of a chain takes that keeps the deadline."""
    profiles = [stage.function.profile for stage in application.stages.values()]
    for configs in product(*(profile.configs for profile in profiles)):
        pairs = list(zip(profiles, configs, strict=True))
        if sum(profile.time_us_of(config) for profile, config in pairs) <= application.slo_us:
            takes = np.zeros(3)
            for profile, config in pairs:
                phases = profile.phases_of(config)
                total_us = phases.total_us
                held = (config.vcpus * total_us, config.vgpus * total_us)
                if profile.mode is TaskMode.PHASED:
                    held = phases.held_by(config)
                takes[0] += held[0] / config.batch / US_PER_S
                takes[1 + TWO_KINDS.index(config.kind)] += held[1] / config.batch / US_PER_S
            yield takes


def brute_force(mix: Mapping[Application, float], resources: Resources) -> float:
    """The rate by a linear program over all plans there are."""
    columns = [(n, takes) for n, application in enumerate(mix) for takes in plans(application)]
    total = sum(mix.values())
    takes = np.array([[*column, 0.0] for _, column in columns] + [[0.0] * 4]).T[:3]
    shares = np.zeros((len(mix), len(columns) + 1))
    for place, (number, _) in enumerate(columns):
        shares[number, place] = 1
    shares[:, -1] = [-weight / total for weight in mix.values()]
    solved = linprog(
        [*[0.0] * len(columns), -1.0],
        A_ub=takes,
        b_ub=resources.vector(TWO_KINDS),
        A_eq=shares,
        b_eq=np.zeros(len(mix)),
    )
    return float(-solved.fun)


@pytest.mark.parametrize("mode", TaskMode)
@pytest.mark.parametrize("seed", range(12))
def test_generated_columns_reach_what_all_plans_together_do(seed: int, mode: TaskMode) -> None:
    random = Random(seed)

    def cells() -> dict[Config, tuple[float, float, float]]:
        grid: Sequence[tuple[int, int, int, str]] = [
            (batch, vcpus, vgpus, kind)
            for batch in (1, 2, 4)
            for vcpus in (1, 3)
            for vgpus, kind in ((1, ""), (2, ""), (1, "3g.40gb"))
        ]
        return {
            Config(*cell): tuple(random.uniform(5, 60) for _ in range(3))  # type: ignore[misc]
            for cell in grid
        }

    functions = [function(name, cells(), mode) for name in "fgh"]
    mix = {
        chain("short", functions[0], slo_ms=random.uniform(60, 150)): 2.0,
        chain("long", *functions[1:], slo_ms=random.uniform(100, 250)): 1.0,
    }
    resources = have(random.uniform(3, 30), random.uniform(1, 9), random.uniform(0, 4))
    model = FluidModel(mix, TWO_KINDS)
    expected = 0.0 if model.unserved else brute_force(mix, resources)
    assert model.most_per_s(resources).bound == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("slo_scale", "tasks"), [(1.0, TaskMode.JOINT), (1.2, TaskMode.JOINT), (1.2, TaskMode.PHASED)]
)
def test_the_bound_of_one_kind_is_that_of_the_search_for_a_price(
    slo_scale: float, tasks: TaskMode
) -> None:
    """`most_per_s` finds the same by trying prices, without a solver, as loadgen needs it."""
    size = {"nodes": 16, "vcpus": 16, "vgpus": 7}
    seen = applied(load_catalog(), Scenario(**size, slo_scale=slo_scale, tasks=tasks))
    mix = dict.fromkeys(seen.applications.values(), 1.0)
    exact = FluidModel(mix, ("",)).most_per_s(Resources.of(seen.cluster)).bound
    assert most_per_s(mix, Size(16 * 16, 16 * 7)) == pytest.approx(exact, rel=1e-4)
    assert most_per_s(mix, Size(16 * 16, 16 * 7)) >= exact * (1 - 1e-6)


def two_kinds() -> Catalog:
    """One node that is too small for what comes."""
    cells = {
        Config(batch, vcpus, 1, kind): (30 * batch / vcpus, 60 * (0.5 + batch / 2) / speed, 5)
        for batch in (1, 2, 4)
        for vcpus in (1, 2, 4)
        for kind, speed in (("", 1.0), ("3g.40gb", 2.5))
    }
    f, g = (function(name, cells) for name in "fg")
    return catalog(chain("one", f, slo_ms=200), chain("two", f, g, slo_ms=320))


@pytest.mark.parametrize("tasks", TaskMode)
@pytest.mark.parametrize("policy", ["esg", "apex", "infless"])
def test_no_policy_has_more_in_time_than_the_bound(policy: str, tasks: TaskMode) -> None:
    known, per_s, duration_s = two_kinds(), 90.0, 20
    node = NodeClass(count=1, vcpus=6, slices=("3g.40gb", "", ""))
    cluster = replace(known.cluster, classes=(node,))
    scenario = Scenario(
        **sized(cluster), policy=policy, tasks=tasks, noise=0.0, overhead="none", stage_delay_ms=0.0
    )
    seen = applied(known, scenario)
    model = FluidModel(dict.fromkeys(seen.applications.values(), 1.0), TWO_KINDS)
    bound = model.most_in_time(Resources.of(cluster), per_s)
    assert 0.2 * per_s < bound.bound < 0.9 * per_s
    load = Workload(rate=f"{per_s:g}/s", duration_s=duration_s).arrivals(["one", "two"])
    summary = emulate(known, scenario, requests(load)).summary()
    in_time = summary["slo_hit_rate"] * summary["requests"]
    longest_s = max(one.slo_us for one in seen.applications.values()) / US_PER_S
    assert in_time <= bound.bound * (duration_s + longest_s)
    if policy == "apex":  # the others collapse at such a load
        assert in_time > 0.5 * bound.bound * duration_s
