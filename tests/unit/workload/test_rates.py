"""Endless arrivals: seeded, at the rate they claim, and deaf to the applications."""

from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from random import Random

import pytest

from esg.errors import Rejected
from esg.units import seconds
from esg.workload.arrivals import RATES_US, Arrival, until
from esg.workload.mix import Mix, parse_mix
from esg.workload.rates import bursts, parse_rate, poisson, steady

ONE, THREE = Mix.uniform(["a"]), parse_mix("a=1,b=2,c=3")
Kind = Callable[[str, Mix, int], Iterator[Arrival]]
kinds = pytest.mark.parametrize("kind", [steady, poisson, bursts])


def instants(arrivals: Iterator[Arrival], number: int = 500) -> list[int]:
    return [arrival.at_us for arrival in islice(arrivals, number)]


@kinds
@pytest.mark.parametrize("rate", ["heavy", "120/s"])
def test_instants_do_not_depend_on_the_applications(kind: Kind, rate: str) -> None:
    assert instants(kind(rate, ONE, 5)) == instants(kind(rate, THREE, 5))


@kinds
def test_arrivals_at_a_rate_with_the_same_seed_are_the_same(kind: Kind) -> None:
    first, again = kind("normal", THREE, 5), kind("normal", THREE, 5)
    assert list(islice(first, 500)) == list(islice(again, 500))


@pytest.mark.parametrize("kind", [poisson, bursts])
def test_arrivals_at_a_rate_with_another_seed_are_others(kind: Kind) -> None:
    assert instants(kind("120/s", ONE, 5)) != instants(kind("120/s", ONE, 6))


@kinds
def test_time_never_runs_backwards(kind: Kind) -> None:
    at_us = instants(kind("900000/s", ONE, 5), 5_000)
    assert at_us[0] >= 0
    assert all(before <= after for before, after in pairwise(at_us))


@pytest.mark.parametrize("rate", RATES_US)
def test_a_rate_of_the_paper_draws_intervals_and_applications_uniformly(rate: str) -> None:
    names = ["a", "b", "c"]
    intervals, choices, at_us = Random("9:intervals"), Random("9:applications"), 0
    for arrival in islice(steady(rate, Mix.uniform(names), 9), 300):
        at_us += intervals.randint(*RATES_US[rate])
        assert arrival == Arrival(at_us, choices.choice(names))


@pytest.mark.parametrize("kind", [steady, poisson])
@pytest.mark.parametrize("rate", ["heavy", "normal", "light", "120/s", "0.5/s", "90/min", "7200/h"])
def test_the_mean_is_the_rate(kind: Kind, rate: str) -> None:
    last_us = instants(kind(rate, ONE, 5), 10_000)[-1]
    assert 10_000 / (last_us / 1e6) == pytest.approx(parse_rate(rate).mean_per_s, rel=0.03)


def test_a_number_per_second_has_equal_intervals_without_drift() -> None:
    at_us = instants(steady("3/s", ONE, 1), 3_000)
    assert at_us[:3] == [333_333, 666_666, 1_000_000]
    assert at_us[-1] == seconds(1_000)


def test_poisson_intervals_vary_as_much_as_their_mean() -> None:
    at_us = instants(poisson("100/s", ONE, 1), 20_000)
    gaps = [after - before for before, after in pairwise(at_us)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation == pytest.approx(mean, rel=0.05)


def test_bursts_keep_the_mean_and_pause_in_between() -> None:
    at_us = instants(bursts("50/s", ONE, 1, on_us=seconds(0.5), off_us=seconds(1.5)), 60_000)
    assert 60_000 / (at_us[-1] / 1e6) == pytest.approx(50, rel=0.1)
    gaps = [after - before for before, after in pairwise(at_us)]
    within = [gap for gap in gaps if gap < seconds(0.1)]
    assert 1e6 * len(within) / sum(within) == pytest.approx(200, rel=0.1)
    assert sum(gaps) - sum(within) == pytest.approx(0.75 * at_us[-1], rel=0.1)


def test_bursts_without_silences_are_poisson() -> None:
    at_us = instants(bursts("50/s", ONE, 1, off_us=0), 20_000)
    assert at_us == instants(poisson("50/s", ONE, 1), 20_000)


def test_a_list_ends_before_its_duration_is_over() -> None:
    cut = list(until(steady("4/s", ONE, 1), seconds(1)))
    assert [arrival.at_us for arrival in cut] == [250_000, 500_000, 750_000]


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        ("hevy", "did you mean 'heavy'?"),
        ("120", "rate 120: say per what, as in 120/s or 120/min"),
        (" .5 ", "rate .5: say per what, as in .5/s or .5/min"),
        ("120/day", "as in 120/s or 30/min"),
        ("-1/s", "as in 120/s or 30/min"),
        ("", "as in 120/s or 30/min"),
        ("0/s", "above 0 and up to 1000000/s"),
        ("1000001/s", "above 0 and up to 1000000/s"),
        (f"0.{'0' * 400}1/s", "less than one request in a year"),
    ],
)
def test_a_rate_that_cannot_be_meant_is_refused(rate: str, says: str) -> None:
    with pytest.raises(Rejected) as refused:
        steady(rate, ONE, 1)
    assert says in str(refused.value)


def test_bursts_that_never_burst_are_refused() -> None:
    with pytest.raises(Rejected, match="give on > 0"):
        bursts("heavy", ONE, 1, on_us=0)
