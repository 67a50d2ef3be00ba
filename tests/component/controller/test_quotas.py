"""What clients may have of a controller, over all gateways together."""

from typing import Any

import grpc
import pytest

from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.rpc.channels import channel
from esg.runtime.rpc.status import told_retry_after_us
from tests.support.controller_peers import put_application, running_controller

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
