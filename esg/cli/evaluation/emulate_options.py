"""The options of `esg emulate`, and what they ask for: a scenario, policies and seeds."""

from dataclasses import dataclass, fields, replace
from typing import Annotated

import typer

from esg.console.arrivals import ArrivalOptions
from esg.console.conditions import (
    MOST_SEEDS,
    POLICIES_HELP,
    USUAL,
    Layout,
    Nodes,
    SloScale,
    Vcpus,
    Vgpus,
    cluster_of_scenario,
    feature_names,
    given_of_scenario,
    known_engine,
    policy_names,
)
from esg.console.options import Tasks, above_zero, at_least, from_zero
from esg.core.catalog.model import Catalog
from esg.emulator.bounds import FASTEST_MB_PER_S, LOUDEST
from esg.emulator.scenario import Scenario
from esg.emulator.scenario import setting as setting_named
from esg.errors import Rejected
from esg.units import DAY_MS
from esg.workload.plan import DEFAULT_REQUESTS

DEFAULT_SETTING = "relaxed-heavy"
DEFAULT_RATE = "heavy"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulateOptions:
    """What is to be emulated. Every field is an option, in the order of the help."""

    setting: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=f"{DEFAULT_SETTING}, unless something below says otherwise",
            help="A deadline and a rate: strict, moderate or relaxed; light, normal or heavy. The "
            "paper has strict-light, moderate-normal and relaxed-heavy.",
        ),
    ] = None
    slo_scale: SloScale = None
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help=f"Policies to compare; the first is the baseline. {POLICIES_HELP}",
        ),
    ] = "esg"
    nodes: Nodes = None
    vcpus: Vcpus = None
    vgpus: Vgpus = None
    layout: Layout = None
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="S", show_default="0", help="The same seed gives the same requests and noise."
        ),
    ] = None
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_SEEDS),
            show_default=False,
            help="Run with the seeds 0 to N - 1 instead; figures are means, with 95 % margins.",
        ),
    ] = None
    warm_start: Annotated[
        bool,
        typer.Option("--warm-start/--cold-start", help="Whether models are loaded at the start."),
    ] = True
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            metavar="K",
            callback=at_least(1),
            show_default=str(USUAL.k),
            help="Plans that policy esg offers.",
        ),
    ] = None
    group_size: Annotated[
        int | None,
        typer.Option(
            metavar="G",
            callback=at_least(1),
            show_default=str(USUAL.group_size),
            help="Largest function group for astar.",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            show_default=USUAL.engine,
            help="Search engine of policy esg: frontier or astar.",
        ),
    ] = None
    no_batching: Annotated[
        bool, typer.Option("--no-batching", help="Every job is a task of its own.")
    ] = False
    no_gpu_sharing: Annotated[
        bool, typer.Option("--no-gpu-sharing", help="Every task takes a whole GPU.")
    ] = False
    tasks: Tasks = USUAL.tasks
    no_locality: Annotated[
        bool, typer.Option("--no-locality", help="Place tasks anywhere, not where their data is.")
    ] = False
    no_prewarm: Annotated[
        bool, typer.Option("--no-prewarm", help="Load models only when they are needed.")
    ] = False
    follow_profiles: Annotated[
        bool,
        typer.Option(
            "--follow-profiles", help="Plans follow measured task times, as in a live mesh."
        ),
    ] = False
    noise: Annotated[
        float,
        typer.Option(
            metavar="X",
            callback=from_zero(LOUDEST),
            help="Spread of durations, as a multiple of the profiled one.",
        ),
    ] = USUAL.noise
    stage_delay_ms: Annotated[
        float,
        typer.Option(
            metavar="MS",
            callback=from_zero(DAY_MS),
            help="Overhead of a stage beyond its profile; live meshes differ.",
        ),
    ] = USUAL.stage_delay_ms
    remote_delay_ms: Annotated[
        float,
        typer.Option(
            metavar="MS",
            callback=from_zero(DAY_MS),
            help="Latency of reading an input from another node.",
        ),
    ] = USUAL.remote_delay_ms
    remote_mb_per_s: Annotated[
        float,
        typer.Option(
            metavar="X",
            callback=above_zero(FASTEST_MB_PER_S),
            help="Bandwidth between nodes, in MB/s.",
        ),
    ] = USUAL.remote_mb_per_s
    overhead: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="Time that scheduling takes: none, counted (from the search effort) or measured "
            "(on this machine; then searches that a policy caches, as orion does, take none).",
        ),
    ] = USUAL.overhead
    search_steps_per_ms: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            callback=at_least(1),
            show_default="each policy's own",
            help="Search steps per millisecond of scheduling time.",
        ),
    ] = None
    without: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            show_default=False,
            help="Parts of policy apex to leave out, such as holding,risk (docs/apex.md).",
        ),
    ] = ""

    def settled(self, arrivals: ArrivalOptions) -> "tuple[EmulateOptions, ArrivalOptions]":
        """The options with what follows from a setting, or is usual; without `setting`, if
        something about it is no longer as in the paper. Options that contradict each other are
        refused."""
        setting, slo_scale, rate = self.setting, self.slo_scale, arrivals.rate
        requests = arrivals.requests
        recorded = arrivals.trace is not None or arrivals.arrivals is not None
        if setting is None and slo_scale is None and arrivals.nothing_says_when:
            setting = DEFAULT_SETTING
        if setting is not None:
            chosen = setting_named(setting)
            own_slo, own_rate = slo_scale in (None, chosen.slo_scale), rate in (None, chosen.rate)
            slo_scale = chosen.slo_scale if slo_scale is None else slo_scale
            rate = chosen.rate if rate is None and arrivals.arrivals is None else rate
            if not (own_slo and own_rate) or recorded:
                setting = None
        if rate is None and not recorded:
            rate = DEFAULT_RATE
        if requests is None and arrivals.duration is None and not recorded:
            requests = DEFAULT_REQUESTS
        self.check()
        return (
            replace(self, setting=setting, slo_scale=slo_scale),
            replace(arrivals, rate=rate, requests=requests),
        )

    def check(self) -> None:
        """Refuse names that are not known, and options that contradict each other."""
        if self.seed is not None and self.seeds is not None:
            raise Rejected("--seed and --seeds are two ways to choose; give one of them")
        policies = policy_names(self.policy)
        if self.engine is not None:
            known_engine(self.engine)
        if self.without and "apex" not in policies:
            raise Rejected("--without is about policy apex; name it with --policy")

    @property
    def policies(self) -> list[str]:
        return policy_names(self.policy)

    @property
    def all_seeds(self) -> list[int]:
        return [self.seed or 0] if self.seeds is None else list(range(self.seeds))

    def scenario(self, catalog: Catalog) -> Scenario:
        """The scenario of the first policy and seed, on the catalog's cluster if nothing else is
        asked."""
        given = given_of_scenario(self)
        values = cluster_of_scenario(given, self.layout, catalog) | given
        for option in fields(self):
            if option.name.startswith("no_"):
                values[option.name.removeprefix("no_")] = not getattr(self, option.name)
        values |= {"policy": self.policies[0], "seed": self.all_seeds[0]}
        return Scenario(**values | {"without": feature_names(self.without)})

    @property
    def without_effect_on_some(self) -> list[str]:
        """The options that were given and are not about every policy."""
        names = ("engine", "k", "group_size", "no_locality", "search_steps_per_ms")
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]
