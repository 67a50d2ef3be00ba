"""`python -m gateway`: the gateway as a process."""

import asyncio
import sys
import time
from contextlib import suppress

import grpc

from esg.gateway.access.audit import AuditInterceptor, AuditLog
from esg.gateway.access.auth_interceptor import AuthInterceptor
from esg.gateway.access.identity import Identities
from esg.gateway.applications import Applications
from esg.gateway.controller_link import ControllerStream
from esg.gateway.inference.inference import Inference
from esg.gateway.inference.models import ModelDirectory
from esg.gateway.inference.servicer import SERVICE as INFERENCE
from esg.gateway.inference.servicer import InferenceServicer
from esg.gateway.inference.statistics import ModelStatistics
from esg.gateway.limits.memory_budget import MemoryBudget
from esg.gateway.limits.receive_limits import ReceiveLimits
from esg.gateway.metrics import RequestMetrics, follow_applications
from esg.gateway.payload_gc import PayloadCollector
from esg.gateway.request_table import RequestTable
from esg.gateway.requests import Requests
from esg.gateway.servicer import Pipelines
from esg.gateway.small_payloads import SmallPayloads
from esg.protos import model_v1_pb2 as model
from esg.protos.gateway_v1_pb2_grpc import add_PipelinesServicer_to_server
from esg.runtime.logs import audit_logger
from esg.runtime.metrics_page import metrics_page
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.decode_interceptor import Decoding
from esg.runtime.rpc.server import (
    FIXED_WINDOWS,
    IDLE_CONNECTION,
    Server,
    raise_descriptor_limit,
    run_service,
    say_ready,
)
from esg.runtime.security.policy import between_services, public_door
from esg.runtime.settings import CommonSettings, GatewaySettings
from esg.runtime.settings_file import Settings
from esg.storage.mesh_store import mesh_store

SERVICE = "esg.gateway.v1.Pipelines"
SERVICES = (SERVICE, INFERENCE)
GROUPS = f"/{SERVICE}/SubmitMany"
FIRST_LINK_S = 5.0
"""How long the controller may take before clients are told that the gateway is here without it."""

METADATA = [("grpc.max_metadata_size", 8192), ("grpc.absolute_max_metadata_size", 16_384)]
"""In bytes. A token is some fifty of them; what is longer than the first may be refused, what is
longer than the second is."""

LAST_WORDS_S = 2.0
"""How long the last answers may take on their way out, when all is said."""


async def main(settings: Settings, common: CommonSettings, stop: asyncio.Event) -> None:
    own = settings.of(GatewaySettings)
    raise_descriptor_limit()
    store = mesh_store(common)
    collector = PayloadCollector(store)
    metrics, statistics = RequestMetrics(lambda: len(table)), ModelStatistics()

    def ended(result: model.Result) -> None:
        metrics.ended(result)
        statistics.ended(result)

    small = SmallPayloads(store, collector.discard)
    table = RequestTable(own.max_under_way, collector.discard, collector.keep, ended, small.store)
    controller = channel(own.controller, between_services(common))
    audit = AuditLog(audit_logger("gateway", own.audit_log), metrics.refused)
    identities = Identities(own, told=audit.tokens_read)
    limits_mb = (own.max_client_memory_mb, own.max_memory_mb)
    memory = MemoryBudget(*(int(limit * 2**20) for limit in limits_mb))
    applications = Applications(controller)
    models = ModelDirectory(applications, time.monotonic)
    requests = Requests(own, table, store, identities, memory, models)
    pipelines = Pipelines(own, table, requests, applications, models, identities)
    inference = InferenceServicer(
        own,
        table,
        requests,
        Inference(requests, models, own),
        models,
        identities,
        audit,
        statistics,
    )
    link = ControllerStream(controller, table)
    sizes = [("grpc.max_receive_message_length", own.max_message_bytes)]
    gates: list[grpc.aio.ServerInterceptor] = []
    if identities.need_tokens:
        gates.append(AuthInterceptor(identities, SERVICES, audit))
    gates += [
        ReceiveLimits(own, identities, memory),
        Decoding({GROUPS: own.max_group}),
        AuditInterceptor(audit, identities, SERVICES),
    ]
    server = Server(
        [*sizes, *METADATA, *IDLE_CONNECTION, *FIXED_WINDOWS], public_door(common, own), gates
    )
    add_PipelinesServicer_to_server(pipelines, server.grpc)
    server.grpc.add_generic_rpc_handlers((inference.handlers(),))

    port = await server.start(own.host, own.port, SERVICES)
    linking = asyncio.create_task(link.run())
    with suppress(TimeoutError):
        await asyncio.wait_for(link.up.wait(), FIRST_LINK_S)
    forgetting = asyncio.create_task(follow_applications(metrics, applications, table))
    sweeping = asyncio.create_task(store.sweep())
    told = asyncio.create_task(stop.wait())
    async with metrics_page(common, own.metrics_port, metrics, store.metrics):
        say_ready(f"{own.host}:{port}")
        await asyncio.wait({told, linking}, return_when=asyncio.FIRST_COMPLETED)
    pipelines.close()
    inference.close()
    await server.drain()
    await pipelines.drain(common.drain_s)
    await server.stop(LAST_WORDS_S)
    await collector.finish()
    for task in (linking, forgetting, sweeping, told):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await controller.close()
    await store.close()
    audit.close()


if __name__ == "__main__":
    sys.exit(run_service("gateway", main))
