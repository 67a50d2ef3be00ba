"""Durations of runs and loads are keyed by name, and do not depend on who schedules them."""

from statistics import fmean, stdev

import pytest

from esg.core.catalog.config import Config
from esg.core.durations import Durations, DurationSettings
from esg.core.estimation.transfer import DataLink
from esg.core.messages.events import Correction
from esg.core.messages.task_order import JobOrder, Output, Payload, TaskOrder
from esg.emulator.run import build_durations
from esg.emulator.scenario import Scenario
from esg.units import ms, seconds
from tests.support.small_catalog import SMALL

CALM = DurationSettings(noise=0)


def order(
    request: str = "r1",
    *,
    task: str = "t1",
    config: Config | None = None,
    predicted_us: int = ms(100),
    keepers: tuple[str, ...] = (),
) -> TaskOrder:
    """A task of `detect` on i0, whose jobs find their inputs at these keepers."""
    names = [request, *(f"{request}-{n}" for n in range(1, len(keepers)))]
    outputs = [Output(stage="resize", invoker=keeper) for keeper in keepers]
    return TaskOrder(
        task=task,
        invoker="i0",
        stage="detect",
        function="detect",
        config=config or Config(len(names), 1, 1),
        slices=(0,),
        jobs=tuple(
            JobOrder(request=name, inputs=(source,))
            for name, source in zip(names, outputs or [Payload()], strict=True)
        ),
        keep=True,
        predicted_us=predicted_us,
    )


def test_run_without_noise_takes_what_was_profiled_and_its_input() -> None:
    durations = Durations(SMALL, 0, CALM)
    assert durations.run_us(order()) == ms(100) + ms(0.5) + 50  # 100 kB at 2 GB/s
    assert durations.load_us("i0", 0, "detect") == ms(200)


def test_an_input_from_another_node_takes_longer() -> None:
    durations = Durations(SMALL, 0, CALM)
    assert durations.run_us(order(keepers=("i0",))) == ms(100) + ms(0.5) + 50
    assert durations.run_us(order(keepers=("i1",))) == ms(100) + ms(8) + ms(1)  # at 100 MB/s
    assert durations.run_us(order(keepers=("i1", "i1"))) == ms(150) + ms(8) + ms(2)
    assert durations.run_us(order(keepers=("i0", "i1"))) == ms(150) + ms(8) + ms(1)  # side by side


def test_duration_of_a_run_does_not_depend_on_the_prediction() -> None:
    durations = Durations(SMALL, 0, CALM)
    assert durations.run_us(order(predicted_us=ms(900))) == durations.run_us(order())


def test_functions_can_turn_out_to_be_slower_than_profiled() -> None:
    durations = Durations(SMALL, 0, CALM)
    durations.correct([Correction(function="detect", batch=1, pace_ppm=1_500_000)])
    assert durations.run_us(order()) == ms(150) + ms(0.5) + 50
    durations.correct([])
    assert durations.run_us(order()) == ms(100) + ms(0.5) + 50


def test_link_takes_no_time_for_no_bytes() -> None:
    assert DataLink(delay_us=8, bytes_per_s=1).time_us(0) == 0


def test_noise_is_gaussian_around_the_profiled_time() -> None:
    durations = Durations(SMALL, 0)
    times = [durations.run_us(order(f"r{n}")) - ms(0.5) - 50 for n in range(2000)]
    spread = ms(100) * SMALL.functions["detect"].profile.relative_std
    assert fmean(times) == pytest.approx(ms(100), rel=0.005)
    assert stdev(times) == pytest.approx(spread, rel=0.05)
    within = sum(abs(time - ms(100)) < spread for time in times) / len(times)
    assert within == pytest.approx(0.683, abs=0.03)


def test_durations_with_more_noise_are_the_same_ones_stretched() -> None:
    once, twice = (Durations(SMALL, 0, DurationSettings(noise=noise)) for noise in (1, 2))
    for n in range(20):
        calm_us = ms(100.5) + 50
        off_us = once.run_us(order(f"r{n}")) - calm_us
        assert twice.run_us(order(f"r{n}")) - calm_us == pytest.approx(2 * off_us, abs=2)


def test_noise_depends_on_the_request_not_on_the_task_or_its_place_in_line() -> None:
    durations = Durations(SMALL, 7)
    first = [durations.run_us(order(f"r{n}", task=f"t{n}")) for n in range(9)]
    later = [durations.run_us(order(f"r{n}", task=f"t{n + 5}")) for n in reversed(range(9))]
    assert first == later[::-1]
    assert len(set(first)) == 9


def test_durations_with_another_seed_are_others() -> None:
    assert Durations(SMALL, 1).run_us(order()) != Durations(SMALL, 2).run_us(order())


def test_durations_have_a_lower_bound_however_loud_the_noise() -> None:
    durations = Durations(SMALL, 0, DurationSettings(noise=1000))
    assert all(durations.run_us(order(f"r{n}")) >= ms(5) for n in range(100))
    assert all(durations.load_us("i0", n, "detect") >= ms(10) for n in range(100))


def test_unloading_takes_as_long_as_triton_takes() -> None:
    assert ms(1100) < DurationSettings().unload_us < seconds(1.4)


def test_a_scenario_says_what_a_stage_takes_beyond_its_profile() -> None:
    slow, quick = (
        build_durations(
            SMALL, Scenario(nodes=1, vcpus=4, vgpus=2, noise=0, stage_delay_ms=delay_ms)
        )
        for delay_ms in (7, 2)
    )
    assert slow.run_us(order()) - quick.run_us(order()) == ms(5)
