"""Counters of how each application has fared, in bounded memory.

`esg.core.report` folds a whole journal and keeps every latency; a process that runs for months
counts instead, and keeps the latest ones only. Applications that are gone are forgotten.
"""

from collections import deque
from collections.abc import Container
from dataclasses import dataclass, field

from esg.core.messages.commands import AdmitRequest, AnswerRequest, RefusalKind, RefuseRequest
from esg.core.messages.events import TaskFinished
from esg.core.messages.outcome import Outcome
from esg.core.messages.task_order import TaskOrder
from esg.core.metrics import Served, percentiles
from esg.names import plain_name
from esg.protos import model_v1_pb2 as model
from esg.runtime.metrics_page import UnusedNames
from esg.units import to_usd

LATEST = 1000


@dataclass(slots=True)
class ApplicationCounters:
    """One application's requests: those that arrived, what became of those that have ended, and the
    latest latencies of those that were done."""

    arrived: int = 0
    served: Served = field(default_factory=Served)
    latest_us: deque[int] = field(default_factory=lambda: deque(maxlen=LATEST))

    def to_wire(self, name: str) -> model.ApplicationStatus:
        served = self.served
        p50_us, p99_us = percentiles(self.latest_us, 50, 99) if self.latest_us else (0, 0)
        return model.ApplicationStatus(
            application=name,
            arrived=self.arrived,
            done=served.done,
            in_time=served.in_time,
            failed=served.failed,
            cancelled=served.cancelled,
            dropped=served.dropped,
            refused=served.refused,
            overloaded=served.overloaded,
            cost_usd=to_usd(served.cost_pusd),
            latency_us_p50=p50_us,
            latency_us_p99=p99_us,
        )


class Counters:
    """Counters since the controller started."""

    def __init__(self) -> None:
        self.applications: dict[str, ApplicationCounters] = {}
        self.tasks = 0
        self.continued = 0
        self.jobs = 0
        self.cold_starts = 0
        self.local_transfers = 0
        self.remote_transfers = 0
        self._gone = UnusedNames()

    def admitted(self, order: AdmitRequest) -> None:
        self._of(plain_name(order.application)).arrived += 1

    def refused(self, refusal: RefuseRequest) -> None:
        if refusal.kind is RefusalKind.UNKNOWN_APPLICATION:
            return  # anybody can make up names
        tally = self._of(refusal.application)
        tally.arrived += 1
        tally.served.count(refusal.kind.ending)

    def started(self, order: TaskOrder, *, begun: bool) -> None:
        self.tasks += 1
        self.continued += begun
        self.jobs += len(order.jobs)
        _, local, remote = order.count_inputs()
        self.local_transfers += local
        self.remote_transfers += remote

    def finished(self, event: TaskFinished) -> None:
        self.cold_starts += event.loading_us > 0

    def answered(self, answer: AnswerRequest, now_us: int) -> None:
        tally = self._of(plain_name(answer.application))
        tally.served.count(answer.outcome, in_time=answer.slo_met, cost_pusd=answer.cost_pusd)
        if answer.outcome is Outcome.DONE:
            tally.latest_us.append(now_us - answer.arrived_us)

    def forget_gone(self, needed: Container[str]) -> None:
        """Forget applications that were not needed at the last look either."""
        for name in self._gone.look(self.applications, needed):
            del self.applications[name]

    def _of(self, application: str) -> ApplicationCounters:
        return self.applications.setdefault(application, ApplicationCounters())
