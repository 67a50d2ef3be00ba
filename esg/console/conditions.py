"""Options about the conditions of an emulated run, and their values."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import typer

from esg.console.formatting import counted, joined
from esg.console.options import TASKS_HELP, above_zero, at_least
from esg.core.catalog.cluster import Cluster
from esg.core.catalog.model import Catalog
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.slice_kinds import USUAL as USUAL_KIND
from esg.core.catalog.slice_kinds import NodeClass, SliceKind, layout_text, parse_layouts
from esg.core.messages.codec import encode
from esg.core.policies.apex.features import left_out, listed
from esg.core.policies.table import POLICIES, policy_kind
from esg.core.search import ENGINES
from esg.emulator.bounds import LARGEST_SLO_SCALE
from esg.emulator.scenario import Scenario, sized
from esg.errors import Rejected
from esg.suggest import did_you_mean

MOST_SEEDS = 10_000
"""Margins are narrow long before."""

POLICIES_HELP = (
    f"{', '.join(POLICIES)}; or your own, as module:Class. What these are: docs/emulator.md."
)

USUAL = Scenario(nodes=1, vcpus=1, vgpus=1)
"""What is not asked for is as here, but for the size of the cluster."""

MOST_NODES, MOST_PER_NODE = 10_000, 10_000
"""Memory is taken for every node and slice, so a slip of the finger must not ask for billions."""

MOST_SLICES = 100_000
"""In all nodes together. So many are half a minute of preparation."""

GROUPS = "astar"
"""The engine that `--group-size` is about."""

SloScale = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        callback=above_zero(LARGEST_SLO_SCALE),
        show_default=False,
        help="Deadlines as multiples of L, the time alone at the minimum config.",
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=at_least(1, at_most=MOST_NODES),
        show_default=False,
        help="Worker nodes.",
    ),
]
Vcpus = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=at_least(1, at_most=MOST_PER_NODE),
        show_default=False,
        help="vCPUs per node.",
    ),
]
Vgpus = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=at_least(1, at_most=MOST_PER_NODE),
        show_default=False,
        help="vGPUs per node.",
    ),
]
Layout = Annotated[
    str | None,
    typer.Option(
        metavar="SLICES",
        show_default=False,
        help="Slices of a node by kind, as in 4g.40gb+3g.40gb or 3g.40gb+4x1g.10gb; with commas "
        "between them, those that nodes have in turn.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        callback=at_least(1),
        show_default="one per core",
        help="Worker processes, if there are several runs.",
    ),
]
Csv = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        help="Write a row for every request, policy and seed (docs/emulator.md).",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write a report with plots, as one page."),
]
JournalFile = Annotated[
    Path,
    typer.Argument(
        metavar="JOURNAL",
        help="A file that esg emulate --journal wrote, or the mesh.journal of a mesh's directory.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioChanges:
    """What may be changed about a recorded scenario; every field is an option."""

    nodes: Nodes = None
    vcpus: Vcpus = None
    vgpus: Vgpus = None
    layout: Layout = None
    slo_scale: SloScale = None
    warm_start: Annotated[
        bool | None,
        typer.Option(
            "--warm-start/--cold-start",
            show_default="the journal's",
            help="Whether models are loaded at the start.",
        ),
    ] = None
    tasks: Annotated[
        TaskMode | None, typer.Option(show_default="the journal's", help=TASKS_HELP)
    ] = None
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            metavar="K",
            callback=at_least(1),
            show_default=False,
            help="Plans that policy esg offers.",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            show_default=False,
            help="Search engine of policy esg: frontier or astar.",
        ),
    ] = None


def given_of_scenario(options: Any) -> dict[str, Any]:
    """The fields of a scenario that were given as options of the same names."""
    named = {field.name for field in fields(Scenario)} & {field.name for field in fields(options)}
    values = {name: getattr(options, name) for name in named}
    return {name: value for name, value in values.items() if value is not None}


def cluster_of_scenario(given: dict[str, Any], layout: str | None, here: Catalog) -> dict[str, Any]:
    """What options make of a cluster, that of a catalog unless they say otherwise: the fields of a
    scenario that say what it is. They are taken out of what was given."""
    vgpus = given.pop("vgpus", None)
    if vgpus is not None and layout is not None:
        raise Rejected("--vgpus are usual slices, and --layout says which; give one of them")
    try:
        layouts = [] if layout is None else parse_layouts(layout, here.kinds)
    except Rejected as error:
        raise Rejected(f"--layout: {error}") from None
    size = {name: given.pop(name, None) for name in ("nodes", "vcpus")}
    most = max(map(len, layouts), default=1) if vgpus is None else vgpus
    not_too_large(size["nodes"] or here.cluster.nodes, most)
    if vgpus is not None:
        layouts = [(USUAL_KIND,) * vgpus]
    return sized(here.cluster.resized(**size, layouts=layouts))


def cluster_text(cluster: Cluster, kinds: Mapping[str, SliceKind] | None = None) -> str:
    """A cluster in words, in whatever order nodes of different classes are; with the names of its
    kinds, where they are given.

    >>> cluster_text(Cluster.alike(nodes=16, vcpus=16, vgpus=7))
    '16 nodes x 16 vCPUs x 7 vGPUs'
    """
    counts: dict[NodeClass, int] = {}
    for one in cluster.classes:
        alike = replace(one, count=1)
        counts[alike] = counts.get(alike, 0) + one.count
    return " and ".join(
        f"{counted(count, 'node')} x {counted(one.vcpus, 'vCPU')} x "
        + (layout_text(one.slices, kinds) if any(one.slices) else counted(len(one.slices), "vGPU"))
        for one, count in counts.items()
    )


def find_own_modules() -> None:
    """Have modules found in the folder where the user is: a policy may be one of the user's own.
    They come last, so that none takes another one's place."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def policy_names(text: str) -> list[str]:
    """The policies of a comma-separated list, all of which are known."""
    names = [name.strip() for name in text.split(",")]
    find_own_modules()
    for name in names:
        try:
            policy_kind(name)
        except Rejected as error:
            raise Rejected(f"--policy: {error}") from None
        if names.count(name) > 1:
            raise Rejected(f"--policy: {name!r} is named twice; name it once")
    return names


