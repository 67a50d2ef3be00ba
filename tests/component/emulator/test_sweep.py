"""Many runs: in order, on any executor, and over at the first failure."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest

from esg.emulator import worker_processes
from esg.emulator.sweep import (
    Estimate,
    Generated,
    RunOutcome,
    SweepRun,
    run_job,
    run_limits,
    sweep,
)
from esg.emulator.worker_processes import Interrupted
from esg.errors import Rejected
from esg.workload.plan import Extent, Workload
from tests.support.emulated_runs import paper, run, scenario
from tests.support.paths import ROOT

FORTY = Generated(Workload(rate="heavy", requests=40))


def jobs(*seeds: int) -> list[SweepRun]:
    return [SweepRun(f"seed {n}", paper(), scenario(seed=n), FORTY) for n in seeds]


def test_outcomes_come_in_the_order_of_the_jobs_and_are_the_same_in_other_processes() -> None:
    wanted = jobs(3, 1, 2)
    told: list[Sequence[float]] = []
    found = sweep(wanted, workers=2, watch=lambda shares: told.append(list(shares)))
    assert [(outcome.label, outcome.seed) for outcome in found] == [
        ("seed 3", 3),
        ("seed 1", 1),
        ("seed 2", 2),
    ]
    assert [outcome.summary["digest"] for outcome in found] == [
        run_job(job).summary["digest"] for job in wanted
    ]
    assert told[-1] == [1, 1, 1]


def test_sweep_runs_on_any_executor() -> None:
    with ThreadPoolExecutor(1) as executor:
        found = sweep(jobs(0), executor=executor, run=run_limits)
        assert found[0].summary["slo_hit_rate"] == 1
        assert executor.submit(int).result() == 0  # it is still the caller's


def _stop_in_the_middle(job: SweepRun) -> RunOutcome:
    """All requests come, but the run does not end before somebody has seen that."""
    for _ in job.load.arrivals(list(job.catalog.applications), job.scenario.seed):
        pass
    assert _until(Path(job.label).exists)
    return RunOutcome(job.label, job.scenario.seed, {}, {})


def test_workers_tell_how_far_they_are_before_a_run_ends(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    load = Generated(Workload(rate="heavy", requests=300))
    extent = Extent(requests=400)
    wanted = [replace(job, label=str(seen), load=load, extent=extent) for job in jobs(0, 1)]
    told: list[list[float]] = []

    def watch(shares: Sequence[float]) -> None:
        told.append(list(shares))
        if told[-1] == [0.75, 0.75]:
            seen.touch()

    sweep(wanted, run=_stop_in_the_middle, workers=2, watch=watch)
    assert [0.75, 0.75] in told
    assert told[-1] == [1, 1]


def test_foreign_executors_tell_only_of_the_ends_of_runs() -> None:
    told: list[list[float]] = []
    with ThreadPoolExecutor(1) as executor:
        sweep(
            [replace(job, extent=Extent(requests=40)) for job in jobs(0, 1)],
            executor=executor,
            run=run_limits,
            watch=lambda shares: told.append(list(shares)),
        )
    assert told[-1] == [1, 1]
    assert {share for shares in told for share in shares} <= {0, 1}


def test_sweep_has_a_worker_for_every_core_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []

    def threads(count: int, *_: object, **__: object) -> ThreadPoolExecutor:
        counts.append(count)
        return ThreadPoolExecutor(1)

    monkeypatch.setattr(worker_processes, "ProcessPoolExecutor", threads)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    sweep(jobs(0), run=run_limits)
    monkeypatch.delattr(os, "sched_getaffinity")  # as on a Mac
    sweep(jobs(0), run=run_limits)
    assert counts == [3, 64]


def test_an_executor_that_was_given_does_not_go_on_after_a_failure() -> None:
    ran: list[int] = []

    def refuse_the_first(job: SweepRun) -> RunOutcome:
        ran.append(job.scenario.seed)
        if job.scenario.seed == 0:
            raise Rejected("not this one")
        holding.wait()
        return run_limits(job)

    holding = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(Rejected, match="not this one"):
            sweep(jobs(*range(9)), executor=executor, run=refuse_the_first)
        holding.set()
    assert len(ran) <= 2  # the second may have begun before the first was known to have failed


def test_series_are_the_latencies_of_each_application() -> None:
    outcome = run_job(jobs(0)[0])
    assert sum(len(latencies) for _, latencies in outcome.series.values()) == 40


def _refuse_or_sleep(job: SweepRun) -> RunOutcome:
    if job.scenario.seed == 1:
        raise Rejected("not this one")
    sleep(3600)
    return run_job(job)


def test_first_failed_run_of_a_sweep_ends_all_the_others() -> None:
    with pytest.raises(Rejected, match="not this one"):
        sweep(jobs(0, 1, 2, 3), run=_refuse_or_sleep, workers=2)
    assert multiprocessing.active_children() == []


def test_an_interrupted_sweep_brings_what_was_finished() -> None:
    def interrupt(shares: Sequence[float]) -> None:
        if shares[0] == 1:
            raise KeyboardInterrupt

    def first_only(job: SweepRun) -> RunOutcome:
        if job.scenario.seed != 0:
            holding.wait()
        return run_limits(job)

    holding = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(Interrupted) as interrupted:
            sweep(jobs(0, 1, 2), executor=executor, run=first_only, watch=interrupt)
        holding.set()
    assert {number: one.seed for number, one in interrupted.value.finished.items()} == {0: 0}


INTERRUPTED = """
from esg.emulator.sweep import Generated, SweepRun, sweep
from esg.workload.plan import Workload
from tests.support.emulated_runs import paper, scenario

