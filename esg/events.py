"""Facts, in the past tense: all that a scheduler ever learns.

Exogenous events come from the world and would have come under any policy; endogenous ones are
consequences of our own orders. A strict replay feeds both; a what-if feeds the exogenous ones and
lets an emulator answer the new orders.
"""

from dataclasses import dataclass

from esg.catalog import LateRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived:
    """A client asks for an application; without an SLO of its own, the application's holds.

    A name is used once. A repeat is recognised while the request is under way; whoever lets
    requests in remembers which names have been answered. With `all_stages`, what every stage makes
    is part of the result, not only what the last ones do.
    """

    request: str
    application: str
    slo_us: int | None = None
    all_stages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCancelled:
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage of an application as it is registered: what it runs, and what it waits for."""

    name: str
    function: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRegistered:
    """There is an application of this name from now on; if there was one, this replaces it.

    The SLO is a time, or a multiple of the application's L; without either it is L. Requests under
    way finish as they began: see `registry`. What becomes of those that will be late: see
    `overload`.
    """

    application: str
    stages: tuple[StageSpec, ...]
    slo_us: int | None = None
    slo_scale: float | None = None
    late_requests: LateRequests = LateRequests.FINISH


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRetired:
    """New requests for this application are no longer wanted; those under way finish."""

    application: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceInventory:
    """One slice as its invoker sees it: memory, and whose models are loaded or on their way.

    One that is not usable has lost its server: it has no models, and is given no work.
    """

    memory_mb: int
    resident: tuple[str, ...] = ()
    loading: tuple[str, ...] = ()
    usable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """A task that a node runs, and what it holds there."""

    task: str
    vcpus: int = 0
    slices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokerJoined:
    """A worker node is here (for the first time or again), and this is what it has and runs.

    `latest_task` is the highest task number it ever heard of: a scheduler that lost its memory
    must not use such a number again. `kept` are the requests that it keeps data of: an order to
    discard some may have been lost while it was away. A node that was reported lost has emptied
    its store before it joins again.
    """

    invoker: str
    vcpus: int
    slices: tuple[SliceInventory, ...]
    running: tuple[RunningTask, ...] = ()
    latest_task: int = 0
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokerReported:
    """A node's inventory, taken after it had heard of task number `latest_task`.

    Orders that were still on their way then are not expected in it.
    """

    invoker: str
    slices: tuple[SliceInventory, ...]
    running: tuple[RunningTask, ...]
    latest_task: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokerLeaving:
    """A node wants no new work. What it runs goes on, and what it keeps can be had, for now."""

    invoker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokerLost:
    invoker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """One request's job in a task that was run."""

    request: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished:
    """`loading_us` went by until all its slices had the model, `running_us` from then on.

    Every job has its result, apart from those that `failed`, each by itself.
    """

    task: str
    invoker: str
    loading_us: int
    running_us: int
    failed: tuple[JobFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutput:
    """What one stage made for one request."""

    request: str
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """A task ended without results; `missing` names inputs that could not be had."""

    task: str
    invoker: str
    reason: str
    missing: tuple[StageOutput, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReady:
    """A function's model is loaded on a slice, which took `loading_us`; 0 if it was found there."""

    invoker: str
    slice: int
    function: str
    loading_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGone:
    """A function's model is no longer on a slice: idle too long, dropped, or failed to load."""

    invoker: str
    slice: int
    function: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Woke:
    """Nothing happened, but it is time: the hour of `next_wake` has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Tasks of this function with this batch take so many thousandths of what its profile says."""

    function: str
    batch: int
    permille: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilesCorrected:
    """Plans go by these corrections from now on, and by no others (see `drift`).

    They were ordered (`CorrectProfiles`), yet they are exogenous: how long functions take is the
    world's doing, and would have been found out under any policy.
    """

    corrections: tuple[Correction, ...]


ApplicationChange = ApplicationRegistered | ApplicationRetired
Exogenous = (
    RequestArrived
    | RequestCancelled
    | ApplicationChange
    | ProfilesCorrected
    | InvokerJoined
    | InvokerLeaving
    | InvokerLost
)
Endogenous = InvokerReported | TaskFinished | TaskFailed | InstanceReady | InstanceGone | Woke
Event = Exogenous | Endogenous
EVENTS: tuple[type[Event], ...] = (
    RequestArrived,
    RequestCancelled,
    ApplicationRegistered,
    ApplicationRetired,
    ProfilesCorrected,
    InvokerJoined,
    InvokerReported,
    InvokerLeaving,
    InvokerLost,
    TaskFinished,
    TaskFailed,
    InstanceReady,
    InstanceGone,
    Woke,
)
