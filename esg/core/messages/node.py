"""Messages of a node's pool: what it hears, besides the scheduler's orders, and what it says.

Facts from the slices come in, orders to the slices and reports to the scheduler go out.
"""

from esg.core.messages.codec import Message
from esg.core.messages.commands import DropInstance, RecallStanding, StopTask, WarmInstance
from esg.core.messages.events import InvokerNews, JobFailure, MissingInput, Woke
from esg.core.messages.task_order import TaskOrder


class ModelLoaded(Message, frozen=True, kw_only=True):
    slice: int
    function: str


class ModelUnloaded(Message, frozen=True, kw_only=True):
    """A model is gone from a slice: as ordered, or because loading it failed."""

    slice: int
    function: str
    failure: str = ""


class SliceLost(Message, frozen=True, kw_only=True):
    """A slice's server is gone, with all models that it had; calls to it fail."""

    slice: int
    reason: str


class SliceBack(Message, frozen=True, kw_only=True):
    """A lost slice's server is there again, and empty until it says otherwise."""

    slice: int


class ExecutionEnded(Message, frozen=True, kw_only=True):
    """What `ExecuteTask` asked for is over. With a failure there are no results; without one, some
    jobs may have failed alone.

    It is not what a scheduler hears (`TaskFinished`, `TaskFailed`): a task may fail without ever
    being executed, and how long it waited for its models only the pool knows.
    """

    task: str
    failure: str = ""
    missing: tuple[MissingInput, ...] = ()
    failed: tuple[JobFailure, ...] = ()


class TaskPrepared(Message, frozen=True, kw_only=True):
    """The CPU part of a task in phases is over: it waits for its slices."""

    task: str


class TaskLeftSlices(Message, frozen=True, kw_only=True):
    """A task in phases needs its slices no longer."""

    task: str


class ReloadFunction(Message, frozen=True, kw_only=True):
    """A function's code and model have changed on disk: tasks are to run with the new ones."""

    function: str


class FunctionReloaded(Message, frozen=True, kw_only=True):
    """What `ReplaceModel` asked for is over, whether anything new was taken or not."""

    function: str


class LoadModel(Message, frozen=True, kw_only=True):
    slice: int
    function: str


class UnloadModel(Message, frozen=True, kw_only=True):
    slice: int
    function: str


class ReplaceModel(Message, frozen=True, kw_only=True):
    """Load a function's model anew on these slices, in place of the one that they have; no task
    runs it meanwhile."""

    function: str
    slices: tuple[int, ...]


class ExecuteTask(Message, frozen=True, kw_only=True):
    order: TaskOrder


class EnterSlices(Message, frozen=True, kw_only=True):
    """A prepared task has these slices now; not always those of its order."""

    task: str
    slices: tuple[int, ...]


class AbortTask(Message, frozen=True, kw_only=True):
    task: str


class TellScheduler(Message, frozen=True, kw_only=True):
    """Report this to the scheduler."""

    event: InvokerNews


PoolEvent = (
    TaskOrder
    | StopTask
    | RecallStanding
    | WarmInstance
    | DropInstance
    | ModelLoaded
    | ModelUnloaded
    | SliceLost
    | SliceBack
    | ExecutionEnded
    | TaskPrepared
    | TaskLeftSlices
    | ReloadFunction
    | FunctionReloaded
    | Woke
)
PoolCommand = (
    LoadModel | UnloadModel | ReplaceModel | ExecuteTask | EnterSlices | AbortTask | TellScheduler
)
