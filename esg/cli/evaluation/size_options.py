"""The options of `esg size`, and what they ask for: nodes, layouts and traffic."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated

import typer

from esg.console.arrivals import ArrivalOptions
from esg.console.conditions import MOST_PER_NODE, POLICIES_HELP, SloScale, policy_names
from esg.console.formatting import counted
from esg.console.options import Tasks, above_zero, at_least
from esg.core.catalog.model import Catalog
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.slice_kinds import USUAL, parse_layouts
from esg.core.policies.table import learns
from esg.emulator.scenario import DEADLINES, Scenario
from esg.emulator.sizing.cheapest_fleet import Kinds, NodeShape
from esg.emulator.sizing.mig_layouts import (
    GPU_MODELS,
    GpuModel,
    gpu_model,
    maximal_layouts,
    why_not,
)
from esg.emulator.sweep import Generated
from esg.errors import Rejected
from esg.limits import MOST_USD_PER_HOUR
from esg.suggest import did_you_mean
from esg.units import US_PER_S
from esg.workload.plan import Workload

DEFAULT_SEEDS = 2
OTHERS = 2
"""How many times as many other seeds confirm."""
MOST_SEEDS = 1000

DEFAULT_DURATION_S = 20.0
LEAST_REQUESTS = 1000
"""At a low rate a run is longer: of fewer requests, one makes too much of a difference."""
DEFAULT_REQUESTS = 3000
"""Of what is recorded: a day would take hours."""

VCPUS_PER_GPU = (4, 64)
MOST_GPUS_PER_NODE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeOptions:
    """What a fleet is for, and what nodes there are. Every field is an option, in the order of the
    help."""

    setting: Annotated[
        str | None,
        typer.Option(
            metavar="DEADLINE",
            show_default="the applications' own deadlines",
            help="strict, moderate or relaxed: 0.8, 1 or 1.2 L.",
        ),
    ] = None
    slo_scale: SloScale = None
    policy: Annotated[
        str, typer.Option(metavar="NAME", help=f"The policy that is to do it. {POLICIES_HELP}")
    ] = "apex"
    tasks: Tasks = TaskMode.JOINT
    gpu: Annotated[
        str, typer.Option(metavar="MODEL", help=f"GPU model: {', '.join(GPU_MODELS)}.")
    ] = "a100-80gb"
    gpus_per_node: Annotated[
        int,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_GPUS_PER_NODE),
            help="GPUs of a node.",
        ),
    ] = 1
    vcpus: Annotated[
        str | None,
        typer.Option(
            metavar="FROM-TO",
            show_default="4 to 64 for each GPU",
            help="vCPUs that a node can have, as in 8-96; one number if there is no choice.",
        ),
    ] = None
    layouts: Annotated[
        str | None,
        typer.Option(
            metavar="SLICES,...",
            show_default="all that NVIDIA allows",
            help="MIG layouts to choose from, as in 7x1g.10gb,4g.40gb+3g.40gb.",
        ),
    ] = None
    gpu_usd_per_hour: Annotated[
        float | None,
        typer.Option(
            metavar="USD",
            callback=above_zero(int(MOST_USD_PER_HOUR)),
            show_default="that of all its slices, by the catalog",
            help="Price of a GPU.",
        ),
    ] = None
    vcpu_usd_per_hour: Annotated[
        float | None,
        typer.Option(
            metavar="USD",
            callback=above_zero(int(MOST_USD_PER_HOUR)),
            show_default="the catalog's",
            help="Price of a vCPU.",
        ),
    ] = None
    seeds: Annotated[
        int,
        typer.Option(
            metavar="N",
            callback=at_least(1, at_most=MOST_SEEDS),
            help="Fleets are run with the seeds 0 to N - 1, and the cheapest again with twice as "
            "many others.",
        ),
    ] = DEFAULT_SEEDS

    def scenario(self) -> Scenario:
        """All but the cluster."""
        policies = policy_names(self.policy)
        if len(policies) > 1:
            raise Rejected("--policy: a fleet is sized for one policy; name one")
        if learns(policies[0]):
            raise Rejected(
                f"--policy: {policies[0]} learns what is best on one cluster, so a cluster cannot "
                "be found for it; try each with esg emulate"
            )
        return Scenario(
            nodes=1,
            vcpus=1,
            vgpus=1,
            policy=policies[0],
            slo_scale=self._slo_scale(),
            tasks=self.tasks,
        )

    def _slo_scale(self) -> float | None:
        if self.setting is None:
            return self.slo_scale
        if self.slo_scale is not None:
            raise Rejected("--setting and --slo-scale are two ways to say it; give one of them")
        if self.setting not in DEADLINES:
            raise Rejected(f"--setting: {did_you_mean('deadline', self.setting, DEADLINES)}")
        return DEADLINES[self.setting]

    def model(self) -> GpuModel:
        try:
            return gpu_model(self.gpu)
        except Rejected as error:
            raise Rejected(f"--gpu: {error}") from None

    def known_layouts(self, catalog: Catalog) -> tuple[Kinds, ...]:
        """Those to choose from, by the kinds of the catalog."""
        model = self.model()
        by_name = {kind.name: key for key, kind in catalog.kinds.items()}
        if not catalog.kinds[USUAL].name:
            raise Rejected(
                "the catalog does not say what its slices are, so no MIG layout is known to have "
                'them; name them in [cluster], as in kind = "1g.10gb"'
            )
        if self.layouts is not None:
            return self._given_layouts(catalog, model)
        kinds = [name for name in model.kinds if name in by_name]
        if not kinds:
            raise Rejected(
                f"--gpu: the catalog has no profiles for slices of an {model.name} "
                f"({', '.join(model.kinds)}), only for {', '.join(by_name)}; measure them with "
                "esg profile, or choose another GPU"
            )
        return tuple(
            tuple(by_name[name] for name in layout) for layout in maximal_layouts(model, kinds)
        )

    def _given_layouts(self, catalog: Catalog, model: GpuModel) -> tuple[Kinds, ...]:
        assert self.layouts is not None
        try:
            found = parse_layouts(self.layouts, catalog.kinds)
        except Rejected as error:
            raise Rejected(f"--layouts: {error}") from None
        for layout in found:
            why = why_not(model, [catalog.kinds[kind].name for kind in layout])
            if why is not None:
                raise Rejected(f"--layouts: {why}")
        return tuple(dict.fromkeys(found))

    def shape(self, catalog: Catalog, layouts: Sequence[Kinds]) -> NodeShape:
        least, most = self._vcpu_range()
        gpu = self.gpu_usd_per_hour
        if gpu is None:
            gpu = max(sum(catalog.kinds[kind].usd_per_hour for kind in one) for one in layouts)
        vcpu = self.vcpu_usd_per_hour
        return NodeShape(
            gpus=self.gpus_per_node,
            least_vcpus=least,
            most_vcpus=most,
            gpu_usd_per_hour=gpu,
            vcpu_usd_per_hour=catalog.prices.vcpu_usd_per_hour if vcpu is None else vcpu,
        )

    def _vcpu_range(self) -> tuple[int, int]:
        if self.vcpus is None:
            least, most = (each * self.gpus_per_node for each in VCPUS_PER_GPU)
            return least, most
        found = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", self.vcpus)
        least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= least <= most <= MOST_PER_NODE:
            raise Rejected(
                f"--vcpus: {self.vcpus!r} is no number of vCPUs; give one, or a range, as in 8-96 "
                f"(at most {MOST_PER_NODE})"
            )
        return least, most


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What comes: so many requests per second of these applications, by weights."""

    load: Workload
    per_s: float
    mix: Mapping[str, float]

    @staticmethod
    def of(arrivals: ArrivalOptions, catalog: Catalog) -> "Traffic":
        """What the options ask for. How often the applications of recorded requests come is
        counted."""
        recorded = arrivals.trace is not None or arrivals.arrivals is not None
        short = arrivals.requests is None and arrivals.duration is None
        if short and recorded:
            arrivals = replace(arrivals, requests=DEFAULT_REQUESTS)
        load, names = arrivals.workload(0), list(catalog.applications)
        if not recorded:
            per_s = load.mean_per_s()
            assert per_s is not None
            if short:
                least_s = ceil(LEAST_REQUESTS / per_s)
                load = replace(load, duration_s=max(DEFAULT_DURATION_S, least_s))
            return Traffic(load=load, per_s=per_s, mix=load.weights(names))
        came: Counter[str] = Counter()
        last_us = 0
        for arrival in load.arrivals(names):
            came[arrival.application] += 1
            last_us = arrival.at_us
        if not came:
            file = load.trace or load.saved
            raise Rejected(f"{file}: no request comes in it; name another one, or a longer part")
        span_us = max(last_us, 1)
        mix = {name: float(came[name]) for name in names if came[name]}
        return Traffic(load=load, per_s=came.total() / (span_us / US_PER_S), mix=mix)

    @property
    def source(self) -> Generated:
        return Generated(self.load)

    @property
    def text(self) -> str:
        load = self.load
        if load.saved is not None:
            how = f"as in {load.saved}"
        elif load.trace is not None:
            how = f"as in {load.trace}" + (f", scaled to {load.rate}" if load.rate else "")
        else:
            how = {"steady": "", "poisson": "Poisson", "burst": "in bursts"}[load.pattern]
            how = ", ".join(part for part in (f"the rate {load.rate}", how) if part)
        per_run = (
            counted(load.requests, "request")
            if load.requests is not None
            else f"{load.duration_s:g} s"
        )
        return f"{self.per_s:.3g} requests/s ({how}), {per_run} per run"
