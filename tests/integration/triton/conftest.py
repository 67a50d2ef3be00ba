"""A node and a mesh with real Triton servers, shared by the tests that need them.

Each test has a loop of its own, so these have one too, in a thread.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from esg.client import AsyncClient
from esg.local.supervisor import Mesh, MeshOptions
from tests.support.triton_folders import write_functions

T = TypeVar("T")


class OwnLoop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="session")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalog of the functions in tests/support/triton_folders.py."""
    return write_functions(tmp_path_factory.mktemp("functions"))


@pytest.fixture(scope="session")
def mesh(functions: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """One node with two real slices."""
    loop = OwnLoop()
    options = MeshOptions(nodes=1, vcpus=2, slices="cpu:2", catalog=functions, log_level="warning")

    async def start() -> Mesh:
        mesh = Mesh(options, tmp_path_factory.mktemp("mesh") / "m")
        await mesh.start()
        return mesh

    running = loop.run(start())
    yield running
    loop.run(running.stop())
    loop.close()


@pytest.fixture
async def client(mesh: Mesh) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(mesh.gateway) as connected:
        yield connected
