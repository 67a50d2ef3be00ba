"""`esg plan`: which config, and why this one."""

from typing import Annotated, Any

import typer
from rich.table import Table

from esg.cli.explain.kinds import OnSlices, config_legend, on_slices
from esg.cli.explain.overview import print_overview
from esg.cli.explain.question import Question, ask_timed, build_timed, plan_document, stage_named
from esg.cli.explain.reasons import reasons
from esg.console.catalog import CatalogFile, read_catalog, warn_of_deadlines
from esg.console.conditions import Layout
from esg.console.exit_codes import NOT_WELL
from esg.console.formatting import (
    COST_HEADING,
    at_hyphens,
    counted,
    job_cost_text,
    ms_text,
    percent_text,
)
from esg.console.handled import fastest_handled_us
from esg.console.options import AsJson, Tasks, above_zero, at_least, from_zero
from esg.console.shapes import shape_text
from esg.console.terminal import fits, open_table, print_json, terminal
from esg.core.catalog.model import with_tasks
from esg.core.catalog.phases import TaskMode
from esg.core.policies.settings import PolicySettings
from esg.core.search import Answer, Engine
from esg.errors import Rejected
from esg.limits import LONGEST_SLO_MS
from esg.units import ms, to_ms

OF_OVERVIEW = ("catalog", "layout", "tasks", "as_json")
"""The options that are about all applications."""

USUAL = PolicySettings()


def plan(
    context: typer.Context,
    application: Annotated[
        str | None,
        typer.Argument(
            metavar="[APPLICATION]",
            help="The application (see esg apps); without one, all of them.",
        ),
    ] = None,
    slo_ms: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            callback=above_zero(LONGEST_SLO_MS),
            show_default="the application's own",
            help="Deadline for the whole request.",
        ),
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(
            metavar="STAGE",
            show_default="the first one",
            help="Where the jobs wait: a stage, or a function that only one stage runs.",
        ),
    ] = None,
    queue: Annotated[
        int, typer.Option(metavar="N", callback=at_least(1), help="How many jobs wait there.")
    ] = 1,
    waited_ms: Annotated[
        float,
        typer.Option(
            metavar="MS",
            callback=from_zero(LONGEST_SLO_MS),
            help="How long ago the oldest request arrived.",
        ),
    ] = 0.0,
    k: Annotated[
        int, typer.Option("--k", metavar="K", callback=at_least(1), help="Most plans to show.")
    ] = USUAL.k,
    engine: Annotated[
        str,
        typer.Option(
            metavar="ENGINE",
            help="frontier: the whole pipeline at once; astar: the paper's, by function groups.",
        ),
    ] = USUAL.engine,
    group_size: Annotated[
        int,
        typer.Option(metavar="G", callback=at_least(1), help="Largest function group for astar."),
    ] = USUAL.group_size,
    layout: Layout = None,
    tasks: Tasks = TaskMode.JOINT,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest configs that keep a deadline.

    Plans the pipeline from one stage to its end, and explains why nothing cheaper or slower will
    do. Without an application, it plans every one at three deadlines: 0.8, 1.0 and 1.2 times L,
    its latency alone at the minimum config.

    \b
    Examples:
      esg plan
      esg plan image-classification
      esg plan image-classification --slo-ms 526 --queue 4
      esg plan depth-recognition --stage depth --waited-ms 600
      esg plan expanded-image-classification --engine astar --json
      esg plan --layout 2 --catalog measured/catalog.toml
    """
    here = on_slices(with_tasks(read_catalog(catalog), tasks), layout)
    known = here.catalog
    warn_of_deadlines(known, catalog)
    if application is None:
        _check_overview(context)
        print_overview(here, as_json=as_json)
        return
    chosen = known.application(application)
    here.check(application)
    question = Question(
        application=chosen,
        stage=stage_named(chosen, stage),
        slo_us=chosen.slo_us if slo_ms is None else ms(slo_ms),
        waited_us=ms(waited_ms),
        queue=queue,
        k=k,
    )
    built, build_ms = build_timed(engine, chosen, group_size)
    answer, elapsed_us = ask_timed(question, built)
    if as_json:
        took = {"elapsed_us": elapsed_us, "build_ms": build_ms}
        print_json(_document(question, engine, answer) | took)
    else:
        _print(
            question, engine, built, answer, here, f"{elapsed_us:.0f} us, after {build_ms:.1f} ms"
        )
    if not answer.feasible:
        raise typer.Exit(NOT_WELL)


def _print(
    question: Question, engine: str, built: Engine, answer: Answer, here: OnSlices, took: str
) -> None:
    screen = terminal()
    screen.print(_heading(question, answer))
    screen.print(
        f"Found by {engine} in {took} to get ready. "
        f"{config_legend(here.catalog)}; spare is the time left over."
    )
    table = _table(answer, named=True)
    if not fits(table, screen):
        table = _table(answer, named=False)
        for number, step in enumerate(answer.plans[0].steps, 1):
            screen.print(f"  {number} = {step.stage}")
    screen.print()
    screen.print(table)
    for reason in (*reasons(question, built, engine, answer), *here.notes):
        screen.print(f"\n{reason}")


def _check_overview(context: typer.Context) -> None:
    """Refuse what is about one application alone, which was meant to be named."""
    for param in context.command.params:
        source = context.get_parameter_source(str(param.name))
        given = source is not None and source.name == "COMMANDLINE"
        if given and param.name not in OF_OVERVIEW:
            raise Rejected(f"{param.opts[0]} is about one application; name it: see esg apps")


def _document(question: Question, engine_name: str, answer: Answer) -> dict[str, Any]:
    return {
        "application": question.application.name,
        "stage": question.stage,
        "engine": engine_name,
        "slo_ms": to_ms(question.slo_us),
        "waited_ms": to_ms(question.waited_us),
        "queue": question.queue,
        "feasible": answer.feasible,
        "budget_ms": to_ms(answer.budget_us),
        "fastest_handled_ms": to_ms(fastest_handled_us(question.application)[question.stage]),
        "plans": [plan_document(plan, question.application) for plan in answer.plans],
        "effort": answer.effort,
    }


def _heading(question: Question, answer: Answer) -> str:
    waiting = f"{counted(question.queue, 'job')} at {question.stage}"
    if question.waited_us:
        waiting += f", waiting for {ms_text(question.waited_us)} ms"
    found = "no plan is in time"
    if answer.feasible:
        found = f"{counted(len(answer.plans), 'plan')}, cheapest first"
    return (
        f"{question.application.name}: {shape_text(question.application)}\n"
        f"{waiting}; SLO {ms_text(question.slo_us)} ms, {ms_text(question.left_us)} ms left: "
        f"{found}"
    )


def _table(answer: Answer, *, named: bool) -> Table:
    """A table with one row per plan. The stages' names, if there is room for them, head their
    columns."""
    best = answer.plans[0]
    table = open_table()
    for number, step in enumerate(best.steps, 1):
        heading = at_hyphens(step.stage, 12) if named else str(number)
        table.add_column(heading, justify="left", no_wrap=True)
    for heading in ("time\nms", "spare\nms", COST_HEADING, "dearer\nby"):
        table.add_column(heading, justify="right", no_wrap=True)
    for plan in answer.plans:
        more = plan.job_cost_pusd - best.job_cost_pusd
        table.add_row(
            *(str(step.config) for step in plan.steps),
            ms_text(plan.time_us),
            ms_text(answer.budget_us - plan.time_us),
            job_cost_text(plan.job_cost_pusd),
            percent_text(more, best.job_cost_pusd) if more else "",
            style="bold" if plan is best else "",
        )
    return table
