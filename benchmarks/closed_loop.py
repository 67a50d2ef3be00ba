"""Closed loops in short rounds: clients that ask again as soon as they are answered.

A round's figures are those of a window that opens with one answer and closes with another: so many
answers took exactly so long, and exactly so much of each process. Answers to many clients come in
groups: as many as there are clients come before it opens, and as many while it is open, at least.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks.live import children
from esg.core.metrics import percentiles

WARM_UP_S = 0.1

Call = Callable[[], Awaitable[object]]
Pids = Mapping[str, Sequence[int]]
"""Processes by their kind."""


class NotAnswered(Exception):
    """A call failed. In a loop it is counted, and does not count as an answer."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a kind of process used so far. Of a thread that ended nothing is known any more."""

    cpu_ns: int = 0
    switches: int = 0
    """Voluntary context switches: how often a thread went to sleep, to be woken later."""

    def since(self, before: "Used") -> "Used":
        return Used(self.cpu_ns - before.cpu_ns, self.switches - before.switches)


@dataclass(slots=True)
class Round:
    """What came of one round."""

    took_s: list[float] = field(default_factory=list)
    failed: int = 0
    elapsed_s: float = 0.0
    used: dict[str, Used] = field(default_factory=dict)

    @property
    def p50_ms(self) -> float:
        return float(1000 * percentiles(self.took_s, 50)[0]) if self.took_s else float("inf")

    @property
    def per_s(self) -> float:
        return len(self.took_s) / self.elapsed_s

    def cpu_ms(self, kind: str) -> float:
        """Of each request."""
        return self.used[kind].cpu_ns / 1e6 / len(self.took_s)

    def switches(self, kind: str) -> float:
        """Of each request."""
        return self.used[kind].switches / len(self.took_s)


class _Window:
    def __init__(self, clients: int, seconds: float, pids: Pids) -> None:
        self.round = Round()
        self.is_closed = False
        self._clients = clients
        self._seconds = seconds
        self._pids = pids
        self._opens = perf_counter() + WARM_UP_S
        self._heard = 0
        self._opened: float | None = None
        self._before: dict[str, Used] = {}

    def answered(self, took_s: float | None) -> None:
        now = perf_counter()
        self._heard += 1
        if self._opened is None:
            if now >= self._opens and self._heard >= self._clients:
                self._heard = 0
                self._before = look(self._pids)
                self._opened = perf_counter()
        elif not self.is_closed:
            if took_s is None:
                self.round.failed += 1
            else:
                self.round.took_s.append(took_s)
            if now >= self._opened + self._seconds and self._heard >= self._clients:
                after = look(self._pids)
                self.round.used = {k: used.since(self._before[k]) for k, used in after.items()}
                self.round.elapsed_s = now - self._opened
                self.is_closed = True


async def closed_loop(call: Call, *, clients: int, seconds: float, pids: Pids) -> Round:
    """One round of so many clients, after a short warm-up."""
    window = _Window(clients, seconds, pids)

    async def client() -> None:
        while not window.is_closed:
            began = perf_counter()
            took_s: float | None = None
            try:
                await call()
                took_s = perf_counter() - began
            except NotAnswered:
                await asyncio.sleep(0)  # a call that fails at once lets others have a turn
            window.answered(took_s)

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return window.round


def look(pids: Pids) -> dict[str, Used]:
    """What each kind used so far, all threads together. The times are the scheduler's own, in ns:
    the ticks of `stat`, 10 ms each, are too coarse for rounds this short."""
    found = {}
    for kind, each in pids.items():
        cpu_ns = switches = 0
        for thread in (t for pid in each for t in Path(f"/proc/{pid}/task").glob("*")):
            try:
                cpu_ns += int((thread / "schedstat").read_text().split()[0])
                status = (thread / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended just now
            switches += int(status.rsplit("\nvoluntary_ctxt_switches:", 1)[1].split()[0])
        found[kind] = Used(cpu_ns, switches)
    return found


def by_kind(processes: Mapping[str, int]) -> dict[str, list[int]]:
    """The processes of a mesh by their kind, slices apart from the nodes that started them; and
    the client, which is this process."""
    kinds: dict[str, list[int]] = {}
    for name, pid in processes.items():
        kind = name.rstrip("0123456789")
        if kind == "node":
            kinds.setdefault("nodes", []).append(pid)
            kinds.setdefault("slices", []).extend(children(pid))
        else:
            kinds.setdefault(kind, []).append(pid)
    order = ["gateway", "controller", "nodes", "slices", "redis"]
    named = {kind: kinds[kind] for kind in sorted(kinds, key=lambda k: (*order, k).index(k))}
    return {**named, "client": [os.getpid()]}
