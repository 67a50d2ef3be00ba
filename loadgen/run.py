"""One run against a mesh: hands the work to a pool of workers and folds what it reports."""

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from esg.loadgen.outcome import LoadOutcome
from esg.loadgen.record import SentRecord, writing_rows
from esg.loadgen.target import Protocol, Target
from esg.loadgen.timeline import Timeline
from esg.loadgen.worker import Assignment, WorkerReport
from esg.loadgen.worker_pool import WorkerPool
from esg.workload.payloads import Pictures
from esg.workload.plan import Workload

MOST_HELD = 20_000
HELD_BYTES = 2**30
"""At most so many requests, and so many bytes of payloads, are held for what is in flight."""
NOT_SENT = "not sent: too many requests were in flight for loadgen to hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRun:
    """A load to run. `wait_s` bounds the wait for answers after the last request."""

    target: Target
    plan: Workload
    pictures: Pictures
    workers: int = 1
    wait_s: float = 300.0
    csv: Path | None = None
    protocol: Protocol = Protocol.ESG
    slo_ms: float | None = None

    def assignments(self) -> list[Assignment]:
        # Names that no run before had: the mesh takes an old name for an old request
        prefix = f"load-{uuid.uuid4().hex[:12]}-"
        held = min(MOST_HELD, HELD_BYTES // max(1, self.pictures.largest))
        return [
            Assignment(
                gateway=self.target.gateway,
                plan=self.plan,
                applications=self.target.names,
                pictures=self.pictures,
                prefix=prefix,
                number=number,
                workers=self.workers,
                most_held=max(1, held // self.workers),
                protocol=self.protocol,
                slo_ms=self.slo_ms,
            )
            for number in range(self.workers)
        ]


@dataclass(slots=True)
class LoadFindings:
    """What has come of a load so far: until the last request was sent, and until now. `load` is
    this machine's at the end: how many processes wanted a core, over a minute."""

    outcome: LoadOutcome = field(default_factory=LoadOutcome)
    timeline: Timeline = field(default_factory=Timeline)
    sent: int = 0
    in_flight: int = 0
    sending: bool = True
    sending_s: float = 0.0
    elapsed_s: float = 0.0
    interrupted: bool = False
    load: float = 0.0
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)

    def fold(self, record: SentRecord) -> None:
        self.outcome.fold(record)
        self.timeline.fold(record)


def carry_out(run: LoadRun, look: Callable[[LoadFindings], None]) -> LoadFindings:
    """Run a load to its end, or until Ctrl-C and what was then in flight; `look` is called every
    now and then.

    Both ends give findings. A second Ctrl-C does not wait.
    """
    found = LoadFindings()
    with ExitStack() as stack:
        write = stack.enter_context(writing_rows(run.csv)) if run.csv else None

        def tell(report: WorkerReport) -> None:
            for record in report.records:
                found.fold(record)
                if write is not None:
                    write(record)
            for application, count in report.unsent.items():
                found.outcome.not_sent(application, count, NOT_SENT)

        def tick() -> None:
            found.sent, found.in_flight = pool.sent, pool.in_flight
            found.sending_s, found.elapsed_s = pool.sending_s, pool.elapsed_s
            found.sending = pool.sending
            found.interrupted = pool.stopped
            look(found)

        pool = WorkerPool(run.assignments(), tell, run.wait_s)
        stack.enter_context(_interrupted_by_signals(pool.stop))
        pool.run(tick)
        tick()
        found.load = os.getloadavg()[0]
    return found


@contextmanager
def _interrupted_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    def heard(number: int, frame: FrameType | None) -> None:
        stop()

    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = [signal.signal(number, heard) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
