"""Runs that are compared: the same requests and the same weather, under several policies."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from operator import mul
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory

import typer

from esg.cli.evaluation.comparison import Result, mean_of, over_seeds, to_first
from esg.console.conditions import not_too_large
from esg.console.formatting import counted
from esg.console.progress import progress_bar
from esg.console.training import trained_for
from esg.core.catalog.model import Catalog
from esg.core.messages.commands import Command
from esg.core.messages.events import Event, RequestArrived
from esg.core.policies.table import learns
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
from esg.emulator.worker_processes import Interrupted
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
    offline are trained for it, unless it says what they learnt. `point` is what is its own among
    the studies of a grid."""

    catalog: Catalog
    scenario: Scenario
    policies: list[str]
    seeds: list[int]
    load: Source
    requests: float
    duration_s: float = math.inf
    file: Path | None = None
    point: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        not_too_large(self.scenario.nodes, self.scenario.vgpus)

    @property
    def runs(self) -> int:
        return len(self.policies) * len(self.seeds)

    @property
    def extent(self) -> Extent:
        return Extent(requests=self.requests, duration_s=self.duration_s)

    def check(self) -> None:
        """Refuse now what would be refused in the middle of all the work."""
        applied(self.catalog, self.scenario)
        self.arrivals(self.seeds[0])

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


Latencies = dict[str, list[int]]
"""The latencies of a run by application, in ascending order and thinned: a CDF needs no more."""

MOST_LATENCIES = 200

