"""What one request costs the live path, counted: syncs of the journal, commands to Redis.

Times drift with the machine, counts do not; `benchmarks.overhead` has the times.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from redis.asyncio import Redis

from benchmarks.live import no_op_catalog
from esg.client import AsyncClient
from esg.local.supervisor import Mesh, MeshOptions
from tests.deploy.engine import free_ports
from tests.support.waiting import LIMIT_S

REQUESTS = 40


@dataclass(frozen=True)
class Counts:
    syncs: float
    commands: float

    def per_request(self, before: "Counts") -> "Counts":
        return Counts(
            (self.syncs - before.syncs) / REQUESTS,
            (self.commands - before.commands) / REQUESTS,
        )


class Counted:
    def __init__(self, mesh: Mesh, client: AsyncClient, metrics: str) -> None:
        self._mesh = mesh
        self._client = client
        self._metrics = metrics

    async def alone(self) -> Counts:
        """Of a request, when they come one after the other."""
        for _ in range(10):
            await self._client.submit("chain", b"x" * 100)
        before = await self._now()
        for _ in range(REQUESTS):
            await self._client.submit("chain", b"x" * 100)
        return (await self._now()).per_request(before)

    async def _now(self) -> Counts:
        said = re.search(r"^esg_journal_syncs_total (\S+)$", self._page(), re.M)
        assert said is not None
        redis = Redis.from_url(self._mesh.redis_url)
        stats = await redis.info("commandstats")
        await redis.aclose()
        ours = ("cmdstat_info", "cmdstat_client", "cmdstat_hello", "cmdstat_ping")
        commands = sum(stat["calls"] for name, stat in stats.items() if not name.startswith(ours))
        return Counts(float(said[1]), commands)

    def _page(self) -> str:
        with urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=LIMIT_S) as page:
            return str(page.read(), "utf-8")


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
        async with Mesh(options, folder) as mesh, AsyncClient(mesh.gateway) as client:
            yield Counted(mesh, client, metrics)


async def test_a_lone_request_takes_one_sync_and_nothing_of_redis(tmp_path: Path) -> None:
    """Its payload goes along with it, and its result with the answer."""
    async with counted(tmp_path / "m") as mesh:
        counts = await mesh.alone()
    assert counts.syncs <= 1.1  # what lingers is synced by itself now and then
    assert counts.commands == 0
