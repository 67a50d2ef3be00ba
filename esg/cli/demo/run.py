"""`esg demo` as it happens: a mesh is started, used, loaded, and stopped."""

from time import perf_counter

from esg.cli.demo.expected_outputs import expected_outputs
from esg.cli.demo.findings import (
    PAYLOAD_SCALE,
    PICTURE,
    VCPUS,
    VGPUS,
    DemoFindings,
    DemoLoad,
    Demonstration,
)
from esg.cli.demo.view import DemoView
from esg.client import AsyncClient, MeshStatus
from esg.core.catalog.shipped import DEFAULT
from esg.loadgen.send import LoadSpec, SentRequest, send
from esg.local.supervisor import Mesh, MeshOptions


async def demonstrate(demonstration: Demonstration, view: DemoView) -> DemoFindings:
    """Run the demonstration, mesh and all. Whatever ends it takes the mesh down."""
    found = DemoFindings()
    began = perf_counter()
    view.begin(demonstration)
    mesh = Mesh(
        MeshOptions(
            nodes=demonstration.nodes,
            vcpus=VCPUS,
            vgpus=VGPUS,
            scale=1.0,
            catalog=DEFAULT,
            warm_start=True,
            payload_scale=PAYLOAD_SCALE,
        )
    )
    with view.waiting("starting the mesh"):
        await mesh.start()
    try:
        found.up_s = perf_counter() - began
        found.processes = list(mesh.processes)
        view.up(demonstration, found)
        await _work(demonstration, mesh, found, view)
    finally:
        with view.waiting("taking everything down"):
            await mesh.stop()
    found.whole_s = perf_counter() - began
    view.end(demonstration, found)
    return found


async def _work(
    demonstration: Demonstration, mesh: Mesh, found: DemoFindings, view: DemoView
) -> None:
    picture = PICTURE.read_bytes()
    right = {
        name: expected_outputs(application, picture, PAYLOAD_SCALE)
        for name, application in demonstration.catalog.applications.items()
    }
    async with AsyncClient(mesh.gateway) as client:
        for name in demonstration.catalog.applications:
            with view.waiting(name):
                result = await client.submit(name, picture)
            found.pictures.append((result, result.outputs == right[name]))
        view.pictures(found, len(picture))
        before = await _status(client)
        with view.load(demonstration) as advance:

            def observe(answered: SentRequest) -> None:
                _count(demonstration, answered, right, found.served)
                advance(found.served)

            async with client.stream() as stream:
                await send(
                    stream, demonstration.arrivals, LoadSpec(payload=lambda _: picture), observe
                )
        found.served.cold_starts = (await _status(client)).cold_starts - before.cold_starts
        view.served(found.served)


def _count(
    demonstration: Demonstration,
    answered: SentRequest,
    right: dict[str, dict[str, bytes]],
    served: DemoLoad,
) -> None:
    served.outcome.add(answered)
    result = answered.result
    if result is None:
        return
    name = answered.arrival.application
    served.verified += result.outputs == right[name]
    node = {stage.stage: stage.node for stage in result.stages}
    for stage in demonstration.catalog.applications[name].stages.values():
        for before in stage.after:
            if stage.name in node and before in node:
                there = served.local if node[before] == node[stage.name] else served.remote
                there[name] += 1


async def _status(client: AsyncClient) -> MeshStatus:
    return await anext(client.watch_mesh(0))
