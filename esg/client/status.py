"""The mesh at one moment: its queues, its nodes, its applications."""

from dataclasses import dataclass

from esg.protos import model_v1_pb2 as model


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """The queue of one stage of an application."""

    application: str
    """Name of the application; `NAME@2` is its second version."""
    stage: str
    """Name of the stage."""
    waiting: int
    """Jobs that wait."""
    running: int
    """Jobs that are part of a running task."""
    oldest_ms: float
    """How long its first job has been waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceStatus:
    """One slice of a GPU (a vGPU)."""

    task: str
    """Id of the task that runs on it; empty: it is free."""
    function: str
    """Function of that task; empty: it is free."""
    resident: tuple[str, ...]
    """Functions whose models are in its memory (warm)."""
    loading: tuple[str, ...]
    """Functions whose models are being loaded."""
    lost: bool = False
    """Its server is gone; it is given no work until it is back."""
    kind: str = ""
    """What it is, as the catalog has it: `3g.40gb`, `gpu-L4`; empty for a usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One worker node."""

    node: str
    """Its name."""
    vcpus: int
    """vCPUs that it has for tasks."""
    vcpus_free: int
    """Those of them that no task holds."""
    slices: tuple[SliceStatus, ...]
    """Its vGPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStatus:
    """Requests of one application, counted since the controller started."""

    application: str
    """Its name."""
    arrived: int
    """Requests that came, whatever became of them."""
    done: int
    """Those that are done, in time or not."""
    in_time: int
    """Of the done: within their deadline."""
    failed: int
    """Those that were tried, and could not be done."""
    cancelled: int
    """Those that somebody cancelled."""
    dropped: int
    """Those that were accepted and given up, as they would have been late."""
    refused: int
    """Those that were not accepted."""
    overloaded: int
    """Of the refused: there was too much to do."""
    cost_usd: float
    """What all of them cost, in US dollars."""
    latency_ms_p50: float
    """Median latency of the latest requests, in milliseconds."""
    latency_ms_p99: float
    """99th percentile of the latency of the latest requests, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindStatus:
    """The slices of one kind, and the functions that are planned on none of them."""

    kind: str
    """Its name: `1g.10gb`, `gpu-L4`; empty where all slices are alike and have none."""
    slices: int
    """How many there are."""
    unprofiled: tuple[str, ...] = ()
    """Functions whose profiles say nothing of this kind."""
    too_large: tuple[str, ...] = ()
    """Functions that need more memory than it has."""
    nothing: bool = False
    """Whether these are all functions: no work comes to these slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileStatus:
    """Drift of one function's profile at one batch size, on one kind of slices: what its warm tasks
    really took."""

    function: str
    """Name of the function."""
    batch: int
    """Jobs per task."""
    tasks: int
    """How many tasks were measured."""
    profiled_ms: float
    """Profiled time with the smallest config, in milliseconds."""
    measured: float
    """What the latest tasks took, as a multiple of what is profiled."""
    planned: float
    """The multiple that plans go by."""
    kind: str = ""
    """The kind of the slices; empty for usual ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshStatus:
    """The whole mesh at one moment; what is counted is so since the controller started."""

    uptime_ms: float
    """Since the controller started, in milliseconds."""
    policy: str
    """Name of the scheduling policy."""
    under_way: int
    """Requests that are accepted and have not ended."""
    tasks: int
    """Tasks (batches) that were dispatched."""
    jobs: int
    """Jobs in them: stages of requests."""
    cold_starts: int
    """Tasks that had to wait for a model to be loaded."""
    local_transfers: int
    """Inputs that were on the node of their task."""
    remote_transfers: int
    """Inputs that came from another node, through Redis."""
    queues: tuple[QueueStatus, ...]
    """One per stage of each application."""
    nodes: tuple[NodeStatus, ...]
    """The worker nodes that are connected."""
    applications: tuple[ApplicationStatus, ...]
    """One per application."""
    profiles: tuple[ProfileStatus, ...] = ()
    """One per function and batch size that was measured."""
    kinds: tuple[KindStatus, ...] = ()
    """One per kind of slices."""
    refusing: str = ""
    """Why no new requests are taken, if that is so."""


def status_of(told: model.MeshStatus) -> MeshStatus:
    return MeshStatus(
        uptime_ms=told.uptime_us / 1000,
        policy=told.policy,
        under_way=told.under_way,
        tasks=told.tasks,
        jobs=told.jobs,
        cold_starts=told.cold_starts,
        local_transfers=told.local_transfers,
        remote_transfers=told.remote_transfers,
        queues=tuple(_queue(queue) for queue in told.queues),
        nodes=tuple(_node(node) for node in told.nodes),
        applications=tuple(_application(application) for application in told.applications),
        profiles=tuple(_profile(profile) for profile in told.profiles),
        kinds=tuple(_kind(kind) for kind in told.kinds),
        refusing=told.refusing,
    )


def _kind(told: model.KindStatus) -> KindStatus:
    return KindStatus(
        kind=told.kind,
        slices=told.slices,
        unprofiled=tuple(told.unprofiled),
        too_large=tuple(told.too_large),
        nothing=told.nothing,
    )


def _profile(told: model.ProfileStatus) -> ProfileStatus:
    return ProfileStatus(
        function=told.function,
        batch=told.batch,
        tasks=told.tasks,
        profiled_ms=told.profiled_us / 1000,
        measured=told.measured,
        planned=told.planned,
        kind=told.kind,
    )


def _queue(told: model.QueueStatus) -> QueueStatus:
    return QueueStatus(
        application=told.application,
        stage=told.stage,
        waiting=told.waiting,
        running=told.running,
        oldest_ms=told.oldest_us / 1000,
    )


def _node(told: model.NodeStatus) -> NodeStatus:
    slices = tuple(
        SliceStatus(
            task=s.task,
            function=s.function,
            resident=tuple(s.resident),
            loading=tuple(s.loading),
            lost=s.lost,
            kind=s.kind,
        )
        for s in told.slices
    )
    return NodeStatus(node=told.node, vcpus=told.vcpus, vcpus_free=told.vcpus_free, slices=slices)


def _application(told: model.ApplicationStatus) -> ApplicationStatus:
    return ApplicationStatus(
        application=told.application,
        arrived=told.arrived,
        done=told.done,
        in_time=told.in_time,
        failed=told.failed,
        cancelled=told.cancelled,
        dropped=told.dropped,
        refused=told.refused,
        overloaded=told.overloaded,
        cost_usd=told.cost_usd,
        latency_ms_p50=told.latency_us_p50 / 1000,
        latency_ms_p99=told.latency_us_p99 / 1000,
    )
