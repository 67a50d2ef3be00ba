"""The pool: a node's state machine, with its vCPUs, its slices, their models and its tasks.

The same shape as the scheduler: facts in with their time, orders out, one alarm. What a scheduler
orders (`commands`) arrives here as events, next to what the slices tell; what comes out are orders
to the slices, and reports to the scheduler.

A task waits until every slice it was given has its model, then runs; cold start is that wait. A
model that nothing has used for the keep-alive time (ten minutes, as in OpenWhisk) is unloaded.
Unloading takes a while, and until it is confirmed the memory is not free: a model that needs it
waits in line. The pool never trusts an order to fit: what does not fit fails, and is reported.

That is a task that holds what it was granted to its end. Others run in phases, and find their turn
in lines (`phased`).

A task that has ended well may have a standing order: the pool goes on with that at once, on what
the task held, and says so in its report. If anything speaks against it (it is late, was recalled,
a model is not there), it does not, and the scheduler decides.

A slice whose server is gone is not usable until it is back: its models are gone, what waits for one
of them there fails, and the scheduler hears of it at once, by an inventory. A task that is being
executed on it goes on: its executor knows which of its jobs can be saved.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import assert_never

from esg.core.catalog.model import Catalog
from esg.core.catalog.slice_kinds import USUAL
from esg.core.messages.commands import DropInstance, RecallStanding, StopTask, WarmInstance
from esg.core.messages.events import (
    InstanceGone,
    InstanceReady,
    InvokerJoined,
    InvokerNews,
    InvokerReported,
    MissingInput,
    TaskFailed,
    TaskFinished,
    Woke,
)
from esg.core.messages.node import (
    AbortTask,
    ExecuteTask,
    ExecutionEnded,
    FunctionReloaded,
    LoadModel,
    ModelLoaded,
    ModelUnloaded,
    PoolCommand,
    PoolEvent,
    ReloadFunction,
    SliceBack,
    SliceLost,
    TaskLeftSlices,
    TaskPrepared,
    TellScheduler,
    UnloadModel,
)
from esg.core.messages.task_order import TaskOrder
from esg.core.node_settings import KEEP_ALIVE_US
from esg.core.pool.phased import PhasedTasks, phases_of
from esg.core.pool.reloads import Reloads
from esg.core.pool.slices import LOADING, READY, UNLOADING, PoolSlice, ResidentModel, Running
from esg.core.state.eviction import victims_of
from esg.limits import LONGEST_TASK_US


class Pool:
    """The state machine of one worker node."""

    def __init__(
        self,
        catalog: Catalog,
        invoker: str,
        *,
        vcpus: int,
        memories_mb: tuple[int, ...],
        kinds: Iterable[str] = repeat(USUAL),
        keep_alive_us: int = KEEP_ALIVE_US,
    ) -> None:
        self.invoker = invoker
        self.vcpus = vcpus
        self.vcpus_free = vcpus
        self.slices = [PoolSlice(mb, kind) for mb, kind in zip(memories_mb, kinds, strict=False)]
        self.running: dict[str, Running] = {}
        self._catalog = catalog
        self._keep_alive_us = keep_alive_us
        self._latest_task = 0
        self.next_wake: int | None = None
        """When to look for idle models; there may be none, if the oldest was used meanwhile."""
        self._orders: list[PoolCommand] = []
        self._reloads = Reloads()
        self._phased = PhasedTasks(self)

    def handle(self, now_us: int, event: PoolEvent) -> list[PoolCommand]:
        """Learn one fact or order; returns what to do about it, in order."""
        self._orders = []
        match event:
            case TaskOrder():
                self._start(now_us, event)
            case ExecutionEnded():
                self._task_ended(now_us, event)
            case TaskPrepared():
                self._phased.prepared(now_us, event.task)
            case TaskLeftSlices():
                self._phased.left(now_us, event.task)
            case StopTask():
                self._stop(now_us, event.task)
            case RecallStanding():
                task = self._now_running(event.task)
                if task is not None:
                    task.recalled = True
            case WarmInstance():
                missing = self._missing((event.slice,), event.function)
                if missing:
                    self._gone(event.slice, event.function, missing)
                else:
                    self.want(now_us, event.slice, event.function)
            case DropInstance():
                if not self._missing((event.slice,), event.function):
                    self._drop(event.slice, event.function)
            case ModelLoaded():
                self._model_loaded(now_us, event)
            case ModelUnloaded():
                self._model_unloaded(now_us, event)
            case SliceLost():
                self._slice_lost(now_us, event)
            case SliceBack():
                self._slice_back(event.slice)
            case ReloadFunction():
                self._reloads.begin(event.function)
            case FunctionReloaded():
                self._reloaded(now_us, event.function)
            case Woke():
                self._unload_idle(now_us)
            case _:
                assert_never(event)
        if self.next_wake is not None and now_us >= self.next_wake:
            self._unload_idle(now_us)
        if self._reloads:
            self._orders.extend(self._reloads.due(self.slices, self.running))
        return self._orders

    def joined(self) -> InvokerJoined:
        """What this node has and runs, for a controller that hears of it for the first time."""
        return InvokerJoined(
            invoker=self.invoker,
            vcpus=self.vcpus,
            slices=tuple(part.inventory() for part in self.slices),
            running=tuple(task.inventory() for task in self.running.values()),
            latest_task=self._latest_task,
        )

    def report(self) -> InvokerReported:
        """What this node has and runs, for a controller that knows it."""
        return InvokerReported(
            invoker=self.invoker,
            slices=tuple(part.inventory() for part in self.slices),
            running=tuple(task.inventory() for task in self.running.values()),
            latest_task=self._latest_task,
        )

    def _start(self, now_us: int, order: TaskOrder) -> None:
        number = int(order.task[1:])
        if number <= self._latest_task:
            return  # heard before
        self._latest_task = number
        missing = self._missing(order.slices, order.function) or self._of_another_kind(order)
        if not missing:
            missing = self._never_fits(order) if order.phased else self._not_free(order)
        if missing:
            self._fail(order.task, missing)
            return
        task = Running(order, now_us, chain_us=now_us)
        if order.phased:
            self._phased.start(now_us, task)
            return
        self._hold(task)
        if not self._execute_if_warm(now_us, task):
            for index in order.slices:
                if order.task in self.running:  # until a load that can never fit fails it
                    self.want(now_us, index, order.function)

    def _hold(self, task: Running) -> None:
        order = task.order
        self.vcpus_free -= order.config.vcpus
        self.running[order.task] = task
        task.slices = order.slices
        for index in order.slices:
            self.slices[index].holder = order.task

    def _standing(self, now_us: int, task: Running) -> TaskOrder | None:
        """What to go on with after a task that has ended well, and holds nothing any more."""
        order = task.order.then
        if order is None or task.recalled or now_us - task.chain_us > order.within_us:
            return None
        if self._missing(order.slices, order.function) or self._of_another_kind(order):
            return None
        if self._not_free(order):
            return None
        warm = all(self.slices[index].has(order.function) for index in order.slices)
        ready = warm and order.function not in self._reloads and order.task not in self.running
        return order if ready else None

    def _go_on(self, now_us: int, task: Running, order: TaskOrder) -> None:
        self._latest_task = max(self._latest_task, int(order.task[1:]))
        chain = (*task.chain, task.order.task)
        following = Running(order, now_us, chain=chain, chain_us=task.chain_us)
        if order.phased:
            self._phased.go_on(now_us, following)
            return
        self._hold(following)
        self._execute_if_warm(now_us, following)

    def _now_running(self, name: str) -> Running | None:
        """A task, or what has followed from its standing order."""
        found = self.running.get(name)
        if found is None:
            found = next((task for task in self.running.values() if name in task.chain), None)
        return found

    def _missing(self, slices: tuple[int, ...], function: str) -> str:
        """What of an order this node has not got."""
        if function not in self._catalog.functions:
            return f"{function} is not in the catalog of {self.invoker}"
        for index in slices:
            if not 0 <= index < len(self.slices):
                return f"{self.invoker} has no slice {index}"
            if not self.slices[index].usable:
                return f"slice {index} of {self.invoker} is out of order"
        return ""

    def _of_another_kind(self, order: TaskOrder) -> str:
        for index in order.slices:
            kind = self.slices[index].kind
            if kind != order.config.kind:
                known = f"is of kind {kind}" if kind else "is a usual one"
                return f"slice {index} of {self.invoker} {known}, which {order.config} is not for"
        return ""

    def _not_free(self, order: TaskOrder) -> str:
        for index in () if order.phased else order.slices:
            if self.slices[index].holder or self.slices[index].promised:
                return f"slice {index} is not free on {self.invoker}"
        if order.config.vcpus > self.vcpus_free:
            return f"{order.config.vcpus} vCPUs are not free on {self.invoker}"
        return ""

    def _never_fits(self, order: TaskOrder) -> str:
        """Of a task in phases, which waits for others that are in phases; the rest may be waiting
        for it."""
        for index in order.slices:
            holder = self.running.get(self.slices[index].holder)
            if holder is not None and not holder.order.phased:
                return f"slice {index} is not free on {self.invoker}"
        if order.config.vcpus > self.vcpus:
            return f"{self.invoker} has no {order.config.vcpus} vCPUs"
        return ""

    def is_reloading(self, function: str) -> bool:
        return function in self._reloads

    def emit(self, command: PoolCommand) -> None:
        self._orders.append(command)

    def mark_used(self, task: Running, now_us: int) -> None:
        """A task's models were in use until now."""
        for index in task.slices:
            model = self.slices[index].models.get(task.order.function)
            if model is not None:
                model.used_us = now_us

    def _drop(self, index: int, function: str) -> None:
        part = self.slices[index]
        if part.has(function) and not self._in_use(part, function):
            self._unload(index, function)

    def _execute_if_warm(self, now_us: int, task: Running) -> bool:
        order = task.order
        if order.function in self._reloads:
            return False
        models = []
        for index in order.slices:
            model = self.slices[index].models.get(order.function)
            if model is None or model.state is not READY:
                return False
            models.append(model)
        task.executing_us = now_us
        for model in models:
            model.used_us = now_us
        self._orders.append(ExecuteTask(order=order))
        return True

    def _stop(self, now_us: int, name: str) -> None:
        task = self._now_running(name)
        if task is None:
            return
        task.recalled = True  # should it have ended just now
        name = task.order.task
        if task.executing_us is None:
            self._release(name)
            self._fail(name, "stopped before it began")
            self._load_after(now_us, task)
        elif task.order.phased:
            self._phased.stop(task)
        else:
            self._orders.append(AbortTask(task=name))

    def _task_ended(self, now_us: int, event: ExecutionEnded) -> None:
        task = self._release(event.task)
        if task is None:
            return
        order, loading_us = task.order, _loading_us(task, now_us)
        if task.left_us is None:
            self.mark_used(task, now_us)
        if event.failure:
            self._fail(event.task, task.failing or event.failure, event.missing)
        else:
            then = None if event.failed else self._standing(now_us, task)
            self._tell(
                TaskFinished(
                    task=event.task,
                    invoker=self.invoker,
                    loading_us=_told(loading_us),
                    running_us=_told(now_us - task.taken_us - loading_us),
                    failed=event.failed,
                    continued="" if then is None else then.task,
                    phases=phases_of(task, now_us) if order.phased else None,
                    slices=() if task.slices == order.slices else task.slices,
                )
            )
            if then is not None:
                self._go_on(now_us, task, then)
        self._load_after(now_us, task)

    def _release(self, name: str) -> Running | None:
        task = self.running.pop(name, None)
        if task is None:
            return None
        if task.order.phased:
            self._phased.ended(task)
        else:
            self.vcpus_free += task.order.config.vcpus
            for index in task.slices:
                self.slices[index].holder = ""
        return task

    def _load_after(self, now_us: int, task: Running) -> None:
        """Go on with what has waited for a task to end."""
        phased = task.order.phased
        for index in (*task.slices, *task.order.slices) if phased else task.slices:
            if self.slices[index].wanted:
                self.load_wanted(now_us, index)
        self._phased.advance(now_us)

    def want(self, now_us: int, index: int, function: str) -> None:
        part = self.slices[index]
        model = part.models.get(function)
        if model is not None and model.state is not UNLOADING:
            model.used_us = now_us
        else:
            if function not in part.wanted:
                part.wanted.append(function)
            self.load_wanted(now_us, index)  # others may have to go for it now that had not before

    def load_wanted(self, now_us: int, index: int) -> None:
        """Begin loading what waits for memory, as far as there is some; make some if not."""
        part = self.slices[index]
        while part.wanted:
            function = part.wanted[0]
            memory_mb = self._catalog.functions[function].memory_mb
            if memory_mb > part.memory_mb:
                part.wanted.pop(0)
                reason = f"{function} needs {memory_mb} MB, the slice has {part.memory_mb} MB"
                self._instance_failed(now_us, index, function, reason)
            elif function not in part.models and memory_mb <= part.memory_free_mb:
                part.wanted.pop(0)
                part.models[function] = ResidentModel(LOADING, memory_mb, now_us, now_us)
                self._orders.append(LoadModel(slice=index, function=function))
            else:
                self._make_room(index, memory_mb)
                return

    def _make_room(self, index: int, memory_mb: int) -> None:
        """Unload the least recently used models until, once they are gone, this much fits."""
        part = self.slices[index]
        leaving = [m.memory_mb for m in part.models.values() if m.state is UNLOADING]
        missing = memory_mb - part.memory_free_mb - sum(leaving)
        idle = [
            (0.0, model.used_us, name, model.memory_mb)  # what it is worth the scheduler knows
            for name, model in part.models.items()
            if model.state is READY and not self._in_use(part, name)
        ]
        for name in victims_of(idle, missing)[0]:
            self._unload(index, name)
            self._gone(index, name, "its memory was needed")

    def _unload(self, index: int, function: str) -> None:
        self.slices[index].models[function].state = UNLOADING
        self._orders.append(UnloadModel(slice=index, function=function))

    def _unload_idle(self, now_us: int) -> None:
        wakes_us = []
        for index, part in enumerate(self.slices):
            for name, model in part.models.items():
                if model.state is not READY or name in self._reloads:
                    continue
                in_use = self._in_use(part, name)
                idle_us = self._keep_alive_us + (now_us if in_use else model.used_us)
                if now_us >= idle_us:
                    self._unload(index, name)
                    self._gone(index, name, "idle")
                else:
                    wakes_us.append(idle_us)
        self.next_wake = min(wakes_us, default=None)

    def _model_loaded(self, now_us: int, event: ModelLoaded) -> None:
        part = self.slices[event.slice]
        model = part.models.get(event.function)
        if not part.usable:
            return  # a late report
        if model is None:  # found there, as on a slice that was running before this node began
            memory_mb = self._catalog.functions[event.function].memory_mb
            model = ResidentModel(LOADING, memory_mb, now_us, now_us)
            part.models[event.function] = model
        if model.state is not LOADING:
            return
        model.state = READY
        model.used_us = now_us
        if self.next_wake is None:  # an alarm that is set comes before this model is idle
            self.next_wake = now_us + self._keep_alive_us
        self._tell(
            InstanceReady(
                invoker=self.invoker,
                slice=event.slice,
                function=event.function,
                loading_us=_told(now_us - model.ordered_us),
            )
        )
        task = self.running.get(part.holder)
        if task is not None and task.executing_us is None:
            self._execute_if_warm(now_us, task)
        self._phased.advance(now_us)
        self.load_wanted(now_us, event.slice)

    def _model_unloaded(self, now_us: int, event: ModelUnloaded) -> None:
        self.slices[event.slice].models.pop(event.function, None)
        if event.failure:
            self._instance_failed(now_us, event.slice, event.function, event.failure)
        self.load_wanted(now_us, event.slice)

    def _instance_failed(self, now_us: int, index: int, function: str, reason: str) -> None:
        """A model could not be loaded: a task that waits for it here fails with it."""
        self._gone(index, function, reason)
        for task in self._tasks_of(self.slices[index]):
            if task.order.function == function:
                self._fail_if_waiting(now_us, task, f"{function} could not be loaded: {reason}")

    def _fail_if_waiting(self, now_us: int, task: Running, reason: str) -> None:
        if self.running.get(task.order.task) is not task:
            return  # it has failed with another one, whose place it took
        if task.executing_us is None:
            self._release(task.order.task)
            self._fail(task.order.task, reason)
            self._load_after(now_us, task)
        elif task.order.phased and task.entered_us is None:
            self._phased.stop(task, reason)

    def _tasks_of(self, part: PoolSlice) -> list[Running]:
        """Those that are on a slice, or have been promised it."""
        names = (part.holder, *part.promised)
        return [self.running[name] for name in names if name in self.running]

    def _slice_lost(self, now_us: int, event: SliceLost) -> None:
        part = self.slices[event.slice]
        if not part.usable:
            return
        part.usable = False
        part.models.clear()
        part.wanted.clear()
        for task in self._tasks_of(part):
            self._fail_if_waiting(now_us, task, event.reason)
        self._tell(self.report())

    def _slice_back(self, index: int) -> None:
        if not self.slices[index].usable:
            self.slices[index].usable = True
            self._tell(self.report())

    def _reloaded(self, now_us: int, function: str) -> None:
        """Tasks of it may run again, and its models may be unloaded."""
        self._reloads.end(function)
        for task in list(self.running.values()):
            waits = task.executing_us is None and not task.order.phased
            if waits and task.order.function == function:
                self._execute_if_warm(now_us, task)
        self._phased.advance(now_us)
        self._unload_idle(now_us)
        for index in range(len(self.slices)):
            self.load_wanted(now_us, index)

    def _in_use(self, part: PoolSlice, function: str) -> bool:
        """Whether somebody needs it who is on a slice, or will be next."""
        holder = self.running.get(part.holder)
        if holder is not None and holder.order.function == function:
            return True
        if self._reloads.get(function):  # one that has only been asked for may wait for its memory
            return True
        tasks = [self.running[name] for name in part.promised]
        under_way = [task for task in tasks if task.executing_us is not None]
        if not under_way:
            return False
        return min(under_way, key=lambda task: task.late_us).order.function == function

    def _gone(self, index: int, function: str, reason: str) -> None:
        self._tell(
            InstanceGone(invoker=self.invoker, slice=index, function=function, reason=reason)
        )

    def _fail(self, task: str, reason: str, missing: tuple[MissingInput, ...] = ()) -> None:
        self._tell(TaskFailed(task=task, invoker=self.invoker, reason=reason, missing=missing))

    def _tell(self, event: InvokerNews) -> None:
        self._orders.append(TellScheduler(event=event))


def _loading_us(task: Running, now_us: int) -> int:
    """How long a task waited for its models, and for nothing else."""
    began_us, ended_us = task.taken_us, task.executing_us
    if task.order.phased:
        if task.prepared_us is None:
            return 0
        began_us, ended_us = task.prepared_us, task.warm_us
    return (now_us if ended_us is None else ended_us) - began_us


def _told(time_us: int) -> int:
    """A time as the scheduler is told it: what is longer than it believes counts as that."""
    return min(time_us, LONGEST_TASK_US)
