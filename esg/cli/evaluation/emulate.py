"""`esg emulate`: policies against each other on the same work, in virtual time."""

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from esg.cli.evaluation.comparison import print_comparison
from esg.cli.evaluation.emulate_options import EmulateOptions
from esg.cli.evaluation.emulated import Emulated
from esg.cli.evaluation.grid import GridPoint, read_grid
from esg.cli.evaluation.grid_run import run_grid
from esg.cli.evaluation.study import carry_out, end_if_interrupted
from esg.console.arrivals import ArrivalOptions
from esg.console.catalog import CatalogFile, warn_of_deadlines
from esg.console.conditions import (
    Csv,
    Html,
    Workers,
    all_different,
    conditions_text,
    only_one_run,
    print_notes,
)
from esg.console.options import AsJson
from esg.console.terminal import print_json, print_line, terminal
from esg.errors import Rejected
from esg.files import written
from esg.reporting.provenance import Provenance


def emulate(
    context: typer.Context,
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
    html: Html = None,
    grid: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Run all combinations of the values that this TOML file lists for options, as in "
            "nodes = [8, 16] (docs/emulator.md).",
        ),
    ] = None,
    workers: Workers = None,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Compare policies on the same requests, in virtual time.

    A setting is a deadline and a rate; --slo-scale and --rate override its parts. With only some of
    --slo-scale, --rate and --trace, deadlines are the applications' own and the rate is heavy, or
    the trace's. Nodes are as many and as large as the catalog says, unless told otherwise.

    Ctrl-C shows what is complete by then: the seeds that all policies have finished. The exit code
    is 130.

    \b
    Examples:
      esg emulate
      esg emulate --setting strict-light --policy esg,orion,infless-config-first
      esg emulate --slo-scale 1.1 --rate 60/s --nodes 12 --seeds 5 --json
      esg emulate --trace esg/workload/day.csv --rate heavy --duration 600
      esg emulate --rate 60/s --burst --mix image-classification=1
      esg emulate --policy apex --without holding,risk
      esg emulate --policy esg,my_policy:Mine --seeds 5 --csv requests.csv
      esg emulate --policy esg,apex --seeds 10 --html report.html
      esg emulate --grid sweep.toml --csv requests.csv
      esg emulate --journal run.journal --trace-out run.json
    """
    made = {"--journal": journal, "--trace-out": trace_out, "--csv": csv, "--html": html}
    read = {"--trace": arrivals.trace, "--arrivals": arrivals.arrivals, "--catalog": catalog}
    all_different({**read, "--grid": grid, **made})
    if grid is not None:
        if journal is not None or trace_out is not None:
            raise Rejected("--journal and --trace-out are about one run; leave --grid out")
        if html is not None:
            raise Rejected("--html is about one point; leave --grid out, or take its --csv")
        base = GridPoint(options=options, arrivals=arrivals, catalog=catalog, varied={})
        points = read_grid(grid, base, context)
        run_grid(grid, points, workers=workers, csv=csv, as_json=as_json)
        return
    asked = Emulated.of(options, arrivals, catalog)
    study = asked.study
    for option, file in (("--journal", journal), ("--trace-out", trace_out)):
        if file is not None:
            only_one_run(option, study.policies, study.seeds)
    warn_of_deadlines(study.catalog, catalog)
    print_notes(asked.notes)
    with nullcontext() if html is None else written(html) as page:
        findings = carry_out(
            study, workers=workers, shown=not as_json, journal=journal, trace_out=trace_out, csv=csv
        )
        provenance = Provenance.of_now("esg")
        if page is not None:
            from esg.cli.evaluation.pages import emulated  # plotly takes half a second

            page.write(emulated.page(asked, findings, provenance))
    if as_json:
        print_json(
            {
                **provenance.document(),
                "setting": asked.document(),
                "seeds": findings.seeds,
                "limits": asdict(findings.limits),
                "results": list(findings.results.values()),
            }
        )
    else:
        screen = terminal()
        came = round(findings.results[study.policies[0]]["requests"])
        print_line(screen, asked.heading(came, findings.seeds))
        screen.print(f"{conditions_text(study.scenario, study.policies)}.\n")
        print_comparison(screen, findings.results, findings.limits)
    end_if_interrupted([study], {0: findings})
