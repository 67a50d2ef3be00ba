"""What an invoker's brain hears, besides the scheduler's orders, and what it says.

Facts from the slices come in, orders to the slices and reports to the scheduler go out.
"""

from dataclasses import dataclass

from esg.commands import DropInstance, StartTask, StopTask, WarmInstance
from esg.events import Event, JobFailure, StageOutput, Woke


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoaded:
    slice: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUnloaded:
    """A model is gone from a slice: as ordered, or because loading it failed."""

    slice: int
    function: str
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLost:
    """A slice's server is gone, with all models that it had; calls to it fail."""

    slice: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceBack:
    """It is there again, and empty until it says otherwise."""

    slice: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnded:
    """An executed task is over; with a failure it has no results, and some jobs may have failed
    alone."""

    task: str
    failure: str = ""
    missing: tuple[StageOutput, ...] = ()
    failed: tuple[JobFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    slice: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadModel:
    slice: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteTask:
    order: StartTask


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTask:
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Tell the scheduler."""

    event: Event


PoolEvent = (
    StartTask
    | StopTask
    | WarmInstance
    | DropInstance
    | ModelLoaded
    | ModelUnloaded
    | SliceLost
    | SliceBack
    | TaskEnded
    | Woke
)
PoolCommand = LoadModel | UnloadModel | ExecuteTask | AbortTask | Report
