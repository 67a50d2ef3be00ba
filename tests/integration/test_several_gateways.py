"""Two gateways: a request belongs to the mesh, whoever leaves the one or the other."""

import asyncio
import signal
from contextlib import suppress

from esg.client import AsyncClient, NotFound, Outcome, Result
from esg.local.supervisor import Mesh
from tests.integration.conftest import Launch
from tests.support.mesh_expectations import nothing_is_left, photo, status_of
from tests.support.waiting import until

# attack: F1


async def has_left(mesh: Mesh, client: AsyncClient, request: str) -> None:
    """Until a gateway has told the controller that nobody waits there, and was heard: what it says
    on its stream is heard in order."""
    log = mesh.directory.logs / "gateway.log"
    await until(lambda: f'"request left", "request": "{request}"' in log.read_text("utf-8"))
    with suppress(NotFound):
        await client.get("never-submitted")


async def test_who_leaves_one_gateway_cancels_nothing_that_was_submitted_through_another(
    launch: Launch,
) -> None:
    async with (
        launch(gateways=2, nodes=1, log_level="info") as (mesh, leaving),
        AsyncClient(mesh.gateways[1]) as staying,
    ):
        assert len(set(mesh.gateways)) == 2
        await mesh.kill("node0")  # so that nothing ends before somebody has left

        async def submitted(client: AsyncClient, request: str) -> "asyncio.Task[Result]":
            return asyncio.create_task(client.submit("photo", b"p", request_id=request))

        async def known() -> bool:
            return (await status_of(staying)).under_way == 2

        def wanted_by_both() -> bool:
            assert mesh.journal is not None
            segments = [file.read_text("utf-8") for file in mesh.journal.iterdir()]
            return sum(text.count('"RequestWanted"') for text in segments) == 2

        first = [await submitted(leaving, name) for name in ("both", "later")]
        await until(known)
        waits = await submitted(staying, "both")
        assert await staying.submit_async("photo", b"p", request_id="later") == "later"
        await until(wanted_by_both)
        for call, name in zip(first, ("both", "later"), strict=True):
            call.cancel()
            await has_left(mesh, leaving, name)
        await mesh.restart("node0")
        fetched = staying.fetch("later")
        for result in await asyncio.gather(waits, fetched):
            assert (result.outcome, result.outputs) == (Outcome.DONE, photo(b"p"))
        # What a gateway would delete is deleted before it ends: not what others may come for
        await mesh.kill("gateway1", signal.SIGTERM)
        for name in ("both", "later"):
            assert (await leaving.fetch(name)).outputs == photo(b"p")
        await nothing_is_left(mesh, leaving, keys_may_expire=True)


async def test_client_with_two_addresses_loses_nothing_when_one_gateway_dies_under_load(
    launch: Launch,
) -> None:
    async with launch(gateways=2) as (mesh, watching):
        async with (
            AsyncClient(",".join(mesh.gateways)) as client,
            client.stream() as stream,
        ):
            streamed = {b"s%d" % n: stream.submit("photo", b"s%d" % n) for n in range(100)}
            called = {
                b"c%d" % n: asyncio.create_task(client.submit("photo", b"c%d" % n))
                for n in range(50)
            }
            await asyncio.wait(streamed.values(), return_when=asyncio.FIRST_COMPLETED)
            assert client.address == mesh.gateways[0]
            await mesh.kill("gateway")
            for payload, answer in (streamed | called).items():
                result = await answer
                assert (result.outcome, result.outputs) == (Outcome.DONE, photo(payload))
            assert client.address == mesh.gateways[1]
            assert (await status_of(client)).under_way == 0
        await mesh.restart("gateway")
        await nothing_is_left(mesh, watching, keys_may_expire=True)
