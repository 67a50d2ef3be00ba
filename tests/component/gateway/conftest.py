"""Gateways to test: the real one, with a real Redis and a controller that follows a script."""

from collections.abc import AsyncIterator, Callable

import pytest

from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel
from esg.storage.redis_store import RedisStore
from tests.support.redis_server import RedisServer
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import PREFIX, ScriptedController
from tests.support.token_clients import clients as clients

Keys = Callable[[], list[str]]


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(redis_url, prefix=PREFIX, ttl_s=600)
    yield store
    await store.close()


@pytest.fixture
async def controller(store: RedisStore) -> AsyncIterator[ScriptedController]:
    controller = ScriptedController(store)
    yield controller
    await controller.stop()


@pytest.fixture
async def gateways(
    controller: ScriptedController,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Gateways]:
    """Gateways with settings of their own."""
    address = await controller.start()
    gateways = Gateways(address, redis_url, tmp_path_factory.mktemp("ready"), monkeypatch)
    yield gateways
    await gateways.close()


@pytest.fixture
async def address(gateways: Gateways) -> str:
    """One to which no payload is small: all go through Redis, as large ones do."""
    return await gateways.start(small_payload_bytes=0)


@pytest.fixture
async def stub(address: str) -> AsyncIterator[public_grpc.PipelinesStub]:
    async with channel(address) as to_gateway:
        yield public_grpc.PipelinesStub(to_gateway)


@pytest.fixture
def keys(redis_server: RedisServer) -> Keys:
    """The names of all keys there are in Redis."""

    def look() -> list[str]:
        with redis_server.client() as client:
            return sorted(key.decode() for key in client.scan_iter("*"))

    return look
