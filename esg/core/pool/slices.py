"""What a pool remembers: its slices, the models on them, and the tasks that hold them."""

from enum import StrEnum

from msgspec import Struct, field

from esg.core.messages.events import RunningTask, SliceInventory
from esg.core.messages.task_order import TaskOrder


class ModelState(StrEnum):
    """Where a model is on its way onto a slice, or off it."""

    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"


LOADING, READY, UNLOADING = ModelState  # a name of its own takes a tenth of the time to look up


class ResidentModel(Struct, gc=False):
    """A model on a slice, or on its way."""

    state: ModelState
    memory_mb: int
    used_us: int
    ordered_us: int  # when loading it began


class PoolSlice(Struct, gc=False):
    """A slice as its node sees it."""

    memory_mb: int
    kind: str = ""
    holder: str = ""
    promised: list[str] = field(default_factory=list)  # to tasks in phases that are on none so far
    usable: bool = True
    models: dict[str, ResidentModel] = field(default_factory=dict)
    wanted: list[str] = field(default_factory=list)  # models waiting for memory, in order

    @property
    def memory_free_mb(self) -> int:
        return self.memory_mb - sum(model.memory_mb for model in self.models.values())

    def on_their_way(self) -> tuple[str, ...]:
        loading = [n for n, model in self.models.items() if model.state is LOADING]
        return (*loading, *self.wanted)

    def has(self, function: str) -> bool:
        model = self.models.get(function)
        return model is not None and model.state is READY

    def inventory(self) -> SliceInventory:
        """What a scheduler is told of it."""
        return SliceInventory(
            memory_mb=self.memory_mb,
            resident=tuple(name for name in self.models if self.has(name)),
            loading=self.on_their_way(),
            usable=self.usable,
            kind=self.kind,
        )


class Running(Struct, gc=False):
    """A task that holds its slices: it waits for models, or is executed. One in phases (see
    `pool.phased`) may also wait for its slices, or have left them."""

    order: TaskOrder
    taken_us: int
    slices: tuple[int, ...] = ()  # that it has, or had; those of its order, unless in phases
    executing_us: int | None = None  # since when; None while it waits for models
    chain: tuple[str, ...] = ()  # the tasks before it, if it follows from a standing order
    chain_us: int = 0  # since when the first of them was here
    recalled: bool = False  # nothing follows
    # of a task in phases; what has not come yet is None
    vcpus: int = 0  # that it holds now
    prepared_us: int | None = None  # its CPU part was over
    warm_us: int | None = None  # and its models were there
    entered_us: int | None = None  # and slices free
    left_us: int | None = None
    stopping: bool = False  # it gets no slices any more
    failing: str = ""  # why

    @property
    def late_us(self) -> int:
        """From when on its requests are late if it still waits."""
        return self.taken_us + self.order.spare_us

    def inventory(self) -> RunningTask:
        order = self.order
        if not order.phased:
            return RunningTask(task=order.task, vcpus=order.config.vcpus, slices=order.slices)
        slices = self.slices if self.left_us is None else ()
        return RunningTask(task=order.task, vcpus=self.vcpus, slices=slices)
