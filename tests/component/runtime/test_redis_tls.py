"""Whom connections to Redis take for Redis."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from esg.errors import Fault, Rejected
from esg.local.health import check_redis
from esg.runtime.security.authority import make_certificates
from esg.storage.redis_pipeline import RedisPipeline

LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory, hosts=(), days=1)
    return directory


@asynccontextmanager
async def answering_as(service: str, made: Path) -> AsyncIterator[str]:
    """The URL, without options, of a server with this service's certificate; all it knows is
    PING."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line == b"PING\r\n":
                writer.write(b"+PONG\r\n")
            elif line.startswith(b"*"):
                words = [await reader.readline() for _ in range(2 * int(line[1:]))]
                writer.write(b"+PONG\r\n" if words[1] == b"PING\r\n" else b"+OK\r\n")
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made / f"{service}.pem", made / f"{service}.key")
    door = await asyncio.start_server(serve, LOOPBACK, 0, ssl=context)
    yield f"rediss://{LOOPBACK}:{door.sockets[0].getsockname()[1]}/0?ssl_ca_certs={made / 'ca.pem'}"
    door.close()


async def answers(url: str) -> bool:
    pipeline = RedisPipeline(url)
    try:
        return await pipeline.send(b"PING") == b"PONG"
    except Fault as fault:
        if "CERTIFICATE_VERIFY_FAILED" not in str(fault):
            raise
        return False
    finally:
        await pipeline.close()


@pytest.mark.parametrize("service", ["redis", "gateway", "controller", "invoker"])
async def test_only_the_certificate_of_redis_is_good_enough_to_be_redis(
    service: str, made: Path
) -> None:
    """Not even the gateway's, which is made out to this very host."""
    # attack: G2
    async with answering_as(service, made) as url:
        assert await answers(f"{url}&ssl_server_name=redis.esg") == (service == "redis")


async def test_without_a_name_the_host_counts_as_usual(made: Path) -> None:
    async with answering_as("gateway", made) as url:
        assert await answers(url)


async def test_redis_is_checked_in_the_same_way_before_a_mesh_starts(made: Path) -> None:
    async with answering_as("redis", made) as url:
        await check_redis(f"{url}&ssl_server_name=redis.esg")
        with pytest.raises(Rejected, match="CERTIFICATE_VERIFY_FAILED"):
            await check_redis(url)
