"""What is to be emulated: one policy, one load, one cluster, one seed, as a value.

A scenario can be written into a journal's header and read back, and sent to another process.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from msgspec.structs import replace as changed

from esg.core.catalog.cluster import Cluster
from esg.core.catalog.config import Config
from esg.core.catalog.model import Application, Catalog, Function, scaled, with_tasks
from esg.core.catalog.profile import Profile
from esg.core.catalog.slice_kinds import NodeClass
from esg.core.estimation.transfer import EMULATED_LOCAL, EMULATED_REMOTE
from esg.core.journal.format import Header, catalog_digest
from esg.core.messages.codec import decode, encode
from esg.core.messages.events import ApplicationRegistered, Event
from esg.core.policies.settings import least_one
from esg.core.scheduler.registry import application_of
from esg.core.scheduler.settings import SchedulerSettings
from esg.emulator.bounds import FASTEST_MB_PER_S, LARGEST_SLO_SCALE, LARGEST_TIME_SCALE, LOUDEST
from esg.errors import Rejected
from esg.suggest import did_you_mean
from esg.units import DAY_MS, to_ms
from esg.workload.arrivals import RATES_US


@dataclass(frozen=True, slots=True)
class Setting:
    """A combination of deadline and load, by its name: `strict-light`."""

    slo_scale: float
    rate: str


DEADLINES = {"strict": 0.8, "moderate": 1.0, "relaxed": 1.2}
"""The paper's, as multiples of L."""

ALL_SETTINGS: dict[str, Setting] = {
    f"{deadline}-{rate}": Setting(slo_scale, rate)
    for deadline, slo_scale in DEADLINES.items()
    for rate in RATES_US
}

SETTINGS: dict[str, Setting] = {
    name: ALL_SETTINGS[name] for name in ("strict-light", "moderate-normal", "relaxed-heavy")
}
"""Those that the paper evaluates."""


def setting(name: str) -> Setting:
    if name not in ALL_SETTINGS:
        raise Rejected(did_you_mean("setting", name, ALL_SETTINGS))
    return ALL_SETTINGS[name]


