"""Nodes that share a process are to the mesh what they would be alone."""

import asyncio
import json

from esg.client import Outcome
from tests.integration.conftest import Launch
from tests.support.mesh_expectations import nothing_is_left, photo, scene, status_of
from tests.support.waiting import until


async def test_nodes_of_a_process_serve_as_if_each_had_its_own(launch: Launch) -> None:
    async with launch(nodes=4, nodes_per_process=3) as (mesh, client):
        assert list(mesh.processes) == ["redis", "controller", "gateway", "node0-2", "node3"]
        assert sorted(node.node for node in (await status_of(client)).nodes) == mesh.nodes
        async with client.stream() as stream:
            expected = {}
            for n in range(60):
                payload = b"p%d" % n
                name, right = ("photo", photo) if n % 2 else ("scene", scene)
                expected[stream.submit(name, payload)] = right(payload)
            results = [await answer for answer in expected]
        assert [result.outputs for result in results] == list(expected.values())
        used = {stage.node for result in results for stage in result.stages}
        assert len(used & {"node0", "node1", "node2"}) > 1
        await nothing_is_left(mesh, client)
        record = mesh.directory.read()
        assert record is not None
        nodes = {row["name"]: row["nodes"] for row in record["processes"] if row["nodes"]}
        assert nodes == {"node0-2": ["node0", "node1", "node2"], "node3": ["node3"]}


async def test_all_nodes_of_a_process_come_back_after_its_death(launch: Launch) -> None:
    async with launch(nodes=3, nodes_per_process=3, log_level="info") as (mesh, client):
        calls = [asyncio.create_task(client.submit("photo", b"%d" % n)) for n in range(20)]

        async def under_way() -> bool:
            return (await status_of(client)).under_way > 0

        await until(under_way)
        await mesh.kill("node0-2")
        await mesh.restart("node0-2")
        for n, result in enumerate(await asyncio.gather(*calls)):
            assert (result.outcome, result.outputs) == (Outcome.DONE, photo(b"%d" % n))

        async def all_back() -> bool:
            return sorted(node.node for node in (await status_of(client)).nodes) == mesh.nodes

        await until(all_back)
        await nothing_is_left(mesh, client)


async def test_logs_of_a_shared_process_name_the_node(launch: Launch) -> None:
    async with launch(nodes=2, nodes_per_process=2, log_level="info") as (mesh, _):
        await mesh.kill("controller")
        await mesh.restart("controller")
        log = mesh.directory.log_of("node0-1")

        def named() -> set[str]:
            lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
            return {line["node"] for line in lines if line["event"] == "no controller"}

        await until(lambda: named() == {"node0", "node1"})
