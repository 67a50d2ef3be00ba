"""Commands, in the imperative: all that a scheduler ever orders.

Each order names its own subject, so carrying one out twice can be noticed and left undone.
"""

from enum import StrEnum

from esg.core.catalog.config import Config
from esg.core.messages.codec import Message
from esg.core.messages.events import Correction
from esg.core.messages.outcome import Outcome
from esg.core.messages.task_order import TaskOrder


class Order(Message, frozen=True, tag=True):
    """An order, with its kind written down: some orders differ in nothing else."""


class Decision(Message, frozen=True, kw_only=True):
    """What is recorded of the decision for a task, and no node needs to know.

    `effort` is what it took (see `search.Answer`); an emulator charges it as scheduling time.
    `missed` says that an earlier plan for this stage could not be followed (see
    `policies.interface.Offer`).
    """

    application: str
    effort: int
    missed: bool


class StartTask(Order, frozen=True, kw_only=True):
    """Have a node run a task. With `begun` it does so already, by a standing order: this is for the
    record then, and the node is told nothing."""

    order: TaskOrder
    decision: Decision
    begun: bool = False


class StopTask(Order, frozen=True, kw_only=True):
    """Stop a task: its results are not wanted any more."""

    invoker: str
    task: str


class RecallStanding(Order, frozen=True, kw_only=True):
    """Go on with nothing after this task, whatever its order said: others compete. One that comes
    too late changes nothing."""

    invoker: str
    task: str


class WarmInstance(Order, frozen=True, kw_only=True):
    """Load a function's model on a slice, ahead of its use."""

    invoker: str
    slice: int
    function: str


class DropInstance(Order, frozen=True, kw_only=True):
    """Unload a function's model: its memory is needed."""

    invoker: str
    slice: int
    function: str


class PublishData(Order, frozen=True, kw_only=True):
    """Copy a stage's output from the local store to the remote one: its consumer runs elsewhere."""

    invoker: str
    request: str
    stage: str


class DiscardData(Order, frozen=True, kw_only=True):
    """Forget everything kept for a request; with `results`, what was published as its result too,
    because it will not be fetched."""

    invoker: str
    request: str
    results: bool = False


class StageReport(Message, frozen=True, kw_only=True):
    """How one stage of a request went: times are points in time, the cost is the job's share. A
    task in phases had its slices from `slices_from_us` until `slices_until_us`; any other, always.
    """

    stage: str
    task: str
    invoker: str
    config: Config
    ready_us: int
    started_us: int
    finished_us: int
    cost_pusd: int
    slices_from_us: int = 0
    slices_until_us: int = 0


class AdmitRequest(Order, frozen=True, kw_only=True):
    """A request is admitted: it will be answered. `application` is the version that it gets."""

    request: str
    application: str
    deadline_us: int


class AnswerRequest(Order, frozen=True, kw_only=True):
    """The end of an admitted request, one way or another. If it is done, the outputs of the stages
    in `results` are in the remote store."""

    request: str
    application: str
    outcome: Outcome
    reason: str
    arrived_us: int
    deadline_us: int
    slo_met: bool
    cost_pusd: int
    stages: tuple[StageReport, ...]
    results: tuple[str, ...] = ()


class RefusalKind(StrEnum):
    """Why something is refused, for programs: what a caller is told, and what counts as a miss,
    follow from it."""

    UNKNOWN_APPLICATION = "unknown application"
    INVALID = "invalid"  # whatever the mesh could do
    IMPOSSIBLE = "impossible"  # the SLO is shorter than the fastest configs take
    OVERLOADED = "overloaded"  # the same may be admitted later

    @property
    def ending(self) -> str:
        """How such a request has ended, as `esg.core.metrics` counts it."""
        return "overloaded" if self is RefusalKind.OVERLOADED else "invalid"


class RefuseRequest(Order, frozen=True, kw_only=True):
    """A request that is not admitted, and why. `application` is as it was asked for. In overload
    there is a time after which the same request may be admitted."""

    request: str
    application: str
    kind: RefusalKind
    reason: str
    retry_after_us: int | None = None


class AcceptApplication(Order, frozen=True, kw_only=True):
    """An application is registered or retired as asked. New requests get this version of it; 0 if
    none."""

    application: str
    version: int


class RefuseApplication(Order, frozen=True, kw_only=True):
    """An application that is not registered or retired as asked, and why."""

    application: str
    kind: RefusalKind
    reason: str


class CorrectProfiles(Order, frozen=True, kw_only=True):
    """Tasks take another time than planned: have these corrections in force soon.

    The driver may prepare for it first (`Scheduler.prepare`), and then says
    `ProfilesCorrected`.
    """

    corrections: tuple[Correction, ...]


Command = (
    StartTask
    | StopTask
    | RecallStanding
    | WarmInstance
    | DropInstance
    | PublishData
    | DiscardData
    | AdmitRequest
    | AnswerRequest
    | RefuseRequest
    | AcceptApplication
    | RefuseApplication
    | CorrectProfiles
)

InvokerOrder = (
    TaskOrder | StopTask | RecallStanding | WarmInstance | DropInstance | PublishData | DiscardData
)


def invoker_order(command: Command) -> InvokerOrder | None:
    """What an invoker is told of a command; nothing if the command is not for an invoker."""
    if isinstance(command, StartTask):
        return None if command.begun else command.order
    return command if isinstance(command, InvokerOrder) else None
