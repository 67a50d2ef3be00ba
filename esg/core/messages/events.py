"""Events, in the past tense: all that a scheduler ever learns.

Exogenous events come from the world and would have come under any policy. Endogenous ones are the
consequences of our own orders, and whatever nodes say of themselves. A strict replay feeds both; a
what-if feeds the exogenous ones, and an emulator with nodes of its own answers the new orders.
"""

import math
from typing import get_args

from esg.core.catalog.late_requests import LateRequests
from esg.core.catalog.phases import Phases
from esg.core.messages.codec import Message
from esg.core.messages.task_order import Input, Output
from esg.errors import Rejected


class RequestArrived(Message, frozen=True, kw_only=True):
    """A client asks for an application; without an SLO of its own, the application's holds.

    A name is used once. A repeat is recognised while the request is under way; whoever lets
    requests in remembers which names have been answered. With `all_stages`, what every stage makes
    is part of the result, not only what the last ones do. `client` is whose request it is, where
    clients have names: vGPU time is shared between them.
    """

    request: str
    application: str
    slo_us: int | None = None
    all_stages: bool = False
    client: str = ""


class RequestCancelled(Message, frozen=True, kw_only=True):
    request: str


class RequestWanted(Message, frozen=True, kw_only=True):
    """One more asks for a request that is known. No decision follows from it: it is in the journal
    because whoever is told that it was accepted may rely on that (see `sessions.interest`)."""

    request: str


class StageSpec(Message, frozen=True, kw_only=True):
    """One stage of an application as it is registered: what it runs, and what it waits for."""

    name: str
    function: str
    after: tuple[str, ...] = ()


class ApplicationRegistered(Message, frozen=True, kw_only=True):
    """There is an application of this name from now on; if there was one, this replaces it.

    The SLO is a time, or a multiple of the application's L; without either it is L. Requests under
    way finish as they began: see `registry`. What becomes of those that will be late: see
    `admission`.
    """

    application: str
    stages: tuple[StageSpec, ...]
    slo_us: int | None = None
    slo_scale: float | None = None
    late_requests: LateRequests = LateRequests.FINISH

    def __post_init__(self) -> None:
        if self.slo_scale is not None and not math.isfinite(self.slo_scale):
            # no journal could keep it: JSON has no such numbers
            raise Rejected(f"the SLO is {self.slo_scale} times L; it must be a number")


class ApplicationRetired(Message, frozen=True, kw_only=True):
    """New requests for this application are no longer wanted; those under way finish."""

    application: str


class SliceInventory(Message, frozen=True, kw_only=True):
    """One slice as its invoker sees it: memory, and whose models are loaded or on their way. Its
    kind is empty if it is a usual one (see `catalog.slice_kinds`).

    One that is not usable has lost its server: it has no models, and is given no work.
    """

    memory_mb: int
    resident: tuple[str, ...] = ()
    loading: tuple[str, ...] = ()
    usable: bool = True
    kind: str = ""


class RunningTask(Message, frozen=True, kw_only=True):
    """A task that a node runs, and what it holds there."""

    task: str
    vcpus: int = 0
    slices: tuple[int, ...] = ()


class InvokerJoined(Message, frozen=True, kw_only=True):
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


class InvokerReported(Message, frozen=True, kw_only=True):
    """A node's inventory, taken after it had heard of task number `latest_task`.

    Orders that were still on their way then are not expected in it.
    """

    invoker: str
    slices: tuple[SliceInventory, ...]
    running: tuple[RunningTask, ...]
    latest_task: int


class InvokerLeaving(Message, frozen=True, kw_only=True):
    """A node wants no new work. What it runs goes on, and what it keeps can be had, for now."""

    invoker: str


class InvokerLost(Message, frozen=True, kw_only=True):
    invoker: str


class JobFailure(Message, frozen=True, kw_only=True, omit_defaults=True):
    """One request's job in a task that was run. If it is `final`, its input is one that nobody
    could do anything with, and the reason is for the client: the function's own words."""

    request: str
    reason: str
    final: bool = False


class TaskFinished(Message, frozen=True, kw_only=True):
    """A task is done: `loading_us` went by until all its slices had the model, `running_us` after.

    Every job has its result, apart from those that `failed`, each by itself. `continued` is the
    task that the node has gone on with at that moment, by a standing order. One that ran in
    `phases` says how long each was; what is left of its time it waited for vCPUs or slices. It may
    have had other `slices` than its order says.
    """

    task: str
    invoker: str
    loading_us: int
    running_us: int
    failed: tuple[JobFailure, ...] = ()
    continued: str = ""
    phases: Phases | None = None
    slices: tuple[int, ...] = ()


class MissingInput(Message, frozen=True, kw_only=True):
    """An input of one request's job that could not be had."""

    request: str
    source: Input

    def __str__(self) -> str:
        what = self.source.stage if isinstance(self.source, Output) else "payload"
        return f"{what} of {self.request}"


class TaskFailed(Message, frozen=True, kw_only=True):
    """A task ended without results, perhaps because inputs were `missing`."""

    task: str
    invoker: str
    reason: str
    missing: tuple[MissingInput, ...] = ()


class InstanceReady(Message, frozen=True, kw_only=True):
    """A function's model is loaded on a slice, which took `loading_us`; 0 if it was found there."""

    invoker: str
    slice: int
    function: str
    loading_us: int = 0


class InstanceGone(Message, frozen=True, kw_only=True):
    """A function's model is no longer on a slice: idle too long, dropped, or failed to load."""

    invoker: str
    slice: int
    function: str
    reason: str = ""


class Woke(Message, frozen=True, kw_only=True):
    """Nothing happened, but it is time: the hour of `next_wake` has come."""


class Correction(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Tasks of this function with this batch, on slices of this kind, take so many millionths of
    what its profile says."""

    function: str
    batch: int
    pace_ppm: int
    kind: str = ""


class ProfilesCorrected(Message, frozen=True, kw_only=True):
    """Plans go by these corrections from now on, and by no others (see `drift`).

    They were ordered (`CorrectProfiles`), yet they are exogenous: how long functions take is the
    world's doing, and would have been found out under any policy.
    """

    corrections: tuple[Correction, ...]


ApplicationChange = ApplicationRegistered | ApplicationRetired
Exogenous = (
    RequestArrived | RequestCancelled | RequestWanted | ApplicationChange | ProfilesCorrected
)
InvokerNews = (
    InvokerJoined
    | InvokerReported
    | InvokerLeaving
    | TaskFinished
    | TaskFailed
    | InstanceReady
    | InstanceGone
)
"""What a node itself has to say."""
Endogenous = InvokerNews | InvokerLost | Woke
Event = Exogenous | Endogenous
EVENTS: tuple[type[Event], ...] = get_args(Event)
