"""Workers as real processes, against a gateway that does as it is told."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from esg.errors import Fault
from esg.loadgen.record import UNANSWERED
from esg.loadgen.worker import Assignment, WorkerReport
from esg.loadgen.worker_pool import WorkerPool
from esg.units import US_PER_S
from esg.workload.arrivals import Arrival
from esg.workload.payloads import Pictures
from esg.workload.plan import Workload
from tests.support.counting_gateway import APPLICATIONS, Gateway, refused, serving
from tests.support.trace_files import save_arrivals

NAMES = list(APPLICATIONS)
HOUR_US = 3_600_000_000


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with serving(Gateway()) as gateway:
        yield gateway


def assignments(gateway: Gateway, workers: int = 1, **chosen: Any) -> list[Assignment]:
    given: dict[str, Any] = {
        "plan": Workload(rate="500/s", requests=50, seed=1),
        "pictures": Pictures(sizes=dict.fromkeys(NAMES, 100)),
        "most_held": 1000,
        **chosen,
    }
    return [
        Assignment(
            gateway=gateway.address,
            applications=NAMES,
            prefix="run-",
            number=number,
            workers=workers,
            **given,
        )
        for number in range(workers)
    ]


class Heard:
    """What a pool of workers told."""

    def __init__(self) -> None:
        self.reports: list[WorkerReport] = []

    def __call__(self, report: WorkerReport) -> None:
        self.reports.append(report)

    @property
    def records(self) -> list[Any]:
        return [record for report in self.reports for record in report.records]


def hold_everything(asked: object) -> None:
    return None


def saved(folder: Path, *instants_us: int) -> Workload:
    save_arrivals(folder / "saved.csv", [Arrival(at_us, NAMES[0]) for at_us in instants_us])
    return Workload(saved=folder / "saved.csv")


def when(condition: Callable[[], bool], act: Callable[[], None]) -> Callable[[], None]:
    """Something to do once, for a pool of workers that ticks."""
    left = [act]

    def tick() -> None:
        if left and condition():
            left.pop()()

    return tick


def test_two_workers_share_the_arrivals_and_each_is_sent_once(gateway: Gateway) -> None:
    heard = Heard()
    pool = WorkerPool(assignments(gateway, workers=2), heard, wait_s=60)
    pool.run()
    planned = list(Workload(rate="500/s", requests=50, seed=1).arrivals(NAMES))
    found = sorted(heard.records)
    assert [record.number for record in found] == list(range(1, 51))
    assert [Arrival(r.at_us, r.application) for r in found] == planned
    assert sorted(r.request_id for r in gateway.got) == sorted(f"run-{n}" for n in range(1, 51))
    assert all(record.done and record.in_time for record in found)
    assert (pool.sent, pool.in_flight, pool.stopped) == (50, 0, False)
    assert 0 < pool.sending_s <= pool.elapsed_s


def test_sending_ends_with_the_last_request_not_with_the_news_of_it(gateway: Gateway) -> None:
    heard = Heard()
    pool = WorkerPool(assignments(gateway, 2), heard, wait_s=60)
    pool.run()
    last_us = max(record.at_us + record.late_us for record in heard.records)
    assert 0 < round(pool.sending_s * US_PER_S) <= last_us


def test_a_stop_ends_the_sending_and_answers_still_come(gateway: Gateway, tmp_path: Path) -> None:
    gateway.answer, gateway.holds = hold_everything, 2
    heard = Heard()
    pool = WorkerPool(assignments(gateway, plan=saved(tmp_path, 0, 1, HOUR_US)), heard, wait_s=60)

    def stop_and_let_them_be_answered() -> None:
        pool.stop()
        gateway.release()

    pool.run(when(lambda: pool.sent == 2, stop_and_let_them_be_answered))
    assert [record.done for record in heard.records] == [True, True]
    assert pool.stopped


def test_second_stop_of_a_worker_pool_does_not_wait(gateway: Gateway, tmp_path: Path) -> None:
    gateway.answer = hold_everything
    heard = Heard()
    pool = WorkerPool(assignments(gateway, plan=saved(tmp_path, 0, HOUR_US)), heard, wait_s=HOUR_US)

    def stop_twice() -> None:
        pool.stop()
        pool.stop()

    pool.run(when(lambda: pool.sent == 1, stop_twice))
    assert [(record.outcome, record.why) for record in heard.records] == [("error", UNANSWERED)]


def test_the_wait_for_the_last_answers_is_bounded(gateway: Gateway, tmp_path: Path) -> None:
    gateway.answer = hold_everything
    heard = Heard()
    pool = WorkerPool(assignments(gateway, plan=saved(tmp_path, 0, 1)), heard, wait_s=0.2)
    pool.run()
    assert [record.why for record in heard.records] == [UNANSWERED] * 2
    assert not pool.stopped


def test_requests_beyond_what_can_be_held_are_not_sent_but_told(
    gateway: Gateway, tmp_path: Path
) -> None:
    gateway.answer, gateway.holds = hold_everything, 3
    heard = Heard()
    plan = saved(tmp_path, *range(10))
    pool = WorkerPool(assignments(gateway, plan=plan, most_held=3), heard, wait_s=60)
    pool.run(when(lambda: pool.sent == 3, gateway.release))
    assert len(heard.records) == len(gateway.got) == 3
    assert sum(report.unsent.total() for report in heard.reports) == 7


def test_a_refusal_is_a_record_with_its_reason(gateway: Gateway, tmp_path: Path) -> None:
    gateway.answer = refused
    heard = Heard()
    WorkerPool(assignments(gateway, plan=saved(tmp_path, 0)), heard, wait_s=60).run()
    (record,) = heard.records
    assert (record.outcome, record.why) == ("overloaded", "the mesh is full")


def test_a_worker_that_breaks_down_ends_the_run(gateway: Gateway, tmp_path: Path) -> None:
    plan = Workload(saved=tmp_path / "gone.csv")
    with pytest.raises(Fault, match=r"broke down: .*gone\.csv"):
        WorkerPool(assignments(gateway, workers=2, plan=plan), Heard(), wait_s=60).run()


def test_workers_find_the_pictures_of_a_folder(gateway: Gateway, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / name).write_text(name)
    pictures = Pictures(folder=folder)
    WorkerPool(assignments(gateway, workers=2, pictures=pictures), Heard(), wait_s=60).run()
    by_number = {int(r.request_id.removeprefix("run-")): r.payload for r in gateway.got}
    assert [by_number[n] for n in range(1, 7)] == [b"a", b"b", b"c", b"a", b"b", b"c"]
