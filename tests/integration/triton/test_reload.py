"""Reloading a function of a running mesh, with a handler and a real Triton model that change."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from esg.client import AsyncClient, Outcome
from esg.local.supervisor import Mesh
from tests.support.mesh_expectations import nothing_is_left, status_of
from tests.support.triton_folders import write_signed
from tests.support.waiting import until

SIGNED = "signed"


@pytest.fixture
def folder(functions: Path) -> Iterator[Path]:
    """The functions' own; `signed` is as it was, afterwards."""
    yield functions.parent
    write_signed(functions.parent, model=b" m1", handler=b" h1")


async def signed(client: AsyncClient, content: bytes = b"x") -> bytes:
    result = (await client.submit(SIGNED, content)).raise_for_outcome()
    return result.outputs[SIGNED]


async def warm_everywhere(client: AsyncClient, word: bytes) -> None:
    """Have it on both slices: one that loads it later has what is on disk then. A few requests may
    all fit on one of them, so more and more are sent."""
    count = 4

    async def warm() -> bool:
        nonlocal count
        assert set(await asyncio.gather(*(signed(client) for _ in range(count)))) == {b"x" + word}
        count = min(2 * count, 256)
        (node,) = (await status_of(client)).nodes
        return all(SIGNED in part.resident for part in node.slices)

    await until(warm)


async def test_a_reloaded_function_runs_with_its_new_handler_and_its_new_model(
    mesh: Mesh, client: AsyncClient, folder: Path
) -> None:
    before = await asyncio.gather(*(signed(client, b"%d" % n) for n in range(6)))
    assert before == [b"%d m1 h1" % n for n in range(6)]
    write_signed(folder, model=b" m2", handler=b" h2")
    assert await client.reload_function(SIGNED) == {"node0": ""}
    after = await asyncio.gather(*(signed(client, b"%d" % n) for n in range(6)))
    assert after == [b"%d m2 h2" % n for n in range(6)]
    await nothing_is_left(mesh, client)


async def test_requests_go_on_while_a_function_is_reloaded_and_none_sees_half_of_it(
    mesh: Mesh, client: AsyncClient, folder: Path
) -> None:
    await client.reload_function(SIGNED)
    await warm_everywhere(client, b" m1 h1")
    write_signed(folder, model=b" m3", handler=b" h3")
    reloading = asyncio.create_task(client.reload_function(SIGNED))
    seen: list[bytes] = []
    while not reloading.done():
        seen += await asyncio.gather(*(signed(client) for _ in range(3)))
    assert await reloading == {"node0": ""}
    assert await signed(client) == b"x m3 h3"
    assert set(seen) <= {b"x m1 h1", b"x m3 h3"}
    await nothing_is_left(mesh, client)


BROKEN = [
    ("handler.py", "import no_such_module", "No module named 'no_such_module'"),
    ("handler.py", "class Handler: pass", "it needs the methods prepare and finish"),
    ("models/cpu/1/model.py", "import no_such_module", "no_such_module"),
    ("models/cpu/config.pbtxt", "this is { no config", "config.pbtxt cannot be read"),
]


async def test_where_the_new_code_is_no_good_the_old_stays_and_the_node_says_why(
    mesh: Mesh, client: AsyncClient, folder: Path
) -> None:
    write_signed(folder, model=b" m4", handler=b" h4")
    await client.reload_function(SIGNED)
    await warm_everywhere(client, b" m4 h4")
    for file, broken, said in BROKEN:
        place = folder / SIGNED / file
        whole = place.read_text("utf-8")
        write_signed(folder, model=b" m5", handler=b" h5")
        place.write_text(broken, "utf-8")
        try:
            failures = await client.reload_function(SIGNED)
            assert said in failures["node0"]
            assert await signed(client) == b"x m4 h4"
        finally:
            place.write_text(whole, "utf-8")
    write_signed(folder, model=b" m5", handler=b" h5")
    assert await client.reload_function(SIGNED) == {"node0": ""}
    assert await signed(client) == b"x m5 h5"
    await nothing_is_left(mesh, client)


async def test_a_model_that_was_missing_can_be_added_to_a_running_mesh(
    mesh: Mesh, client: AsyncClient, folder: Path
) -> None:
    config = folder / "corrupt" / "models" / "cpu" / "config.pbtxt"
    unreadable = config.read_text("utf-8")
    assert "cannot be read" in (await client.reload_function("corrupt"))["node0"]
    config.write_text((folder / "join" / "models" / "cpu" / "config.pbtxt").read_text("utf-8"))
    try:
        assert await client.reload_function("corrupt") == {"node0": ""}
    finally:
        config.write_text(unreadable, "utf-8")
    assert (await client.submit("corrupt", b"x")).outcome is Outcome.FAILED  # its model is broken
