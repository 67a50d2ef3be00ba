"""Tasks in phases on a node: each phase begins when there is room for it, in turn.

    in line       for vCPUs: the first come is the first served
    preparing     on all its vCPUs: inputs are fetched, the CPU part runs, models may be loading
    prepared      with the one vCPU that will drive its slices, and in line for them
    on slices     alone, until it leaves them
    afterwards    with the one vCPU, while its outputs are made ready

Scheduler and node go by different clocks, so an order may come before there is room for it: that is
what the lines are for. An order promises slices, and has its models loaded there. Which ones a task
gets is decided when it is prepared: any that nobody is on and that have its models are as good, so
no slice waits for a task that is still preparing while another could use it. Who has the least time
to spare has the first choice (least slack first); if there are not enough for it, the others leave
it those there are, and where it was promised slices its models are loaded first, and stay.

So nobody waits for ever: whoever comes later has more time to spare, sooner or later. The first in
this order gets its models and its slices, since it waits for none but those who are on them; and
whoever waits for vCPUs holds nothing that others need.

What follows from a standing order begins with vCPUs at once: those that the task before it had, in
the scheduler's books to its end.
"""

from bisect import insort
from typing import TYPE_CHECKING

from esg.core.catalog.phases import DRIVING_VCPUS, Phases
from esg.core.messages.node import AbortTask, EnterSlices, ExecuteTask
from esg.core.pool.slices import Running
from esg.limits import LONGEST_TASK_US

if TYPE_CHECKING:
    from esg.core.pool.pool import Pool


