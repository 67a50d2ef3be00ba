"""Every request of a run as a row of a CSV file, for pandas and its like.

The columns that `loadgen --csv` has, too, have the same names and meanings.
"""

import csv
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from esg.core.messages.commands import AnswerRequest, Command, RefuseRequest
from esg.core.messages.events import Event
from esg.names import plain_name
from esg.units import to_usd


class RequestRow(NamedTuple):
    """One request. `at_us` is when it came, since the run began; `batches` and `nodes` are those of
    its stages, in the order in which they ended."""

    policy: str
    seed: int
    request: str
    application: str
    at_us: int
    latency_us: int
    outcome: str
    in_time: int
    slo_us: int
    cost_usd: float
    batches: str
    nodes: str
    why: str


class RequestRows:
    """Observes a run and writes a row for each request that ends, so that memory stays bounded.

    Of a run at a point of a grid, rows begin with what varies there.
    """

    def __init__(
        self, file: TextIO, policy: str, seed: int, *, point: Sequence[object] = ()
    ) -> None:
        self._rows = csv.writer(file, lineterminator="\n")
        self._run = policy, seed
        self._point = point

    @staticmethod
    def write_heading(file: TextIO, varied: Sequence[str] = ()) -> None:
        csv.writer(file, lineterminator="\n").writerow((*varied, *RequestRow._fields))

    def observe(self, now_us: int, event: Event, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, AnswerRequest):
                self._rows.writerow((*self._point, *self._answered(now_us, command)))
            elif isinstance(command, RefuseRequest):
                self._rows.writerow((*self._point, *self._refused(now_us, command)))

    def _answered(self, now_us: int, answer: AnswerRequest) -> RequestRow:
        stages = sorted(answer.stages, key=lambda stage: stage.finished_us)
        return RequestRow(
            *self._run,
            request=answer.request,
            application=plain_name(answer.application),
            at_us=answer.arrived_us,
            latency_us=now_us - answer.arrived_us,
            outcome=str(answer.outcome),
            in_time=int(answer.slo_met),
            slo_us=answer.deadline_us - answer.arrived_us,
            cost_usd=to_usd(answer.cost_pusd),
            batches=" ".join(str(stage.config.batch) for stage in stages),
            nodes=" ".join(stage.invoker for stage in stages),
            why=answer.reason,
        )

    def _refused(self, now_us: int, refusal: RefuseRequest) -> RequestRow:
        return RequestRow(
            *self._run,
            request=refusal.request,
            application=refusal.application,
            at_us=now_us,
            latency_us=0,
            outcome=refusal.kind.ending,
            in_time=0,
            slo_us=0,
            cost_usd=0.0,
            batches="",
            nodes="",
            why=refusal.reason,
        )
