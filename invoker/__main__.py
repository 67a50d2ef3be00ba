"""`python -m invoker`: a worker node as a process, or several of them."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from esg.core.journal.format import functions_digest
from esg.errors import Rejected
from esg.invoker.hosted_node import HostedNode, NodeHost, hosted_names
from esg.invoker.slices.bringup import settled
from esg.invoker.slices.kinds import say_kinds
from esg.runtime.catalog import load
from esg.runtime.rpc.server import Server, run_service, say_ready
from esg.runtime.security.policy import between_services
from esg.runtime.settings import CommonSettings, InvokerSettings
from esg.runtime.settings_file import Settings
from esg.storage.mesh_store import mesh_store

GOODBYE_LIMIT_S = 5.0


async def main(settings: Settings, common: CommonSettings, stop: asyncio.Event) -> None:
    catalog = load(common)
    own = settled(settings.of(InvokerSettings), catalog)
    host = NodeHost(
        own=own,
        common=common,
        catalog=catalog,
        functions=functions_digest(catalog),
        security=between_services(common),
        remote=mesh_store(common),
        names=hosted_names(own),
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(host.remote.close)
        hosted = [await stack.enter_async_context(host.hosted(name)) for name in host.names]
        pools = [one.node.pool for one in hosted]
        say_kinds({pool.invoker: [part.kind for part in pool.slices] for pool in pools}, catalog)
        await _serve(hosted, Server(security=host.security), own, common, stop)


async def _serve(
    hosted: Sequence[HostedNode],
    server: Server,
    own: InvokerSettings,
    common: CommonSettings,
    stop: asyncio.Event,
) -> None:
    """Work for the controller until told to stop; then finish, and leave. The process is ready
    when all of its nodes have joined, and what cannot go on with one of them ends it."""
    port = await server.start(own.host, own.port, [])
    joined = [asyncio.Event() for _ in hosted]
    attachments = [
        asyncio.create_task(one.link.run(one.node, event.set), context=one.context)
        for one, event in zip(hosted, joined, strict=True)
    ]
    stopping = asyncio.create_task(stop.wait())
    all_joined = asyncio.create_task(_all_set(joined))
    refusals = [one.link.refused for one in hosted]
    watches = [one.watching for one in hosted]
    ends: set[asyncio.Future[Any]] = {stopping, *attachments, *refusals, *watches}
    try:
        await asyncio.wait({all_joined, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if all_joined.done():
            say_ready(f"{own.host}:{port}")
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for refused in refusals:
            if refused.done():
                raise Rejected(refused.result())
        for ended in (*attachments, *watches):
            if ended.done():
                ended.result()  # it ends before the node is told to leave only with an error
        await server.drain()
        for one in hosted:
            one.link.say_leaving()
        with suppress(TimeoutError):
            finishing = asyncio.gather(*(one.node.finish() for one in hosted))
            await asyncio.wait_for(finishing, common.drain_s)
        for one in hosted:
            one.link.leave()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*attachments), GOODBYE_LIMIT_S)
    finally:
        for task in (*attachments, stopping, all_joined):
            task.cancel()
        await server.stop(0)


async def _all_set(events: Sequence[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


if __name__ == "__main__":
    sys.exit(run_service("invoker", main))