def feature_names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list of parts of policy apex, all of which are known."""
    names = listed(text)
    try:
        left_out(names)
    except Rejected as error:
        raise Rejected(f"--without: {error}") from None
    return names


def known_engine(name: str) -> str:
    if name not in ENGINES:
        raise Rejected(f"--engine: {did_you_mean('engine', name, ENGINES)}")
    return name


def note_what_has_no_effect(
    given: Collection[str], policies: Sequence[str], scenario: Scenario
) -> None:
    """Print a note about options that were given and change nothing about any of the policies."""
    print_notes(what_has_no_effect(given, policies, scenario))


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def what_has_no_effect(
    given: Collection[str], policies: Sequence[str], scenario: Scenario
) -> list[str]:
    notes = []
    for option in ("--engine", "--k", "--group-size"):
        setting = option.removeprefix("--").replace("-", "_")
        if option in given and not _use(policies, setting):
            users = joined([name for name, kind in POLICIES.items() if setting in kind.uses])
            notes.append(f"{option} changes nothing here: it is about policy {users}")
    if "--group-size" in given and _use(policies, "group_size") and scenario.engine != GROUPS:
        notes.append(f"--group-size changes nothing here: it is about engine {GROUPS}")
    if "--no-locality" in given and not _use(policies, "locality"):
        notes.append(f"--no-locality changes nothing about {joined(policies)}")
    if "--search-steps-per-ms" in given and not _effort_counts(scenario, policies):
        notes.append(f"--search-steps-per-ms changes nothing here: overhead is {scenario.overhead}")
    return notes


def _use(policies: Collection[str], setting: str) -> bool:
    """Whether a setting has an effect on one of the policies."""
    return any(setting in policy_kind(name).uses for name in policies)


def _effort_counts(scenario: Scenario, policies: Collection[str]) -> bool:
    return scenario.overhead == "counted" or _use(policies, "search_steps_per_ms")


def not_too_large(nodes: int, vgpus: int) -> None:
    """Refuse a cluster with too many vGPUs: each number may be large where the other is small."""
    if nodes * vgpus > MOST_SLICES:
        raise Rejected(
            f"{counted(nodes, 'node')} x {counted(vgpus, 'vGPU')} are {nodes * vgpus} vGPUs; "
            f"with --nodes and --vgpus ask for at most {MOST_SLICES} in all"
        )


def conditions(scenario: Scenario) -> dict[str, Any]:
    """The conditions of a run as a document: all that it depends on, apart from its policy with
    what that learnt, its seed and its requests."""
    document: dict[str, Any] = encode(scenario)
    apart = ("policy", "seed", "trained")
    return {name: value for name, value in document.items() if name not in apart}


def conditions_text(scenario: Scenario, policies: Collection[str]) -> str:
    """The conditions of a run in words: what is unusual, and has an effect on one of the
    policies."""
    usual = USUAL
    slo = "SLOs of the applications"
    if scenario.slo_scale is not None:
        slo = f"SLO {scenario.slo_scale:g} L"
    unusual = {
        f"time scale {scenario.time_scale:g}": scenario.time_scale != 1,
        f"engine {scenario.engine}": (_use(policies, "engine") and scenario.engine != usual.engine),
        f"K = {scenario.k}": _use(policies, "k") and scenario.k != usual.k,
        f"groups of {scenario.group_size}": (
            _use(policies, "group_size")
            and scenario.engine == GROUPS
            and scenario.group_size != usual.group_size
        ),
        f"{scenario.tasks} tasks": scenario.tasks is not usual.tasks,
        "no batching": not scenario.batching,
        "no GPU sharing": not scenario.gpu_sharing,
        "no locality": _use(policies, "locality") and not scenario.locality,
        "no pre-warming": not scenario.prewarm,
        "plans follow what tasks take": scenario.follow_profiles,
        f"noise {scenario.noise:g}": scenario.noise != usual.noise,
        f"stage delay {scenario.stage_delay_ms:g} ms": (
            scenario.stage_delay_ms != usual.stage_delay_ms
        ),
        f"remote inputs {scenario.remote_delay_ms:g} ms": (
            scenario.remote_delay_ms != usual.remote_delay_ms
        ),
        f"remote inputs {scenario.remote_mb_per_s:g} MB/s": (
            scenario.remote_mb_per_s != usual.remote_mb_per_s
        ),
        f"without {','.join(scenario.without)}": (
            _use(policies, "without") and bool(scenario.without)
        ),
        f"overhead {scenario.overhead}": scenario.overhead != usual.overhead,
        f"{scenario.search_steps_per_ms} search steps per ms": (
            scenario.search_steps_per_ms is not None and _effort_counts(scenario, policies)
        ),
    }
    return ", ".join(
        [
            slo,
            cluster_text(scenario.cluster),
            "warm start" if scenario.warm_start else "cold start",
            *(text for text, so in unusual.items() if so),
        ]
    )


def all_different(files: Mapping[str, Path | None]) -> None:
    """Refuse files that are the same: what is written must not take the place of what is read, or
    of what else is written."""
    given = [(option, file) for option, file in files.items() if file is not None]
    for (option, file), (other, same) in combinations(given, 2):
        if file.resolve() == same.resolve():
            raise Rejected(f"{option} and {other} are the same file, {file}; name different ones")


def only_one_run(option: str, policies: Sequence[str], seeds: Sequence[int]) -> None:
    if len(policies) > 1 or len(seeds) > 1:
        raise Rejected(f"{option} is about one run; name one policy and one seed")
