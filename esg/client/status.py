"""The mesh at one moment: its queues, its nodes, its applications."""

from dataclasses import dataclass

from esg.protos import model_v1_pb2 as model


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    application: str
    stage: str
    waiting: int
    running: int
    oldest_ms: float
    """How long its first job has been waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceStatus:
    task: str
    """Empty: it is free."""
    function: str
    resident: tuple[str, ...]
    loading: tuple[str, ...]
    lost: bool = False
    """Its server is gone; it is given no work until it is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    node: str
    vcpus: int
    vcpus_free: int
    slices: tuple[SliceStatus, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStatus:
    """Counted since the controller started; the percentiles are over the latest requests."""

    application: str
    arrived: int
    done: int
    in_time: int
    failed: int
    cancelled: int
    dropped: int
    refused: int
    overloaded: int  # of the refused: there was too much to do
    cost_usd: float
    latency_ms_p50: float
    latency_ms_p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileStatus:
    """What the latest warm tasks of one function and batch size took, as a multiple of what is
    profiled; and what plans go by."""

    function: str
    batch: int
    tasks: int
    profiled_ms: float
    """With the smallest config."""
    measured: float
    planned: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshStatus:
    uptime_ms: float
    policy: str
    under_way: int
    tasks: int
    jobs: int
    cold_starts: int
    local_transfers: int
    remote_transfers: int
    queues: tuple[QueueStatus, ...]
    nodes: tuple[NodeStatus, ...]
    applications: tuple[ApplicationStatus, ...]
    profiles: tuple[ProfileStatus, ...] = ()
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
        refusing=told.refusing,
    )


def _profile(told: model.ProfileStatus) -> ProfileStatus:
    return ProfileStatus(
        function=told.function,
        batch=told.batch,
        tasks=told.tasks,
        profiled_ms=told.profiled_us / 1000,
        measured=told.measured,
        planned=told.planned,
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
