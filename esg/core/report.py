"""The report of a run: a fold over events and the orders that followed them.

Every driver of a scheduler, live, emulated or replayed, can feed a `Report` with what it saw; so
all runs are judged by the same code; what its figures mean is defined in `esg.core.metrics`. Costs
are what requests paid: their shares of the tasks that finished, for all that those held, as long as
they held it. What failed or was stopped is on the house.

A report may begin in the middle, with what a scheduler remembers. Requests that were under way by
then are none of its own: neither their coming nor what becomes of them counts.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from esg.core.messages.commands import (
    AdmitRequest,
    AnswerRequest,
    Command,
    RefuseRequest,
    StartTask,
)
from esg.core.messages.events import Event, InvokerJoined, TaskFailed, TaskFinished
from esg.core.messages.outcome import Outcome
from esg.core.metrics import Served, percentiles_ms
from esg.core.state.state import State
from esg.names import plain_name
from esg.units import US_PER_S


@dataclass(slots=True)
class ApplicationReport:
    """One application's requests, of all its versions: those that arrived, and what became of those
    that have ended. `answered_us` and `latency_us` are of those that were done."""

    arrived: int = 0
    served: Served = field(default_factory=Served)
    answered_us: list[int] = field(default_factory=list)
    latency_us: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """Counts as it goes; ask for `summary` at the end."""

    applications: dict[str, ApplicationReport] = field(
        default_factory=lambda: defaultdict(ApplicationReport)
    )
    tasks: int = 0
    jobs: int = 0
    missed_plans: int = 0
    cold_tasks: int = 0
    local_transfers: int = 0
    remote_transfers: int = 0
    effort: int = 0
    first_us: int | None = None
    last_us: int = 0
    slices: dict[str, int] = field(default_factory=dict)  # of every node that ever joined
    vgpu_busy_us: int = 0
    _vgpus_of: dict[str, int] = field(default_factory=dict)
    _under_way: set[str] = field(default_factory=set)  # admitted since it began

    @staticmethod
    def from_here(state: State) -> "Report":
        """A report of what happens from now on, to a scheduler that has this memory."""
        return Report(
            slices={name: len(node.slices) for name, node in state.nodes.items()},
            _vgpus_of={name: task.config.vgpus for name, task in state.tasks.items()},
        )

    def observe(self, now_us: int, event: Event, commands: Sequence[Command]) -> None:
        """One handled event, with its orders."""
        # not by `match`: asking a record whether it is of another class takes long
        if type(event) is TaskFinished:
            vgpus = self._vgpus_of.pop(event.task, 0)
            phases = event.phases
            held_us = phases.slices_us if phases else event.loading_us + event.running_us
            self.vgpu_busy_us += vgpus * held_us
            self.cold_tasks += event.loading_us > 0
        elif type(event) is TaskFailed:
            self._vgpus_of.pop(event.task, None)
        elif type(event) is InvokerJoined:
            self.slices[event.invoker] = len(event.slices)
        for command in commands:
            if type(command) is StartTask:
                self._started(command)
            elif type(command) is AnswerRequest:
                self._answered(now_us, command)
            elif type(command) is AdmitRequest:
                self._under_way.add(command.request)
                self._arrived(now_us, plain_name(command.application))
            elif type(command) is RefuseRequest:
                self._arrived(now_us, command.application)
                self.applications[command.application].served.count(command.kind.ending)
                self.last_us = now_us

    def _arrived(self, now_us: int, application: str) -> None:
        if self.first_us is None:
            self.first_us = now_us
        self.applications[application].arrived += 1

    def _started(self, command: StartTask) -> None:
        order, decision = command.order, command.decision
        self.tasks += 1
        self.jobs += len(order.jobs)
        self.effort += decision.effort
        self.missed_plans += decision.missed
        self._vgpus_of[order.task] = order.config.vgpus
        _, local, remote = order.count_inputs()
        self.local_transfers += local
        self.remote_transfers += remote

    def _answered(self, now_us: int, answer: AnswerRequest) -> None:
        if answer.request not in self._under_way:
            return
        self._under_way.remove(answer.request)
        self.last_us = now_us
        tally = self.applications[plain_name(answer.application)]
        tally.served.count(answer.outcome, in_time=answer.slo_met, cost_pusd=answer.cost_pusd)
        if answer.outcome is Outcome.DONE:
            tally.answered_us.append(now_us)
            tally.latency_us.append(now_us - answer.arrived_us)

    @property
    def arrived(self) -> int:
        return sum(tally.arrived for tally in self.applications.values())

    @property
    def unanswered(self) -> int:
        """Requests that are still under way; a report at the end of a run has none."""
        return len(self._under_way)

    @property
    def served(self) -> Served:
        return Served.total(tally.served for tally in self.applications.values())

    def summary(self) -> dict[str, Any]:
        """The figures people compare; shares are between 0 and 1."""
        # Nothing has been answered yet where a journal ends early
        span_us = max(0, self.last_us - (self.first_us or 0))
        by_application = {name: self.applications[name] for name in sorted(self.applications)}
        everything = [us for tally in by_application.values() for us in tally.latency_us]
        latency_ms: dict[str, Any] = dict(percentiles_ms(everything))
        latency_ms["by_application"] = {
            name: percentiles_ms(tally.latency_us) for name, tally in by_application.items()
        }
        return {
            "requests": self.arrived,
            "unanswered": self.unanswered,
            **self.served.document(),
            "latency_ms": latency_ms,
            "hit_rate_by_application": {
                name: tally.served.hit_rate for name, tally in by_application.items()
            },
            "cost_usd_per_1k_by_application": {
                name: tally.served.cost_usd_per_1k for name, tally in by_application.items()
            },
            "plan_miss_rate": _share(self.missed_plans, self.tasks),
            "cold_starts": self.cold_tasks,
            "local_transfers": self.local_transfers,
            "remote_transfers": self.remote_transfers,
            "mean_batch": _share(self.jobs, self.tasks),
            "vgpu_utilisation": _share(self.vgpu_busy_us, sum(self.slices.values()) * span_us),
            "search_effort": _share(self.effort, self.tasks),
            "virtual_s": span_us / US_PER_S,
        }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
