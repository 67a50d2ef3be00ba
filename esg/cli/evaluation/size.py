"""`esg size`: the cheapest cluster that keeps enough deadlines under given traffic."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.table import Table

from esg.cli.evaluation.comparison import MARGINS_LEGEND, margin_text
from esg.cli.evaluation.emulated import seeds_text
from esg.cli.evaluation.size_options import OTHERS, SizeOptions, Traffic
from esg.cli.evaluation.study import INTERRUPTED
from esg.console.arrivals import ArrivalOptions
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.conditions import Html, Workers, all_different
from esg.console.formatting import counted, rate_text
from esg.console.options import AsJson, given_share
from esg.console.progress import progress_bar
from esg.console.terminal import open_table, print_json, print_line, terminal
from esg.core.catalog.model import Catalog
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.shipped import SHIPPED
from esg.emulator.sizing.cheapest_fleet import Fleet
from esg.emulator.sizing.fleet_files import cluster_toml, mig_parted_yaml, named
from esg.emulator.sizing.search import SizeFindings, SizeQuestion, Tried, find_size
from esg.emulator.sweep import Estimate
from esg.emulator.worker_processes import own_workers
from esg.errors import Rejected
from esg.files import written
from esg.reporting.provenance import Provenance

LEGEND = (
    "in time: of all requests that came. bound: no fleet that could carry this traffic is cheaper, "
    "even if requests never waited. The others were emulated: on each line, the cheapest that "
    "holds of those with small slices only, with one layout, with any, and with any if plans take "
    "80 % of the deadline (in a hurry). confirmed: run again with other seeds."
)

USUAL_STEPS = 24
"""What the bar expects: a step is a bound, or a fleet that was emulated."""

MIG_FILE, CATALOG_FILE = "mig-parted.yaml", "catalog.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A question, and what came of it."""

    options: SizeOptions
    traffic: Traffic
    question: SizeQuestion
    found: SizeFindings

    def words(self, fleet: Fleet) -> str:
        """The layouts of its GPUs: how many have which."""
        kinds = self.question.catalog.kinds
        return ", ".join(f"{count} x {named(layout, kinds)}" for layout, count in fleet.gpus)

    @property
    def best(self) -> Tried | None:
        """The confirmed one, or if the search was interrupted, the cheapest that held."""
        return self.found.confirmed or min(
            (one for one in self.found.tried if self.holds(one)),
            key=lambda one: one.fleet.usd_per_hour,
            default=None,
        )

    def holds(self, one: Tried) -> bool:
        return one.hit_rate >= self.question.target

    @property
    def best_of_approaches(self) -> list[Tried]:
        """Of each, the cheapest that holds."""
        found: dict[str, Tried] = {}
        for one in sorted(self.found.tried, key=lambda one: one.fleet.usd_per_hour):
            if self.holds(one):
                found.setdefault(one.approach, one)
        return list(found.values())

    @property
    def question_text(self) -> str:
        question = self.question
        return (
            f"The cheapest fleet with {100 * question.target:.4g}% in time: {self.traffic.text}; "
            f"{seeds_text(question.seeds)}, confirmed with {seeds_text(question.other_seeds)}."
        )

    @property
    def conditions_text(self) -> str:
        """What it is for, and of what nodes it is made."""
        scenario, shape = self.question.scenario, self.question.shape
        slo = "SLOs of the applications"
        if scenario.slo_scale is not None:
            slo = f"SLO {scenario.slo_scale:g} L"
        tasks = "" if scenario.tasks is TaskMode.JOINT else f", {scenario.tasks} tasks"
        vcpus = f"{shape.least_vcpus} to {shape.most_vcpus}"
        if shape.least_vcpus == shape.most_vcpus:
            vcpus = f"{shape.most_vcpus}"
        return (
            f"{slo}, policy {scenario.policy}{tasks}; nodes of {shape.gpus} x "
            f"{self.options.model().name} with {vcpus} vCPUs; USD per hour: "
            f"{shape.gpu_usd_per_hour:.4g} for a GPU, {shape.vcpu_usd_per_hour:.4g} for a vCPU"
        )


