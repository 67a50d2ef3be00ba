"""Handovers: what a task in phases is done with goes to the next one before the task has ended.

No node says when a phase is over. The books reckon with what is expected, and are put right by what
nodes report of whole tasks. From its start on, a task hands over

    - all of its vCPUs but one when its CPU part should be over;
    - its slices a little before it should leave them, so that the next task does its CPU part
      meanwhile: by as much as its own CPU part takes, but not before it is on them.

A slice is promised one ahead. Whoever has it promised may come too early, if the task before it
takes longer than expected: then it waits on the node, which starts each phase when there is room
for it. The next promise is made only when the task before has been reported, so the books never
run further ahead of the node than that.

A handover is due at a time, and carried out with the first event after it. Only if somebody waits
for room does the scheduler wake up for that.
"""

from heapq import heappop, heappush

from esg.core.catalog.model import Stage
from esg.core.catalog.phases import DRIVING_VCPUS
from esg.core.estimation.load_times import expected_load_us
from esg.core.estimation.stage_speed import remote_us
from esg.core.scheduler.books import Books
from esg.core.state.node_books import NodeBooks
from esg.core.state.state import Handover, Queue, Task
from esg.units import NEVER_US, PPM


class Handovers:
    """Foresees what tasks hand over, and carries it out."""

    def __init__(self, books: Books) -> None:
        self._state = books.state

    def begin(self, task: Task, stage: Stage, queue: Queue, *, cold: bool) -> int:
        """Foresee the phases of a task that has just been given what it needs; returns how long it
        will have to wait for its slices."""
        now_us, node = task.started_us, self._state.nodes[task.invoker]
        phases = stage.function.profile.phases_of(task.config)
        pace_ppm = queue.pace_ppm
        fetching_us = task.remote * remote_us(queue, stage.function.input_bytes)
        task.slices_us = phases.slices_us * pace_ppm // PPM
        task.prepared_us = now_us + max(1, fetching_us + phases.before_us * pace_ppm // PPM)
        heappush(self._state.handovers, Handover(task.prepared_us, task.name))
        ready_us = task.prepared_us
        if cold:
            again = stage.function.name in node.had
            load_us = expected_load_us(self._state, stage.function, again=again)
            ready_us = max(ready_us, now_us + load_us)
        free_us = _free_us(node, task)
        self._foresee_promise(task, max(ready_us, free_us))
        return max(0, free_us - ready_us)

    def left(self, task: Task, now_us: int) -> None:
        """A task has ended. Whoever was promised its slices is on them from now on, or will be when
        its CPU part is over."""
        node = self._state.nodes[task.invoker]
        for index in task.slices:
            following = self._state.tasks.get(node.slices[index].holder)
            if following is not None and following.prepared_us:
                free_us = _free_us(node, following)
                self._foresee_promise(following, max(now_us, following.prepared_us, free_us))

    def run_due(self, now_us: int) -> None:
        """Carry out what is due."""
        state = self._state
        while state.handovers and state.handovers[0].at_us <= now_us:
            task = state.tasks.get(heappop(state.handovers).task)
            if task is not None and task.prepared_us:  # not one that was found there since
                self._hand_over(task, now_us)

    def next_us(self) -> int:
        """When somebody who waits for room should look again."""
        handovers = self._state.handovers
        return handovers[0].at_us if handovers else NEVER_US

    def _hand_over(self, task: Task, now_us: int) -> None:
        """What of it is due by now: of two times foreseen, only the later one holds."""
        node = self._state.nodes[task.invoker]
        if now_us >= task.prepared_us and not task.vcpus_back:
            task.vcpus_back = task.config.vcpus - DRIVING_VCPUS
            node.give_back(task.vcpus_back)
        if now_us >= _promises_us(task):
            node.promise(task.name, task.slices, task.leaves_us)
        self._state.releases += 1

    def _foresee_promise(self, task: Task, on_us: int) -> None:
        """A task is expected to be on its slices from then on."""
        task.leaves_us = on_us + task.slices_us
        heappush(self._state.handovers, Handover(_promises_us(task), task.name))


def _free_us(node: NodeBooks, task: Task) -> int:
    """When the others are expected to be gone who are on its slices."""
    slices = [node.slices[index] for index in task.slices]
    return max([0 if part.ahead == task.name else part.ahead_until_us for part in slices])


def _promises_us(task: Task) -> int:
    """When its slices may be promised to the next one: as long before it leaves them as its own CPU
    part takes, and not before it is on them."""
    lead_us = min(task.prepared_us - task.started_us, task.slices_us)
    return task.leaves_us - lead_us
