"""`esg emulate`: policies against each other on the same work, in virtual time."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from esg.cli.evaluation.comparison import print_comparison
from esg.cli.evaluation.emulate_options import EmulateOptions
from esg.cli.evaluation.study import PolicyStudy, carry_out
from esg.console.arrivals import ArrivalOptions
from esg.console.catalog import CatalogFile, read_catalog, warn_of_deadlines
from esg.console.conditions import (
    Csv,
    Workers,
    all_different,
    conditions,
    conditions_text,
    note_what_has_no_effect,
    only_one_run,
)
from esg.console.formatting import counted
from esg.console.options import AsJson
from esg.console.terminal import print_json, print_line, terminal
from esg.emulator.sweep import Generated
from esg.errors import Rejected
from esg.workload.plan import Workload


def emulate(
    options: EmulateOptions,
    arrivals: ArrivalOptions,
    journal: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every event, for esg replay and esg what-if."),
    ] = None,
    trace_out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all tasks, for Perfetto or chrome://tracing."),
    ] = None,
    csv: Csv = None,
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
      esg emulate --rate 60/s --burst --mix image-classification=1
      esg emulate --policy apex --without holding,risk
      esg emulate --policy esg,my_policy:Mine --seeds 5 --csv requests.csv
      esg emulate --journal run.journal --trace-out run.json
    """
    options, arrivals = options.settled(arrivals)
    policies, seeds = options.policies, options.all_seeds
    load = arrivals.workload(seeds[0])
    for option, file in (("--journal", journal), ("--trace-out", trace_out)):
        if file is not None:
            only_one_run(option, policies, seeds)
    written = {"--journal": journal, "--trace-out": trace_out, "--csv": csv}
    read = {"--trace": load.trace, "--arrivals": load.saved, "--catalog": catalog}
    all_different({**read, **written})

    known = read_catalog(catalog)
    warn_of_deadlines(known, catalog)
    scenario = options.scenario(known.cluster)
    extent = load.extent()
    if not extent.requests and load.rate is not None and replace(load, rate=None).extent().requests:
        raise Rejected(f"{load.trace}: no request comes at the rate {load.rate}; give a higher one")
    study = PolicyStudy(
        catalog=known,
        scenario=scenario,
        policies=policies,
        seeds=seeds,
        load=Generated(load),
        requests=extent.requests,
        duration_s=extent.duration_s,
        file=load.trace or load.saved,
    )
    note_what_has_no_effect(options.without_effect_on_some, policies, scenario)
    findings = carry_out(
        study, workers=workers, shown=not as_json, journal=journal, trace_out=trace_out, csv=csv
    )
    if as_json:
        setting = {"name": options.setting, **_load_document(load), **conditions(scenario)}
        print_json(
            {
                "setting": setting,
                "seeds": seeds,
                "limits": asdict(findings.limits),
                "results": list(findings.results.values()),
            }
        )
        return
    screen = terminal()
    heading = f"{options.setting}: " if options.setting else ""
    came = round(findings.results[policies[0]]["requests"])
    print_line(screen, f"{heading}{_load_text(load, came)}; {_seeds_text(seeds)}.")
    screen.print(f"{conditions_text(scenario, policies)}.\n")
    print_comparison(screen, findings.results, findings.limits)


def _load_document(load: Workload) -> dict[str, Any]:
    return {
        **load.document(),
        "mix": load.mix,
        "format": None if load.trace is None else load.format or "auto",
        "requests": load.requests,
        "duration_s": load.duration_s,
    }


def _load_text(load: Workload, came: int) -> str:
    """The load in words. A trace may have ended before as many came as were asked for."""
    count = counted(came, "request")
    if load.duration_s is not None:
        count += f" within {load.duration_s:g} s"
    if load.saved is not None:
        return f"{count} as in {load.saved}"
    if load.trace is None:
        how = {"steady": "", "poisson": ", Poisson", "burst": ", in bursts"}[load.pattern]
        return f"{count} at the rate {load.rate}{how}"
    return f"{count} as in {load.trace}" + (f", scaled to {load.rate}" if load.rate else "")


def _seeds_text(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
