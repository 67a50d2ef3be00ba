"""`esg capacity`: the highest rate at which enough requests are in time, in virtual time."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Annotated, Any

import typer
from rich.table import Table

from esg.cli.evaluation.comparison import MARGINS_LEGEND, Result, margin_text, over_seeds
from esg.cli.evaluation.emulate_options import EmulateOptions
from esg.cli.evaluation.emulated import seeds_text
from esg.cli.evaluation.study import INTERRUPTED
from esg.console.arrivals import (
    LONGEST_S,
    MOST_REQUESTS,
    ArrivalOptions,
    Burst,
    MixOfApplications,
    Poisson,
)
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.conditions import (
    MOST_SEEDS,
    POLICIES_HELP,
    Html,
    Workers,
    all_different,
    conditions,
    conditions_text,
    not_too_large,
    note_what_has_no_effect,
)
from esg.console.formatting import at_hyphens, cost_text, rate_text
from esg.console.options import AsJson, above_zero, at_least, given_share
from esg.console.progress import progress_bar
from esg.console.terminal import open_table, print_json, print_line, terminal
from esg.console.training import trained_for
from esg.core.metrics import RATE_AND_COST
from esg.emulator.capacity import (
    HIGHEST,
    LOWEST,
    Capacity,
    CapacityQuestion,
    find_capacity,
)
from esg.emulator.scenario import DEADLINES, applied
from esg.emulator.sweep import Generated
from esg.emulator.worker_processes import own_workers
from esg.errors import Rejected
from esg.files import written
from esg.reporting.provenance import Provenance
from esg.suggest import did_you_mean

DEFAULT_SEEDS = 3
DEFAULT_DURATION_S = 20.0
"""Some ten deadlines: in a shorter run a queue that grows does not grow long enough to be seen."""

LEGEND = f"fails at: the lowest rate that did not hold, and its hit rate. {RATE_AND_COST}"

DOUBLINGS = 6
"""From the first rate to that of the shipped cluster: what the bar expects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityOptions(EmulateOptions):
    """What is to be emulated at every rate. Every field is an option, in the order of the help."""

    setting: Annotated[
        str | None,
        typer.Option(
            metavar="DEADLINE",
            show_default="the applications' own deadlines",
            help="strict, moderate or relaxed: 0.8, 1 or 1.2 L.",
        ),
    ] = None
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help=f"Policies whose capacity is wanted. {POLICIES_HELP}"
        ),
    ] = "esg"
    seed: Annotated[
        int | None,
        typer.Option(metavar="S", show_default=False, help="Run every rate with this seed alone."),
    ] = None
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_SEEDS),
            show_default=str(DEFAULT_SEEDS),
            help="Every rate is run with the seeds 0 to N - 1.",
        ),
    ] = None

    def with_deadline_and_seeds(self) -> "CapacityOptions":
        """The options with `slo_scale` for a deadline that has a name, and the usual seeds."""
        self.check()
        slo_scale, seeds = self.slo_scale, self.seeds
        if self.setting is not None:
            if slo_scale is not None:
                raise Rejected("--setting and --slo-scale are two ways to say it; give one of them")
            if self.setting not in DEADLINES:
                raise Rejected(f"--setting: {did_you_mean('deadline', self.setting, DEADLINES)}")
            slo_scale = DEADLINES[self.setting]
        if seeds is None and self.seed is None:
            seeds = DEFAULT_SEEDS
        return replace(self, slo_scale=slo_scale, seeds=seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityLoad:
    """The requests of a run, but for their rate. Every field is an option."""

    poisson: Poisson = False
    burst: Burst = False
    mix: MixOfApplications = None
    requests: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_REQUESTS),
            show_default=False,
            help="Stop a run after this many requests.",
        ),
    ] = None
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            callback=above_zero(LONGEST_S),
            show_default=f"{DEFAULT_DURATION_S:g}",
            help="Stop it after this many seconds instead; it must be much longer than deadlines, "
            "or a growing queue goes unnoticed.",
        ),
    ] = None

    def settled(self) -> "CapacityLoad":
        if self.requests is None and self.duration is None:
            return replace(self, duration=DEFAULT_DURATION_S)
        return self

    def at(self, rate: str) -> Generated:
        return Generated(
            ArrivalOptions(
                rate=rate,
                poisson=self.poisson,
                burst=self.burst,
                mix=self.mix,
                requests=self.requests,
                duration=self.duration,
            ).workload(0)
        )

    @property
    def text(self) -> str:
        how = "Poisson, " if self.poisson else "in bursts, " if self.burst else ""
        if self.requests is not None:
            return f"{how}{self.requests} requests per run"
        return f"{how}{self.duration:g} s per run"


