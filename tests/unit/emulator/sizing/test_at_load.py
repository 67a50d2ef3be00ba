"""How much of a load is possible: never less than a policy has, and less than all in overload."""

from collections.abc import Iterator

import pytest

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.config import Config
from esg.core.catalog.phases import TaskMode
from esg.core.messages.events import Event, RequestArrived, RequestCancelled
from esg.emulator.scenario import Scenario
from esg.emulator.sizing.at_load import possible_share
from esg.emulator.sweep import Generated, SweepRun, run_job, run_limits
from esg.units import US_PER_S, ms
from esg.workload.plan import Workload
from tests.support.kinds import catalog, chain, function

APP = chain("app", function("f", {Config(1, 1, 1): 100}), slo_ms=200)
LATE = chain("late", function("g", {Config(1, 1, 1): 100}), slo_ms=50)
TWO_SLICES = catalog(APP, LATE, cluster=Cluster.alike(nodes=1, vcpus=8, vgpus=2))


def arrivals(count: int, application: str = "app") -> Iterator[tuple[int, Event]]:
    """Within a second, after which there are 200 ms to the last deadline."""
    for number in range(count):
        at_us = (number + 1) * US_PER_S // count
        yield at_us, RequestArrived(request=f"r{number}", application=application)


@pytest.mark.parametrize(("count", "share"), [(20, 1.0), (24, 1.0), (48, 0.5)])
def test_two_slices_do_twenty_per_second_until_the_last_deadline(count: int, share: float) -> None:
    assert possible_share(TWO_SLICES, arrivals(count)) == pytest.approx(share)


def test_what_is_refused_for_its_deadline_does_not_count() -> None:
    events = [*arrivals(48), *arrivals(10, "late")]
    assert possible_share(TWO_SLICES, events) == pytest.approx(0.5)
    assert possible_share(TWO_SLICES, arrivals(10, "late")) is None


def test_where_more_happens_than_arrivals_nothing_is_told() -> None:
    own = RequestArrived(request="r", application="app", slo_us=ms(300))
    assert possible_share(TWO_SLICES, [*arrivals(3), (US_PER_S, own)]) is None
    cancelled = RequestCancelled(request="r0")
    assert possible_share(TWO_SLICES, [*arrivals(3), (US_PER_S, cancelled)]) is None


@pytest.mark.parametrize("tasks", TaskMode)
@pytest.mark.parametrize("policy", ["esg", "apex"])
def test_no_policy_has_more_in_time_than_is_possible(policy: str, tasks: TaskMode) -> None:
    scenario = Scenario(nodes=1, vcpus=8, vgpus=2, policy=policy, tasks=tasks, noise=0)
    load = Generated(Workload(rate="30/s", requests=150, mix="app=1"))
    job = SweepRun(policy, TWO_SLICES, scenario, load)
    possible = run_limits(job).summary["possible_at_this_load"]
    assert 0.5 < possible < 0.8
    assert run_job(job).summary["slo_hit_rate"] <= possible
