"""The `loadgen` command: works arrivals out, sends them to a mesh, and tells what came of it."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import typer

from esg.console.arrivals import ArrivalOptions
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.conditions import all_different, print_notes
from esg.console.exit_codes import INTERRUPTED, NOT_WELL
from esg.console.options import AsJson, Gateway, Version
from esg.console.terminal import print_json, terminal
from esg.console.training import trained_for
from esg.core.catalog.model import Catalog
from esg.core.policies.table import policy
from esg.emulator.scenario import applied
from esg.errors import Fault, Rejected
from esg.files import written
from esg.loadgen import options
from esg.loadgen.emulated import conditions_at_home, conditions_of, run_emulated
from esg.loadgen.inference import ask_inference
from esg.loadgen.outcome import LoadOutcome
from esg.loadgen.outlook import Outlook, outlook, resolved, warnings
from esg.loadgen.report.circumstances import Circumstances
from esg.loadgen.report.dry_run import arrivals_document, print_summary, resolve
from esg.loadgen.report.progress import live_view
from esg.loadgen.report.summary import findings_document, outcome_table, print_findings
from esg.loadgen.run import LoadFindings, LoadRun, carry_out
from esg.loadgen.target import Protocol, Target, ask
from esg.reporting.provenance import Provenance
from esg.runtime.rpc.addresses import DEFAULT_GATEWAY
from esg.workload.payloads import Pictures
from esg.workload.plan import Workload

OIP_PICTURE_BYTES = 1_000_000
"""The size of generated pictures where no catalog says what a model takes."""
DEFAULT_PAYLOAD_SCALE = 0.01
"""Two cores that also run the mesh carry the heavy rate with this, and not with the full size."""


def loadgen(
    arrivals: ArrivalOptions,
    *,
    seed: options.Seed = 0,
    save_arrivals: options.SaveArrivals = None,
    dry_run: options.DryRun = False,
    gateway: Gateway = DEFAULT_GATEWAY,
    payload: options.PayloadFolder = None,
    payload_scale: options.PayloadScale = None,
    protocol: options.ServerProtocol = Protocol.ESG,
    slo_ms: options.SloMs = None,
    workers: options.Workers = 1,
    wait: options.WaitS = 300.0,
    max_error_rate: options.MaxErrorRate = 0.01,
    emulate: options.Emulate = False,
    csv: options.CsvFile = None,
    html: options.HtmlFile = None,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
    version: Version = False,
) -> None:
    """Send requests to a mesh, each at its planned instant, and measure the outcome.

    The paper's rates have uniform intervals of 10-16.8 ms (heavy), 20-33.6 ms (normal) or 40-67.2
    ms (light), and each application is as likely as any other; the heavy one is for the 16 nodes of
    esg up. A share such as 80% is one of what the mesh can carry by its nodes and profiles, and a
    rate beyond that is pointed out before it is sent. The load is open loop: a slow mesh does not
    slow the sending down, and latency counts from the planned instant. Ctrl-C stops sending, waits
    a little for what is in flight, and shows the results so far; a second Ctrl-C does not wait.

    The exit code is 0 if the mesh coped, 1 if too many requests failed, 2 if nothing could be sent,
    3 if there is no gateway, and 130 after Ctrl-C.

    \b
    Examples:
      loadgen --rate heavy --duration 60
      loadgen --rate 80% --duration 60
      loadgen --rate 15/s --poisson --requests 500 --workers 2
      loadgen --trace esg/workload/day.csv --start-minute 715 --duration 600
      loadgen --rate light --duration 60 --csv requests.csv --html report.html
      loadgen --rate normal --duration 60 --save-arrivals normal.csv --dry-run
      loadgen --arrivals normal.csv --emulate
      loadgen --protocol oip --gateway 127.0.0.1:8001 --slo-ms 500 --rate 20/s
    """
    plan = arrivals.workload(seed)
    if payload is not None and payload_scale is not None:
        raise Rejected("--payload-scale is for generated pictures; leave it or --payload out")
    all_different(
        {
            "--trace": plan.trace,
            "--arrivals": plan.saved,
            "--catalog": catalog,
            "--save-arrivals": save_arrivals,
            "--csv": csv,
            "--html": html,
        }
    )
    known = read_catalog(catalog)
    if dry_run:
        plan = _looked_at(plan, None, known)[0]
        _dry_run(plan, known, save_arrivals, emulate=emulate, as_json=as_json)
        return

    if protocol is Protocol.OIP:
        if slo_ms is None or emulate:
            raise Rejected("--protocol oip needs --slo-ms, and has nothing to --emulate")
        target = ask_inference(gateway, slo_ms)
    else:
        target = ask(gateway, known)
    plan, found = _looked_at(plan, target, known)
    _check_arrivals(plan, target, save_arrivals)
    run = LoadRun(
        target=target,
        plan=plan,
        pictures=_pictures(target, known, payload, payload_scale, protocol),
        workers=workers,
        wait_s=wait,
        csv=csv,
        protocol=protocol,
        slo_ms=slo_ms,
    )
    findings = _send(run, known, found, emulate=emulate, html=html, as_json=as_json)
    if findings.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(int(findings.outcome.error_rate > max_error_rate))


def _looked_at(
    plan: Workload, target: Target | None, catalog: Catalog
) -> tuple[Workload, Outlook | None]:
    """The plan with its rate as a number, and what the mesh can carry, if that can be told."""
    try:
        found = outlook(plan, target, catalog)
    except Rejected:
        if plan.share is not None:
            raise
        return plan, None
    if plan.share is None:
        return plan, found
    share, plan = plan.rate, resolved(plan, found)
    print_notes([f"{found.text}: {share} of that is {plan.rate}"])
    return plan, found


def _dry_run(
    plan: Workload, catalog: Catalog, save_to: Path | None, *, emulate: bool, as_json: bool
) -> None:
    applications = list(catalog.applications)
    summary = resolve(plan.arrivals(applications), applications, save_to)
    emulated = _emulator(catalog, None, shown=not as_json)(plan) if emulate else None
    if as_json:
        more = {} if emulated is None else {"emulated": emulated.document()}
        print_json(arrivals_document(summary, plan, save_to) | more)
        return
    screen = terminal()
    print_summary(screen, summary, plan, save_to)
    if emulated is not None:
        screen.print("\nEmulated, on the catalog's cluster:\n")
        screen.print(outcome_table(emulated))


def _check_arrivals(plan: Workload, target: Target, save_to: Path | None) -> None:
    """Refuse what cannot be sent before any process is started; on the way, save it."""
    if save_to is None:
        plan.arrivals(target.names)
        return
    resolve(plan.arrivals(target.names), target.names, save_to)


def _pictures(
    target: Target,
    catalog: Catalog,
    folder: Path | None,
    scale: float | None,
    protocol: Protocol,
) -> Pictures:
    if folder is not None:
        return Pictures(folder=folder)
    if protocol is Protocol.OIP:
        size = round(OIP_PICTURE_BYTES * (DEFAULT_PAYLOAD_SCALE if scale is None else scale))
        return Pictures(sizes=dict.fromkeys(target.names, size))
    sizes = target.payload_sizes(catalog, DEFAULT_PAYLOAD_SCALE if scale is None else scale)
    return Pictures(sizes=sizes)


def _send(
    run: LoadRun,
    catalog: Catalog,
    expected: Outlook | None,
    *,
    emulate: bool,
    html: Path | None,
    as_json: bool,
) -> LoadFindings:
    emulator = _emulator(catalog, run.target, shown=not as_json) if emulate else None
    write_report = _report_writer() if html else None
    with ExitStack() as stack:
        page = stack.enter_context(written(html)) if html else None
        if run.protocol is Protocol.ESG:
            print_notes(warnings(run.plan, run.target, expected))
        with live_view(run.plan, shown=not as_json) as look:
            found = _faults_told(lambda: carry_out(run, look))
        emulated, given_up = None, False
        if emulator is not None and not found.interrupted:
            try:
                emulated = emulator(run.plan)
            except KeyboardInterrupt:
                given_up = True  # there is still what was measured, and all of it
        under = Circumstances(target=run.target, provenance=Provenance.of_now("loadgen"))
        if page is not None and write_report is not None:
            page.write(write_report(run.plan, found, emulated, under=under))
    # Files are complete before a word is printed: whoever reads may stop in the middle (`| head`)
    if as_json:
        print_json(findings_document(run.plan, found, emulated, under=under))
    else:
        print_findings(terminal(), run.plan, found, emulated)
    if given_up:
        raise typer.Exit(INTERRUPTED)
    return found


def _report_writer() -> Callable[..., str]:
    """What makes a page of the findings, imported before anything is sent: plotly may be missing,
    for it is of another extra."""
    from esg.loadgen.report.page import report

    return report


def _emulator(
    catalog: Catalog, target: Target | None, *, shown: bool
) -> Callable[[Workload], LoadOutcome]:
    """Where there is a mesh, as it is there; otherwise on the catalog's cluster.

    What cannot be emulated is refused here, before anything is sent: what was measured would be
    lost with it.
    """
    if target is None:
        catalog, scenario = conditions_at_home(catalog)
    else:
        catalog, scenario = conditions_of(target, catalog)
    seen = applied(catalog, scenario)
    scenario = replace(scenario, trained=trained_for([scenario.policy], seen, shown=shown))
    policy(scenario.policy, seen, scenario)
    applications = list(catalog.applications)
    return lambda plan: run_emulated(catalog, scenario, plan.arrivals(applications))


def _faults_told(work: Callable[[], LoadFindings]) -> LoadFindings:
    try:
        return work()
    except Fault as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(NOT_WELL) from None
