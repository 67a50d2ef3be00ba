"""The floor and the ceiling, against every possibility tried out."""

from itertools import product

import pytest

from esg.core.durations import Durations, DurationSettings
from esg.core.messages.events import (
    ApplicationRegistered,
    ApplicationRetired,
    Correction,
    Event,
    ProfilesCorrected,
    RequestArrived,
    RequestCancelled,
    StageSpec,
)
from esg.emulator.optimum import alone_at_full_speed_us, cheapest_pusd, limits
from esg.units import ms
from tests.support.small_catalog import SMALL

CALM = Durations(SMALL, 0, DurationSettings(noise=0))


def arrived(application: str, slo_us: int | None = None, name: str = "r") -> tuple[int, Event]:
    return 0, RequestArrived(request=name, application=application, slo_us=slo_us)


@pytest.mark.parametrize("slo_ms", [90, 100, 130, 180, 600])
def test_the_floor_is_the_cheapest_of_all_plans_in_time(slo_ms: int) -> None:
    photo = SMALL.applications["photo"]
    tables = [
        list(zip(s.function.profile.time_us, s.function.profile.job_cost_pusd, strict=True))
        for s in photo.stages.values()
    ]
    in_time = [
        sum(cost for _, cost in plan)
        for plan in product(*tables)
        if sum(time_us for time_us, _ in plan) <= ms(slo_ms)
    ]
    assert cheapest_pusd(photo, ms(slo_ms)) == min(in_time)


def test_the_floor_counts_on_full_batches() -> None:
    """1x1x1 costs 1100, and half of a 2x1x1 costs 825 (in thousands of picodollars)."""
    assert cheapest_pusd(SMALL.applications["scan"], ms(300)) == 825_000
    assert cheapest_pusd(SMALL.applications["scan"], ms(149)) == 990_000  # half of a 2x2x2
    assert cheapest_pusd(SMALL.applications["scan"], ms(60)) == 1_320_000


def test_alone_a_request_takes_its_longest_path_at_the_fastest_configs() -> None:
    """A diamond: 10, then 60 beside 50, then 20 ms, and a local input of 0.55 ms before each."""
    took_us = alone_at_full_speed_us(SMALL.applications["scene"], "r1", CALM)
    assert took_us == ms(10 + 60 + 20) + 3 * 550 + 50  # two inputs meet at the end


def test_a_mix_of_requests_has_the_mean_of_their_floors() -> None:
    found = limits(SMALL, [arrived("scan"), arrived("scan", ms(60)), arrived("thumb")], CALM)
    assert found.cost_usd_per_1k_requests == pytest.approx(
        1000 * (825_000 + 1_320_000 + 110_000) / 3 / 1e12
    )
    assert found.slo_hit_rate == pytest.approx(2 / 3)  # its input makes the second one late


def test_limits_are_not_of_requests_that_nobody_can_serve() -> None:
    found = limits(SMALL, [arrived("scan", ms(59)), arrived("no-such"), arrived("thumb")], CALM)
    assert found.cost_usd_per_1k_requests == pytest.approx(1000 * 110_000 / 1e12)
    assert found.slo_hit_rate == 1


def test_limits_count_requests_alone() -> None:
    gave_up: tuple[int, Event] = (5, RequestCancelled(request="r"))
    assert limits(SMALL, [arrived("thumb"), gave_up], CALM).slo_hit_rate == 1
    assert limits(SMALL, [gave_up], CALM).slo_hit_rate is None


def registered(slo_us: int) -> tuple[int, Event]:
    """The same as `scan`, under a name of its own."""
    (stage,) = SMALL.applications["scan"].stages.values()
    spec = StageSpec(name=stage.name, function=stage.function.name, after=())
    return 0, ApplicationRegistered(application="mine", stages=(spec,), slo_us=slo_us)


def test_an_application_that_comes_later_counts_from_then_on() -> None:
    mine = arrived("mine")
    tight = arrived("mine", ms(60))
    assert limits(SMALL, [tight, registered(ms(300)), tight, mine], CALM).slo_hit_rate == 1 / 2
    again = limits(SMALL, [registered(ms(300)), mine, registered(ms(149)), mine], CALM)
    assert again.cost_usd_per_1k_requests == pytest.approx(1000 * (825_000 + 990_000) / 2 / 1e12)


def test_an_application_that_is_refused_or_retired_counts_for_nothing() -> None:
    gone: tuple[int, Event] = (0, ApplicationRetired(application="thumb"))
    impossible = registered(ms(1))
    found = limits(SMALL, [impossible, arrived("mine"), gone, arrived("thumb")], CALM)
    assert (found.slo_hit_rate, found.cost_usd_per_1k_requests) == (None, None)


def test_functions_that_take_longer_than_profiled_move_both_limits() -> None:
    (stage,) = SMALL.applications["scan"].stages.values()
    slow = Correction(function=stage.function.name, batch=1, pace_ppm=2_000_000)
    later: tuple[int, Event] = (0, ProfilesCorrected(corrections=(slow,)))
    durations = Durations(SMALL, 0, DurationSettings(noise=0))
    found = limits(SMALL, [later, arrived("scan", ms(100)), arrived("scan", ms(600))], durations)
    assert found.slo_hit_rate == 1 / 2  # the fastest takes twice 60 ms now
    dearer = limits(SMALL, [later, arrived("scan", ms(600))], durations)
    assert dearer.cost_usd_per_1k_requests == pytest.approx(1000 * 2 * 825_000 / 1e12)


def test_noise_lowers_the_ceiling() -> None:
    tight = [arrived("map", ms(52), name=f"r{n}") for n in range(200)]  # 50 ms, and the input
    rates = [
        limits(SMALL, tight, Durations(SMALL, 0, DurationSettings(noise=noise))).slo_hit_rate
        for noise in (0.0, 0.5, 1.0, 2.0)
    ]
    assert rates == sorted(rates, reverse=True)
    assert (rates[0], rates[-1]) == (1, pytest.approx(0.6, abs=0.1))
