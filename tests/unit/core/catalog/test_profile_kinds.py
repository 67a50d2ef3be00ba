"""What profiles say of several kinds of slices: prices, minimum configs, and what is left out."""

from dataclasses import replace

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Stage
from esg.core.catalog.on_kinds import OnKinds, on_its_cluster
from esg.core.catalog.phases import Phases, TaskMode
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.slice_kinds import USUAL
from esg.errors import Rejected
from esg.units import ms, seconds
from tests.support.small_catalog import CPU, LARGE, MIXED, SMALL, with_slices

HOUR_US = seconds(3600)
PRICES = Prices(vcpu_usd_per_hour=0.1, vgpu_usd_per_hour=1, kinds_usd_per_hour={LARGE: 3, CPU: 0})
BOTH = Profile.of(
    "f",
    {
        Config(1, 1, 1): 100,
        Config(1, 2, 1): 80,
        Config(2, 1, 1): 150,
        Config(1, 1, 1, LARGE): 40,
        Config(1, 1, 2, LARGE): 30,
    },
    PRICES,
)


def test_slices_cost_what_their_kind_does() -> None:
    costs = [PRICES.task_cost_pusd(Config(1, 2, 2, kind), HOUR_US) for kind in (USUAL, LARGE, CPU)]
    assert costs == [2_200_000_000_000, 6_200_000_000_000, 200_000_000_000]
    phases = Phases(HOUR_US, HOUR_US, 0)
    prices = [PRICES.phased_cost_pusd(Config(1, 2, 1, kind), phases) for kind in (USUAL, LARGE)]
    assert prices[1] - prices[0] == 2_000_000_000_000  # the slice for an hour


def test_slices_of_any_kind_are_measured_in_usual_ones_by_what_they_cost() -> None:
    assert PRICES.usual_slices(Config(1, 1, 2, LARGE)) == 6
    assert PRICES.usual_slices_of({USUAL: 2, LARGE: 1}) == 5
    assert PRICES.usual_slices(Config(1, 1, 2, CPU)) == 2  # what costs nothing is no measure
    assert BOTH.vgpu_us_of(Config(1, 1, 2, LARGE)) == 30 * 6
    assert BOTH.vgpu_us_of(Config(1, 2, 1)) == 80


def test_every_kind_has_a_minimum_config_and_the_cheapest_one_is_that_of_the_profile() -> None:
    assert BOTH.kinds == (USUAL, LARGE)
    assert BOTH.minimum == BOTH.minimum_of(USUAL) == Config(1, 1, 1)
    assert BOTH.minimum_of(LARGE) == Config(1, 1, 1, LARGE)
    cheap = BOTH.priced(replace(PRICES, kinds_usd_per_hour={LARGE: 0.5}))
    assert (cheap.kinds, cheap.minimum) == ((LARGE, USUAL), Config(1, 1, 1, LARGE))


def test_kind_without_a_config_for_a_single_job_is_left_out() -> None:
    kept = BOTH.narrowed(lambda config: config.batch == 2 or config.kind == LARGE)
    assert kept.kinds == (LARGE,)
    with pytest.raises(Rejected, match="no config for a single job is left"):
        BOTH.narrowed(lambda config: config.batch == 2)


def test_profile_on_kinds_has_their_configs_alone() -> None:
    large = BOTH.on_kinds([LARGE, CPU])
    assert large.configs == (Config(1, 1, 1, LARGE), Config(1, 1, 2, LARGE))
    assert BOTH.on_kinds([USUAL, LARGE]) is BOTH
    assert BOTH.on_kinds([CPU]) is BOTH  # it waits for others


def test_l_is_that_of_usual_slices_wherever_the_function_runs() -> None:
    narrowed = BOTH.on_kinds([LARGE])
    assert (BOTH.alone_us, narrowed.alone_us) == (100, 100)
    assert narrowed.priced(PRICES, TaskMode.PHASED).alone_us == 100
    assert narrowed.scaled(2.0, PRICES).alone_us == 200
    alone = Profile.of("g", {Config(1, 1, 1, LARGE): 40}, PRICES)
    assert alone.alone_us == 40  # of a function that no usual slice can run


@pytest.mark.parametrize("layout", [(USUAL,), (LARGE,), (CPU,), (USUAL, LARGE), (LARGE, CPU)])
def test_l_does_not_move_with_the_layout(layout: tuple[str, ...]) -> None:
    here = on_its_cluster(with_slices(MIXED, layout))
    for name, application in here.applications.items():
        assert application.alone_us == MIXED.applications[name].alone_us
        assert application.slo_us == MIXED.applications[name].slo_us


# Catalogs for the slices that there are.


def test_catalog_on_kinds_plans_with_no_others() -> None:
    here = OnKinds([USUAL, CPU]).of(MIXED)
    kinds = {name: function.profile.kinds for name, function in here.functions.items()}
    assert kinds == {
        "resize": (CPU, USUAL),
        "detect": (USUAL,),
        "depth": (CPU,),
        "label": (CPU, USUAL),
    }
    scene = here.applications["scene"]
    assert all(stage.function is here.functions[name] for name, stage in scene.stages.items())


def test_catalog_stays_as_it_is_where_nothing_is_left_out() -> None:
    assert OnKinds([USUAL]).of(SMALL) is SMALL
    assert OnKinds([USUAL, LARGE, CPU, "of-somebody"]).of(MIXED) is MIXED


def test_what_was_narrowed_once_is_the_same_the_next_time() -> None:
    on_kinds = OnKinds([LARGE])
    first = on_kinds.of(MIXED)
    fresh = Application.of("fresh", [Stage("resize", MIXED.functions["resize"])], slo_us=ms(100))
    more = replace(MIXED, applications=MIXED.applications | {"fresh": fresh})
    second = on_kinds.of(more)
    assert all(second.functions[n] is function for n, function in first.functions.items())
    assert all(second.applications[n] is one for n, one in first.applications.items())
    assert second.applications["fresh"].stages["resize"].function is first.functions["resize"]


def test_function_that_is_larger_than_the_slices_of_a_kind_is_not_planned_there() -> None:
    small = replace(MIXED.kinds[CPU], memory_mb=299)
    catalog = replace(MIXED, kinds=MIXED.kinds | {CPU: small})
    here = OnKinds([USUAL, CPU])
    assert here.able(catalog.functions["resize"], catalog) == {USUAL}
    assert here.of(catalog).functions["resize"].profile.kinds == (USUAL,)
    assert not here.able(catalog.functions["depth"], catalog)
