"""What a controller tells of the whole mesh."""

from pathlib import Path

from esg.core.messages.events import Woke
from esg.protos import controller_v1_pb2 as wire
from esg.protos import controller_v1_pb2_grpc as wire_grpc
from esg.runtime.rpc.channels import channel
from esg.units import seconds
from tests.support.controller_peers import (
    gateway,
    greeting,
    invoker,
    joined,
    running_controller,
    submission,
)
from tests.support.waiting import until


async def test_the_mesh_tells_its_state() -> None:
    async with (
        running_controller() as controller,
        invoker(controller) as node,
        gateway(controller) as door,
        channel(controller.address) as to_controller,
    ):
        node.say(greeting(), joined())
        await until(lambda: controller.state.nodes)
        door.say(*(submission(f"r{n}", "scan") for n in range(4)))
        await node.hears("start")
        await until(lambda: len(controller.state.requests) == 4)
        stub = wire_grpc.ControllerStub(to_controller)
        (status,) = [s async for s in stub.WatchMesh(wire.WatchMeshRequest())]
        assert status.under_way == 4
        (queue,) = [q for q in status.queues if q.application == "scan"]
        assert queue.waiting + queue.running == 4
        (node,) = status.nodes
        assert {part.function for part in node.slices if part.task} == {"detect"}
        (scan,) = status.applications
        assert (scan.application, scan.arrived) == ("scan", 4)


async def test_a_controller_that_goes_on_has_an_uptime_of_its_own(tmp_path: Path) -> None:
    kept = {"journal": str(tmp_path / "journal")}
    for clock_us in (0, seconds(5)):  # the second one goes on with the clock of the first
        async with (
            running_controller(**kept) as controller,
            channel(controller.address) as to_controller,
        ):
            assert controller.clock[0] >= clock_us
            controller.clock[0] += seconds(5)
            await controller.live.driver.ask(Woke())
            stub = wire_grpc.ControllerStub(to_controller)
            (status,) = [s async for s in stub.WatchMesh(wire.WatchMeshRequest())]
            assert status.uptime_us == seconds(5)
