"""What a hostile client does, each bounded in count and time; a process of its own.

    python -m benchmarks.hostile.floods KIND ADDRESS TOKEN SECONDS

prints how much it did as JSON. Refusals are counted, and never waited out.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any

import grpc
import uvloop

from esg.client import AsyncClient, ClientError, PipelineStage
from esg.client.credentials import Credentials, authorized
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel

APPLICATION = "image-classification"
PER_S = 100
CLIENTS = 150
OWN_APPLICATIONS = 12
STAGES = 32
UPLOADS, UPLOAD_MB = 30, 30
BOMBS, BOMB_MB = 12, 64
EMPTY_REQUESTS = 1_000_000
MB = 2**20

Flood = Callable[["Hostile"], Awaitable[None]]


class Hostile:
    """One client with a token, until its time is over."""

    def __init__(self, address: str, token: str, seconds: float) -> None:
        self.client = AsyncClient(address, token=token, patience_s=0)
        self.link = channel(address)
        self.stub = authorized(public_grpc.PipelinesStub(self.link), Credentials(token=token))
        self.token = token
        self.seconds = seconds
        self.until = perf_counter() + seconds
        self.ends: Counter[str] = Counter()

    @property
    def left_s(self) -> float:
        return max(0.0, self.until - perf_counter())

    async def count(self, call: Awaitable[object]) -> None:
        """Wait for a call, but not beyond the end, and count how it ended."""
        try:
            await asyncio.wait_for(call, self.left_s)
            self.ends["done"] += 1
        except TimeoutError:
            self.ends["not answered"] += 1
        except ClientError as error:
            self.ends[type(error).__name__] += 1
        except grpc.aio.AioRpcError as error:
            self.ends[error.code().name] += 1

    async def again_and_again(self, call: Callable[[], Awaitable[object]]) -> None:
        """As fast as answers come, but never more than a hundred a second."""
        while self.left_s:
            await self.count(call())
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        await self.client.close()
        await self.link.close()


async def same_application(self: Hostile) -> None:
    """More of one application than the slices can do, whatever comes back."""
    async with self.client.stream() as stream, asyncio.TaskGroup() as tasks:
        for _ in range(round(PER_S * self.seconds)):
            tasks.create_task(self.count(stream.submit(APPLICATION, b"x" * 100, slo_ms=1000)))
            await asyncio.sleep(1 / PER_S)


async def own_applications(self: Hostile) -> None:
    """Many applications of its own, in a closed loop."""
    names = [f"own{number}" for number in range(OWN_APPLICATIONS)]
    for name in names:
        stages = [PipelineStage("classification")]
        await self.count(self.client.register_application(name, stages, slo_scale=3.0))
    async with self.client.stream() as stream:

        async def one(number: int) -> None:
            name = names[number % len(names)]
            await self.again_and_again(lambda: stream.submit(name, b"x" * 100))

        await asyncio.gather(*map(one, range(CLIENTS)))


async def uploads(self: Hostile) -> None:
    """Payloads in pieces that stop before their end."""

    async def pieces() -> AsyncIterator[public.SubmitChunk]:
        yield public.SubmitChunk(request=public.SubmitRequest(application=APPLICATION))
        for _ in range(UPLOAD_MB):
            yield public.SubmitChunk(payload=b"x" * MB)
        await asyncio.sleep(self.left_s)

    async def one() -> None:
        call = self.stub.SubmitChunked(pieces())
        await self.count(call.read())
        call.cancel()

    await asyncio.gather(*(one() for _ in range(UPLOADS)))


async def compressed(self: Hostile) -> None:
    """Small on the wire, large in memory, for an application that is not there."""
    message = public.SubmitRequest(application="none", payload=bytes(BOMB_MB * MB))
    await asyncio.gather(
        *(
            self.count(self.stub.Submit(message, compression=grpc.Compression.Gzip))
            for _ in range(BOMBS)
        )
    )


async def registrations(self: Hostile) -> None:
    """Large applications, one behind the other."""
    names = [f"s{number}" for number in range(STAGES)]
    stages = [
        PipelineStage("classification", name=name, after=tuple(names[max(0, n - 3) : n]))
        for n, name in enumerate(names)
    ]
    numbers = iter(range(10**6))
    await self.again_and_again(
        lambda: self.client.register_application(f"a{next(numbers)}", stages, slo_scale=3.0)
    )


async def empty_requests(self: Hostile) -> None:
    """A message of a million requests that say nothing, once."""
    message = b"\x0a\x00" * EMPTY_REQUESTS

    async def groups() -> AsyncIterator[bytes]:
        yield message
        await asyncio.sleep(self.left_s)

    open_stream: Any = self.link.stream_stream("/esg.gateway.v1.Pipelines/SubmitMany")
    call = open_stream(groups(), metadata=(("authorization", f"Bearer {self.token}"),))
    await self.count(call.read())
    call.cancel()


FLOODS: dict[str, Flood] = {
    "same application": same_application,
    "own applications": own_applications,
    "uploads": uploads,
    "compressed": compressed,
    "registrations": registrations,
    "empty requests": empty_requests,
}


async def main(kind: str, address: str, token: str, seconds: float) -> None:
    hostile = Hostile(address, token, seconds)
    await FLOODS[kind](hostile)
    await hostile.close()
    print(json.dumps(dict(hostile.ends.most_common())))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
