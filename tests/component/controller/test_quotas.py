"""What clients may have of a controller, over all gateways together."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import told_retry_after_us
from tests.support.controller_peers import (
    Peer,
    gateway,
    put_application,
    refusal_code,
    running_controller,
    submission,
)

ONE = [{"function": "label"}]
TWO = [{"name": "a", "function": "resize"}, {"name": "b", "function": "label", "after": ["a"]}]


async def exhausted(address: str, **fields: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await put_application(address, **fields)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    return caught.value


async def test_a_client_has_so_many_applications_and_all_have_so_many() -> None:
    # attack: B2
    limits = {"max_applications_per_client": 1, "max_applications": 2}
    async with running_controller(**limits) as controller:
        address = controller.address
        await put_application(address, name="alice~a", stages=ONE)
        error = await exhausted(address, name="alice~b", stages=ONE)
        assert "1 applications of alice" in (error.details() or "")
        await put_application(address, name="alice~a", stages=TWO, update=True)
        await put_application(address, name="bob~a", stages=ONE)
        assert "in all" in ((await exhausted(address, name="c", stages=ONE)).details() or "")
        async with channel(address) as link:
            stub = wire_grpc.ControllerStub(link)
            await stub.DeleteApplication(wire.DeleteApplicationRequest(name="bob~a"))
        await put_application(address, name="c", stages=ONE)


async def test_applications_have_so_many_stages_and_edges_together() -> None:
    # attack: B2
    async with running_controller(max_application_parts_per_client=4) as controller:
        address = controller.address
        await put_application(address, name="alice~a", stages=TWO)
        error = await exhausted(address, name="alice~b", stages=TWO)
        assert "more than 4 stages and edges" in (error.details() or "")
        await put_application(address, name="alice~b", stages=ONE)
        await put_application(address, name="alice~a", stages=ONE, update=True)


async def test_a_client_makes_so_many_changes_per_minute() -> None:
    # attack: B2
    async with running_controller(max_changes_per_minute=2) as controller:
        address = controller.address
        await put_application(address, name="a", stages=ONE, client="alice")
        await put_application(address, name="a", stages=ONE, client="alice", update=True)
        error = await exhausted(address, name="a", stages=ONE, client="alice", update=True)
        wait_us = told_retry_after_us(error.trailing_metadata())
        assert wait_us is not None
        assert 0 < wait_us <= 30_000_000
        await put_application(address, name="a", stages=ONE, client="bob", update=True)


def of_alice(request: str, **quota: Any) -> wire.GatewayNote:
    told = wire.Quota(client="alice", burst=1, payload_bytes=10, **quota)
    return submission(f"alice~{request}", owner="alice", quota=told)


async def refused(door: Peer, count: int = 1) -> wire.Refused:
    note = (await door.hears("refused", count))[-1]
    assert refusal_code(note) is grpc.StatusCode.RESOURCE_EXHAUSTED
    told: wire.Refused = note.refused
    return told


async def test_requests_under_way_are_counted_over_all_gateways_and_restarts(
    tmp_path: Path,
) -> None:
    # attack: F2
    journal = str(tmp_path)
    async with (
        running_controller(journal=journal) as controller,
        gateway(controller) as one,
        gateway(controller) as other,
    ):
        one.say(of_alice("r1", in_flight=2))
        await one.hears("accepted")
        other.say(of_alice("r2", in_flight=2), of_alice("r1", in_flight=2))
        await other.hears("accepted", 2)  # the second is a repeat, and counts once
        one.say(of_alice("r3", in_flight=2))
        assert "alice has 2 requests under way" in (await refused(one)).message
        one.say(submission("bob~r1", owner="bob", quota=wire.Quota(client="bob", in_flight=1)))
        await one.hears("accepted", 2)
    async with running_controller(journal=journal) as controller, gateway(controller) as door:
        door.say(of_alice("r3", in_flight=2))
        await refused(door)
        door.say(wire.GatewayNote(cancel="alice~r1"))
        await door.hears("result")
        door.say(of_alice("r3", in_flight=2))
        await door.hears("accepted")


async def test_a_rate_holds_over_all_gateways() -> None:
    # attack: F2
    async with (
        running_controller() as controller,
        gateway(controller) as one,
        gateway(controller) as other,
    ):
        one.say(of_alice("r1", requests_per_s=0.001))
        await one.hears("accepted")
        other.say(of_alice("r1", requests_per_s=0.001))
        await other.hears("accepted")
        other.say(of_alice("r2", requests_per_s=0.001))
        told = await refused(other)
        assert told.retry_after_us > 0
        assert "over all gateways" in told.message


async def test_a_days_bytes_hold_over_all_gateways_and_come_back_with_a_refusal() -> None:
    # attack: F2
    async with (
        running_controller() as controller,
        gateway(controller) as one,
        gateway(controller) as other,
    ):
        impossible = of_alice("r1", bytes_per_day=15)
        impossible.submission.slo_us = 1
        one.say(impossible)
        await one.hears("refused")
        one.say(of_alice("r2", bytes_per_day=15))
        await one.hears("accepted")
        other.say(of_alice("r3", bytes_per_day=15))
        assert "allowed in a day, over all gateways" in (await refused(other)).message
