"""What must come out: emulated models answer with digests, a chain of them through the stages."""

import os

from redis.asyncio import Redis

from esg.client import AsyncClient, MeshStatus, NotFound
from esg.core.emulated_output import emulated_output
from esg.local.supervisor import Mesh
from tests.support.integration_catalog import bytes_of
from tests.support.waiting import until

CLOCK_S = 60.0
"""How long may pass between one look at a clock and the next."""


def made(function: str, *inputs: bytes, size: int = 0) -> bytes:
    return emulated_output(function, inputs, size or bytes_of(function))


def chain(payload: bytes, *stages: str, size: int = 0) -> dict[str, bytes]:
    content = payload
    for stage in stages:
        content = made(stage, content, size=size)
    return {stages[-1]: content}


def photo(payload: bytes, size: int = 0) -> dict[str, bytes]:
    return chain(payload, "resize", "detect", "label", size=size)


def tags(payload: bytes) -> dict[str, bytes]:
    return chain(payload, "resize", "detect", "tag")


def scene(payload: bytes) -> dict[str, bytes]:
    small = made("resize", payload)
    return {"label": made("label", made("detect", small), made("depth", small))}


async def status_of(client: AsyncClient) -> MeshStatus:
    (status,) = [status async for status in client.watch_mesh(interval_ms=0)]
    return status


async def nothing_is_left(
    mesh: Mesh, client: AsyncClient, *, keys_may_expire: bool = False
) -> None:
    """Neither on any node's disk nor in Redis, and all resources are free. What can be fetched
    stays for as long as it can. If whoever should have deleted a key died before that, or did not
    know of it, it may be there until it expires."""
    redis = Redis.from_url(mesh.redis_url)
    left: list[object] = []

    async def clean() -> bool:
        scratch = mesh.directory.scratch
        assert scratch is not None
        stores = [scratch / node for node in mesh.nodes]
        if not keys_may_expire and mesh.directory.shared is not None:
            stores.append(mesh.directory.shared)
        status = await status_of(client)
        # Not Path.rglob, which fails on a folder that is being deleted
        left[:] = [file for store in stores for *_, files in os.walk(store) for file in files]
        left.extend(part for node in status.nodes for part in node.slices if part.task)
        left.extend(node for node in status.nodes if node.vcpus != node.vcpus_free)
        left.extend(queue for queue in status.queues if queue.waiting or queue.running)
        keys = await redis.keys("*")
        for key in keys:
            left_s = await redis.pttl(key) / 1000
            if not (keys_may_expire and left_s > 0) and not await _fetchable(client, key, left_s):
                left.append(key)
        left.extend(["requests under way"] * status.under_way)
        return not left

    try:
        await until(clean)
    except TimeoutError:
        raise AssertionError(f"something is left: {left}") from None
    finally:
        await redis.aclose()


async def _fetchable(client: AsyncClient, key: bytes, left_s: float) -> bool:
    """Whether this is an output that a client may come for, and gone when it may not any more."""
    _, request, stage, *_ = key.decode().split("/")
    try:
        state = await client.get(request)
    except NotFound:
        return False
    return stage in state.output_bytes and 0 < left_s <= (state.fetch_within_s or 0) + CLOCK_S
