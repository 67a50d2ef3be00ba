"""A controller has all nodes reload a function, and says what each of them answered."""

import asyncio
from typing import Any

import grpc
import pytest

from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.rpc.channels import channel
from tests.support.controller_peers import (
    Peer,
    Running,
    greeting,
    invoker,
    joined,
    running_controller,
)
from tests.support.waiting import until


async def reload(controller: Running, function: str = "resize") -> dict[str, str]:
    """By node, why it was not."""
    async with channel(controller.address) as to_controller:
        stub = wire_grpc.ControllerStub(to_controller)
        reply = await stub.ReloadFunction(wire.ReloadFunctionRequest(function=function))
    return {node.node: node.failure for node in reply.nodes}


async def join(controller: Running, node: Peer, name: str) -> None:
    node.say(greeting(name), joined())
    await until(lambda: name in controller.state.nodes)


def answer(order: Any, failure: str = "") -> wire.InvokerNote:
    number = order.reload.number
    return wire.InvokerNote(reloaded=wire.Reloaded(number=number, failure=failure))


async def test_every_node_is_asked_and_its_answer_told() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as first,
        invoker(controller) as second,
    ):
        await join(controller, first, "n0")
        await join(controller, second, "n1")
        asking = asyncio.create_task(reload(controller))
        (one,), (other,) = await first.hears("reload"), await second.hears("reload")
        assert one.reload.function == other.reload.function == "resize"
        second.say(answer(one, "this is another's"))  # an answer counts on its own stream
        second.say(answer(other, "no such module"))
        first.say(answer(one))
        assert await asking == {"n0": "", "n1": "no such module"}


async def test_a_node_whose_connection_breaks_is_not_waited_for() -> None:
    async with running_controller() as controller, invoker(controller) as staying:
        await join(controller, staying, "n0")
        async with invoker(controller) as leaving:
            await join(controller, leaving, "n1")
            asking = asyncio.create_task(reload(controller))
            await leaving.hears("reload")
            (order,) = await staying.hears("reload")
            staying.say(answer(order))
        told = await asking
        assert told["n0"] == ""
        assert "its connection broke" in told["n1"]
        staying.say(answer(order))  # once more: nobody waits for it
        again = asyncio.create_task(reload(controller))
        *_, order = await staying.hears("reload", 2)
        staying.say(answer(order))
        assert await again == {"n0": ""}


async def test_what_is_not_in_the_catalog_is_refused() -> None:
    async with running_controller() as controller:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await reload(controller, "resise")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert "did you mean 'resize'" in (refused.value.details() or "")


async def test_where_there_is_no_node_there_is_nothing_to_reload() -> None:
    """One that comes reads what is on its disk."""
    async with running_controller() as controller:
        assert await reload(controller) == {}
