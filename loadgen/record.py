"""The record of one request: small, so that it travels between processes, and a row of a file."""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from esg.files import written
from esg.loadgen.send import SentRequest

UNANSWERED = "no answer by the time loadgen ended"


class SentRecord(NamedTuple):
    """The record of one request. `outcome` is the mesh's word; if there is no result, it is
    `overloaded` or `invalid` for a refusal, otherwise `error`. `why` says what went wrong. What the
    mesh told is zero and empty if it told nothing."""

    number: int
    application: str
    at_us: int
    late_us: int
    latency_us: int
    outcome: str
    in_time: bool
    slo_us: int
    mesh_latency_us: int
    cost_usd: float
    batches: tuple[int, ...]
    nodes: tuple[str, ...]
    request_id: str
    why: str

    @property
    def done(self) -> bool:
        return self.outcome == "done"


def record_of(answered: SentRequest) -> SentRecord:
    result, arrival = answered.result, answered.arrival
    sent = answered.number, arrival.application, arrival.at_us
    measured = answered.late_us, answered.latency_us
    if result is None:
        ending, why = answered.ending, answered.error
        return SentRecord(*sent, *measured, ending, False, 0, 0, 0.0, (), (), "", why)
    return SentRecord(
        *sent,
        *measured,
        str(result.outcome),
        answered.in_time,
        round(1000 * result.slo_ms),
        round(1000 * result.latency_ms),
        result.cost_usd,
        tuple(stage.config.batch for stage in result.stages),
        tuple(stage.node for stage in result.stages),
        result.request_id,
        result.reason,
    )


@contextmanager
def writing_rows(path: Path) -> Iterator[Callable[[SentRecord], None]]:
    """Give a function that writes one request's row; the rows come as the answers did.

    The file has its name when all went well: a run that is broken off by Ctrl-C has gone well.
    """
    with written(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(SentRecord._fields)
        yield lambda record: rows.writerow(map(_cell, record))


def _cell(value: object) -> object:
    """A value as a cell: several are joined, and False is 0.

    >>> _cell((1, 4, 2)), _cell(True), _cell("done")
    ('1 4 2', 1, 'done')
    """
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return int(value) if isinstance(value, bool) else value
