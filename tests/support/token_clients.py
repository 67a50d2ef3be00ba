"""Clients of a gateway that have tokens, and streams that they keep open."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from esg.client.credentials import Credentials, authorized
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel
from esg.runtime.security.tokens import (
    Quota,
    TokenEntry,
    Validity,
    digest_of,
    read_entries,
    write_entries,
)
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import ENDLESS, KNOWN, ScriptedController, application

Stub = public_grpc.PipelinesStub


class Clients:
    """A gateway with tokens: a client's token is its name."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.address = ""
        self._open = AsyncExitStack()

    def allow(
        self,
        name: str,
        *,
        token: str = "",
        expires_s: int | None = None,
        former: Validity | None = None,
        operator: bool = False,
        **quota: Any,
    ) -> None:
        known = read_entries(self.file) if self.file.exists() else {}
        entry = TokenEntry(
            name=name,
            digest=digest_of(token or name),
            expires_s=expires_s,
            former=former,
            operator=operator,
            quota=Quota(**quota),
        )
        write_entries(self.file, {**known, name: entry})

    def remove(self, name: str) -> None:
        left = {n: entry for n, entry in read_entries(self.file).items() if n != name}
        write_entries(self.file, left)

    async def stub(self, token: str) -> Stub:
        link = await self._open.enter_async_context(channel(self.address))
        return authorized(public_grpc.PipelinesStub(link), Credentials(token=token))

    async def close(self) -> None:
        await self._open.aclose()


@pytest.fixture
async def clients(
    gateways: Gateways, controller: ScriptedController, tmp_path: Path
) -> AsyncIterator[Clients]:
    made = Clients(tmp_path / "tokens.toml")
    for name in ("alice", "bob"):
        made.allow(name)
    made.allow("root", operator=True)
    controller.applications[ENDLESS] = application(ENDLESS)
    made.address = await gateways.start(tokens=str(made.file))
    yield made
    await made.close()


async def refusal(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details() or ""


def submission(request_id: str = "", application: str = KNOWN) -> public.SubmitRequest:
    return public.SubmitRequest(application=application, payload=b"abc", request_id=request_id)


class OpenStream:
    """One of `SubmitMany`, which stays open between groups."""

    def __init__(self, stub: Stub) -> None:
        self._groups: asyncio.Queue[public.SubmitGroup | None] = asyncio.Queue()
        self._stream = stub.SubmitMany(self._sent())

    async def _sent(self) -> AsyncIterator[public.SubmitGroup]:
        while (group := await self._groups.get()) is not None:
            yield group

    async def submit(self, request_id: str) -> public.Reply:
        self._groups.put_nowait(public.SubmitGroup(requests=[submission(request_id)]))
        group: public.ReplyGroup = await self._stream.read()
        return group.replies[0]

    def end(self) -> None:
        self._groups.put_nowait(None)
