"""Aquatope's training: the unit cube, lone runs, the optimiser, and what is kept of it."""

from itertools import product

import numpy as np
import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Application, Stage
from esg.core.catalog.on_kinds import on_its_cluster
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.profile_model import Grid
from esg.emulator.training.bayesian import (
    Beliefs,
    Surrogate,
    TriedPoints,
    best_first,
    expected_improvement,
)
from esg.emulator.training.train import (
    Budget,
    LoneRuns,
    StageCube,
    train,
)
from esg.units import ms
from tests.support.policy_cases import chain, function

SMALL = Budget(bootstrap=16, rounds=4, per_round=3, tune_every=2, candidates=200, draws=8)
"""Enough for a tiny problem, in less than a second."""

GRID = {(b, c, 1): 40.0 * b**0.7 / c**0.5 for b in (1, 2, 4) for c in (1, 2, 4)}
WIDE = {(b, c, g): 60.0 * b / g + 30 / c for b in (1, 2) for c in (1, 2) for g in (1, 2)}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def app(
    *tables: dict[tuple[int, int, int], float], slo_ms: float, spread: float = 0
) -> Application:
    return chain(*tables, slo_ms=slo_ms, spread=spread).applications["app"]


def outcome(application: Application, configs: dict[str, Config]) -> tuple[int, int]:
    """Time and cost of a chain without noise."""
    time_us = cost_pusd = 0
    for stage, config in configs.items():
        profile = application.stages[stage].function.profile
        time_us += profile.time_us_of(config)
        cost_pusd += int(profile.job_cost_pusd[profile.index(config)])
    return time_us, cost_pusd


def best_by_trying_all(application: Application) -> tuple[int, int]:
    """Time and cost of the cheapest combination in time, or of the fastest one."""
    names = list(application.stages)
    choices = [application.stages[name].function.profile.configs for name in names]
    all_of_them = [
        outcome(application, dict(zip(names, combination, strict=True)))
        for combination in product(*choices)
    ]
    in_time = [(time, cost) for time, cost in all_of_them if time <= application.slo_us]
    return min(in_time, key=lambda found: found[1]) if in_time else min(all_of_them)


# The unit cube.


def test_every_config_of_the_default_catalog_comes_back_from_its_point() -> None:
    for application in on_its_cluster(load_catalog()).applications.values():
        runs = LoneRuns(application)
        assert runs.dimensions == 3 * len(application.stages)
        profiles = {name: s.function.profile for name, s in application.stages.items()}
        for place in range(256):
            configs = {name: profile.configs[place] for name, profile in profiles.items()}
            point = runs.point(configs)
            assert runs.configs(point) == configs
            assert (runs.snap(point[None])[0] == point).all()


def test_coordinates_are_places_on_the_scale_of_each_dimension() -> None:
    cells = Grid(batch=[1, 2, 4, 8], vcpus=[1, 16], vgpus=[3]).configs()
    profile = Profile.of("f", dict.fromkeys(cells, 1000), Prices())
    cube = StageCube(profile, 3)
    points = np.array([[0, 0, 0], [0.6, 0.49, 0.5], [0.75, 0.5, 1], [1, 1, 1]])
    assert [profile.configs[place] for place in cube.places(points)] == [
        Config(1, 1, 3),
        Config(4, 1, 3),
        Config(8, 16, 3),
        Config(8, 16, 3),
    ]


def test_points_are_snapped_to_the_middle_of_their_cell() -> None:
    runs = LoneRuns(app(GRID, slo_ms=100))
    assert runs.snap(np.array([[0.1, 0.4, 0.9]])).tolist() == [[1 / 6, 0.5, 0.5]]


def test_a_missing_cell_stands_for_the_nearest_config() -> None:
    # no batch of 4 with 1 vGPU; a third of the cube off is 2 with 1 vGPU, a half is 4 with 2
    present = [Config(b, 1, g) for b in (1, 2, 4) for g in (1, 2) if (b, g) != (4, 1)]
    profile = Profile.of("f", dict.fromkeys(present, 1000), Prices())
    cube = StageCube(profile, 3)
    missing = cube.places(np.array([[0.9, 0.5, 0.1]]))[0]
    assert profile.configs[missing] == Config(2, 1, 1)
    assert set(cube.places(rng().random((1000, 3)))) == set(range(len(present)))


def test_nearest_config_is_the_first_of_two_equally_near() -> None:
    # of the nine cells of batch and vCPUs the middle one is missing
    present = [Config(b, c, 1) for b in (1, 2, 3) for c in (1, 2, 3) if (b, c) != (2, 2)]
    profile = Profile.of("f", dict.fromkeys(present, 1000), Prices())
    place = StageCube(profile, 3).places(np.array([[0.5, 0.5, 0.5]]))[0]
    assert profile.configs[place] == Config(1, 2, 1)


# Lone runs.


def test_a_run_without_noise_takes_and_costs_what_the_profiles_say() -> None:
    application = app(GRID, WIDE, slo_ms=100)
    runs = LoneRuns(application)
    configs = {"a": Config(2, 4, 1), "b": Config(2, 1, 2)}
    costs, late = runs.run(runs.point(configs)[None], rng())
    time_us, cost_pusd = outcome(application, configs)
    assert late.tolist() == [time_us - application.slo_us]
    assert costs.tolist() == [cost_pusd]


def test_a_dag_takes_as_long_as_its_longest_path() -> None:
    times_ms = {"a": 10, "b": 20, "c": 40, "d": 80}
    after = {"a": (), "b": ("a",), "c": ("a",), "d": ("b",)}
    stages = [
        Stage(name, function(name, {(1, 1, 1): time}), after[name])
        for name, time in times_ms.items()
    ]
    runs = LoneRuns(Application.of("app", stages, slo_us=ms(100)))
    costs, late = runs.run(np.full((1, 12), 0.5), rng())
    assert late.tolist() == [ms(10 + 20 + 80 - 100)]
    assert costs.tolist() == [11_000 * 150]


