"""The search for a fleet, where what holds is known: emulation gives way to a rule."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from esg.core.catalog.config import Config
from esg.emulator.scenario import Scenario
from esg.emulator.sizing import search
from esg.emulator.sizing.cheapest_fleet import NodeShape
from esg.emulator.sizing.search import FluidLoad, SizeFindings, SizeQuestion, find_size
from esg.emulator.sweep import Generated, RunOutcome, SweepRun
from esg.errors import Rejected
from esg.workload.plan import Workload
from tests.support.kinds import catalog, chain, function

ONE, BIG = Config(1, 1, 1), Config(1, 1, 1, "3g.40gb")
APP = chain("app", function("f", {ONE: 100, BIG: 40}), slo_ms=300)
SMALL, MIXED = ("",) * 7, ("3g.40gb", "", "", "", "")
NODES = NodeShape(gpus=1, least_vcpus=4, most_vcpus=32, gpu_usd_per_hour=7.0, vcpu_usd_per_hour=0.1)

Share = Callable[[SweepRun], float]


def question(**changed: Any) -> SizeQuestion:
    """At 70/s seven slices are busy; a GPU of the other layout has 65/s."""
    asked = SizeQuestion(
        catalog=catalog(APP),
        scenario=Scenario(nodes=1, vcpus=1, vgpus=1),
        shape=NODES,
        layouts=(SMALL, MIXED),
        per_s=300.0,
        mix={"app": 1.0},
        load=Generated(Workload(rate="300/s", requests=1)),
        target=0.99,
        seeds=(0, 1),
        other_seeds=(2, 3),
    )
    return replace(asked, **changed)


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Callable[[Share, SizeQuestion], SizeFindings]:
    def run(share: Share, asked: SizeQuestion) -> SizeFindings:
        def emulated(job: SweepRun) -> RunOutcome:
            in_time = round(1000 * share(job))
            return RunOutcome(
                job.label, job.scenario.seed, {"requests": 1000, "in_time": in_time}, {}
            )

        monkeypatch.setattr(search, "_summarised", emulated)
        with ThreadPoolExecutor(1) as executor:
            return find_size(asked, executor)

    return run


Sized = Callable[[Share, SizeQuestion], SizeFindings]


def enough_nodes(job: SweepRun) -> float:
    return 1.0 if job.scenario.nodes >= 6 and job.scenario.vcpus >= 8 else 0.5


def test_the_cheapest_fleet_that_holds_is_found(sized: Sized) -> None:
    found = sized(enough_nodes, question())
    assert found.confirmed is not None
    assert found.bounds is not None
    fleet = found.confirmed.fleet
    assert (fleet.nodes, fleet.vcpus) == (6, 8)
    assert fleet.usd_per_hour >= found.bounds.usd_per_hour
    assert len(found.tried) <= 30


def test_a_fleet_that_other_seeds_refute_gives_way_to_the_next(sized: Sized) -> None:
    def lucky(job: SweepRun) -> float:
        others_need = 8 if job.scenario.seed >= 2 else 6
        return 1.0 if job.scenario.nodes >= others_need else 0.5

    found = sized(lucky, question())
    assert found.confirmed is not None
    assert found.confirmed.fleet.nodes >= 8
    assert [one.hit_rate for one in found.again] == [*[0.5] * (len(found.again) - 1), 1.0]


def test_what_no_fleet_keeps_is_refused_with_the_best_there_was(sized: Sized) -> None:
    with pytest.raises(Rejected, match=r"no fleet was found that has 99% in time .* has 70\.0%"):
        sized(lambda job: 0.7, question())


def test_a_deadline_that_no_slice_keeps_is_refused_with_what_each_takes() -> None:
    asked = question(scenario=Scenario(nodes=1, vcpus=1, vgpus=1, slo_scale=0.3))
    words = (
        "app cannot be done within 30 ms on nodes with up to 32 vCPUs; the fastest is 100 ms on "
        "1g.10gb, 40 ms on 3g.40gb: "
    )
    with pytest.raises(Rejected, match=words):
        FluidLoad(asked).check()


def test_more_vcpus_than_nodes_can_have_are_refused(sized: Sized) -> None:
    """So many requests that no number of nodes within reason would do."""
    with pytest.raises(Rejected, match=r"no number of such nodes could carry 1e\+06 requests/s"):
        sized(lambda job: 1.0, question(per_s=1e6))


def test_a_node_too_small_for_a_function_does_not_hold(sized: Sized) -> None:
    """Two stages, one of which needs eight vCPUs: fleets of smaller nodes are not even run."""
    wide = chain("wide", function("g", {Config(1, 8, 1): 50}), slo_ms=300)
    asked = question(catalog=catalog(wide), mix={"wide": 1.0}, per_s=20.0)
    found = sized(lambda job: 1.0, asked)
    assert found.confirmed is not None
    assert found.confirmed.fleet.vcpus >= 8
