"""Learning from what went wrong: when to try again, and where rather not.

- A job that failed is tried again at once, and after that with pauses that grow; and if there is
  room elsewhere, not on a node where it has failed before. Where it has failed twice, it is not
  tried again, however long others take to have room, unless there are none.
- A model that could not be loaded on a slice is not loaded there for a while; each failure in a row
  doubles that. Otherwise a slice that fails fast, and so is always free, would draw all work to it.
  When every slice has failed as often as a job may, those who wait for the model are told so.
- A node whose tasks take much longer than the same tasks take elsewhere, or where a job failed that
  was then done elsewhere, is given work only while no other node has room. After a while it gets
  another chance. Else a node that fails fast, and so is always free, would draw all work to it.
"""

from collections.abc import Callable, Sequence

from esg.backoff import Backoff
from esg.core.catalog.model import Function
from esg.core.estimation.ewma import ewma
from esg.core.messages.outcome import Outcome
from esg.core.scheduler.books import Books
from esg.core.state.node_books import FailedLoads, NodeBooks
from esg.core.state.state import NEVER_US, PPM, Job, Request
from esg.units import ms, seconds

LONGEST_PAUSE_US = seconds(10)

SLOW_PPM = 1_500_000
"""A node is slow when its tasks take one and a half times as long as they do elsewhere."""

SLOW_FOR_US = seconds(10)
"""For so long it is the last choice; then it gets another chance."""

GRACE_US = ms(10)
"""Being late by less says nothing about a node."""


def pause_us(first_us: int, failures: int) -> int:
    """How long a job waits after so many failures; `first_us` is after the second one.

    >>> [pause_us(20, failures) for failures in (1, 2, 3, 4)]
    [0, 20, 40, 80]
    """
    if failures < 2:
        return 0
    return Backoff(first_us, LONGEST_PAUSE_US).pause(failures - 2)


class Setbacks:
    """`end` answers a request and forgets it."""

    def __init__(
        self,
        books: Books,
        max_attempts: int,
        end: Callable[[Request, Outcome, str, int], None],
    ) -> None:
        self._catalog = books.planned
        self._state = books.state
        self._max_attempts = max_attempts
        self._end = end

    def release_expired(self, now_us: int) -> None:
        """What was quarantined for long enough may be used again."""
        state = self._state
        if now_us >= state.release_at_us:
            state.release_at_us = NEVER_US
            state.releases += 1
            for node in state.nodes.values():
                for part in node.slices:
                    for failed in part.failed_loads.values():
                        failed.quarantined = failed.until_us > now_us
                        if failed.quarantined:
                            state.release_at_us = min(state.release_at_us, failed.until_us)
        for invoker in [name for name, until_us in state.slow.items() if until_us <= now_us]:
            del state.slow[invoker]

    # ---- models

    def load_failed(
        self, node: NodeBooks, index: int, function: Function, reason: str, now_us: int
    ) -> None:
        """Leave the slice alone for a while; if that was the last hope, those who wait are told."""
        failures = node.slices[index].failed_loads
        failed = failures.setdefault(function.name, FailedLoads())
        failed.count += 1
        spared_us = Backoff(function.cold_start_us, LONGEST_PAUSE_US).pause(failed.count - 1)
        failed.until_us = now_us + max(1, spared_us)
        failed.quarantined = True
        self._state.release_at_us = min(self._state.release_at_us, failed.until_us)
        if self.loads_nowhere(function):
            for job in self._waiting_for(function):
                why = f"{function.name} could not be loaded anywhere, last: {reason}"
                if job.request in self._state.requests:
                    self._end(self._state.requests[job.request], Outcome.FAILED, why, now_us)

    def loads_nowhere(self, function: Function) -> bool:
        """Whether every slice that is large enough has failed to load it, again and again."""
        able = [
            part.failed_loads.get(function.name)
            for node in self._state.open_nodes().values()
            for part in node.slices
            if part.usable and part.memory_mb >= function.memory_mb
        ]
        limit = self._max_attempts
        return bool(able) and all(f is not None and f.count >= limit for f in able)

    def _waiting_for(self, function: Function) -> list[Job]:
        applications = self._catalog.applications
        return [
            job
            for queue in self._state.queues.values()
            if applications[queue.application].stages[queue.stage].function.name == function.name
            for job in queue.jobs
        ]

    # ---- nodes

    def task_took(self, invoker: str, took_us: int, expected_us: int, now_us: int) -> None:
        """Compare what a task took on a node with what such tasks take on all of them."""
        state = self._state
        late_us = took_us - GRACE_US
        ratio_ppm = late_us * PPM // (expected_us or 1) if late_us > 0 else 0
        average_ppm = ewma(state.paces_ppm.get(invoker, PPM), ratio_ppm)
        if average_ppm >= SLOW_PPM:
            state.slow[invoker] = now_us + SLOW_FOR_US
            average_ppm = PPM  # its next chance is a fair one
        state.paces_ppm[invoker] = average_ppm

    def done_elsewhere(self, failed_on: Sequence[str], invoker: str, now_us: int) -> None:
        """A job was done that had failed on these nodes: it was not the job's own fault."""
        for other in failed_on:
            if other != invoker and other in self._state.nodes:
                self._state.slow[other] = now_us + SLOW_FOR_US

    def forget_node(self, invoker: str) -> None:
        self._state.paces_ppm.pop(invoker, None)
        self._state.slow.pop(invoker, None)
