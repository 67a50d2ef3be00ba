"""`esg emulate`: policies against each other on the same work, in virtual time."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from esg.cli.evaluation.comparison import print_comparison
from esg.cli.evaluation.study import PolicyStudy, carry_out
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.conditions import (
    MOST_REQUESTS,
    MOST_SEEDS,
    POLICIES_HELP,
    Nodes,
    SloScale,
    Vcpus,
    Vgpus,
    Workers,
    all_different,
    conditions,
    conditions_text,
    feature_names,
    known_engine,
    note_what_has_no_effect,
    only_one_run,
    policy_names,
)
from esg.console.options import AsJson, above_zero, at_least, from_zero
from esg.console.terminal import print_json, print_line, terminal
from esg.console.words import counted
from esg.core.policies.settings import PolicySettings
from esg.emulator.bounds import FASTEST_MB_PER_S, LOUDEST
from esg.emulator.scenario import Scenario
from esg.emulator.scenario import setting as setting_named
from esg.emulator.sweep import Load
from esg.errors import Rejected
from esg.units import DAY_MS

DEFAULT_SETTING = "relaxed-heavy"
DEFAULT_RATE = "heavy"
DEFAULT_REQUESTS = 1_000
USUAL = PolicySettings()

LONGEST_S = 31_536_000
"""A year, at most: the largest number of seconds anybody can mean."""


def emulate(
    setting: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=f"{DEFAULT_SETTING}, unless something below says otherwise",
            help="One of the paper's: strict-light, moderate-normal or relaxed-heavy.",
        ),
    ] = None,
    slo_scale: SloScale = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE",
            show_default=False,
            help="Request rate: heavy, normal, light, or as in 120/s and 30/min.",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Requests as a trace says; with a rate, scaled to it.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            show_default="found out",
            help="The trace's: azure2019, azure2021, timestamps or counts.",
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help=f"Policies to compare; the first is the baseline. {POLICIES_HELP}",
        ),
    ] = "esg",
    nodes: Nodes = None,
    vcpus: Vcpus = None,
    vgpus: Vgpus = None,
    requests: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_REQUESTS),
            show_default=f"{DEFAULT_REQUESTS}, without --duration or --trace",
            help="Stop after so many requests.",
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", callback=above_zero(LONGEST_S), help="Stop after so long instead."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S", show_default="0", help="The same seed gives the same requests and noise."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_SEEDS),
            show_default=False,
            help="Run with the seeds 0 to N - 1 instead; figures are means, with 95 % margins.",
        ),
    ] = None,
    warm_start: Annotated[
        bool,
        typer.Option("--warm-start/--cold-start", help="Whether models are loaded at the start."),
    ] = True,
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            metavar="K",
            callback=at_least(1),
            show_default=str(USUAL.k),
            help="Plans that esg offers.",
        ),
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(
            metavar="G",
            callback=at_least(1),
            show_default=str(USUAL.group_size),
            help="Most functions in a group of astar.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            show_default=USUAL.engine,
            help="What esg searches with: frontier or astar.",
        ),
    ] = None,
    no_batching: Annotated[
        bool, typer.Option("--no-batching", help="Every job is a task of its own.")
    ] = False,
    no_gpu_sharing: Annotated[
        bool, typer.Option("--no-gpu-sharing", help="Every task takes a whole GPU.")
    ] = False,
    no_locality: Annotated[
        bool, typer.Option("--no-locality", help="Place tasks anywhere, not where their data is.")
    ] = False,
    no_prewarm: Annotated[
        bool, typer.Option("--no-prewarm", help="Load no models ahead of their use.")
    ] = False,
    follow_profiles: Annotated[
        bool,
        typer.Option("--follow-profiles", help="Plans follow what tasks take, as in a live mesh."),
    ] = False,
    noise: Annotated[
        float,
        typer.Option(
            metavar="X",
            callback=from_zero(LOUDEST),
            help="Spread of durations, as a multiple of the profiled one.",
        ),
    ] = 1.0,
    stage_delay_ms: Annotated[
        float,
        typer.Option(
            metavar="MS",
            callback=from_zero(DAY_MS),
            help="What a stage takes beyond its profile; live meshes differ.",
        ),
    ] = 0.5,
    remote_delay_ms: Annotated[
        float,
        typer.Option(
            metavar="MS",
            callback=from_zero(DAY_MS),
            help="What an input from another node takes, whatever its size.",
        ),
    ] = 8.0,
    remote_mb_per_s: Annotated[
        float,
        typer.Option(
            metavar="X",
            callback=above_zero(FASTEST_MB_PER_S),
            help="And the rate at which it is read, in MB/s.",
        ),
    ] = 100.0,
    overhead: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="What scheduling takes: none, counted (from its effort) or measured (here; what "
            "a policy remembers, as orion does its searches, takes no time then).",
        ),
    ] = "counted",
    search_steps_per_ms: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default="each policy's own",
            help="Search effort that counts as a millisecond.",
        ),
    ] = None,
    without: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            show_default=False,
            help="Parts of policy apex to leave out, such as holding,risk (docs/apex.md).",
        ),
    ] = "",
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every event, for esg replay and esg what-if."),
    ] = None,
    trace_out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all tasks, for Perfetto or chrome://tracing."),
    ] = None,
    workers: Workers = None,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare policies on the same requests, in virtual time.

    A setting is a deadline and a rate; --slo-scale and --rate override its parts. With only some of
    --slo-scale, --rate and --trace, deadlines are the applications' own and the rate is heavy, or
    the trace's. Nodes are as many and as large as the catalog says, unless told otherwise.

    \b
    Examples:
      esg emulate
      esg emulate --setting strict-light --policy esg,orion,infless-config-first
      esg emulate --slo-scale 1.1 --rate 60/s --nodes 12 --seeds 5 --json
      esg emulate --trace esg/workload/day.csv --rate heavy --duration 600
      esg emulate --policy apex --without holding,risk
      esg emulate --journal run.journal --trace-out run.json
    """
    if setting is None and slo_scale is None and rate is None and trace is None:
        setting = DEFAULT_SETTING
    if setting is not None:
        chosen = setting_named(setting)
        own_slo, own_rate = slo_scale in (None, chosen.slo_scale), rate in (None, chosen.rate)
        slo_scale = chosen.slo_scale if slo_scale is None else slo_scale
        rate = chosen.rate if rate is None else rate
        if not (own_slo and own_rate and trace is None):
            setting = None  # it is no longer the paper's
    if rate is None and trace is None:
        rate = DEFAULT_RATE
    if trace is None and format is not None:
        raise Rejected("--format is that of a trace; name one with --trace")
    if requests is not None and duration is not None:
        raise Rejected("--requests and --duration are two ways to stop; give one of them")
    if seed is not None and seeds is not None:
        raise Rejected("--seed and --seeds are two ways to choose; give one of them")
    if requests is None and duration is None and trace is None:
        requests = DEFAULT_REQUESTS
    policies = policy_names(policy)
    engine_name = known_engine(USUAL.engine if engine is None else engine)
    if without and "apex" not in policies:
        raise Rejected("--without is about policy apex; name it with --policy")
    all_seeds = list(range(seeds)) if seeds is not None else [seed or 0]
    for option, file in (("--journal", journal), ("--trace-out", trace_out)):
        if file is not None:
            only_one_run(option, policies, all_seeds)
    all_different(
        {"--trace": trace, "--catalog": catalog, "--journal": journal, "--trace-out": trace_out}
    )

    known = read_catalog(catalog)
    scenario = Scenario(
        policy=policies[0],
        engine=engine_name,
        k=USUAL.k if k is None else k,
        group_size=USUAL.group_size if group_size is None else group_size,
        slo_scale=slo_scale,
        nodes=known.cluster.nodes if nodes is None else nodes,
        vcpus=known.cluster.vcpus if vcpus is None else vcpus,
        vgpus=known.cluster.vgpus if vgpus is None else vgpus,
        seed=all_seeds[0],
        warm_start=warm_start,
        batching=not no_batching,
        gpu_sharing=not no_gpu_sharing,
        locality=not no_locality,
        prewarm=not no_prewarm,
        follow_profiles=follow_profiles,
        noise=noise,
        stage_delay_ms=stage_delay_ms,
        remote_delay_ms=remote_delay_ms,
        remote_mb_per_s=remote_mb_per_s,
        overhead=overhead,
        search_steps_per_ms=search_steps_per_ms,
        without=feature_names(without),
    )
    load = Load(
        rate=rate, trace=trace, format=format or "auto", requests=requests, duration_s=duration
    )
    extent = load.extent()
    if not extent.requests and rate is not None and replace(load, rate=None).extent().requests:
        raise Rejected(f"{trace}: no request comes at the rate {rate}; give a higher one")
    study = PolicyStudy(
        catalog=known,
        scenario=scenario,
        policies=policies,
        seeds=all_seeds,
        load=load,
        requests=extent.requests,
        duration_s=extent.duration_s,
        file=trace,
    )
    given = {
        "--engine": engine is not None,
        "--k": k is not None,
        "--group-size": group_size is not None,
        "--no-locality": no_locality,
        "--search-steps-per-ms": search_steps_per_ms is not None,
    }
    note_what_has_no_effect([name for name, so in given.items() if so], policies, scenario)
    findings = carry_out(
        study, workers=workers, shown=not as_json, journal=journal, trace_out=trace_out
    )
    if as_json:
        print_json(
            {
                "setting": {"name": setting, **_load_document(load), **conditions(scenario)},
                "seeds": all_seeds,
                "limits": asdict(findings.limits),
                "results": list(findings.results.values()),
            }
        )
        return
    screen = terminal()
    heading = f"{setting}: " if setting else ""
    came = round(findings.results[policies[0]]["requests"])
    print_line(screen, f"{heading}{_load_text(load, came)}; {_seeds_text(all_seeds)}.")
    screen.print(f"{conditions_text(scenario, policies)}.\n")
    print_comparison(screen, findings.results, findings.limits)


def _load_document(load: Load) -> dict[str, Any]:
    return {
        "rate": load.rate,
        "trace": None if load.trace is None else str(load.trace),
        "format": None if load.trace is None else load.format,
        "requests": load.requests,
        "duration_s": load.duration_s,
    }


def _load_text(load: Load, came: int) -> str:
    """A trace may have ended before as many came as were asked for."""
    count = counted(came, "request")
    if load.duration_s is not None:
        count += f" within {load.duration_s:g} s"
    if load.trace is None:
        return f"{count} at the rate {load.rate}"
    return f"{count} as in {load.trace}" + (f", scaled to {load.rate}" if load.rate else "")


def _seeds_text(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