INTERRUPTED = 130
"""Exit code of a study that is not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFindings:
    """What came of a study: of those seeds that all policies have finished, so that differences
    are paired. These are all of them, unless it was interrupted."""

    results: dict[str, Result]
    limits: OptimumBounds
    seeds: list[int]
    latencies_us: dict[str, list[Latencies]]
    """Of each policy, for every seed."""


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
    if study.runs > 1:
        study.check()
        (found,) = carry_out_all([study], workers=workers, shown=shown, csv=csv).values()
        return found
    return _one(_trained(study, shown=shown), journal, trace_out, csv, shown=shown)


def carry_out_all(
    studies: Sequence[PolicyStudy], *, workers: int | None, shown: bool, csv: Path | None = None
) -> dict[int, StudyFindings]:
    """Carry out many studies at once, which were checked: what came of each, by its number.

    If Ctrl-C ends it before, those are there of which a seed is complete; if there is none, neither
    is an answer. Rows are there of every run that has ended.
    """
    studies = [_trained(study, shown=shown) for study in studies]
    runs = [run for study in studies for run in _runs(study)]
    outcomes = _with_rows(
        runs, csv, list(studies[0].point), lambda runs: _sweep(runs, workers, shown=shown)
    )
    found: dict[int, StudyFindings] = {}
    numbers = iter(range(len(runs)))
    for number, study in enumerate(studies):
        of_study = islice(numbers, sum(1 for _ in _runs(study)))
        own = [outcomes[n] for n in of_study if n in outcomes]
        complete = _complete(study, own)
        if complete.seeds:
            found[number] = _findings(complete, own)
    if not found:
        typer.echo("interrupted: no seed is complete", err=True)
        raise KeyboardInterrupt
    return found


def end_if_interrupted(studies: Sequence[PolicyStudy], found: Mapping[int, StudyFindings]) -> None:
    """End the command with the code of Ctrl-C, and say what is missing, if anything is."""
    there = sum(len(studies[n].policies) * len(one.seeds) for n, one in found.items())
    wanted = sum(study.runs for study in studies)
    if there < wanted:
        typer.echo(
            f"interrupted: {wanted - there} of {counted(wanted, 'run')} are missing; figures are "
            "of the seeds that all policies have finished",
            err=True,
        )
        raise typer.Exit(INTERRUPTED)


def _trained(study: PolicyStudy, *, shown: bool) -> PolicyStudy:
    if study.scenario.trained or not any(map(learns, study.policies)):
        return study
    trained = trained_for(study.policies, applied(study.catalog, study.scenario), shown=shown)
    return replace(study, scenario=replace(study.scenario, trained=trained))


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
        results={scenario.policy: emulation.summary()},
        limits=OptimumBounds(**limits),
        seeds=study.seeds,
        latencies_us={
            scenario.policy: [
                {
                    name: thinned(tally.latency_us)
                    for name, tally in emulation.report.applications.items()
                }
            ]
        },
    )


def _runs(study: PolicyStudy) -> Iterator[SweepRun]:
    """All runs of a study, one seed after the other: if somebody ends it, seeds are complete."""
    for seed in study.seeds:
        for label in (*study.policies, LIMITS):
            policy = "esg" if label == LIMITS else label
            yield SweepRun(
                label,
                study.catalog,
                replace(study.scenario, policy=policy, seed=seed),
                study.load,
                point=tuple(study.point.values()),
                extent=study.extent,
            )


def _with_rows(
    runs: list[SweepRun],
    csv: Path | None,
    varied: Sequence[str],
    sweep_all: Callable[[list[SweepRun]], Mapping[int, RunOutcome]],
) -> Mapping[int, RunOutcome]:
    """What came of runs that write the rows of their requests to files of their own, which become
    one. A run that did not end leaves no row."""
    if csv is None:
        return sweep_all(runs)
    with written(csv) as whole, TemporaryDirectory() as folder:
        parts = {
            number: Path(folder) / f"{number}.csv"
            for number, run in enumerate(runs)
            if run.label != LIMITS
        }
        outcomes = sweep_all(
            [replace(run, rows=parts.get(number)) for number, run in enumerate(runs)]
        )
        RequestRows.write_heading(whole, varied)
        for number, part in parts.items():
            if number in outcomes:
                with part.open(encoding="utf-8") as rows:
                    copyfileobj(rows, whole)
    return outcomes


def _sweep(
    runs: Sequence[SweepRun], workers: int | None, *, shown: bool
) -> Mapping[int, RunOutcome]:
    """What came of runs, by their numbers; of some, if they were interrupted."""
    weights = [LIMITS_WEIGHT if run.label == LIMITS else 1.0 for run in runs]
    text = counted(sum(run.label != LIMITS for run in runs), "run")
    with progress_bar(text, sum(weights), shown=shown) as advance:

        def watch(shares: Sequence[float]) -> None:
            advance(sum(map(mul, weights, shares)))

        try:
            return dict(enumerate(sweep(runs, run=_run, workers=workers, watch=watch)))
        except Interrupted as interrupted:
            if any(runs[number].label != LIMITS for number in interrupted.finished):
                return interrupted.finished
            typer.echo("interrupted: no run has ended", err=True)
            raise


def _complete(study: PolicyStudy, outcomes: Sequence[RunOutcome]) -> PolicyStudy:
    """The study with those seeds of which everything is there."""
    there = {(outcome.label, outcome.seed) for outcome in outcomes}
    labels = (*study.policies, LIMITS)
    seeds = [seed for seed in study.seeds if all((label, seed) in there for label in labels)]
    return replace(study, seeds=seeds)


def _findings(study: PolicyStudy, outcomes: Sequence[RunOutcome]) -> StudyFindings:
    for outcome in outcomes:
        if outcome.label != LIMITS and not outcome.summary["requests"]:
            raise Rejected(
                f"no request comes in this time with seed {outcome.seed}; give a longer one"
            )
    found = {
        label: [o.summary for o in outcomes if o.label == label and o.seed in study.seeds]
        for label in [*study.policies, LIMITS]
    }
    limits = found.pop(LIMITS)
    results = {policy: over_seeds(runs, study.seeds) for policy, runs in found.items()}
    first = results[study.policies[0]]
    for result in results.values():
        if result is not first:
            result["to_first"] = to_first(result, first)
    return StudyFindings(
        results=results,
        limits=OptimumBounds(**mean_of(limits)),
        seeds=study.seeds,
        latencies_us={
            policy: [_latencies(o) for o in outcomes if o.label == policy and o.seed in study.seeds]
            for policy in study.policies
        },
    )


def _latencies(outcome: RunOutcome) -> Latencies:
    return {name: latency_us for name, (_, latency_us) in outcome.series.items()}


def _run(job: SweepRun) -> RunOutcome:
    """Run one job in another process. Series of latencies can be long: they come
    thinned, and without their instants."""
    if job.label == LIMITS:
        return run_limits(job)
    outcome = run_job(job)
    instants: list[int] = []
    series = {name: (instants, thinned(times)) for name, (_, times) in outcome.series.items()}
    return replace(outcome, series=series)


def thinned(latencies_us: Sequence[int], most: int = MOST_LATENCIES) -> list[int]:
    """Latencies in ascending order; of many, as many as that, evenly by rank, with both ends.

    >>> thinned([30, 10, 20]), thinned(range(101), most=5)
    ([10, 20, 30], [0, 25, 50, 75, 100])
    """
    ordered = sorted(latencies_us)
    if len(ordered) <= most:
        return ordered
    return [ordered[rank * (len(ordered) - 1) // (most - 1)] for rank in range(most)]
