"""Holding: whether, and for how long, it is worth waiting for a larger batch.

A batch of two costs each of its jobs a tenth less than a batch of one, and a pair that starts
together can stay together to the end. So waiting pays as long as time is cheaper than
what a larger cohort saves:

    - now:    what each of n jobs pays from here on, with the time that is left
    - later:  what each of n + 1 pays with less time, if another one comes; what each of n pays, if
              none does

As long as there is slack, having less of it costs nothing, and waiting is free. Near the point from
which on every millisecond must be bought with larger configs or with risk (`risk`), it stops to
pay.

At a first stage the next job is as likely as the average interval says, and less and less so once
it is overdue. At a later one it is known: it runs on the same node, one stage before, and has a
profile.

Where deadlines are far away there is slack without end. A client that sends its next request when
it has the last one's answer would be waited for in vain, and the longer, the larger the interval
between its requests becomes for it. So at no stage does a job wait for longer than the work takes
that is left: whatever deadlines say, who waits at the first stage in vain takes twice as long.
"""

from collections.abc import Iterator, Sequence

from esg.core.estimation.stage_speed import relative_std
from esg.core.policies.apex.forecast import Z
from esg.core.policies.apex.groups import Group
from esg.core.policies.apex.risk import RiskModel
from esg.core.policies.interface import QueueView
from esg.core.state.state import Phase, Task
from esg.names import queue_name
from esg.units import PPM

WORTH_IT = 0.998
"""What saves less than a fifth of a percent is not worth waiting for."""

QUARTERS = (1, 2, 4, 8, 16)
"""Waits that are considered, in quarters of the average interval, from the last job's arrival on.
After that, no job is expected any more."""

NEARLY_CERTAIN = 0.9
"""How far to trust that a running task ends when it should."""

LOOK_AHEAD = 4
"""How many running tasks may be waited for."""

Wait = tuple[int, int, int, float]
"""How long at most, how long on average, for how many jobs, and how likely they come by then."""


def hold_until_us(view: QueueView, group: Group, risk: RiskModel) -> int | None:
    """Until when to wait, or None if the jobs should go."""
    count, left_us = group.cohort_size, group.deadline_us - view.now_us
    if count >= risk.plans.most:
        return None
    now_pusd, work_us = risk.now(count, left_us, saves=group.saves)
    if count > 1:
        now_pusd, work_us = min((now_pusd, work_us), risk.now(1, left_us, saves=group.saves))
    best_pusd = WORTH_IT * now_pusd
    last_us = view.jobs[group.places[0]].ready_us + work_us
    until_us = None
    waits = _under_way(view, group) if view.stage.after else _by_chance(view)
    # the longer they wait, the more they pay: at least what it would have been until then, which is
    # enough to know of most waits that they are not worth it
    alone_pusd, joined_pusd, joining = now_pusd, 0, 0
    for wait_us, comes_us, more, chance in waits:
        if view.now_us + wait_us > last_us:
            break
        if more != joining:
            joining, joined_pusd = more, risk.least_pusd(count + more)
        if _on_average(chance, joined_pusd, alone_pusd) >= best_pusd:
            continue
        joined_pusd = risk.later_pusd(count + more, left_us - comes_us)
        if _on_average(chance, joined_pusd, alone_pusd) >= best_pusd:
            continue
        alone_pusd = risk.later_pusd(count, left_us - wait_us)
        pusd = _on_average(chance, joined_pusd, alone_pusd)
        if pusd < best_pusd:
            best_pusd, until_us = pusd, view.now_us + wait_us
    return until_us


def _on_average(chance: float, joined_pusd: int, alone_pusd: int) -> float:
    """What a job pays if others join it so likely, and go with it only if that is cheaper."""
    together_pusd = joined_pusd if joined_pusd < alone_pusd else alone_pusd
    return chance * together_pusd + (1 - chance) * alone_pusd


def _by_chance(view: QueueView) -> Iterator[Wait]:
    """One more job, sooner or later. After one average interval it has come in half of all cases;
    that is a little less than if arrivals knew nothing of each other. The longer none has come,
    the longer that is likely to go on."""
    interval_us = view.queue.arrivals.average_us
    silent_us = view.now_us - view.queue.arrivals.latest_us
    for quarter in QUARTERS:
        wait_us = interval_us * quarter // 4 - silent_us
        if wait_us > 0:
            yield wait_us, wait_us // 2, 1, wait_us / (interval_us + silent_us + wait_us)


def _under_way(view: QueueView, group: Group) -> Iterator[Wait]:
    """The jobs that are one stage behind, on the node that keeps this group's inputs."""
    ends = []
    for task in _running_on(view, group.keeper):
        if task.application == view.application.name and task.stage in view.stage.after:
            queue = view.state.queues[queue_name(task.application, task.stage)]
            profile = view.application.stages[task.stage].function.profile
            run_us = profile.time_us_of(task.config) * queue.pace_ppm // PPM
            late_us = int(Z * run_us * relative_std(queue, profile.relative_std))
            wait_us = task.started_us + run_us + late_us - view.now_us
            others = [before for before in view.stage.after if before != task.stage]
            coming = _lacking_nothing_else(view, task, others) if others else task.requests
            if wait_us > 0 and coming:
                ends.append((wait_us, len(coming)))
    more = 0
    for wait_us, jobs in sorted(ends)[:LOOK_AHEAD]:
        more += jobs
        yield wait_us, wait_us, more, NEARLY_CERTAIN


def _running_on(view: QueueView, invoker: str) -> list[Task]:
    node, tasks = view.state.nodes.get(invoker), view.state.tasks
    if node is None:
        return []
    return [tasks[name] for name in node.tasks()]


def _lacking_nothing_else(view: QueueView, task: Task, others: Sequence[str]) -> list[str]:
    """The requests of a task that can join as soon as it has ended: what the other stages before
    this one make is there, too."""
    found = []
    for name in task.requests:
        request = view.requests.get(name)
        runs = [] if request is None else [request.runs[before] for before in others]
        if runs and all(run.phase is Phase.DONE and run.keeper == task.invoker for run in runs):
            found.append(name)
    return found
