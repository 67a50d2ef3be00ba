"""What an invoker's brain hears, besides the scheduler's orders, and what it says.

Facts from the slices come in, orders to the slices and reports to the scheduler go out.
"""

from dataclasses import dataclass

from esg.commands import DropInstance, StartTask, StopTask, WarmInstance
from esg.events import Event, StageOutput, Woke


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
class TaskEnded:
    """An executed task is over; with a failure it has no results."""

    task: str
    failure: str = ""
    missing: tuple[StageOutput, ...] = ()


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
    | TaskEnded
    | Woke
)
PoolCommand = LoadModel | UnloadModel | ExecuteTask | AbortTask | Report
