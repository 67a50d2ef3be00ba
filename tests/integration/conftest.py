"""Real meshes: real processes, a real Redis; one to share, and others for tests that break them."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from esg.client import AsyncClient
from esg.local.supervisor import Mesh, MeshOptions
from tests.support.integration_catalog import catalog as catalog


def options(catalog: Path, **chosen: Any) -> MeshOptions:
    given = {"nodes": 2, "vcpus": 4, "vgpus": 2, "log_level": "warning", **chosen}
    return MeshOptions(catalog=catalog, **given)


@pytest.fixture(scope="session")
def mesh(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """One for many tests. Each test has a loop of its own, so the mesh has its own too."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> Mesh:
        mesh = Mesh(options(catalog), tmp_path_factory.mktemp("mesh") / "m")
        await mesh.start()
        return mesh

    running = asyncio.run_coroutine_threadsafe(start(), loop).result()
    yield running
    asyncio.run_coroutine_threadsafe(running.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


Launch = Callable[..., AbstractAsyncContextManager[tuple[Mesh, AsyncClient]]]


@pytest.fixture
def launch(catalog: Path, tmp_path: Path) -> Launch:
    """A mesh of the test's own."""

    @asynccontextmanager
    async def launched(**chosen: Any) -> AsyncIterator[tuple[Mesh, AsyncClient]]:
        async with (
            Mesh(options(catalog, **chosen), tmp_path / "m") as mesh,
            AsyncClient(mesh.gateway) as client,
        ):
            yield mesh, client

    return launched


@pytest.fixture
async def client(mesh: Mesh) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(mesh.gateway) as connected:
        yield connected
