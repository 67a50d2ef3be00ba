"""What `benchmarks.apex` measures: runs, as values that have names and can be sent around."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.model import Application, Catalog, Stage
from esg.core.catalog.phases import TaskMode
from esg.core.catalog.slice_kinds import NodeClass, parse_layout
from esg.core.durations import Durations, DurationSettings
from esg.core.estimation.transfer import EMULATED_LOCAL
from esg.core.messages.events import Event
from esg.core.policies.apex.features import Feature, listed
from esg.core.policies.settings import Trained
from esg.core.pool.pool import Pool
from esg.emulator.run import build_pools, emulate
from esg.emulator.scenario import SETTINGS, Scenario, applied, sized
from esg.emulator.sweep import Generated
from esg.units import ms
from esg.workload.plan import Workload

RIVALS = ("infless", "infless-config-first", "fast-gshare", "fast-gshare-lean", "orion", "aquatope")
SCALES = (0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
CAPACITY_PER_S = 88
"""What all vGPUs of the paper's cluster can serve at the minimum config: heavy is 85 % of it."""
LOADS = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 1.2)
HIGH_LOADS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)

SLICES = 7
MIXED_LAYOUT = "4g.40gb+3g.40gb"
"""How the paper's GPUs are cut, and another way."""

COLD_TIMES = 3
"""A run that begins cold has so many times as many requests: the first half minute is lost."""

