"""Prices, costs and the model behind the shipped profiles."""

from dataclasses import replace

import pytest

from esg.core.catalog.config import Config
from esg.core.catalog.cpu_use import CpuUse
from esg.core.catalog.file import load_catalog
from esg.core.catalog.model import Catalog
from esg.core.catalog.profile import Prices, Profile
from esg.core.catalog.profile_model import Grid, TimeModel
from esg.errors import Rejected
from esg.units import PUSD_PER_USD, US_PER_HOUR, ms, seconds, to_ms, to_usd

MODEL = TimeModel(base_ms=200, cpu_share=0.4, parallel_fraction=0.9, gpu_fixed_share=0.3)
GRID = Grid(batch=[1, 2, 3, 4, 8], vcpus=[1, 2, 4, 16], vgpus=[1, 2, 4, 7])


@pytest.fixture(scope="module")
def default() -> Catalog:
    return load_catalog()


# Units.


def test_times_are_whole_microseconds_and_costs_whole_picodollars() -> None:
    assert ms(13.4) == 13_400
    assert seconds(1.5) == 1_500_000
    assert to_ms(13_400) == 13.4
    assert to_usd(PUSD_PER_USD) == 1.0


# Prices and costs.


@pytest.mark.parametrize(
    ("config", "usd"),
    [
        (Config(1, 1, 1), 0.034 + 0.67),
        (Config(1, 16, 1), 16 * 0.034 + 0.67),
        (Config(8, 1, 7), 0.034 + 7 * 0.67),
    ],
)
def test_an_hour_costs_what_its_vcpus_and_vgpus_cost(config: Config, usd: float) -> None:
    cost_pusd = Prices().task_cost_pusd(config, US_PER_HOUR)
    assert to_usd(cost_pusd) == pytest.approx(usd, rel=1e-9)


def test_a_task_costs_in_proportion_to_its_time() -> None:
    prices = Prices(vcpu_usd_per_hour=0.036, vgpu_usd_per_hour=0.72)
    # one vCPU is 10 pUSD a microsecond, one vGPU 200
    assert prices.task_cost_pusd(Config(1, 1, 1), 1) == 210
    assert prices.task_cost_pusd(Config(1, 2, 3), 1000) == 620_000


def test_a_job_pays_its_share_of_the_task() -> None:
    prices = Prices(vcpu_usd_per_hour=0.036, vgpu_usd_per_hour=0.72)
    profile = Profile.of("f", {Config(4, 1, 1): 100, Config(1, 1, 1): 60}, prices)
    assert profile.configs == (Config(1, 1, 1), Config(4, 1, 1))
    assert profile.task_cost_pusd.tolist() == [12_600, 21_000]
    assert profile.job_cost_pusd.tolist() == [12_600, 5_250]


# The table.


def test_the_minimum_has_batch_one_then_the_fewest_vgpus_then_the_fewest_vcpus() -> None:
    cells = [Config(2, 1, 1), Config(1, 1, 2), Config(1, 4, 1), Config(1, 2, 1)]
    profile = Profile.of("f", dict.fromkeys(cells, 10), Prices())
    assert profile.minimum == Config(1, 2, 1)


def test_configs_of_at_most_a_batch_are_counted_from_the_front() -> None:
    cells = [Config(1, 1, 1), Config(1, 2, 1), Config(4, 1, 1), Config(8, 1, 1)]
    profile = Profile.of("f", dict.fromkeys(cells, 10), Prices())
    assert [profile.count_up_to(batch) for batch in (0, 1, 3, 4, 8, 9)] == [0, 2, 2, 3, 4, 4]
    assert profile.max_batch == 8


@pytest.mark.parametrize(
    ("cells", "missing"),
    [
        ({}, "no config at all; add one with batch 1"),
        ({Config(2, 1, 1): 10}, "no config with batch 1, so .* never run; add one"),
        (
            {Config(1, 1, 1): 10, Config(2, 1, 1, "3g.40gb"): 10},
            r"no config with batch 1 on 3g\.40gb, so .* never run; add one",
        ),
    ],
)
def test_a_profile_without_a_batch_of_one_is_refused(
    cells: dict[Config, int], missing: str
) -> None:
    with pytest.raises(Rejected, match=f"profile of f: {missing}"):
        Profile.of("f", cells, Prices())


def test_the_time_of_a_config_that_does_not_exist_is_refused() -> None:
    profile = Profile.of("f", {Config(1, 1, 1): 10}, Prices())
    assert profile.time_us_of(Config(1, 1, 1)) == 10
    with pytest.raises(Rejected, match="profile of f: no config 2/1/1"):
        profile.time_us_of(Config(2, 1, 1))


# The model.


