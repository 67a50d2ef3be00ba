"""How much the client of a token may do: requests, bytes and streams."""

import grpc

from esg.protos import gateway_v1_pb2 as public
from esg.protos import gateway_v1_pb2_grpc as public_grpc
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import Unavailable
from tests.support.running_gateway import Gateways
from tests.support.scripted_controller import ENDLESS, ScriptedController
from tests.support.token_clients import Clients, OpenStream, refusal, submission
from tests.support.waiting import until


async def test_a_client_has_so_many_requests_under_way(
    clients: Clients, controller: ScriptedController
) -> None:
    controller.playing = True
    clients.allow("alice", in_flight=2)
    alice, bob = await clients.stub("alice"), await clients.stub("bob")
    for number in range(2):
        await alice.SubmitAsync(submission(f"r{number}", ENDLESS))
    code, said = await refusal(alice.SubmitAsync(submission("r2", ENDLESS)))
    assert (code, "alice has 2 requests under way" in said) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        True,
    )
    await alice.SubmitAsync(submission("r1", ENDLESS))  # a repeat is none of its own
    await bob.Submit(submission("b"))
    assert (await alice.Cancel(public.CancelRequest(request_id="r0"))).cancelled
    await alice.SubmitAsync(submission("r2", ENDLESS))
    for number in (1, 2):
        await alice.Cancel(public.CancelRequest(request_id=f"r{number}"))


async def test_a_quota_is_the_clients_and_not_the_addresss(
    clients: Clients, controller: ScriptedController
) -> None:
    controller.playing = True
    clients.allow("alice", requests_per_s=0.001, burst=1)
    clients.allow("bob", bytes_per_day=3)
    alice, bob = await clients.stub("alice"), await clients.stub("bob")
    await alice.Submit(submission())
    code, said = await refusal(alice.Submit(submission()))
    assert (code, "from alice" in said) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
    await bob.Submit(submission())
    code, said = await refusal(bob.Submit(submission()))
    assert (code, "allowed in a day" in said) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)


async def test_accepted_bytes_alone_count_as_sent_and_they_count_once(
    clients: Clients, controller: ScriptedController
) -> None:
    clients.allow("bob", bytes_per_day=6)
    bob = await clients.stub("bob")
    for invalid in (submission("no id!"), submission("r1", "x" * 101)):
        code, _ = await refusal(bob.Submit(invalid))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
    for _ in range(3):
        call = bob.Submit(submission("r1"))
        await controller.hears("submission")
        controller.refuse("bob~r1", Unavailable("not now"))
        assert (await refusal(call))[0] is grpc.StatusCode.UNAVAILABLE
    call = bob.SubmitAsync(submission("r1"))
    await controller.takes_in("bob~r1")
    await call
    for _ in range(3):
        await bob.SubmitAsync(submission("r1"))  # a repeat is none of its own
    call = bob.SubmitAsync(submission("r2"))
    await controller.takes_in("bob~r2")
    await call
    code, said = await refusal(bob.SubmitAsync(submission("r3")))
    assert (code, "allowed in a day" in said) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)


async def test_new_limits_hold_on_a_stream_that_is_open(
    clients: Clients, controller: ScriptedController
) -> None:
    """They are the same client's, with the same token."""
    controller.playing = True
    stream = OpenStream(await clients.stub("bob"))
    assert (await stream.submit("r1")).HasField("done")
    clients.allow("bob", bytes_per_day=2)
    assert "may send in a day" in (await stream.submit("r2")).refusal.message
    clients.allow("bob")
    assert (await stream.submit("r2")).HasField("done")
    stream.end()


async def test_a_client_has_so_many_streams(gateways: Gateways) -> None:
    address = await gateways.start(max_streams=1)
    async with channel(address) as link:
        stub = public_grpc.PipelinesStub(link)
        first = stub.WatchMesh(public.WatchMeshRequest(interval_ms=50))
        await first.read()
        code, said = await refusal(stub.WatchMesh(public.WatchMeshRequest()).read())
        assert (code, "1 streams open" in said) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        first.cancel()

        async def again() -> bool:
            try:
                return bool(await stub.WatchMesh(public.WatchMeshRequest()).read())
            except grpc.aio.AioRpcError:
                return False

        await until(again)
