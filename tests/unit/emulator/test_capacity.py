"""The search for the highest rate that holds."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from esg.emulator.capacity import (
    FIRST,
    HIGHEST,
    LOWEST,
    CapacityQuestion,
    RateSearch,
    find_capacity,
    rate_text,
)
from esg.emulator.sweep import Generated, Source
from esg.workload.plan import Workload
from esg.workload.rates import parse_rate
from tests.support.emulated_runs import paper, scenario


def searched(edge: float, within: float = 0.02) -> tuple[RateSearch, list[float]]:
    search, tried = RateSearch(within), []
    while (rate := search.next_rate) is not None:
        tried.append(rate)
        search.add(rate, holds=rate <= edge)
    return search, tried


@pytest.mark.parametrize("edge", [0.3, 7.9, 8.0, 8.1, 99.0, 12_345.0])
def test_a_search_ends_at_both_sides_of_the_edge(edge: float) -> None:
    search, tried = searched(edge)
    assert search.held is not None
    assert search.failed is not None
    assert search.held <= edge < search.failed
    assert search.failed <= 1.02 * search.held + 1e-9
    assert tried[0] == FIRST
    assert len(tried) == len(set(tried)) < 25


def test_a_search_gives_up_at_its_bounds() -> None:
    nothing, _ = searched(0.0)
    assert (nothing.held, nothing.failed) == (None, LOWEST)
    everything, _ = searched(1e9)
    assert (everything.held, everything.failed) == (HIGHEST, None)


@pytest.mark.parametrize("rate", [LOWEST, FIRST, 12.5, 1230.0, HIGHEST])
def test_every_rate_that_is_tried_can_be_typed(rate: float) -> None:
    assert parse_rate(rate_text(rate)).mean_per_s == pytest.approx(rate)


def test_a_rate_holds_if_the_mean_over_seeds_does() -> None:
    def load(rate: str) -> Source:
        return Generated(Workload(rate=rate, requests=60))

    question = CapacityQuestion(
        catalog=paper(),
        scenario=scenario(nodes=1, slo_scale=1.2),
        policies=("esg", "apex"),
        seeds=(0, 1),
        load=load,
        target=0.9,
        within=0.2,
    )
    with ThreadPoolExecutor(1) as executor:
        found, again = (find_capacity(question, executor) for _ in range(2))
    for name, one in found.items():
        held, failed = one.search.held, one.search.failed
        assert held is not None
        assert failed is not None
        assert one.hit_rate(held) >= 0.9 > one.hit_rate(failed)
        assert all(len(runs) == 2 for runs in one.runs.values())
        digests = [
            {rate: [run["digest"] for run in runs] for rate, runs in of[name].runs.items()}
            for of in (found, again)
        ]
        assert digests[0] == digests[1]