def test_the_model_gives_the_base_time_at_the_minimum_config() -> None:
    assert MODEL.time_us(Config(1, 1, 1)) == ms(200)


def test_a_larger_batch_takes_longer_but_less_per_job() -> None:
    for vcpus in GRID.vcpus:
        times = [MODEL.time_us(Config(batch, vcpus, 1)) for batch in GRID.batch]
        assert times == sorted(set(times))
        per_job = [time / batch for time, batch in zip(times, GRID.batch, strict=True)]
        assert per_job == sorted(per_job, reverse=True)


def test_more_vcpus_take_less_time_but_never_less_than_the_gpu_part() -> None:
    for batch in GRID.batch:
        times = [MODEL.time_us(Config(batch, vcpus, 1)) for vcpus in GRID.vcpus]
        assert times == sorted(set(times), reverse=True)
    assert MODEL.time_us(Config(1, 10_000, 1)) > ms(200 * 0.6)


def test_further_vgpus_do_nothing_for_a_single_job() -> None:
    times = {MODEL.time_us(Config(1, 2, vgpus)) for vgpus in GRID.vgpus}
    assert len(times) == 1


def test_further_vgpus_help_only_as_they_make_the_largest_portion_smaller() -> None:
    one, two, four, seven = (MODEL.time_us(Config(8, 1, vgpus)) for vgpus in GRID.vgpus)
    assert one > two > four
    assert four == seven  # eight jobs on seven slices: one slice still has two of them


def test_configs_whose_portion_exceeds_the_memory_of_a_slice_are_left_out() -> None:
    model = TimeModel(
        base_ms=200, cpu_share=0.4, parallel_fraction=0.9, gpu_fixed_share=0.3, max_portion=2
    )
    grid = Grid(batch=[1, 2, 3, 4, 8], vcpus=[1], vgpus=[1, 2, 4])
    assert sorted(model.times_us(grid)) == [
        Config(1, 1, 1),
        Config(1, 1, 2),
        Config(1, 1, 4),
        Config(2, 1, 1),
        Config(2, 1, 2),
        Config(2, 1, 4),
        Config(3, 1, 2),
        Config(3, 1, 4),
        Config(4, 1, 2),
        Config(4, 1, 4),
        Config(8, 1, 4),
    ]


def test_model_without_a_memory_limit_offers_every_cell_of_the_grid() -> None:
    assert sorted(MODEL.times_us(GRID)) == sorted(GRID.configs())
    assert len(GRID.configs()) == 5 * 4 * 4


def test_a_deadline_of_four_fifths_of_the_time_alone_can_be_met_by_the_shipped_profiles(
    default: Catalog,
) -> None:
    for application in default.applications.values():
        fastest = sum(int(s.function.profile.time_us.min()) for s in application.stages.values())
        assert fastest < 0.8 * application.alone_us


def test_a_job_that_has_all_vcpus_takes_less_with_more_of_them() -> None:
    """CPU part 80 ms, nine tenths of it parallel; GPU part 120 ms, three tenths of it fixed."""
    assert MODEL.time_us(Config(1, 2, 1)) == ms(80 * 0.55 + 120)
    assert MODEL.time_us(Config(3, 2, 1)) == ms(3 * 80 * 0.55 + 120 * 2.4)


def test_a_job_that_takes_one_core_is_as_slow_with_more_and_a_batch_goes_in_rounds() -> None:
    model = replace(MODEL, cpu=CpuUse.ACROSS_JOBS)
    assert {model.time_us(Config(1, vcpus, 1)) for vcpus in GRID.vcpus} == {ms(80 + 120)}
    rounds = {(3, 1): 3, (3, 2): 2, (4, 2): 2, (3, 4): 1, (8, 3): 3}
    for (batch, vcpus), times in rounds.items():
        growth = 0.3 + 0.7 * batch
        assert model.time_us(Config(batch, vcpus, 1)) == ms(times * 80 + 120 * growth)


def test_a_gpu_part_grows_as_it_was_measured_and_evenly_in_between() -> None:
    """CPU part 80 ms for each job, GPU part 120 ms for one job."""
    model = replace(MODEL, gpu_growth=[(1, 1.0), (2, 1.2), (4, 1.8), (8, 4.0)])
    growth = {1: 1.0, 2: 1.2, 3: 1.5, 4: 1.8, 6: 2.9, 8: 4.0}
    for batch, times in growth.items():
        assert model.time_us(Config(batch, 1, 1)) == ms(batch * 80 + 120 * times)
    assert model.time_us(Config(8, 1, 2)) == ms(8 * 80 + 120 * 1.8)
    assert model.time_us(Config(8, 1, 7)) == ms(8 * 80 + 120 * 1.2)