class PhasedTasks:
    """The lines of a node, and those of its tasks that run in phases."""

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._for_vcpus: list[str] = []
        self._for_slices: list[str] = []

    def start(self, now_us: int, task: Running) -> None:
        """A task has been ordered."""
        pool, order = self._pool, task.order
        pool.running[order.task] = task
        self._for_vcpus.append(order.task)
        for index in order.slices:
            pool.slices[index].promised.append(order.task)
        for index in order.slices:
            if order.task in pool.running:  # until a load that can never fit fails it
                pool.want(now_us, index, order.function)
        self.advance(now_us)

    def go_on(self, now_us: int, task: Running) -> None:
        """A task follows from a standing order."""
        order, pool = task.order, self._pool
        pool.running[order.task] = task
        for index in order.slices:
            pool.slices[index].promised.append(order.task)
        self._prepare(now_us, task)

    def prepared(self, now_us: int, name: str) -> None:
        """A task's CPU part is over."""
        task = self._pool.running.get(name)
        if task is None or task.executing_us is None or task.prepared_us is not None:
            return
        task.prepared_us = now_us
        self._give_back(task, task.vcpus - DRIVING_VCPUS)
        if not task.stopping:
            insort(self._for_slices, name, key=lambda name: self._pool.running[name].late_us)
            self._note_if_warm(now_us, task)
        self.advance(now_us)

    def left(self, now_us: int, name: str) -> None:
        """A task needs its slices no longer."""
        task = self._pool.running.get(name)
        if task is None or task.entered_us is None or task.left_us is not None:
            return
        task.left_us = now_us
        self._pool.mark_used(task, now_us)
        self._leave(task)
        for index in task.slices:
            self._pool.load_wanted(now_us, index)
        self.advance(now_us)

    def stop(self, task: Running, reason: str = "") -> None:
        """Have what is under way of a task stopped; it gets no slices any more."""
        task.stopping, task.failing = True, task.failing or reason
        if task.order.task in self._for_slices:
            self._for_slices.remove(task.order.task)
        self._pool.emit(AbortTask(task=task.order.task))

    def ended(self, task: Running) -> None:
        """A task is over, wherever it was; the pool knows it no longer."""
        name = task.order.task
        for line in (self._for_vcpus, self._for_slices):
            if name in line:
                line.remove(name)
        self._give_back(task, task.vcpus)
        self._expect_no_more(task)
        self._leave(task)

    def advance(self, now_us: int) -> None:
        """Let everybody go on who can."""
        if self._for_vcpus:
            self._hand_out_vcpus(now_us)
        if self._for_slices:
            self._hand_out_slices(now_us)

    def _hand_out_vcpus(self, now_us: int) -> None:
        pool = self._pool
        for name in list(self._for_vcpus):
            task = pool.running.get(name)
            if task is None or pool.is_reloading(task.order.function):
                continue
            if task.order.config.vcpus > pool.vcpus_free:
                break
            self._for_vcpus.remove(name)
            self._prepare(now_us, task)

    def _hand_out_slices(self, now_us: int) -> None:
        slices = self._pool.slices
        idle = [i for i, part in enumerate(slices) if part.usable and not part.holder]
        for name in list(self._for_slices):
            if not idle:
                return
            task = self._pool.running.get(name)
            if task is None:  # a load that can never fit has failed it
                continue
            order = task.order
            able = [
                i
                for i in (*order.slices, *idle)
                if i in idle
                and slices[i].kind == order.config.kind
                and slices[i].has(order.function)
            ]
            found = tuple(dict.fromkeys(able))[: order.config.vgpus]
            idle = [index for index in idle if index not in found]
            if len(found) == order.config.vgpus:
                self._for_slices.remove(name)
                self._expect_no_more(task)
                self._hold(task, found)
                self._enter(now_us, task)
            else:
                self._note_if_warm(now_us, task)

    def _prepare(self, now_us: int, task: Running) -> None:
        task.vcpus = task.order.config.vcpus
        self._pool.vcpus_free -= task.vcpus
        task.executing_us = now_us
        self._pool.emit(ExecuteTask(order=task.order))
        self._want(now_us, task)

    def _note_if_warm(self, now_us: int, task: Running) -> None:
        """From when on does a task wait for others only, and not for its models?"""
        function, slices = task.order.function, self._pool.slices
        if not all(slices[index].has(function) for index in task.order.slices):
            self._want(now_us, task)  # what was there may have had to go meanwhile
        elif task.warm_us is None:
            task.warm_us = now_us

    def _want(self, now_us: int, task: Running) -> None:
        for index in task.order.slices:
            if self._pool.slices[index].usable:  # otherwise the task is being given up
                self._pool.want(now_us, index, task.order.function)

    def _enter(self, now_us: int, task: Running) -> None:
        task.entered_us = now_us
        if task.warm_us is None:
            task.warm_us = now_us
        self._pool.emit(EnterSlices(task=task.order.task, slices=task.slices))

    def _hold(self, task: Running, slices: tuple[int, ...]) -> None:
        task.slices = slices
        for index in slices:
            self._pool.slices[index].holder = task.order.task

    def _expect_no_more(self, task: Running) -> None:
        """A task has its slices, whichever they are, or needs none."""
        for index in task.order.slices:
            promised = self._pool.slices[index].promised
            if task.order.task in promised:
                promised.remove(task.order.task)

    def _give_back(self, task: Running, vcpus: int) -> None:
        task.vcpus -= vcpus
        self._pool.vcpus_free += vcpus

    def _leave(self, task: Running) -> None:
        for index in task.slices:
            part = self._pool.slices[index]
            if part.holder == task.order.task:
                part.holder = ""


def phases_of(task: Running, now_us: int) -> Phases | None:
    """How long each phase of a task in phases was that ends now."""
    if task.executing_us is None:
        return None
    prepared_us = now_us if task.prepared_us is None else task.prepared_us
    entered_us = now_us if task.entered_us is None else task.entered_us
    left_us = now_us if task.left_us is None else task.left_us
    parts_us = prepared_us - task.executing_us, left_us - entered_us, now_us - left_us
    return Phases(*(min(part_us, LONGEST_TASK_US) for part_us in parts_us))
