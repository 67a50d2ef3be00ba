"""Real Triton servers of two kinds on one mesh: slices of one thread, and of two."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from esg.client import AsyncClient, InvalidRequest, Result
from esg.local.supervisor import Mesh, MeshOptions
from tests.integration.triton.conftest import OwnLoop
from tests.support.kinds_catalog import write_catalog
from tests.support.mesh_expectations import nothing_is_left, status_of

USUAL, OTHER = "", "cpu-2"
APART_MS = 25
THREADS = {USUAL: b"  1", OTHER: b"  2"}


def options(catalog: Path, slices: str, nodes: int = 1) -> MeshOptions:
    return MeshOptions(
        nodes=nodes,
        vcpus=4,
        slices=slices,
        catalog=catalog,
        tasks="phased",
        log_level="warning",
    )


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_catalog(tmp_path_factory.mktemp("kinds"), "cpu-1", OTHER, models=True)


@pytest.fixture(scope="module")
def mesh(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    loop = OwnLoop()

    async def start() -> Mesh:
        mesh = Mesh(options(catalog, "cpu:cpu-1+cpu-2"), tmp_path_factory.mktemp("mesh") / "m")
        await mesh.start()
        return mesh

    running = loop.run(start())
    yield running
    loop.run(running.stop())
    loop.close()


def kinds_of(result: Result) -> list[str]:
    assert (result.outcome, result.reason) == ("done", "")
    return [stage.config.kind for stage in result.stages]


async def test_the_slices_of_a_mesh_are_told_by_their_kinds(mesh: Mesh) -> None:
    async with AsyncClient(mesh.gateway) as client:
        status = await status_of(client)
    assert [part.kind for node in status.nodes for part in node.slices] == [USUAL, OTHER]
    assert {kind.kind: (kind.slices, kind.unprofiled, kind.nothing) for kind in status.kinds} == {
        "cpu-1": (1, ("wide",), False),
        "cpu-2": (1, ("narrow",), False),
    }


async def test_every_task_runs_on_slices_of_its_configs_kind(mesh: Mesh) -> None:
    """The model says how many threads its server has."""
    async with AsyncClient(mesh.gateway) as client:
        chains = await asyncio.gather(*(client.submit("both", b"a %d" % n) for n in range(4)))
        for number, result in enumerate(chains):
            assert kinds_of(result) == [USUAL, OTHER]
            assert result.outputs == {"wide": b"a %d  1  2" % number}
        alone = await asyncio.gather(*(client.submit("either", b"b %d" % n) for n in range(4)))
        for number, result in enumerate(alone):
            (kind,) = kinds_of(result)
            assert result.outputs == {"either": b"b %d" % number + THREADS[kind]}
        await nothing_is_left(mesh, client)


async def test_who_is_in_a_hurry_gets_the_faster_kind_and_others_the_cheaper_one(
    mesh: Mesh,
) -> None:
    async with AsyncClient(mesh.gateway) as client:
        # its model on the usual kind sleeps for half a second, whatever the mesh has learnt of it
        await client.submit("either", b"loads the model", slo_ms=300)
        hurried = await client.submit("either", b"now", slo_ms=300)
        at_leisure = await client.submit("either", b"whenever", slo_ms=600_000)
    assert (kinds_of(hurried), hurried.outputs) == ([OTHER], {"either": b"now  2"})
    assert (kinds_of(at_leisure), at_leisure.outputs) == ([USUAL], {"either": b"whenever  1"})


async def test_one_task_prepares_while_another_is_on_the_slice(mesh: Mesh, tmp_path: Path) -> None:
    """The model of the first one ends when the second one was prepared, and not before."""
    second = tmp_path / "second"
    waits = f"1 until {second.with_suffix('.prepared')}".encode()
    tells = f"2 until {second}".encode()
    second.touch()  # nothing to wait for
    async with AsyncClient(mesh.gateway) as client:
        one = asyncio.create_task(client.submit("wide", waits))
        other = asyncio.create_task(client.submit("wide", tells))
        (on,), (after,) = (result.stages for result in await asyncio.gather(one, other))
        if on.slices_from_ms is None or after.slices_from_ms is None:
            raise AssertionError("tasks do not run in phases")
        assert on.slices_until_ms is not None
        assert on.config.kind == after.config.kind == OTHER
        # times count from each request's arrival, and these came one right after the other
        assert after.started_ms < on.slices_until_ms <= after.slices_from_ms + APART_MS
        await nothing_is_left(mesh, client)


async def test_nodes_have_other_slices_in_turn(catalog: Path, tmp_path: Path) -> None:
    async with (
        Mesh(options(catalog, "cpu:cpu-2,1", nodes=2), tmp_path / "m") as mesh,
        AsyncClient(mesh.gateway) as client,
    ):
        result = await client.submit("both", b"x")
        assert [(stage.node, stage.config.kind) for stage in result.stages] == [
            ("node1", USUAL),
            ("node0", OTHER),
        ]
        assert result.outputs == {"wide": b"x  1  2"}


async def test_what_no_slice_is_profiled_for_is_refused_with_what_to_do(
    catalog: Path, tmp_path: Path
) -> None:
    async with (
        Mesh(options(catalog, "cpu:1"), tmp_path / "m") as mesh,
        AsyncClient(mesh.gateway) as client,
    ):
        assert kinds_of(await client.submit("narrow", b"x")) == [USUAL]
        with pytest.raises(InvalidRequest, match=r"measure it there with esg profile"):
            await client.submit("wide", b"x")
