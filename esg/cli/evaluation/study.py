"""Runs that are compared: the same requests and the same weather, under several policies."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from operator import mul
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

from esg.cli.evaluation.comparison import Result, mean_of, over_seeds, to_first
from esg.console.conditions import not_too_large
from esg.console.formatting import counted
from esg.console.progress import progress_bar
from esg.console.training import trained_for
from esg.core.catalog.model import Catalog
from esg.core.messages.commands import Command
from esg.core.messages.events import Event, RequestArrived
from esg.emulator.chrome_trace import ChromeTrace
from esg.emulator.optimum import OptimumBounds
from esg.emulator.request_rows import RequestRows
from esg.emulator.run import emulate
from esg.emulator.scenario import Scenario, applied
from esg.emulator.sweep import (
    RunOutcome,
    Source,
    SweepRun,
    Watched,
    run_job,
    run_limits,
    sweep,
)
from esg.errors import Rejected
from esg.files import written
from esg.workload.plan import Extent

LIMITS = "limits"
"""The label of jobs that are no runs."""

LIMITS_WEIGHT = 0.1
"""The time that limits take, in runs: so that a bar moves at one speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStudy:
    """Runs to compare: policies times seeds. `scenario` is the first of them; no more than so many
    requests come, and for no longer. The requests may be those of a file. Policies that learn
    offline are trained for it, unless it says what they learnt."""

    catalog: Catalog
    scenario: Scenario
    policies: list[str]
    seeds: list[int]
    load: Source
    requests: float
    duration_s: float = math.inf
    file: Path | None = None

    def __post_init__(self) -> None:
        not_too_large(self.scenario.nodes, self.scenario.vgpus)

    @property
    def extent(self) -> Extent:
        return Extent(requests=self.requests, duration_s=self.duration_s)

    def arrivals(self, seed: int) -> Iterator[tuple[int, Event]]:
        """The arrivals of a run, of which there is at least one."""
        arrivals = self.load.arrivals(list(self.catalog.applications), seed)
        before: list[tuple[int, Event]] = []
        for at_us, event in arrivals:
            before.append((at_us, event))
            if isinstance(event, RequestArrived):
                return chain(before, arrivals)
        if self.file is not None and not self.requests:
            raise Rejected(f"{self.file}: no request comes in it; name another one")
        raise Rejected("no request comes in this time; give a longer one")


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFindings:
    results: dict[str, Result]
    limits: OptimumBounds


def carry_out(
    study: PolicyStudy,
    *,
    workers: int | None,
    shown: bool,
    journal: Path | None = None,
    trace_out: Path | None = None,
    csv: Path | None = None,
) -> StudyFindings:
    """Carry out a study: a single run here, which can be recorded; several in processes of their
    own. The requests of all runs can be written to one file."""
    if not study.scenario.trained:
        seen = applied(study.catalog, study.scenario)
        trained = trained_for(study.policies, seen, shown=shown)
        study = replace(study, scenario=replace(study.scenario, trained=trained))
    if len(study.policies) * len(study.seeds) > 1:
        return _many(study, workers, csv, shown=shown)
    return _one(study, journal, trace_out, csv, shown=shown)


def _one(
    study: PolicyStudy,
    journal: Path | None,
    trace_out: Path | None,
    csv: Path | None,
    *,
    shown: bool,
) -> StudyFindings:
    scenario = study.scenario
    with ExitStack() as stack:
        advance = stack.enter_context(progress_bar(scenario.policy, 1, shown=shown))
        watched = replace(study, load=Watched(study.load, study.extent, advance))
        arrivals = watched.arrivals(scenario.seed)
        journal_file = stack.enter_context(written(journal)) if journal else None
        picture = ChromeTrace(stack.enter_context(written(trace_out))) if trace_out else None
        rows = stack.enter_context(written(csv)) if csv else None
        observers = [picture.observe] if picture else []
        if rows is not None:
            RequestRows.write_heading(rows)
            observers.append(RequestRows(rows, scenario.policy, scenario.seed).observe)

        def observe(now_us: int, event: Event, commands: list[Command]) -> None:
            for observer in observers:
                observer(now_us, event, commands)

        emulation = emulate(
            study.catalog,
            scenario,
            arrivals,
            journal=journal_file,
            observe=observe if observers else None,
        )
        advance(1)
        if picture:
            picture.close()
    with progress_bar(LIMITS, 1, shown=shown) as advance:
        load = Watched(study.load, study.extent, advance)
        limits = run_limits(SweepRun(LIMITS, study.catalog, scenario, load)).summary
        advance(1)
    return StudyFindings(
        results={scenario.policy: emulation.summary()}, limits=OptimumBounds(**limits)
    )


def _many(
    study: PolicyStudy, workers: int | None, csv: Path | None, *, shown: bool
) -> StudyFindings:
    study.arrivals(study.seeds[0])  # so that what is wrong with them is known before all the work
    jobs = [
        SweepRun(
            label,
            study.catalog,
            replace(study.scenario, policy=policy, seed=seed),
            study.load,
        )
        for label, policy in [*zip(study.policies, study.policies, strict=True), (LIMITS, "esg")]
        for seed in study.seeds
    ]
    with _rows_of(jobs, csv) as jobs:
        outcomes = _sweep(study, jobs, workers, shown=shown)
    return _findings(study, outcomes)


@contextmanager
def _rows_of(jobs: list[SweepRun], csv: Path | None) -> Iterator[list[SweepRun]]:
    """Jobs that write the rows of their requests to files of their own, which become one when all
    went well."""
    if csv is None:
        yield jobs
        return
    with written(csv) as whole, TemporaryDirectory() as folder:
        parts = [Path(folder) / f"{number}.csv" for number in range(len(jobs))]
        yield [
            job if job.label == LIMITS else replace(job, rows=part)
            for job, part in zip(jobs, parts, strict=True)
        ]
        RequestRows.write_heading(whole)
        for part in filter(Path.exists, parts):
            with part.open(encoding="utf-8") as rows:
                copyfileobj(rows, whole)


def _sweep(
    study: PolicyStudy, jobs: list[SweepRun], workers: int | None, *, shown: bool
) -> list[RunOutcome]:
    weights = [LIMITS_WEIGHT if job.label == LIMITS else 1.0 for job in jobs]
    runs = counted(len(study.policies) * len(study.seeds), "run")
    with progress_bar(runs, sum(weights), shown=shown) as advance:

        def watch(shares: Sequence[float]) -> None:
            advance(sum(map(mul, weights, shares)))

        return sweep(jobs, run=_run, workers=workers, extent=study.extent, watch=watch)


def _findings(study: PolicyStudy, outcomes: list[RunOutcome]) -> StudyFindings:
    for outcome in outcomes:
        if outcome.label != LIMITS and not outcome.summary["requests"]:
            raise Rejected(
                f"no request comes in this time with seed {outcome.seed}; give a longer one"
            )
    found = {
        label: [outcome.summary for outcome in outcomes if outcome.label == label]
        for label in [*study.policies, LIMITS]
    }
    limits = found.pop(LIMITS)
    results = {policy: over_seeds(runs, study.seeds) for policy, runs in found.items()}
    first = results[study.policies[0]]
    for result in results.values():
        if result is not first:
            result["to_first"] = to_first(result, first)
    return StudyFindings(results=results, limits=OptimumBounds(**mean_of(limits)))


def _run(job: SweepRun) -> RunOutcome:
    """Run one job in another process. Series of latencies can be long, and nobody here asks for
    them."""
    return run_limits(job) if job.label == LIMITS else replace(run_job(job), series={})