def test_runs_vary_as_their_profiles_say() -> None:
    runs = LoneRuns(app({(1, 1, 1): 100.0}, slo_ms=100, spread=0.05))
    costs, late = runs.run(np.full((4000, 3), 0.5), rng())
    assert late.mean() == pytest.approx(0, abs=ms(0.5))
    assert late.std() == pytest.approx(ms(5), rel=0.1)
    assert costs.std() / costs.mean() == pytest.approx(0.05, rel=0.1)


def test_lone_run_takes_at_least_a_twentieth_of_its_time() -> None:
    runs = LoneRuns(app({(1, 1, 1): 100.0}, slo_ms=100, spread=5.0))
    _, late = runs.run(np.full((1000, 3), 0.5), rng())
    assert late.min() == pytest.approx(ms(5 - 100))


# The optimiser.


def test_expected_improvement_is_the_mean_of_what_is_gained() -> None:
    best, mean, spread = np.array([1.0]), np.array([[1.5]]), np.array([[0.8]])
    drawn = rng().normal(1.5, 0.8, 400_000)
    gained = np.maximum(1.0 - drawn, 0).mean()
    assert expected_improvement(best, mean, spread)[0, 0] == pytest.approx(gained, rel=0.02)


def test_the_cheapest_in_time_comes_first_then_the_least_late() -> None:
    costs = np.array([5.0, 1.0, 3.0, 2.0, 4.0])
    late = np.array([-9.0, 2.0, 0.0, 1.0, -1.0])
    assert best_first(costs, late).tolist() == [2, 4, 0, 3, 1]


def curve(count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    points = np.linspace(0, 1, count)[:, None]
    return points, np.sin(5 * points[:, 0]) + rng().normal(0, 0.02, count)


def test_an_outlier_is_contradicted_by_the_others() -> None:
    points, values = curve()
    sound = Surrogate(points, values)
    assert sound.contradicted().sum() <= 4  # one in twenty, give or take
    values[17] += 0.5
    assert Surrogate(points, values, sound, tune=False).contradicted()[17]


def test_leaving_one_out_in_closed_form_is_the_same_as_leaving_it_out() -> None:
    points, values = curve(12)
    values[5] += 0.07  # near the edge of its interval
    whole = Surrogate(points, values)
    contradicted = []
    for one in range(len(points)):
        rest = Surrogate(np.delete(points, one, 0), np.delete(values, one), whole, tune=False)
        mean, spread = rest._process.predict(points[one : one + 1], return_std=True)
        error = whole.in_units(values[one]) - mean[0]
        contradicted.append(bool(abs(error) > 1.96 * spread[0]))
    assert whole.contradicted().tolist() == contradicted


def test_contradicted_point_is_left_out_until_others_bear_it_out() -> None:
    points, values = curve()
    values[17] += 0.5
    beliefs = Beliefs(TriedPoints(points, values, -np.ones(len(points))))
    assert points[17] not in beliefs.without_the_contradicted().best_first()
    assert points[17] in beliefs.best_first()


@pytest.mark.parametrize("slo_ms", [60, 90, 150])
def test_training_without_noise_finds_the_best_configs(slo_ms: float) -> None:
    application = app(GRID, GRID, slo_ms=slo_ms)
    time_us, cost_pusd = outcome(application, train(application, rng(), budget=SMALL))
    assert time_us <= application.slo_us
    assert cost_pusd <= 1.05 * best_by_trying_all(application)[1]


def test_training_with_noise_finds_nearly_the_best_configs() -> None:
    application = app(GRID, WIDE, slo_ms=120, spread=0.02)
    time_us, cost_pusd = outcome(application, train(application, rng(), budget=SMALL))
    assert time_us <= 1.03 * application.slo_us
    assert cost_pusd <= 1.1 * best_by_trying_all(application)[1]


def test_training_learns_the_fastest_configs_if_none_are_in_time() -> None:
    application = app(GRID, WIDE, slo_ms=20)
    found = train(application, rng(), budget=SMALL)
    assert outcome(application, found)[0] == best_by_trying_all(application)[0]


def test_a_single_config_is_learnt_without_complaint() -> None:
    application = app({(1, 1, 1): 10.0}, slo_ms=5)
    assert train(application, rng(), budget=SMALL) == {"a": Config(1, 1, 1)}


def test_a_large_batch_is_learnt_if_it_is_cheap_whatever_the_load() -> None:
    """Training runs have full batches: that is why plans miss later."""
    batches = {(b, 1, 1): 100.0 + b for b in (1, 2, 4, 8)}
    assert train(app(batches, slo_ms=1000), rng(), budget=SMALL) == {"a": Config(8, 1, 1)}


def test_a_seed_gives_the_same_again() -> None:
    application = app(GRID, WIDE, GRID, slo_ms=130, spread=0.05)
    tiny = Budget(bootstrap=12, rounds=2, per_round=3, candidates=100, draws=4)
    once, again = (train(application, rng(7), budget=tiny) for _ in range(2))
    assert once == again


def test_progress_counts_the_trials() -> None:
    told: list[tuple[str, int, int]] = []
    train(app(GRID, slo_ms=90), rng(), budget=SMALL, progress=lambda *what: told.append(what))
    assert SMALL.trials == 28
    assert told == [("app", done, 28) for done in (16, 19, 22, 25, 28)]


def test_the_budget_is_the_papers() -> None:
    budget = Budget()
    assert (budget.bootstrap, budget.rounds, budget.per_round) == (100, 50, 5)
    assert budget.trials == 350
