"""`python -m controller`: the process."""

import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from esg.controller.durability.journal import Journal
from esg.controller.durability.recovery import (
    Remembered,
    dead_letters_beside,
    deciding,
    opening,
    recover,
)
from esg.controller.live import LiveController
from esg.controller.servicer import ControllerServicer
from esg.core.catalog.model import Catalog
from esg.core.journal.format import Header, catalog_digest
from esg.core.scheduler.scheduler import build_scheduler
from esg.errors import Rejected
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.catalog import load
from esg.runtime.metrics_page import metrics_page
from esg.runtime.rpc.channels import AMONG_OURSELVES
from esg.runtime.rpc.decode_interceptor import Decoding
from esg.runtime.rpc.server import Server, run_service, say_ready
from esg.runtime.security.policy import between_services
from esg.runtime.settings import CommonSettings, ControllerSettings
from esg.runtime.settings_file import Settings

SERVICE = "esg.controller.v1.Controller"
HEALTH_S = 1.0


async def main(settings: Settings, common: CommonSettings, stop: asyncio.Event) -> None:
    own = settings.of(ControllerSettings)
    catalog = load(common)
    journal = Journal(Path(own.journal), own) if own.journal else None
    known = Remembered() if journal is None else _remembered(journal, catalog, own)
    chosen = deciding(own)
    began_ns = time.monotonic_ns()
    controller = LiveController(
        build_scheduler(catalog, chosen, known.state, epoch=known.epoch),
        own,
        journal,
        lambda: known.now_us + (time.monotonic_ns() - began_ns) // 1000,
        known.memory,
        None if journal is None else dead_letters_beside(journal, Path(own.journal), catalog),
        (lambda: "") if journal is None else journal.refusing,
    )
    controller.start()
    if journal is not None:
        header = Header(
            catalog=catalog_digest(catalog),
            time_scale=common.time_scale,
            settings=chosen,
            epoch=known.epoch,
        )
        journal.begin(header, lambda: opening(controller.driver, controller.shell))
    server = Server(AMONG_OURSELVES, between_services(common), [Decoding()])
    servicer = ControllerServicer(controller, own)
    wire_grpc.add_ControllerServicer_to_server(servicer, server.grpc)
    port = await server.start(own.host, own.port, [SERVICE])
    async with metrics_page(common, own.metrics_port, controller.metrics):
        say_ready(f"{own.host}:{port}")
        await _serve(controller, server, common, stop)
    if journal is not None:
        journal.stop_waiting()
        await controller.driver.rest()  # what is remembered is whole only then
        journal.finish()


def _remembered(journal: Journal, catalog: Catalog, own: ControllerSettings) -> Remembered:
    try:
        past = journal.past()
        return Remembered() if past is None else recover(past, catalog, own)
    except Rejected as error:
        raise Rejected(f"journal {own.journal}: {error}") from None


async def _serve(
    controller: LiveController, server: Server, common: CommonSettings, stop: asyncio.Event
) -> None:
    """Until told to stop; then everyone is answered first."""
    watching = asyncio.create_task(controller.watch())
    telling = asyncio.create_task(_tell_health(controller, server))
    stopping = asyncio.create_task(stop.wait())
    try:
        ends: set[asyncio.Future[Any]] = {stopping, controller.driver.failed}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if controller.driver.failed.done():
            controller.driver.failed.result()  # a bug, or a journal that cannot be written
        telling.cancel()
        await server.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(controller.finish(), common.drain_s)
    finally:
        watching.cancel()
        telling.cancel()
        controller.corrector.close()
        await server.stop(0.1)


async def _tell_health(controller: LiveController, server: Server) -> None:
    """Whether requests are taken, for who asks about the service by its name. The process as a
    whole stays well: it must not be replaced, nor cut off from what is under way."""
    told = ""
    while True:
        await asyncio.sleep(HEALTH_S)
        if controller.refusing() != told:
            told = controller.refusing()
            await server.say(SERVICE, serving=not told)


if __name__ == "__main__":
    sys.exit(run_service("controller", main))
