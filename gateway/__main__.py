"""`python -m gateway`: the gateway as a process."""

import asyncio
import sys
from contextlib import suppress

from esg.gateway.applications import Applications
from esg.gateway.auth_interceptor import AuthInterceptor
from esg.gateway.controller_link import ControllerStream
from esg.gateway.identity import Identities
from esg.gateway.metrics import RequestMetrics, follow_applications
from esg.gateway.payload_gc import PayloadCollector
from esg.gateway.request_table import RequestTable
from esg.gateway.servicer import Pipelines
from esg.protos.gateway_v1_pb2_grpc import add_PipelinesServicer_to_server
from esg.runtime.metrics_page import metrics_page
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.decode_interceptor import Decoding
from esg.runtime.rpc.server import Server, run_service, say_ready
from esg.runtime.security.policy import between_services, public_door
from esg.runtime.settings import CommonSettings, GatewaySettings
from esg.runtime.settings_file import Settings
from esg.storage.redis_store import RedisStore

SERVICE = "esg.gateway.v1.Pipelines"
FIRST_LINK_S = 5.0
"""How long the controller may take before clients are told that the gateway is here without it."""

METADATA = [("grpc.max_metadata_size", 8192), ("grpc.absolute_max_metadata_size", 16_384)]
"""In bytes. A token is some fifty of them; what is longer than the first may be refused, what is
longer than the second is."""

LAST_WORDS_S = 2.0
"""How long the last answers may take on their way out, when all is said."""


async def main(settings: Settings, common: CommonSettings, stop: asyncio.Event) -> None:
    own = settings.of(GatewaySettings)
    store = RedisStore(common.redis_url, prefix=common.key_prefix, ttl_s=common.data_ttl_s)
    collector = PayloadCollector(store)
    metrics = RequestMetrics(lambda: len(table))
    table = RequestTable(own.max_under_way, collector.discard, metrics.ended)
    controller = channel(own.controller, between_services(common))
    identities = Identities(own)
    pipelines = Pipelines(own, table, store, controller, identities)
    link = ControllerStream(controller, table)
    # A message may hold a payload and a few words more; a little larger ones get our own refusal
    sizes = [("grpc.max_receive_message_length", own.max_payload_bytes + 2**20)]
    gates = [AuthInterceptor(identities, SERVICE)] if identities.need_tokens else []
    server = Server([*sizes, *METADATA], public_door(common, own), [*gates, Decoding()])
    add_PipelinesServicer_to_server(pipelines, server.grpc)

    port = await server.start(own.host, own.port, [SERVICE])
    linking = asyncio.create_task(link.run())
    with suppress(TimeoutError):
        await asyncio.wait_for(link.up.wait(), FIRST_LINK_S)
    forgetting = asyncio.create_task(follow_applications(metrics, Applications(controller), table))
    told = asyncio.create_task(stop.wait())
    async with metrics_page(common, own.metrics_port, metrics):
        say_ready(f"{own.host}:{port}")
        await asyncio.wait({told, linking}, return_when=asyncio.FIRST_COMPLETED)
    pipelines.close()
    await server.drain()
    await pipelines.drain(common.drain_s)
    await server.stop(LAST_WORDS_S)
    await collector.finish()
    for task in (linking, forgetting, told):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await controller.close()
    await store.close()


if __name__ == "__main__":
    sys.exit(run_service("gateway", main))
