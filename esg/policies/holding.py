"""When is it worth waiting for more jobs?

A batch of two costs each of its jobs a tenth less than a batch of one, and a pair that starts
together can stay together to the end. So waiting pays as long as time is cheaper than company:

    - now:    what each of n jobs pays from here on, with the time that is left
    - later:  what each of n + 1 pays with less time, if another one comes; what each of n pays, if
              none does

As long as there is slack, having less of it costs nothing, and waiting is free. Near the point from
which on every millisecond must be bought with larger configs or with risk (`outlook`), it stops to
pay.

At a first stage the next job is as likely as the average interval says. At a later one it is known:
it runs on the same node, one stage before, and has a profile.
"""

from collections.abc import Iterator

from esg.pace import relative_std
from esg.policies.forecast import Z
from esg.policies.groups import Group
from esg.policies.outlook import Outlook
from esg.policy import Case
from esg.state import PPM, queue_name

WORTH_IT = 0.998
"""What saves less than a fifth of a percent is not worth waiting for."""

QUARTERS = (1, 2, 4, 8, 16)
"""Waits that are considered, in quarters of the average interval between jobs."""

NEARLY_CERTAIN = 0.9
"""How far to trust that a running task ends when it should."""

LOOK_AHEAD = 4
"""How many running tasks may be waited for."""

Wait = tuple[int, int, int, float]
"""How long at most, how long on average, for how many jobs, and how likely they come by then."""


def hold_until_us(case: Case, group: Group, outlook: Outlook) -> int | None:
    """Until when to wait, or None if the jobs should go."""
    count, left_us = group.company, group.deadline_us - case.now_us
    if count >= outlook.company.most:
        return None
    best_pusd = WORTH_IT * min(outlook.now(jobs, left_us)[0] for jobs in (1, count))
    until_us = None
    waits = _under_way(case, group) if case.stage.after else _by_chance(case)
    for wait_us, comes_us, more, chance in waits:
        joined_pusd = outlook.later_pusd(count + more, left_us - comes_us)
        alone_pusd = outlook.later_pusd(count, left_us - wait_us)
        pusd = chance * min(joined_pusd, alone_pusd) + (1 - chance) * alone_pusd
        if pusd < best_pusd:
            best_pusd, until_us = pusd, case.now_us + wait_us
    return until_us


def _by_chance(case: Case) -> Iterator[Wait]:
    """One more job, sooner or later. After one average interval it has come in half of all cases;
    that is a little less than if arrivals knew nothing of each other."""
    interval_us = case.queue.interval_us
    if interval_us:
        for quarter in QUARTERS:
            wait_us = max(1, interval_us * quarter // 4)
            yield wait_us, wait_us // 2, 1, quarter / (quarter + 4)


def _under_way(case: Case, group: Group) -> Iterator[Wait]:
    """The jobs that are one stage behind, on the node that keeps this group's inputs."""
    ends = []
    for task in case.state.tasks.values():
        if task.invoker != group.keeper or task.stage not in case.stage.after:
            continue
        if task.application == case.application.name:
            queue = case.state.queues[queue_name(task.application, task.stage)]
            profile = case.application.stages[task.stage].function.profile
            run_us = profile.time_us_of(task.config) * queue.pace_ppm // PPM
            late_us = int(Z * run_us * relative_std(queue, profile.relative_std))
            wait_us = task.started_us + run_us + late_us - case.now_us
            if wait_us > 0:
                ends.append((wait_us, len(task.requests)))
    more = 0
    for wait_us, jobs in sorted(ends)[:LOOK_AHEAD]:
        more += jobs
        yield wait_us, wait_us, more, NEARLY_CERTAIN