def size(
    options: SizeOptions,
    arrivals: ArrivalOptions,
    hit_rate: Annotated[
        str,
        typer.Option(
            metavar="SHARE", help="Share of requests that must be in time, as in 99% or 0.99."
        ),
    ] = "99%",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help=f"Write how to make it to this folder: {MIG_FILE} for nvidia-mig-parted, and "
            f"{CATALOG_FILE} with the cluster.",
        ),
    ] = None,
    workers: Workers = None,
    catalog: CatalogFile = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest cluster for given traffic: GPUs, MIG layouts, vCPUs.

    First a linear program says what no cluster can be cheaper than; then clusters are emulated
    until the cheapest is found that has enough requests in time, and it is run again with other
    seeds. Without --requests and --duration a run is of 20 s and at least 1000 requests, or of
    3000 that are recorded.

    \b
    Examples:
      esg size --rate heavy --setting relaxed
      esg size --rate 40/s --slo-scale 0.7 --tasks phased --gpu h100-80gb
      esg size --rate heavy --gpus-per-node 4 --vcpus 32-128
      esg size --trace esg/workload/day.csv --start-minute 600 --layouts 7x1g.10gb
      esg size --rate 120/s --hit-rate 99.9% --out fleet --html size.html
    """
    all_different({"--catalog": catalog, "--html": html})
    known = read_catalog(catalog)
    question, traffic = _question(options, arrivals, known, hit_rate)
    with ExitStack() as stack:
        page = None if html is None else stack.enter_context(written(html))
        files = _files(out, stack)
        found, whole = _search(question, workers, shown=not as_json)
        sized = Sized(options=options, traffic=traffic, question=question, found=found)
        provenance = Provenance.of_now("esg")
        if page is not None:
            from esg.cli.evaluation.pages import size as pages  # plotly takes half a second

            page.write(pages.page(sized, provenance))
        best = sized.best
        if files is not None and best is not None:
            shipped = next((n for n, path in SHIPPED.items() if path == catalog), None)
            extends = "default" if catalog is None else shipped
            files[0].write(mig_parted_yaml(best.fleet, known.kinds))
            files[1].write(cluster_toml(best.fleet, known.kinds, extends))
    if as_json:
        print_json({**provenance.document(), **document(sized)})
    else:
        _print(sized, out)
    if not whole:
        typer.echo("interrupted: the cheapest so far is not confirmed", err=True)
        raise typer.Exit(INTERRUPTED)


def _question(
    options: SizeOptions, arrivals: ArrivalOptions, known: Catalog, hit_rate: str
) -> tuple[SizeQuestion, Traffic]:
    target, scenario = given_share("--hit-rate", hit_rate), options.scenario()
    layouts = options.known_layouts(known)
    shape, traffic = options.shape(known, layouts), Traffic.of(arrivals, known)
    seeds = options.seeds
    question = SizeQuestion(
        catalog=known,
        scenario=scenario,
        shape=shape,
        layouts=layouts,
        per_s=traffic.per_s,
        mix=traffic.mix,
        load=traffic.source,
        target=target,
        seeds=range(seeds),
        other_seeds=range(seeds, (1 + OTHERS) * seeds),
    )
    return question, traffic


def _files(out: Path | None, stack: ExitStack) -> tuple[TextIO, TextIO] | None:
    """The files to write, which can be written before anything is searched for."""
    if out is None:
        return None
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Rejected(f"--out: {out}: {error.strerror}; name another folder") from None
    made, cluster = (stack.enter_context(written(out / name)) for name in (MIG_FILE, CATALOG_FILE))
    return made, cluster


def _search(
    question: SizeQuestion, workers: int | None, *, shown: bool
) -> tuple[SizeFindings, bool]:
    """What was found, and whether nobody interrupted the search."""
    found = SizeFindings()
    with progress_bar("fleets tried", USUAL_STEPS, shown=shown) as advance:

        def progress(found: SizeFindings) -> None:
            steps = 1 + len(found.tried) + len(found.again)
            advance(min(USUAL_STEPS, steps))

        try:
            with own_workers(workers) as executor:
                return find_size(question, executor, progress, found), True
        except KeyboardInterrupt:
            if found.bounds is None:
                raise
            return found, False


def document(sized: Sized) -> dict[str, Any]:
    """All that is known, as JSON has it."""
    question, found, best = sized.question, sized.found, sized.best
    scenario, shape = question.scenario, question.shape
    assert found.bounds is not None
    kinds = question.catalog.kinds
    return {
        "setting": {
            **sized.traffic.load.document(),
            "requests": sized.traffic.load.requests,
            "duration_s": sized.traffic.load.duration_s,
            "rate_per_s": question.per_s,
            "mix": dict(question.mix),
            "slo_scale": scenario.slo_scale,
            "policy": scenario.policy,
            "tasks": str(scenario.tasks),
            "gpu": sized.options.model().name,
            "gpus_per_node": shape.gpus,
            "vcpus_per_node": [shape.least_vcpus, shape.most_vcpus],
            "gpu_usd_per_hour": shape.gpu_usd_per_hour,
            "vcpu_usd_per_hour": shape.vcpu_usd_per_hour,
        },
        "hit_rate": question.target,
        "seeds": list(question.seeds),
        "other_seeds": list(question.other_seeds),
        "bound": {
            "usd_per_hour": found.bounds.usd_per_hour,
            "fleet": _fleet(found.bounds.fleet, sized),
            "by_layout": [
                {"layout": named(layout, kinds), "usd_per_hour": usd}
                for layout, usd in found.bounds.by_layout.items()
            ],
        },
        "confirmed": found.confirmed is not None,
        "found": None if best is None else _tried(best, sized),
        "tried": [_tried(one, sized) for one in found.tried],
        "run_again": [_tried(one, sized) for one in found.again],
    }


def _tried(one: Tried, sized: Sized) -> dict[str, Any]:
    return {
        **_fleet(one.fleet, sized),
        "approach": one.approach,
        "share_in_time": one.hit_rate,
        "share_in_time_margin": margin_of(one),
        "holds": sized.holds(one),
    }


def _fleet(fleet: Fleet, sized: Sized) -> dict[str, Any]:
    kinds = sized.question.catalog.kinds
    return {
        "nodes": fleet.nodes,
        "vcpus_per_node": fleet.vcpus,
        "gpus": [{"layout": named(one, kinds), "count": count} for one, count in fleet.gpus],
        "usd_per_hour": fleet.usd_per_hour,
    }


def margin_of(one: Tried) -> float | None:
    """Of its hit rate, over seeds; one has none."""
    return Estimate.of(one.hit_rates).margin if len(one.runs) > 1 else None


def _print(sized: Sized, out: Path | None) -> None:
    screen = terminal()
    print_line(screen, sized.question_text)
    print_line(screen, f"{sized.conditions_text}.\n")
    best = sized.best
    if best is not None:
        fleet = best.fleet
        print_line(
            screen,
            f"{counted(fleet.nodes, 'node')} with {counted(fleet.vcpus, 'vCPU')} each, "
            f"{counted(fleet.gpu_count, 'GPU')} in all: {fleet.usd_per_hour:.2f} USD per hour",
        )
        kinds = sized.question.catalog.kinds
        for layout, count in fleet.gpus:
            print_line(screen, f"{count:>5} x {named(layout, kinds)}")
        screen.print()
    screen.print(_table(sized))
    print_line(screen, f"\n{LEGEND}{MARGINS_LEGEND}")
    if out is not None and best is not None:
        print_line(screen, f"\nHow to make it: {out / MIG_FILE}, {out / CATALOG_FILE}")


def _table(sized: Sized) -> Table:
    table = open_table()
    table.add_column("fleet", no_wrap=True)
    for heading in ("USD/h", "nodes", "vCPUs\neach", "in time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("GPUs")
    for row in table_rows(sized):
        table.add_row(*row)
    return table


def table_rows(sized: Sized) -> list[Sequence[str]]:
    """The bound, the best of every approach, and what was confirmed."""
    found = sized.found
    assert found.bounds is not None
    bound = found.bounds.fleet
    rows: list[Sequence[str]] = [
        ("bound", f"{found.bounds.usd_per_hour:.2f}", *_size(bound), "", sized.words(bound))
    ]
    tried = [(one.approach, one) for one in sized.best_of_approaches]
    if found.confirmed is not None:
        tried.append(("confirmed", found.confirmed))
    for name, one in tried:
        fleet = one.fleet
        hits = rate_text(one.hit_rate) + margin_text(" ", margin_of(one), 100, decimals=1)
        usd = f"{fleet.usd_per_hour:.2f}"
        rows.append((name, usd, *_size(fleet), hits, sized.words(fleet)))
    return rows


def _size(fleet: Fleet) -> tuple[str, str]:
    return str(fleet.nodes), str(fleet.vcpus)