MOST = {
    "slo_scale": LARGEST_SLO_SCALE,
    "time_scale": LARGEST_TIME_SCALE,
    "noise": LOUDEST,
    "stage_delay_ms": DAY_MS,
    "remote_delay_ms": DAY_MS,
    "remote_mb_per_s": FASTEST_MB_PER_S,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(SchedulerSettings):
    """Everything that a run depends on, apart from the catalog and the arrivals: the settings of
    the scheduler, and the world around it.

    Nodes are alike, with usual slices, or those of `classes` if there are any; what is said of
    the size of a node is then that of the largest.
    `overhead` is what decisions are charged: "none", "counted" (from their effort: the same in
    every run) or "measured" (from the clock: not).
    `time_scale` multiplies the times of the catalog, as the setting of a live mesh does.
    `stage_delay_ms` is what a stage takes beyond its profile where its inputs are local; a live
    mesh's own can be measured (benchmarks/fidelity.py). `remote_delay_ms` and `remote_mb_per_s` are
    what an input from another node takes.
    """

    slo_scale: float | None = None
    nodes: int
    vcpus: int
    vgpus: int
    classes: tuple[NodeClass, ...] = ()
    seed: int = 0
    warm_start: bool = True
    batching: bool = True
    gpu_sharing: bool = True
    noise: float = 1.0
    overhead: str = "counted"
    time_scale: float = 1.0
    stage_delay_ms: float = to_ms(EMULATED_LOCAL.delay_us)
    remote_delay_ms: float = to_ms(EMULATED_REMOTE.delay_us)
    remote_mb_per_s: float = EMULATED_REMOTE.bytes_per_s / 1e6

    def __post_init__(self) -> None:
        SchedulerSettings.__post_init__(self)
        least_one(self, "nodes", "vcpus", "vgpus")
        for name, most in MOST.items():
            if (getattr(self, name) or 0) > most:
                raise Rejected(f"{name} is {getattr(self, name):g}; it must be at most {most}")
        if not self.time_scale > 0:
            raise Rejected(f"the time scale is {self.time_scale}; it must be greater than 0")
        if self.slo_scale is not None and not self.slo_scale > 0:
            raise Rejected(f"the SLO scale is {self.slo_scale}; it must be greater than 0")
        if not self.noise >= 0:
            raise Rejected(f"noise is {self.noise}; it must be at least 0")
        if not self.stage_delay_ms >= 0:
            raise Rejected(f"the stage delay is {self.stage_delay_ms} ms; it must be at least 0")
        if not self.remote_delay_ms >= 0:
            raise Rejected(f"the remote delay is {self.remote_delay_ms} ms; it must be at least 0")
        if not self.remote_mb_per_s * 1e6 >= 1:
            raise Rejected(f"the remote rate is {self.remote_mb_per_s} MB/s; it must be above 0")
        if self.overhead not in OVERHEADS:
            raise Rejected(did_you_mean("overhead", self.overhead, OVERHEADS))

    @property
    def cluster(self) -> Cluster:
        if self.classes:
            return Cluster(classes=self.classes)
        return Cluster.alike(nodes=self.nodes, vcpus=self.vcpus, vgpus=self.vgpus)

    def header(self, catalog: Catalog) -> Header:
        """Of the journal that a run writes; `catalog` is the one that was `applied`."""
        raw = encode(self)
        settings = {field.name: raw.pop(field.name) for field in fields(SchedulerSettings)}
        return Header(
            catalog=catalog_digest(catalog),
            time_scale=raw.pop("time_scale"),
            settings=decode(SchedulerSettings, settings),
            world=raw,
        )

    @staticmethod
    def of(header: Header, world: Mapping[str, Any]) -> "Scenario":
        """What a header says, in a world."""
        known = {field.name for field in fields(Scenario)}
        for name in world:
            if name not in known:
                raise Rejected(did_you_mean("setting of a scenario", name, known))
        raw = {**encode(header.settings), "time_scale": header.time_scale, **world}
        return decode(Scenario, raw)


OVERHEADS = ("none", "counted", "measured")


def applied(catalog: Catalog, scenario: Scenario) -> Catalog:
    """The catalog as this scenario wants it: time, cluster, SLOs, and what may be configured.

    Without batching only batches of one are left. Without GPU sharing a task takes all slices of
    its GPU. SLOs are multiples of the application's L in the full catalog, whatever is left of it.
    """
    catalog = scaled(catalog, scenario.time_scale)
    functions = {
        function.name: replace(function, profile=_narrowed(function.profile, scenario))
        for function in catalog.functions.values()
    }
    applications = {
        application.name: _rebuilt(application, functions, scenario.slo_scale)
        for application in catalog.applications.values()
    }
    catalog = replace(
        catalog, functions=functions, applications=applications, cluster=scenario.cluster
    )
    return with_tasks(catalog, scenario.tasks)


def sized(cluster: Cluster) -> dict[str, Any]:
    """A cluster as what a scenario says of it."""
    alike = Cluster.alike(nodes=cluster.nodes, vcpus=cluster.vcpus, vgpus=cluster.vgpus)
    size = {name: getattr(cluster, name) for name in ("nodes", "vcpus", "vgpus")}
    return size if cluster == alike else size | {"classes": cluster.classes}


def applied_to_events(
    events: Iterable[tuple[int, Event]], catalog: Catalog, scenario: Scenario
) -> Iterator[tuple[int, Event]]:
    """What happens, as this scenario wants it: applications that come get its SLOs too.

    `catalog` is the full one, of which their L is.
    """
    catalog = scaled(catalog, scenario.time_scale)
    for at_us, event in events:
        if type(event) is ApplicationRegistered:
            event = _with_slo(event, catalog, scenario.slo_scale)
        yield at_us, event


def _with_slo(
    event: ApplicationRegistered, catalog: Catalog, slo_scale: float | None
) -> ApplicationRegistered:
    wanted = event if slo_scale is None else changed(event, slo_us=None, slo_scale=slo_scale)
    with suppress(Rejected):  # what cannot be is for the scheduler to refuse, with a reason
        return changed(wanted, slo_us=application_of(wanted, catalog).slo_us, slo_scale=None)
    return event


def _rebuilt(
    application: Application, functions: dict[str, Function], slo_scale: float | None
) -> Application:
    rebuilt = application.with_functions(lambda function: functions[function.name])
    if slo_scale is None:
        return rebuilt
    return replace(rebuilt, slo_us=max(1, round(slo_scale * application.alone_us)))


def _narrowed(profile: Profile, scenario: Scenario) -> Profile:
    """The configs that can run on one of the scenario's nodes, in the way it allows."""
    cluster = scenario.cluster
    fitting = [config for config in profile.configs if cluster.runs(config)]
    whole: dict[str, int] = {}
    for config in fitting:
        whole[config.kind] = max(config.vgpus, whole.get(config.kind, 0))

    def allowed(config: Config) -> bool:
        return (
            cluster.runs(config)
            and (scenario.gpu_sharing or config.vgpus == whole[config.kind])
            and (scenario.batching or config.batch == 1)
        )

    try:
        return profile.narrowed(allowed)
    except Rejected:
        raise Rejected(
            f"{profile.function}: no config fits a node of {scenario.vcpus} vCPUs and "
            f"{scenario.vgpus} vGPUs; use larger nodes"
        ) from None
