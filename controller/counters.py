"""How each application has fared, in bounded memory.

`esg.core.report` folds a whole journal and keeps every latency; a process that runs for months
counts instead, and keeps the latest ones only. Applications that are gone are forgotten.
"""

from collections import Counter, deque
from collections.abc import Container
from dataclasses import dataclass, field

import numpy as np

from esg.core.messages.commands import AnswerRequest, RefusalKind, RefuseRequest, StartTask
from esg.core.messages.events import TaskFinished
from esg.core.messages.outcome import Outcome
from esg.protos import model_v1_pb2 as model
from esg.runtime.metrics_page import UnusedNames
from esg.units import to_usd

LATEST = 1000


@dataclass(slots=True)
class ApplicationCounters:
    arrived: int = 0
    refused: int = 0
    overloaded: int = 0  # of the refused: there was too much to do
    ended: Counter[Outcome] = field(default_factory=Counter)
    in_time: int = 0
    cost_pusd: int = 0
    latest_us: deque[int] = field(default_factory=lambda: deque(maxlen=LATEST))

    @property
    def due(self) -> int:
        """How many the hit rate is of: all that the mesh had to answer in time, and has answered or
        turned away. Not what could not be asked for, and not what was called off."""
        served = (Outcome.DONE, Outcome.FAILED, Outcome.DROPPED)
        return sum(self.ended[outcome] for outcome in served) + self.overloaded

    def to_wire(self, name: str) -> model.ApplicationStatus:
        p50, p99 = np.percentile(self.latest_us, (50, 99)) if self.latest_us else (0, 0)
        return model.ApplicationStatus(
            application=name,
            arrived=self.arrived,
            done=self.ended[Outcome.DONE],
            in_time=self.in_time,
            failed=self.ended[Outcome.FAILED],
            cancelled=self.ended[Outcome.CANCELLED],
            dropped=self.ended[Outcome.DROPPED],
            refused=self.refused,
            overloaded=self.overloaded,
            cost_usd=to_usd(self.cost_pusd),
            latency_us_p50=round(p50),
            latency_us_p99=round(p99),
        )


class Counters:
    """Counted since the controller started."""

    def __init__(self) -> None:
        self.applications: dict[str, ApplicationCounters] = {}
        self.tasks = 0
        self.jobs = 0
        self.cold_starts = 0
        self.local_transfers = 0
        self.remote_transfers = 0
        self._gone = UnusedNames()

    def accepted(self, application: str) -> None:
        self._of(application).arrived += 1

    def refused(self, refusal: RefuseRequest) -> None:
        tally = self._of(refusal.application)
        tally.arrived += 1
        tally.refused += 1
        tally.overloaded += refusal.kind is RefusalKind.OVERLOADED

    def started(self, order: StartTask) -> None:
        self.tasks += 1
        self.jobs += len(order.jobs)
        for job in order.jobs:
            for source in job.inputs:
                if source.stage:
                    local = source.invoker == order.invoker
                    self.local_transfers += local
                    self.remote_transfers += not local

    def finished(self, event: TaskFinished) -> None:
        self.cold_starts += event.loading_us > 0

    def answered(self, application: str, answer: AnswerRequest, now_us: int) -> None:
        tally = self._of(application)
        tally.cost_pusd += answer.cost_pusd
        tally.in_time += answer.slo_met
        tally.ended[answer.outcome] += 1
        if answer.outcome is Outcome.DONE:
            tally.latest_us.append(now_us - answer.arrived_us)

    def forget_gone(self, needed: Container[str]) -> None:
        """Forget applications that were not needed at the last look either."""
        for name in self._gone.look(self.applications, needed):
            del self.applications[name]

    def _of(self, application: str) -> ApplicationCounters:
        return self.applications.setdefault(application, ApplicationCounters())
