"""What one request costs the live path, counted: syncs of the journal, commands to Redis, messages,
hand-overs between threads and processes, and calls of Python functions.

Times drift with the machine, counts do not; `benchmarks.overhead` has the times.
"""

import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import pytest
from redis.asyncio import Redis

from benchmarks.closed_loop import by_kind, look
from benchmarks.live import no_op_catalog
from esg.client import AsyncClient
from esg.local.supervisor import Mesh, MeshOptions
from tests.deploy.engine import free_ports
from tests.support.paths import ROOT
from tests.support.waiting import LIMIT_S, until

REQUESTS = 40
PYTHON = ("gateway", "controller", "nodes", "slices")
"""The kinds of processes that are ours."""
COUNTING = ROOT / "tests" / "support" / "counting"

CALLS = {"gateway": 370, "controller": 825, "nodes": 625, "slices": 168}
"""Of Python functions, per request: what the code takes today. Who makes it take less writes that
down here, and who makes it take more has a reason."""
TOLERANCE = 1.05
SWITCHES = 75


@dataclass(frozen=True)
class Counts:
    """Of one request, on average. Calls and writes are by kind of process."""

    syncs: float
    commands: float
    switches: float
    calls: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)


class Counted:
    def __init__(self, mesh: Mesh, client: AsyncClient, metrics: str, folder: Path) -> None:
        self._mesh = mesh
        self._client = client
        self._metrics = metrics
        self._folder = folder
        self._kinds = by_kind(mesh.processes)

    async def alone(self) -> Counts:
        """Of a request, when they come one after the other. Calls are counted in a second run,
        which is slower for it."""
        await self._requests(10)
        syncs, commands, switches = await self._now()
        await self._requests(REQUESTS)
        now = await self._now()
        used = [b - a for a, b in zip((syncs, commands, switches), now, strict=True)]
        await self._signal(signal.SIGUSR1)
        await self._requests(REQUESTS)
        await self._signal(signal.SIGUSR2)
        counted = {kind: [await self._counted(p) for p in self._kinds[kind]] for kind in PYTHON}
        return Counts(
            *[value / REQUESTS for value in used],
            {kind: sum(sum(c.values()) for c in each) / REQUESTS for kind, each in counted.items()},
            {kind: sum(map(_writes, each)) / REQUESTS for kind, each in counted.items()},
        )

    async def _requests(self, count: int) -> None:
        for _ in range(count):
            await self._client.submit("chain", b"x" * 100)

    async def _now(self) -> tuple[float, float, float]:
        said = re.search(r"^esg_journal_syncs_total (\S+)$", self._page(), re.M)
        assert said is not None
        switches = sum(u.switches for k, u in look(self._kinds).items() if k != "client")
        redis = Redis.from_url(self._mesh.redis_url)
        stats = await redis.info("commandstats")
        await redis.aclose()
        ours = ("cmdstat_info", "cmdstat_client", "cmdstat_hello", "cmdstat_ping")
        commands = sum(stat["calls"] for name, stat in stats.items() if not name.startswith(ours))
        return float(said[1]), commands, switches

    async def _signal(self, which: signal.Signals) -> None:
        for pid in self._pids():
            os.kill(pid, which)

    async def _counted(self, pid: int) -> dict[str, int]:
        file = self._folder / f"{pid}.json"
        await until(file.exists)
        counts: dict[str, int] = json.loads(file.read_text("ascii"))
        return counts

    def _pids(self) -> list[int]:
        return [pid for kind in PYTHON for pid in self._kinds[kind]]

    def _page(self) -> str:
        with urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=LIMIT_S) as page:
            return str(page.read(), "utf-8")


def _writes(calls: dict[str, int]) -> float:
    """Messages on gRPC's streams that a process calls others by; each is counted when it is begun
    and when it is over."""
    return calls.get("_call.py:_write", 0) / 2


@asynccontextmanager
async def counted(folder: Path) -> AsyncIterator[Counted]:
    (metrics,) = free_ports(1)
    with no_op_catalog() as catalog:
        options = MeshOptions(
            catalog=catalog,
            nodes=1,
            vgpus=2,
            warm_start=True,
            log_level="warning",
            more={"controller": {"metrics_port": int(metrics)}},
        )
        async with Mesh(options, folder / "m") as mesh, AsyncClient(mesh.gateway) as client:
            yield Counted(mesh, client, metrics, folder)


async def test_a_lone_request_takes_few_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its payload goes along with it, and its result with the answer; its node goes on by itself,
    with one report for stages that take no time, and a message to the slice for each."""
    monkeypatch.setenv("PYTHONPATH", str(COUNTING))
    monkeypatch.setenv("CALLS_COUNTED_IN", str(tmp_path))
    async with counted(tmp_path) as mesh:
        counts = await mesh.alone()
    print(counts)
    assert counts.syncs <= 1.1  # what lingers is synced by itself now and then
    assert counts.commands == 0
    assert counts.writes["nodes"] <= 4.2
    assert counts.writes["gateway"] <= 1.1
    assert counts.switches <= SWITCHES
    for kind, calls in counts.calls.items():
        assert calls <= CALLS[kind] * TOLERANCE, f"{kind}: {calls:.0f} calls per request"
