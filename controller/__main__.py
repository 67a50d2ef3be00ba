"""`python -m controller`: the process."""

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from controller.journal_file import JournalFile
from controller.service import ControllerService
from esg.journal import Header, catalog_digest
from esg.policies import PolicySettings, policy
from esg.scheduler import Scheduler, SchedulerSettings
from mesh.catalog import load
from mesh.serving import Server, run_service, say_ready
from mesh.settings import CommonSettings, ControllerSettings, Settings
from protos import controller_v1_pb2_grpc as wire_grpc

SERVICE = "esg.controller.v1.Controller"


async def main(settings: Settings, common: CommonSettings, stop: asyncio.Event) -> None:
    own = settings.of(ControllerSettings)
    catalog = load(common)
    chosen = PolicySettings(k=own.k, group_size=own.group_size, engine=own.engine)
    scheduler = Scheduler(
        catalog,
        policy(own.policy, catalog, chosen),
        SchedulerSettings(prewarm=own.prewarm),
        policy_for=lambda changed: policy(own.policy, changed, chosen),
    )
    header = Header(
        catalog=catalog_digest(catalog),
        policy=own.policy,
        settings={
            "time_scale": str(common.time_scale),
            "k": str(own.k),
            "group_size": str(own.group_size),
            "engine": own.engine,
            "prewarm": str(own.prewarm),
        },
    )
    journal = JournalFile(Path(own.journal), header) if own.journal else None
    began_ns = time.monotonic_ns()
    service = ControllerService(
        scheduler, own, journal, lambda: (time.monotonic_ns() - began_ns) // 1000
    )
    server = Server()
    wire_grpc.add_ControllerServicer_to_server(service, server.grpc)
    port = await server.start(own.host, own.port, [SERVICE])
    say_ready(f"{own.host}:{port}")
    watching = asyncio.create_task(service.invokers.watch())
    stopping = asyncio.create_task(stop.wait())
    try:
        ends: set[asyncio.Future[Any]] = {stopping, service.driver.failed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if service.driver.failed.done():
            service.driver.failed.result()  # a bug: end with its story
        await server.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(service.finish(), common.drain_s)
    finally:
        watching.cancel()
        await server.stop(0.1)
        if journal is not None:
            journal.close()


if __name__ == "__main__":
    sys.exit(run_service("controller", main))
