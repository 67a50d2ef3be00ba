"""Groups: the jobs of a queue that are planned for together.

Inputs that lie on different nodes make a batch wait for the network, so the jobs of a later stage
belong together if the same node keeps their inputs. A first stage's inputs lie nowhere in
particular: all of its jobs are one group.

A plan may well run jobs side by side and batch them later. Those that are started one after the
other at the same instant therefore are of one cohort, and go to the same node.
"""

from dataclasses import dataclass

from esg.core.policies.interface import QueueView
from esg.core.state.state import Job, Task


@dataclass(slots=True)
class Group:
    """Some jobs of a queue: their places in it, the first in line first.

    `keeper` has their inputs (the keepers, if there are several inputs). `beside` counts the jobs
    that were started at this very instant, and `beside_on` is where. `saves` says whether time was,
    or may be, used up in a batch.
    """

    keeper: str
    places: list[int]
    deadline_us: int
    beside: int = 0
    beside_on: str = ""
    saves: bool = False

    @property
    def cohort_size(self) -> int:
        """How many jobs can be batched from here on: those that wait, and those just started."""
        return len(self.places) + self.beside


def groups(view: QueueView, lost_before_us: int, most: int) -> list[Group]:
    """The groups of those jobs whose deadline is not before that, with `most` jobs at most; the
    first job's group first."""
    found: dict[str, Group] = {}
    for place, job in enumerate(view.jobs):
        if job.deadline_us < lost_before_us:
            continue
        keeper = _keeper(view, job)
        group = found.get(keeper)
        if group is None:
            found[keeper] = Group(keeper, [place], job.deadline_us)
        elif len(group.places) < most:
            group.places.append(place)
            group.deadline_us = min(group.deadline_us, job.deadline_us)
        elif not view.stage.after:
            break  # there is only one group, and it is full
    for task in _just_started(view):
        for group in found.values():
            if not group.keeper or group.keeper == task.invoker:
                group.beside += len(task.requests)
                group.beside_on = group.beside_on or task.invoker
    for group in found.values():
        group.saves = group.cohort_size > 1 or _was_batched(view, view.jobs[group.places[0]])
    return list(found.values())


def _keeper(view: QueueView, job: Job) -> str:
    after = view.stage.after
    if not after:
        return ""
    runs = view.requests[job.request].runs
    if len(after) == 1:  # most often
        return runs[after[0]].keeper
    return ",".join(dict.fromkeys([runs[before].keeper for before in after]))


def _was_batched(view: QueueView, job: Job) -> bool:
    if not view.stage.after:
        return False
    runs = view.requests[job.request].runs.values()
    return any(run.report is not None and run.report.config.batch > 1 for run in runs)


def _just_started(view: QueueView) -> list[Task]:
    """Tasks of this queue that began at this instant, the latest first."""
    found = []
    for task in reversed(view.state.tasks.values()):
        if task.started_us != view.now_us:
            break
        if task.stage == view.stage.name and task.application == view.application.name:
            found.append(task)
    return found
