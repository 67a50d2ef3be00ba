"""A run whose books do not balance in the end is no result but a bug."""

from collections.abc import Callable

import pytest

from esg.core.pool.pool import Pool
from esg.core.report import Report
from esg.core.scheduler.scheduler import Scheduler
from esg.core.state.node_books import NodeBooks
from esg.emulator import run as emulator_run
from esg.emulator.run import emulate
from esg.emulator.sweep import Generated
from esg.errors import Bug
from esg.workload.plan import Workload
from tests.support.emulated_runs import paper, scenario

TEN = Generated(Workload(rate="light", requests=10))

Leak = Callable[[Scheduler, dict[str, Pool], Report], None]


def run_ten() -> None:
    emulate(paper(), scenario(), TEN.arrivals(list(paper().applications), 0))


def seat_keeps_a_vcpu(scheduler: Scheduler, pools: dict[str, Pool], report: Report) -> None:
    next(iter(scheduler.state.nodes.values())).vcpus_free -= 1


def seat_keeps_a_slice(scheduler: Scheduler, pools: dict[str, Pool], report: Report) -> None:
    next(iter(scheduler.state.nodes.values())).slices[3].holder = "t1"


def pool_keeps_a_vcpu(scheduler: Scheduler, pools: dict[str, Pool], report: Report) -> None:
    next(iter(pools.values())).vcpus_free -= 1


def pool_keeps_a_slice(scheduler: Scheduler, pools: dict[str, Pool], report: Report) -> None:
    next(iter(pools.values())).slices[0].holder = "t1"


def pool_waits_for_a_model(scheduler: Scheduler, pools: dict[str, Pool], report: Report) -> None:
    next(iter(pools.values())).slices[0].wanted.append("depth")


def nobody_was_told(scheduler: Scheduler, pools: dict[str, Pool], report: Report) -> None:
    next(iter(report.applications.values())).served.done -= 1


@pytest.mark.parametrize(
    "leak",
    [
        seat_keeps_a_vcpu,
        seat_keeps_a_slice,
        pool_keeps_a_vcpu,
        pool_keeps_a_slice,
        pool_waits_for_a_model,
        nobody_was_told,
    ],
)
def test_a_planted_leak_is_found(monkeypatch: pytest.MonkeyPatch, leak: Leak) -> None:
    check = emulator_run._check_the_end

    def leaking(scheduler: Scheduler, pools: dict[str, Pool], report: Report) -> None:
        check(scheduler, pools, report)
        leak(scheduler, pools, report)
        check(scheduler, pools, report)

    run_ten()
    monkeypatch.setattr(emulator_run, "_check_the_end", leaking)
    with pytest.raises(Bug):
        run_ten()


def test_a_seat_that_forgets_to_release_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    release = NodeBooks.release

    def forgetful(node: NodeBooks, task: str, vcpus: int, slices: tuple[int, ...]) -> None:
        if task != "t5":
            release(node, task, vcpus, slices)

    monkeypatch.setattr(NodeBooks, "release", forgetful)
    with pytest.raises(Bug, match="still holds something"):
        run_ten()
