"""Quarantine: circuit breakers for slices that do not load a model, and for nodes that are slow.

- A model that could not be loaded on a slice is not loaded there for a while; each failure in a row
  doubles that. Otherwise a slice that fails fast, and so is always free, would draw all work to it.
- A node whose tasks take much longer than the same tasks take elsewhere, or where a job failed that
  was then done elsewhere, is given work only while no other node has room. After a while it gets
  another chance.

`state.health` says what else speaks against a node.
"""

from collections.abc import Sequence

from esg.backoff import Backoff
from esg.core.catalog.model import Function
from esg.core.estimation.ewma import ewma
from esg.core.scheduler.books import Books
from esg.core.state.node_books import NodeBooks
from esg.units import NEVER_US, PPM, ms, seconds

LONGEST_US = seconds(10)
"""Of a slice, for one model."""

SLOW_PPM = 1_500_000
"""A node is slow when its tasks take one and a half times as long as they do elsewhere."""

SLOW_FOR_US = seconds(10)
"""For so long it is the last choice; then it gets another chance."""

GRACE_US = ms(10)
"""Being late by less says nothing about a node."""


class Quarantine:
    """Puts slices and nodes into quarantine, and lets them out again."""

    def __init__(self, books: Books) -> None:
        self._state = books.state
        self._health = books.state.health

    def release_expired(self, now_us: int) -> None:
        """What was quarantined for long enough may be used again."""
        health = self._health
        if now_us >= health.reload_at_us:
            self._state.releases += 1
            nodes = self._state.nodes.values()
            health.reload_at_us = min(
                [node.release_loads(now_us) for node in nodes], default=NEVER_US
            )
        for invoker in [name for name, until in health.quarantined.items() if until <= now_us]:
            del health.quarantined[invoker]

    def load_failed(self, node: NodeBooks, index: int, function: Function, now_us: int) -> None:
        """Do not load this model on this slice for a while."""
        failed = node.slices[index].failed_loads.get(function.name)
        pause_us = Backoff(function.cold_start_us, LONGEST_US).pause(failed.count if failed else 0)
        until_us = now_us + max(1, pause_us)
        node.quarantine_load(index, function.name, until_us)
        self._health.reload_at_us = min(self._health.reload_at_us, until_us)

    def observe_task(self, invoker: str, took_us: int, expected_us: int, now_us: int) -> None:
        """Compare what a task took on a node with what such tasks take on all of them."""
        health = self._health
        late_us = took_us - GRACE_US
        ratio_ppm = late_us * PPM // (expected_us or 1) if late_us > 0 else 0
        average_ppm = ewma(health.pace_ppm.get(invoker, PPM), ratio_ppm)
        if average_ppm >= SLOW_PPM:
            health.quarantined[invoker] = now_us + SLOW_FOR_US
            average_ppm = PPM  # its next chance is a fair one
        health.pace_ppm[invoker] = average_ppm

    def done_elsewhere(self, failed_on: Sequence[str], invoker: str, now_us: int) -> None:
        """A job was done that had failed on these nodes: it was not the job's own fault."""
        for other in failed_on:
            if other != invoker and other in self._state.nodes:
                self._health.quarantined[other] = now_us + SLOW_FOR_US
