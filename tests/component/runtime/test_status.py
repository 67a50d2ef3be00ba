import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from esg.errors import Bug, Fault, Rejected
from esg.protos import controller_v1_pb2 as controller
from esg.protos import gateway_v1_pb2 as public
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.server import Server
from esg.runtime.rpc.status import (
    AlreadyExists,
    CallError,
    Cancelled,
    DeadlineExceeded,
    Exhausted,
    FailedPrecondition,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServerError,
    TooLarge,
    Unauthenticated,
    Unavailable,
    aborting,
    error_of,
    refusal,
    refusal_error,
    status,
)
from esg.storage.errors import StorageRefused

PAIRS = [
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED),
    (TooLarge, grpc.StatusCode.OUT_OF_RANGE),
    (Exhausted, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (InvalidRequest, grpc.StatusCode.INVALID_ARGUMENT),
    (FailedPrecondition, grpc.StatusCode.FAILED_PRECONDITION),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (DeadlineExceeded, grpc.StatusCode.DEADLINE_EXCEEDED),
    (Cancelled, grpc.StatusCode.CANCELLED),
    (ServerError, grpc.StatusCode.INTERNAL),
]


@pytest.mark.parametrize(("kind", "code"), PAIRS)
def test_an_error_survives_the_wire(kind: type[CallError], code: grpc.StatusCode) -> None:
    assert status(kind("the words")) == (code, "the words")
    back = error_of(code.value[0], "the words")
    assert (type(back), str(back)) == (kind, "the words")


@pytest.mark.parametrize("kind", [controller.Refused, public.Refusal])
def test_an_error_survives_as_a_message_on_a_stream(kind: Any) -> None:
    for error in (
        Exhausted("too many", 1_500_000),
        Exhausted("too many"),
        TooLarge("never"),
        NotFound("no such"),
    ):
        back = refusal_error(refusal(kind, error))
        assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))
    assert str(refusal_error(refusal(kind, NotFound("bob~r1")), "r1")) == "r1"


def test_a_fault_may_work_the_next_time_and_a_rejection_will_not() -> None:
    assert status(Fault("gone"))[0] is grpc.StatusCode.UNAVAILABLE
    assert status(Rejected("no"))[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_error_that_no_retry_cures_is_not_unavailable() -> None:
    assert status(StorageRefused("no log"))[0] is grpc.StatusCode.FAILED_PRECONDITION


def test_a_kind_of_its_own_is_told_as_what_it_is_a_kind_of() -> None:
    class Late(Exhausted):
        pass

    assert status(Late("x")) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "x")


@pytest.mark.parametrize("error", [Bug("secret"), KeyError("secret")])
def test_our_own_mistakes_tell_a_client_nothing(error: Exception) -> None:
    code, words = status(error)
    assert code is grpc.StatusCode.INTERNAL
    assert "secret" not in words


def test_an_unheard_of_code_is_the_servers_error() -> None:
    assert type(error_of(grpc.StatusCode.DATA_LOSS.value[0], "x")) is ServerError


Call = Callable[[bytes], Any]


@asynccontextmanager
async def serving(work: Callable[[Any], Any]) -> AsyncIterator[tuple[Call, Call]]:
    """Two calls, with an answer and with a stream of them, that do some work which may fail."""

    async def one(asked: bytes, context: Any) -> bytes:
        async with aborting(context):
            await work(context)
        return b"done"

    async def many(asked: bytes, context: Any) -> AsyncIterator[bytes]:
        async with aborting(context):
            yield b"begun"
            await work(context)

    server = Server()
    handlers = {
        "One": grpc.unary_unary_rpc_method_handler(one),
        "Many": grpc.unary_stream_rpc_method_handler(many),
    }
    server.grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t", handlers),))
    port = await server.start("127.0.0.1", 0, [])
    async with channel(f"127.0.0.1:{port}") as to_server:
        yield to_server.unary_unary("/t/One"), to_server.unary_stream("/t/Many")
    await server.stop(0)


async def ended(call: Any) -> tuple[grpc.StatusCode, str]:
    if isinstance(call, grpc.aio.UnaryStreamCall):
        assert await call.read() == b"begun"
    return await call.code(), await call.details()


async def test_a_bug_is_told_as_one_and_its_story_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(context: Any) -> None:
        raise KeyError("secret")

    async with serving(fail) as calls:
        for call in calls:
            code, words = await ended(call(b""))
            assert (code, words.partition(" (incident ")[0]) == status(KeyError("secret"))
            (record,) = caplog.records
            assert "KeyError: 'secret'" in caplog.text
            assert record.exc_info is not None
            caplog.clear()


async def test_a_call_that_was_aborted_keeps_its_status(caplog: pytest.LogCaptureFixture) -> None:
    async def abort(context: Any) -> None:
        async with aborting(context):
            raise NotFound("no such thing")

    async with serving(abort) as calls:
        for call in calls:
            assert await ended(call(b"")) == (grpc.StatusCode.NOT_FOUND, "no such thing")
    assert caplog.records == []


async def test_a_call_that_is_cancelled_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(context: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with serving(wait) as calls:
        for call in calls:
            under_way = call(b"")
            await begun.wait()
            under_way.cancel()
            await cancelled.wait()
            begun.clear()
            cancelled.clear()
    assert caplog.records == []