def capacity(
    options: CapacityOptions,
    load: CapacityLoad,
    hit_rate: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Share of requests that must be in time, as in 99% or 0.99."
        ),
    ] = "99%",
    within: Annotated[
        str, typer.Option(metavar="SHARE", help="Relative precision of the rate.")
    ] = "2%",
    workers: Workers = None,
    catalog: CatalogFile = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Find the highest rate at which enough requests are in time.

    A rate holds if the mean of the hit rate over seeds is at least --hit-rate. It is doubled until
    it does not hold; then the gap is halved until it is within --within. All rates and policies use
    the same seeds, so the same command always finds the same rates.

    \b
    Examples:
      esg capacity --policy esg,apex
      esg capacity --setting strict --nodes 8 --hit-rate 95% --poisson
      esg capacity --slo-scale 1.1 --seeds 10 --duration 60 --json
      esg capacity --policy esg,apex --html capacity.html
    """
    all_different({"--catalog": catalog, "--html": html})
    options, load = options.with_deadline_and_seeds(), load.settled()
    target, narrow = given_share("--hit-rate", hit_rate), given_share("--within", within)
    known = read_catalog(catalog)
    scenario = options.scenario(known)
    not_too_large(scenario.nodes, scenario.vgpus)
    next(load.at("1/s").arrivals(list(known.applications), 0), None)  # is there such a mix?
    note_what_has_no_effect(options.without_effect_on_some, options.policies, scenario)
    trained = trained_for(options.policies, applied(known, scenario), shown=not as_json)
    question = CapacityQuestion(
        catalog=known,
        scenario=replace(scenario, trained=trained),
        policies=options.policies,
        seeds=options.all_seeds,
        load=load.at,
        target=target,
        within=narrow,
    )
    with nullcontext() if html is None else written(html) as page:
        found, whole = _search(question, workers, shown=not as_json)
        results = {name: _result(one, question) for name, one in found.items()}
        provenance = Provenance.of_now("esg")
        if page is not None:
            from esg.cli.evaluation.pages import capacity as pages  # plotly takes half a second

            text = question_text(question, load)
            page.write(pages.page(question, results, text=text, provenance=provenance))
    if as_json:
        setting = {**conditions(scenario), **_document(load)}
        print_json(
            {
                **provenance.document(),
                "setting": setting,
                "hit_rate": target,
                "within": narrow,
                "seeds": list(question.seeds),
                "results": list(results.values()),
            }
        )
    else:
        _print(question, load, results)
    if not whole:
        typer.echo("interrupted: rates are the highest that have held so far", err=True)
        raise typer.Exit(INTERRUPTED)


def _percent(share: float) -> str:
    return f"{100 * share:.4g}%"


def _search(
    question: CapacityQuestion, workers: int | None, *, shown: bool
) -> tuple[dict[str, Capacity], bool]:
    """What was found, and whether nobody interrupted the search."""
    known: dict[str, Capacity] = {}
    rounds = DOUBLINGS + ceil(max(0.0, log2(1 / question.within)))
    with progress_bar("rates tried", rounds, shown=shown) as advance:

        def progress(found: Mapping[str, Capacity]) -> None:
            known.update(found)
            advance(min(rounds, max(len(one.runs) for one in found.values())))

        try:
            with own_workers(workers) as executor:
                return find_capacity(question, executor, progress), True
        except KeyboardInterrupt:
            if not known:
                raise
            return known, False


def _result(one: Capacity, question: CapacityQuestion) -> Result:
    """What is known of a policy, as a document."""
    held, failed = one.search.held, one.search.failed
    at_held: Result = {} if held is None else over_seeds(one.runs[held], question.seeds)
    names = (
        "slo_hit_rate",
        "slo_hit_rate_margin",
        "cost_usd_per_1k_requests",
        "cost_usd_per_1k_requests_margin",
        "vgpu_utilisation",
    )
    return {
        "policy": next(iter(one.runs.values()))[0]["policy"],
        "rate_per_s": held,
        **{name: at_held.get(name) for name in names},
        "fails_at_per_s": failed,
        "fails_with_slo_hit_rate": None if failed is None else one.hit_rate(failed),
        "tried": [
            {"rate_per_s": rate, "slo_hit_rate": one.hit_rate(rate)} for rate in sorted(one.runs)
        ],
    }


def _document(load: CapacityLoad) -> dict[str, Any]:
    pattern = "poisson" if load.poisson else "burst" if load.burst else "steady"
    how_long = {"requests": load.requests, "duration_s": load.duration}
    return {"pattern": pattern, "mix": load.mix, **how_long}


def _print(question: CapacityQuestion, load: CapacityLoad, results: Mapping[str, Result]) -> None:
    screen = terminal()
    print_line(screen, question_text(question, load))
    screen.print(f"{conditions_text(question.scenario, question.policies)}.\n")
    screen.print(_table(results))
    screen.print(f"\n{LEGEND}{MARGINS_LEGEND if len(question.seeds) > 1 else ''}")


def question_text(question: CapacityQuestion, load: CapacityLoad) -> str:
    return (
        f"The highest rate with {_percent(question.target)} in time, within "
        f"{_percent(question.within)}: {load.text}; {seeds_text(question.seeds)}."
    )


def _table(results: Mapping[str, Result]) -> Table:
    table = open_table()
    table.add_column("policy", no_wrap=True)
    for heading in ("rate/s", "hit\nrate", "cost", "vGPU\nuse", "fails\nat", "with"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, result in results.items():
        failed = result["fails_at_per_s"]
        table.add_row(
            at_hyphens(name, 12),
            found_text(result["rate_per_s"]),
            rate_text(result["slo_hit_rate"])
            + margin_text(" ", result["slo_hit_rate_margin"], 100, decimals=1),
            cost_text(result["cost_usd_per_1k_requests"])
            + margin_text(" ", result["cost_usd_per_1k_requests_margin"], 1, decimals=4),
            rate_text(result["vgpu_utilisation"]),
            "" if failed is None else f"{failed:g}",
            rate_text(result["fails_with_slo_hit_rate"]),
        )
    return table


def found_text(rate: float | None) -> str:
    if rate is None:
        return f"<{LOWEST:g}"
    return f"{rate:g}" if rate < HIGHEST else f">={HIGHEST:g}"
