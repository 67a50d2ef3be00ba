"""`esg replay` and `esg what-if`: a journal lived through again."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from esg.cli.evaluation.comparison import Result, print_comparison, print_summary
from esg.cli.evaluation.study import PolicyStudy, carry_out
from esg.console.catalog import CatalogFile, read_catalog
from esg.console.conditions import (
    POLICIES_HELP,
    Csv,
    JournalFile,
    ScenarioChanges,
    Workers,
    cluster_of_scenario,
    conditions,
    conditions_text,
    find_own_modules,
    given_of_scenario,
    known_engine,
    not_too_large,
    note_what_has_no_effect,
    policy_names,
)
from esg.console.exit_codes import NOT_WELL
from esg.console.formatting import counted
from esg.console.options import AsJson
from esg.console.terminal import print_json, terminal
from esg.core.catalog.model import Catalog
from esg.core.journal.replay import Diverged, Replayed
from esg.core.policies.table import learns, policy
from esg.emulator.history import Recorded, replay_strictly, scenario_of
from esg.emulator.scenario import Scenario, applied
from esg.errors import Bug, Rejected


def replay(journal: JournalFile, catalog: CatalogFile = None, as_json: AsJson = False) -> None:
    """Replay a journal and check that every decision is the same.

    If one differs, the exit code is 1, and one line reports the first difference.

    \b
    Examples:
      esg emulate --journal run.journal && esg replay run.journal
    """
    find_own_modules()
    scenario = scenario_of(journal)
    replayed, wall_s = replayed_strictly(journal, read_catalog(catalog))
    per_s = replayed.entries / wall_s
    if as_json:
        print_json(
            {
                "journal": str(journal),
                "identical": True,
                "entries": replayed.entries,
                "entries_per_s": per_s,
                **_result(scenario, replayed, wall_s),
            }
        )
        return
    screen = terminal()
    screen.print(
        f"{journal}: the same orders; {replayed.entries} entries in {wall_s:.2f} s "
        f"({per_s:.0f}/s).",
        soft_wrap=True,
    )
    under = conditions_text(scenario, [scenario.policy])
    screen.print(f"{scenario.policy}, {under}.{_unanswered(replayed)}\n")
    print_summary(screen, _result(scenario, replayed, wall_s))


def what_if(
    journal: JournalFile,
    *,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            show_default="the journal's",
            help=f"Policies to try instead. {POLICIES_HELP}",
        ),
    ] = None,
    changes: ScenarioChanges,
    csv: Csv = None,
    workers: Workers = None,
    catalog: CatalogFile = None,
    as_json: AsJson = False,
) -> None:
    """Rerun a journal's requests under other conditions.

    The first row is the run as it was recorded; the others have the same requests at the same
    times. Conditions that are not given are the journal's.

    \b
    Examples:
      esg what-if run.journal --nodes 12
      esg what-if run.journal --policy esg,orion --slo-scale 0.9 --json
    """
    if changes.engine is not None:
        known_engine(changes.engine)
    find_own_modules()
    policies = None if policy is None else policy_names(policy)
    known = read_catalog(catalog)
    recorded = scenario_of(journal)
    policies = policies or [recorded.policy]
    given = given_of_scenario(changes)
    here = replace(known, cluster=recorded.cluster)
    changed = cluster_of_scenario(given, changes.layout, here) | given
    scenario = replace(recorded, **{"classes": (), "policy": policies[0]} | changed)
    options = [f"--{name}" for name in ("k", "engine") if name in given]
    not_too_large(scenario.nodes, scenario.vgpus)
    note_what_has_no_effect(options, policies, scenario)
    replayed, wall_s = replayed_strictly(journal, known)
    study = PolicyStudy(
        catalog=known,
        scenario=_still_learnt(known, recorded, scenario, policies),
        policies=policies,
        seeds=[scenario.seed],
        load=Recorded(journal=journal, keep_slos=changes.slo_scale is None),
        requests=replayed.report.arrived,
        file=journal,
    )
    findings = carry_out(study, workers=workers, shown=not as_json, csv=csv)
    if as_json:
        print_json(
            {
                "journal": str(journal),
                "recorded": {
                    "setting": conditions(recorded),
                    **_result(recorded, replayed, wall_s),
                },
                "setting": conditions(scenario),
                "seeds": study.seeds,
                "limits": asdict(findings.limits),
                "results": list(findings.results.values()),
            }
        )
        return
    screen = terminal()
    under = conditions_text(recorded, [recorded.policy])
    screen.print(f"As recorded: {recorded.policy}, {under}.{_unanswered(replayed)}")
    screen.print(f"What if: {', '.join(policies)}; {conditions_text(scenario, policies)}.\n")
    rows = {"as recorded": _result(recorded, replayed, wall_s), **findings.results}
    print_comparison(screen, rows, findings.limits)


def replayed_strictly(journal: Path, catalog: Catalog) -> tuple[Replayed, float]:
    """A strict replay and the seconds it took, or one line about where it differs and the end of
    the program."""
    began = perf_counter()
    try:
        return replay_strictly(journal, catalog), perf_counter() - began
    except (Diverged, Bug) as error:
        typer.echo(f"error: the replay is not identical: {error}", err=True)
        raise typer.Exit(NOT_WELL) from None


def _still_learnt(
    catalog: Catalog, recorded: Scenario, scenario: Scenario, policies: Sequence[str]
) -> Scenario:
    """The scenario without what the journal's policy had learnt, unless that is for the same SLOs,
    and for nodes of that size."""
    anew = replace(scenario, trained={})
    if _learnt_for(recorded) != _learnt_for(scenario):
        return anew
    seen = applied(catalog, scenario)
    try:
        for name in policies:
            if learns(name):
                policy(name, seen, scenario)
    except Rejected:  # it is larger than the nodes, say
        return anew
    return scenario


def _learnt_for(scenario: Scenario) -> tuple[object, ...]:
    nodes = {(one.vcpus, one.slices) for one in scenario.cluster.classes}
    return nodes, scenario.slo_scale, scenario.tasks


def _unanswered(replayed: Replayed) -> str:
    count = replayed.report.unanswered
    if not count:
        return ""
    return f" {counted(count, 'request')} had no answer yet where it ends; those do not count."


def _result(scenario: Scenario, replayed: Replayed, wall_s: float) -> Result:
    """The replayed run as a run's summary; what its decisions were charged is not in a journal."""
    return {
        "policy": scenario.policy,
        **replayed.report.summary(),
        "decision_ms": None,
        "wall_s": wall_s,
        "digest": replayed.digest,
    }
