"""Many runs at once: policies times seeds, over all cores.

Each run is a value (`SweepRun`) that can be sent to another process; any executor with the
interface of `concurrent.futures` will do, such as Dask's, so that a sweep can run on a cluster.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Protocol

from esg.core.catalog.model import Catalog
from esg.core.messages.events import Event, RequestArrived
from esg.emulator.optimum import limits
from esg.emulator.request_rows import RequestRows
from esg.emulator.run import build_durations, emulate, requests
from esg.emulator.scenario import Scenario, applied, applied_to_events
from esg.emulator.sizing.at_load import possible_share
from esg.emulator.worker_processes import each, tell
from esg.workload.plan import Extent, Workload

STEP = 100
"""Requests between two reports of a run's progress: some tens of milliseconds."""


class Source(Protocol):
    """Where requests come from, as a description that can be sent to another process."""

    def arrivals(self, applications: Sequence[str], seed: int) -> Iterator[tuple[int, Event]]: ...


@dataclass(frozen=True, slots=True)
class Watched:
    """Requests from elsewhere, with reports of the share that has come."""

    source: Source
    extent: Extent
    tell: Callable[[float], None]

    def arrivals(self, applications: Sequence[str], seed: int) -> Iterator[tuple[int, Event]]:
        count = 0
        for at_us, event in self.source.arrivals(applications, seed):
            if isinstance(event, RequestArrived):
                count += 1
                if count % STEP == 0:
                    self.tell(self.extent.share(count, at_us))
            yield at_us, event


@dataclass(frozen=True, slots=True)
class Generated:
    """The requests of a workload, the same for every policy with the same seed."""

    workload: Workload

    def arrivals(self, applications: Sequence[str], seed: int) -> Iterator[tuple[int, Event]]:
        return requests(replace(self.workload, seed=seed).arrivals(applications))


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run. `label` is the caller's; `catalog` is the full one; a row for each request goes to
    the file `rows`, and begins with the values of `point`. With an extent, our own workers tell how
    far it is."""

    label: str
    catalog: Catalog
    scenario: Scenario
    load: Source
    rows: Path | None = None
    point: tuple[object, ...] = ()
    extent: Extent | None = None


@dataclass(slots=True)
class RunOutcome:
    """What came of a run: its summary, and each application's (answered_us, latency_us)."""

    label: str
    seed: int
    summary: dict[str, Any]
    series: dict[str, tuple[list[int], list[int]]]


def run_job(job: SweepRun) -> RunOutcome:
    """One run, in whatever process."""
    arrivals = job.load.arrivals(list(job.catalog.applications), job.scenario.seed)
    with nullcontext() if job.rows is None else job.rows.open("w", encoding="utf-8") as file:
        observe = None
        if file is not None:
            observe = RequestRows(file, job.label, job.scenario.seed, point=job.point).observe
        emulation = emulate(job.catalog, job.scenario, arrivals, observe=observe)
    series = {
        name: (tally.answered_us, tally.latency_us)
        for name, tally in emulation.report.applications.items()
    }
    return RunOutcome(job.label, job.scenario.seed, emulation.summary(), series)


def run_limits(job: SweepRun) -> RunOutcome:
    """The limits under the conditions of a job (see `limits`)."""
    catalog = applied(job.catalog, job.scenario)
    durations = build_durations(catalog, job.scenario)
    arrivals = job.load.arrivals(list(job.catalog.applications), job.scenario.seed)
    events = list(applied_to_events(arrivals, job.catalog, job.scenario))
    found = limits(catalog, events, durations)
    found = replace(found, possible_at_this_load=possible_share(catalog, events))
    return RunOutcome(job.label, job.scenario.seed, asdict(found), {})


def sweep(
    jobs: Sequence[SweepRun],
    *,
    run: Callable[[SweepRun], RunOutcome] = run_job,
    executor: Executor | None = None,
    workers: int | None = None,
    watch: Callable[[Sequence[float]], None] = lambda shares: None,
) -> list[RunOutcome]:
    """All jobs, in their order (see `each`)."""
    if executor is None:
        jobs = [_watched(job, number) for number, job in enumerate(jobs)]
    return each(run, jobs, executor=executor, workers=workers, watch=watch)


def _watched(job: SweepRun, number: int) -> SweepRun:
    if job.extent is None:
        return job
    return replace(job, load=Watched(job.load, job.extent, partial(tell, number)))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, and how far the true one may be off (95 %; 0 for a single seed)."""

    mean: float
    margin: float

    @property
    def is_unclear(self) -> bool:
        """Of a difference: whether its sign is."""
        return abs(self.mean) <= self.margin

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
