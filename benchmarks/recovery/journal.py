"""What the journal costs: per request through a mesh, per entry on its own, and to replay.

Part of `benchmarks.recovery`.
"""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

from benchmarks.closed_loop import closed_loop
from benchmarks.live import no_op_catalog
from esg.client import AsyncClient
from esg.controller.durability.journal import Journal
from esg.core.catalog.file import load_catalog
from esg.core.journal.format import Header, snapshot_line
from esg.core.messages.events import TaskFinished
from esg.core.scheduler.settings import SchedulerSettings
from esg.emulator.history import replay_strictly
from esg.emulator.run import emulate
from esg.emulator.scenario import Scenario, applied
from esg.emulator.sweep import Generated
from esg.local.supervisor import Mesh, MeshOptions
from esg.runtime.catalog import load
from esg.runtime.journal_files import read_segments
from esg.runtime.settings import CommonSettings, ControllerSettings
from esg.runtime.settings_file import environment
from esg.workload.plan import Workload

MODES: dict[str, dict[str, Any]] = {
    "no journal": {"journal": ""},
    "journal, not synced": {"sync": False},
    "journal, synced": {"sync": True},
    "synced every 2 ms at most": {"sync": True, "sync_ms": 2},
}
CLIENTS = 32
ENTRIES = 20_000
EVENT = TaskFinished(task="t123456", invoker="node0", loading_us=0, running_us=20_000)


async def per_request(seconds: float) -> list[dict[str, Any]]:
    """Three stages that take no time, alone and by 32 clients, with a journal and without."""
    return [await _mode(what, settings, seconds) for what, settings in MODES.items()]


async def _mode(what: str, settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    options = MeshOptions(
        nodes=1, vgpus=2, warm_start=True, log_level="warning", more={"controller": settings}
    )
    requests = 0
    with TemporaryDirectory() as folder, no_op_catalog() as catalog:
        os.environ |= environment("common", {"catalog": catalog})
        async with (
            Mesh(options, Path(folder) / "mesh") as mesh,
            AsyncClient(mesh.gateway) as client,
            client.stream() as stream,
        ):

            async def call() -> None:
                nonlocal requests
                requests += 1
                await stream.submit("chain", b"x" * 100)

            alone = await closed_loop(call, clients=1, seconds=seconds, pids={})
            crowded = await closed_loop(call, clients=CLIENTS, seconds=seconds, pids={})
            journal = mesh.journal
        row: dict[str, Any] = {
            "what": what,
            "p50_ms": alone.p50_ms,
            "per_s": crowded.per_s,
        }
        if journal is not None:
            size = sum(path.stat().st_size for path in journal.glob("*.journal"))
            began = perf_counter()
            replayed = replay_strictly(journal, load_catalog(catalog))
            replay_s = perf_counter() - began
            row |= {
                "bytes": size / requests,
                "events": replayed.entries / requests,
                "replay_per_s": replayed.entries / replay_s,
            }
        return row


def per_entry() -> list[dict[str, Any]]:
    """Written alone and in groups of 64, to the disk that temporary files are on."""
    return [
        {
            "group": group,
            **{
                name: asyncio.run(_entry_us(group, sync=sync))
                for name, sync in (("not_synced_us", False), ("synced_us", True))
            },
        }
        for group in (1, 8, 64)
    ]


async def _entry_us(group: int, *, sync: bool) -> float:
    with TemporaryDirectory() as folder:
        journal = Journal(Path(folder), replace(ControllerSettings(), sync=sync))
        header = Header(catalog="", settings=SchedulerSettings())
        journal.begin(header, lambda: lambda: snapshot_line("{}", "{}", 0))
        count = ENTRIES if not sync else max(group, ENTRIES // 64 * min(group, 64) // 4)
        began = perf_counter()
        for number in range(0, count, group):
            journal.begin_group()
            for offset in range(group):
                journal.append(number + offset, EVENT, [])
            done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
            journal.write(lambda error, done=done: journal.sync(done.set_result))  # type: ignore[misc]
            if (error := await done) is not None:
                raise error
        took = perf_counter() - began
        journal.close()
    return 1e6 * took / count


def replays(requests: int) -> list[dict[str, Any]]:
    """The paper's applications at the heavy rate, emulated: read, and replayed strictly."""
    catalog = load(CommonSettings())
    rows = []
    for policy in ("apex", "esg", "fast-gshare"):
        scenario = Scenario(nodes=16, vcpus=16, vgpus=7, policy=policy)
        arrivals = Generated(Workload(rate="heavy", requests=requests)).arrivals(
            list(catalog.applications), 0
        )
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run.journal"
            with path.open("w", encoding="utf-8") as file:
                emulate(catalog, scenario, arrivals, journal=file)
            began = process_time()
            entries = sum(1 for segment in read_segments(path) for _ in segment.entries)
            read_s = process_time() - began
            replay_strictly(path, applied(catalog, scenario))  # what is built once, is built
            began = process_time()
            replay_strictly(path, catalog)
            replay_s = process_time() - began
        rows.append(
            {
                "policy": policy,
                "entries": entries,
                "read_per_s": entries / read_s,
                "replayed_per_s": entries / replay_s,
            }
        )
    return rows