if __name__ == "__main__":
    load = Generated(Workload(rate="heavy", requests=10**9))
    try:
        sweep([SweepRun("", paper(), scenario(seed=n), load) for n in range(3)], workers=2)
    except KeyboardInterrupt:
        print("interrupted")
"""


def _descendants(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task/{process}/children")
    found = [int(child) for child in tasks.read_text().split()] if tasks.exists() else []
    return [*found, *(grandchild for child in found for grandchild in _descendants(child))]


def _until(condition: Callable[[], bool]) -> bool:
    give_up = monotonic() + 60
    while not condition() and monotonic() < give_up:
        sleep(0.02)
    return condition()


def _is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux shows children so")
@pytest.mark.parametrize(
    ("number", "ending"),
    [(signal.SIGINT, (0, b"interrupted\n")), (signal.SIGKILL, (-signal.SIGKILL, b""))],
)
def test_sweep_leaves_no_worker_behind_however_it_ends(
    number: int, ending: tuple[int, bytes], tmp_path: Path
) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED, "utf-8")
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        # the resource tracker and two workers
        assert _until(lambda: len(_descendants(process.pid)) >= 3)
        workers = _descendants(process.pid)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does: everyone hears it
        else:
            process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == ending
        assert number == signal.SIGKILL or err == b""
        assert _until(lambda: all(_is_gone(worker) for worker in workers))
    finally:
        with suppress(ProcessLookupError):  # its workers too, should they be left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# Estimates.


def test_an_estimate_is_students() -> None:
    """Against a table: for 5 values the 97.5 % quantile of t is 2.776."""
    found = Estimate.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.mean == 3
    assert found.margin == pytest.approx(2.776 * (2.5**0.5) / 5**0.5)


@pytest.mark.parametrize(("count", "quantile"), [(21, 2.086), (31, 2.042), (101, 1.984)])
def test_margin_of_many_values_is_close_to_that_of_the_normal_distribution(
    count: int, quantile: float
) -> None:
    values = [float(n % 2) for n in range(count)]
    spread = (sum((v - sum(values) / count) ** 2 for v in values) / (count - 1)) ** 0.5
    assert Estimate.of(values).margin == pytest.approx(quantile * spread / count**0.5, rel=0.01)


def test_estimate_of_one_value_has_no_margin() -> None:
    assert Estimate.of([0.5]) == Estimate(0.5, 0.0)


# Loads.


def test_a_load_stops_at_a_count_or_a_time() -> None:
    applications = list(paper().applications)
    assert len(list(Generated(Workload(rate="heavy", requests=7)).arrivals(applications, 0))) == 7
    timed = list(Generated(Workload(rate="100/s", duration_s=2)).arrivals(applications, 0))
    assert len(timed) == 199  # the first one comes after 10 ms
    assert all(at_us < 2_000_000 for at_us, _ in timed)


def test_a_trace_is_scaled_to_a_rate(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("minute,count\n0,60\n1,60\n2,60\n", "utf-8")
    applications = list(paper().applications)
    plain = list(Generated(Workload(trace=path)).arrivals(applications, 0))
    scaled = list(Generated(Workload(trace=path, rate="10/s")).arrivals(applications, 0))
    assert (len(plain), len(scaled)) == (180, 1800)
    assert (
        len(
            list(
                Generated(Workload(trace=path, rate="10/s", duration_s=60)).arrivals(
                    applications, 0
                )
            )
        )
        == 600
    )


def test_every_policy_meets_the_same_requests() -> None:
    one, other = (run(requests=100, policy=policy).seen.arrived for policy in ("esg", "orion"))
    assert one == other