KEPT = (
    "slo_hit_rate",
    "cost_usd_per_1k_requests",
    "mean_batch",
    "cold_starts",
    "requests",
    "refused",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One emulated run. `table` and `row` say where its figures go."""

    table: str
    row: str
    policy: str
    seed: int
    requests: int
    slo_scale: float
    rate: str
    without: str = ""
    warm_start: bool = True
    nodes: int = 16
    noise: float = 1.0
    mixed_nodes: bool = False
    wrong: float = 0.0
    split: bool = False
    trace: str = ""
    tasks: TaskMode = TaskMode.JOINT
    layout: str = ""

    @property
    def name(self) -> str:
        without = f" without {self.without}" if self.without else ""
        phased = f" {self.tasks}" if self.tasks is TaskMode.PHASED else ""
        phased += f" {self.layout}" if self.layout else ""
        return f"{self.table}: {self.row}: {self.policy}{without}{phased}: {self.seed}"

    def scenario(self, catalog: Catalog) -> Scenario:
        slices = parse_layout(self.layout or f"{SLICES}", catalog.kinds)
        node = NodeClass(count=self.nodes, vcpus=16, slices=slices)
        return Scenario(
            policy=self.policy,
            without=listed(self.without),
            slo_scale=self.slo_scale,
            **sized(Cluster(classes=(node,))),
            seed=self.seed,
            warm_start=self.warm_start,
            noise=self.noise,
            tasks=self.tasks,
        )

    def load(self) -> Generated:
        trace = Path(self.trace) if self.trace else None
        return Generated(Workload(rate=self.rate, trace=trace, requests=self.requests))


def as_it_is(catalog: Catalog, wrong: float) -> Catalog:
    """What a catalog should say, if its profiles are wrong: every other function takes longer than
    they say, and the rest less."""
    functions = {
        name: replace(function, profile=function.profile.scaled(factor, catalog.prices))
        for (name, function), factor in zip(
            sorted(catalog.functions.items()), cycle((1 + wrong, 1 - wrong)), strict=False
        )
    }
    applications = {
        name: application.with_functions(lambda function: functions[function.name])
        for name, application in catalog.applications.items()
    }
    return replace(catalog, functions=functions, applications=applications)


def carry_out(run: Run, catalog: Catalog, trained: Trained) -> dict[str, Any]:
    """The figures of one run."""
    if run.split:
        catalog = with_split(catalog)
    scenario = replace(run.scenario(catalog), trained=trained)
    seen = applied(catalog, scenario)
    pools = mixed(seen, scenario) if run.mixed_nodes else None
    durations = None
    if run.wrong:
        local = replace(EMULATED_LOCAL, delay_us=ms(scenario.stage_delay_ms))
        settings = DurationSettings(noise=run.noise, local=local)
        durations = Durations(as_it_is(seen, run.wrong), run.seed, settings)
    arrivals: Iterator[tuple[int, Event]] = run.load().arrivals(
        list(catalog.applications), run.seed
    )
    done = emulate(catalog, scenario, arrivals, pools=pools, durations=durations)
    summary = done.summary()
    return {name: summary[name] for name in KEPT} | {"wall_s": round(done.wall_s, 2)}


def mixed(catalog: Catalog, scenario: Scenario) -> dict[str, Pool]:
    """As many vCPUs and vGPUs as the paper's 16 nodes have, on large, usual and small ones."""
    found: dict[str, Pool] = {}
    for count, vcpus, vgpus in ((4, 24, 10), (8, 16, 7), (4, 8, 4)):
        some = replace(scenario, nodes=count, vcpus=vcpus, vgpus=vgpus)
        for pool in build_pools(catalog, some).values():
            pool.invoker = f"node{len(found):02}"
            found[pool.invoker] = pool
    return found


def with_split(catalog: Catalog) -> Catalog:
    """The paper's applications, and one that splits and joins in place of the longest chain."""
    stages = [
        Stage("super-resolution", catalog.functions["super-resolution"]),
        Stage("segmentation", catalog.functions["segmentation"], ("super-resolution",)),
        Stage("depth", catalog.functions["depth"], ("super-resolution",)),
        Stage("classification", catalog.functions["classification"], ("segmentation", "depth")),
    ]
    applications = dict(catalog.applications)
    del applications["expanded-image-classification"]
    applications["scene"] = Application.of("scene", stages)
    return replace(catalog, applications=applications)


def settings_runs(policies: Sequence[str], seeds: Sequence[int], requests: int) -> Iterator[Run]:
    """The paper's three settings, warm and cold."""
    for warm in (True, False):
        for name, setting in SETTINGS.items():
            for policy in policies:
                for seed in seeds:
                    yield Run(
                        table="warm start" if warm else "cold start",
                        row=name,
                        policy=policy,
                        seed=seed,
                        requests=requests if warm else COLD_TIMES * requests,
                        slo_scale=setting.slo_scale,
                        rate=setting.rate,
                        warm_start=warm,
                    )


def phases_runs(seeds: Sequence[int], requests: int) -> Iterator[Run]:
    """Tasks in phases beside joint ones: in the three settings, and ever closer to capacity."""
    rows = [(name, s.slo_scale, s.rate) for name, s in SETTINGS.items()]
    rows += [(f"load {load:.0%}", 1.2, f"{load * CAPACITY_PER_S:.1f}/s") for load in HIGH_LOADS]
    return _in_both_modes("phases", rows, ("",), seeds, requests)


def kinds_runs(seeds: Sequence[int], requests: int) -> Iterator[Run]:
    """Phases, kinds of slices, both and neither: what a GPU cut otherwise is good for."""
    rows = [(name, s.slo_scale, s.rate) for name, s in SETTINGS.items()]
    rows += [("SLO 0.7 L, normal", 0.7, "normal"), ("SLO 0.5 L, normal", 0.5, "normal")]
    rows += [("load 140%", 1.2, f"{1.4 * CAPACITY_PER_S:.1f}/s")]
    return _in_both_modes("kinds", rows, ("", MIXED_LAYOUT), seeds, requests)


def _in_both_modes(
    table: str,
    rows: Sequence[tuple[str, float, str]],
    layouts: Sequence[str],
    seeds: Sequence[int],
    requests: int,
) -> Iterator[Run]:
    for (row, slo_scale, rate), policy, layout, tasks, seed in product(
        rows, ("esg", "apex"), layouts, TaskMode, seeds
    ):
        yield Run(
            table=table,
            row=row,
            policy=policy,
            seed=seed,
            requests=requests,
            slo_scale=slo_scale,
            rate=rate,
            tasks=tasks,
            layout=layout,
        )


def ablation_runs(seeds: Sequence[int], requests: int) -> Iterator[Run]:
    """Apex without each of its features: in the three settings, cold, and beyond capacity."""
    rows = [(name, s.slo_scale, s.rate, True) for name, s in SETTINGS.items()]
    rows += [("cold moderate-normal", 1.0, "normal", False), ("overload", 1.2, "106/s", True)]
    for row, slo_scale, rate, warm in rows:
        for without in ("", *Feature):
            for seed in seeds:
                yield Run(
                    table="ablation",
                    row=row,
                    policy="apex",
                    without=str(without),
                    seed=seed,
                    requests=requests if warm else COLD_TIMES * requests,
                    slo_scale=slo_scale,
                    rate=rate,
                    warm_start=warm,
                )


def beyond_runs(seeds: Sequence[int], requests: int, traces: Sequence[str]) -> Iterator[Run]:
    """Outside of the paper's settings, apex beside esg."""
    rows: list[tuple[str, dict[str, Any]]] = []
    rows += [(f"SLO {scale:g} L", {"slo_scale": scale, "rate": "normal"}) for scale in SCALES]
    rows += [
        (f"load {load:.0%}", {"rate": f"{load * CAPACITY_PER_S:.1f}/s", "slo_scale": 1.2})
        for load in LOADS
    ]
    rows += [
        ("8 nodes, normal", {"nodes": 8, "rate": "normal", "slo_scale": 1.2}),
        ("4 nodes, light", {"nodes": 4, "rate": "light", "slo_scale": 1.2}),
        ("mixed nodes, heavy", {"mixed_nodes": True, "rate": "heavy", "slo_scale": 1.2}),
        ("noise 20 %, normal", {"noise": 10.0, "rate": "normal", "slo_scale": 1.2}),
        ("profiles 20 % wrong", {"wrong": 0.2, "rate": "normal", "slo_scale": 1.2}),
        ("split and join, normal", {"split": True, "rate": "normal", "slo_scale": 1.0}),
    ]
    rows += [
        (f"trace {Path(trace).stem}", {"trace": trace, "rate": "normal", "slo_scale": 1.2})
        for trace in traces
    ]
    for row, conditions in rows:
        for policy in ("esg", "apex"):
            for seed in seeds:
                yield Run(
                    table="beyond",
                    row=row,
                    policy=policy,
                    seed=seed,
                    requests=requests,
                    **conditions,
                )
