"""Many runs at once: policies times seeds, over all cores.

Each run is a value (`Job`) that can be sent to another process; any executor with the interface of
`concurrent.futures` will do, such as Dask's, so that a sweep can run on a cluster.
"""

import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import fmean, stdev
from threading import current_thread, main_thread
from typing import Any, Protocol

from emulator.limits import limits
from emulator.run import Trained, build_nature, emulate, requests
from emulator.scenario import Scenario, applied, applied_to_events
from esg.catalog import Catalog
from esg.events import Event
from esg.units import seconds
from loadgen.arrivals import until
from loadgen.mix import Mix
from loadgen.rates import steady
from loadgen.shaping import Shaping, from_trace
from loadgen.traces.read import read_trace


class Source(Protocol):
    """Where requests come from, as a description that can be sent to another process."""

    def arrivals(self, applications: Sequence[str], seed: int) -> Iterator[tuple[int, Event]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Which requests come, up to a count or a time.

    At a rate (`heavy`, `120/s`), or as a trace says; with both, the trace's mean is scaled to the
    rate. A description rather than a list, so that a day of requests is cheap to send around.
    """

    rate: str | None = None
    trace: Path | None = None
    format: str = "auto"
    requests: int | None = None
    duration_s: float | None = None

    def arrivals(self, applications: Sequence[str], seed: int) -> Iterator[tuple[int, Event]]:
        """The same for every policy with the same seed."""
        mix = Mix.uniform(applications)
        if self.trace is not None:
            trace = read_trace(self.trace, self.format)
            source = from_trace(trace, mix, seed, Shaping(rate=self.rate))
        else:
            source = steady("heavy" if self.rate is None else self.rate, mix, seed)
        if self.duration_s is not None:
            source = until(source, seconds(self.duration_s))
        return requests(islice(source, self.requests))


@dataclass(frozen=True, slots=True)
class Job:
    """One run. `label` is the caller's; `catalog` is the full one."""

    label: str
    catalog: Catalog
    scenario: Scenario
    load: Source
    trained: Trained


@dataclass(slots=True)
class Outcome:
    """What came of a run: its summary, and each application's (answered_us, latency_us)."""

    label: str
    seed: int
    summary: dict[str, Any]
    series: dict[str, tuple[list[int], list[int]]]


def run_job(job: Job) -> Outcome:
    """One run, in whatever process."""
    arrivals = job.load.arrivals(list(job.catalog.applications), job.scenario.seed)
    emulation = emulate(job.catalog, job.scenario, arrivals, trained=job.trained)
    series = {
        name: (tally.answered_us, tally.latency_us)
        for name, tally in emulation.report.applications.items()
    }
    return Outcome(job.label, job.scenario.seed, emulation.summary(), series)


def run_limits(job: Job) -> Outcome:
    """The limits under the conditions of a job (see `limits`)."""
    catalog = applied(job.catalog, job.scenario)
    nature = build_nature(catalog, job.scenario)
    arrivals = job.load.arrivals(list(job.catalog.applications), job.scenario.seed)
    found = limits(catalog, applied_to_events(arrivals, job.catalog, job.scenario), nature)
    summary = {
        "slo_hit_rate": found.slo_hit_rate,
        "cost_usd_per_1k_requests": found.cost_usd_per_1k_requests,
    }
    return Outcome(job.label, job.scenario.seed, summary, {})


def sweep(
    jobs: Sequence[Job],
    *,
    run: Callable[[Job], Outcome] = run_job,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[], None] = lambda: None,
) -> list[Outcome]:
    """All jobs, in their order; `progress` is called as each one ends.

    Without an executor there are `workers` processes, or one per core. The first job that fails
    ends them all, and so does Ctrl-C.
    """
    with ExitStack() as stack:
        executor = executor or stack.enter_context(_own_workers(workers or os.cpu_count() or 1))
        with _uninterrupted():
            futures = [executor.submit(run, job) for job in jobs]
        try:
            for future in as_completed(futures):
                future.result()
                progress()
        except BaseException:
            for future in futures:  # an executor that was given goes on with what it has
                future.cancel()
            raise
        return [future.result() for future in futures]


@contextmanager
def _own_workers(count: int) -> Iterator[Executor]:
    """Processes that are ended, not waited for, when something goes wrong.

    They are spawned, not forked: this process may have threads (a progress bar, say).
    """
    strangers = active_children()
    executor = ProcessPoolExecutor(count, get_context("spawn"))
    try:
        yield executor
    except BaseException:
        for child in active_children():
            if child not in strangers:
                child.kill()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until all workers are there: one whose start is interrupted is known to nobody.

    It is blocked, which workers inherit, so that they never hear of it: they are ended from here.
    That is not enough for this process, since numpy's threads hear it too and tell the main one.
    """
    if current_thread() is not main_thread():
        yield  # it is the main thread that interrupts come to
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, and how far the true one may be off (95 %; 0 for a single seed)."""

    mean: float
    margin: float

    @staticmethod
    def of(values: Sequence[float]) -> "Estimate":
        """
        >>> of_three = Estimate.of([0.8, 0.9, 1.0])
        >>> f"{of_three.mean:.2f} ± {of_three.margin:.2f}"
        '0.90 ± 0.25'
        """
        if len(values) < 2:
            return Estimate(values[0] if values else math.nan, 0.0)
        spread = stdev(values) / math.sqrt(len(values))
        return Estimate(fmean(values), _student_t(len(values) - 1) * spread)


def _student_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution."""
    table = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
    return table[freedom - 1] if freedom <= len(table) else 1.96 + 2.4 / freedom
