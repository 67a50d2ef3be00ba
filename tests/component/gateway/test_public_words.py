"""What clients are told when something inside fails: what, and not where."""

# attack: G5

import importlib
import pkgutil
import re
from collections.abc import Awaitable, Iterator
from typing import Any

import grpc
import pytest

from esg.controller.durability.dead_letters import PutAside
from esg.core.messages.events import MissingInput
from esg.core.messages.task_order import Payload
from esg.errors import Bug, Fault
from esg.invoker.execution import MissingInputs
from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.protos import model_v1_pb2 as model
from esg.runtime.rpc.status import Unavailable
from esg.storage.errors import Missing
from esg.storage.redis_store import RedisStore
from tests.support.scripted_controller import KNOWN, ScriptedController

PLACES = (
    "Redis at /dev/shm/mesh-1/redis.sock: closed; slice 127.0.0.1:38221, [::1]:38221 and "
    "unix:/run/s0.sock; host gpu0.example.com:6379; handler /srv/f/handler.py:Handler"
)
PLACE = re.compile(r"/|\d+\.\d+\.\d+\.\d+|:\d{2,}|\.sock|example\.com")
SERVICES = ("controller", "gateway", "invoker", "runtime", "storage")
MADE_OTHERWISE = {
    Missing: Missing("r1", "stage", PLACES),
    PutAside: PutAside(PLACES, again=False),
    MissingInputs: MissingInputs((MissingInput(request=PLACES, source=Payload()),)),
}


def kinds_of_fault() -> list[type[Fault]]:
    """All that services can raise, also those that are added tomorrow."""
    for service in SERVICES:
        for found in pkgutil.walk_packages(
            importlib.import_module(f"esg.{service}").__path__, f"esg.{service}."
        ):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)

    def below(kind: type[Fault]) -> Iterator[type[Fault]]:
        yield kind
        for one in kind.__subclasses__():
            yield from below(one)

    ours = tuple(f"esg.{service}." for service in (*SERVICES, "core", "errors"))
    return [kind for kind in dict.fromkeys(below(Fault)) if f"{kind.__module__}.".startswith(ours)]


def named(request_id: str) -> public.SubmitRequest:
    return public.SubmitRequest(application=KNOWN, payload=b"a picture", request_id=request_id)


async def words_of(call: Awaitable[Any]) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.details() or ""


@pytest.mark.parametrize("kind", [*kinds_of_fault(), Bug, KeyError], ids=lambda kind: kind.__name__)
async def test_no_fault_tells_a_client_of_paths_addresses_or_sockets(
    kind: type[Exception],
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = MADE_OTHERWISE.get(kind) or kind(PLACES)  # type: ignore[call-overload]

    async def put(*_: Any, **__: Any) -> None:
        raise error

    for name in ("put", "offer"):
        monkeypatch.setattr(RedisStore, name, put)
    chunks = stub.SubmitChunked(iter([public.SubmitChunk(request=named("r3"))]))
    many = stub.SubmitMany(iter([public.SubmitGroup(requests=[named("r4")])]))
    calls = [stub.Submit(named("r1")), stub.SubmitAsync(named("r2")), chunks.read()]
    for _ in range(4):
        controller.accept((await controller.hears("submission")).request_id)
    told = [await words_of(call) for call in calls]
    told.append((await many.read()).replies[0].refusal.message)
    for words in told:
        assert words
        assert not PLACE.search(words), words
        incident = re.search(r"\(incident ([0-9a-f]{8})\)$", words)
        if incident is not None:
            (record,) = [r for r in caplog.records if incident[1] in str(getattr(r, "about", ""))]
            assert str(error) in str(record.about) + str(record.exc_info)  # type: ignore[attr-defined]
        else:  # words that were chosen for callers
            assert isinstance(error, Fault)


async def test_no_result_tells_a_client_of_paths_addresses_or_sockets(
    stub: public_grpc.PipelinesStub,
    controller: ScriptedController,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    reason = f"detect failed 3 times, last: CUDA error 700: {PLACES}"
    call = stub.Submit(named("r1"))
    await controller.takes_in("r1")
    controller.end("r1", model.OUTCOME_FAILED, reason=reason)
    reply = await call
    assert "detect failed 3 times, last: CUDA error 700" in reply.result.reason
    assert not PLACE.search(reply.result.reason)
    (ended,) = [record for record in caplog.records if record.message == "request ended"]
    assert ended.about["reason"] == reason  # type: ignore[attr-defined]


async def test_no_refusal_of_the_controller_tells_a_client_of_places(
    stub: public_grpc.PipelinesStub, controller: ScriptedController
) -> None:
    call = stub.Submit(named("r1"))
    await controller.hears("submission")
    controller.refuse("r1", Unavailable(PLACES))
    assert not PLACE.search(await words_of(call))
