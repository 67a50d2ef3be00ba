"""Meshes to break: real processes that are started again when they die."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from esg.client import AsyncClient
from esg.core.catalog.file import load_catalog
from esg.local.supervisor import Mesh, MeshOptions
from tests.chaos.load import Load
from tests.chaos.request_history import RequestHistory, history_of
from tests.support.integration_catalog import catalog as catalog
from tests.support.mesh_expectations import nothing_is_left

QUICKLY: dict[str, dict[str, Any]] = {
    # What takes longer by default, so that nobody has to wait for it here
    "controller": {
        "heartbeat_ms": 100,
        "lost_after_ms": 1000,
        "rejoin_ms": 500,
        "kept_segments": 1000,
    },
}


class Scene:
    """A mesh under load. At the end everything must be accounted for."""

    def __init__(self, mesh: Mesh, load: Load) -> None:
        self.mesh = mesh
        self.load = load
        self.history = RequestHistory()
        self.keys_may_expire = False
        """If somebody dies who may have been about to delete something from Redis."""


Chaos = Callable[..., AbstractAsyncContextManager[Scene]]


@pytest.fixture
def chaos(catalog: Path, tmp_path: Path) -> Chaos:
    """`async with chaos() as scene`: break something in the block. What holds whatever that is:

    every request was answered once, with the right bytes; the journal says the same, and replays;
    and nothing is left of any of them, on any node or in Redis.
    """

    @asynccontextmanager
    async def broken(
        kind: type[Mesh] = Mesh, more: dict[str, dict[str, Any]] | None = None
    ) -> AsyncIterator[Scene]:
        settings = {
            section: QUICKLY.get(section, {}) | (more or {}).get(section, {})
            for section in {*QUICKLY, *(more or {})}
        }
        options = MeshOptions(
            catalog=catalog,
            nodes=3,
            gateways=2,
            vcpus=4,
            vgpus=2,
            log_level="info",
            more=settings,
        )
        async with kind(options, tmp_path / "m") as mesh:
            async with Load(mesh.gateways) as load:
                scene = Scene(mesh, load)
                await load.goes_on(20)
                yield scene
                await load.goes_on()
            assert load.wrong == []
            async with AsyncClient(mesh.gateway) as client:
                await nothing_is_left(mesh, client, keys_may_expire=scene.keys_may_expire)
            journal = mesh.journal
        assert journal is not None
        scene.history = history = history_of(journal, load_catalog(catalog))
        assert set(history.arrived) == set(load.answered)
        assert set(history.arrived.values()) == {1}
        assert history.answered == history.arrived
        assert not history.refused

    return broken
